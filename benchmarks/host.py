"""What a layer takes the host: per layer the seconds of one CPU core, and the kernels that a device would be given.

Layers of transformers of tiny sizes, so that nothing but Python, autograd and hooks takes time; collectives go to a
fake process group. A figure is the difference between models of many and of few layers, the least of many rounds
each, so that what a call takes once drops out. Run on a quiet machine; needs torch and transformers.

`src/meshwright/specs/catalog/families/pytorch.toml` tells how the seconds of its section [host] follow from these.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

FEW, MANY, ROUNDS, TOKENS = 2, 12, 200, 8
SIZES = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "vocab_size": 32,
    "use_cache": False,
}
VIEWS = {
    *("view", "t", "transpose", "_unsafe_view", "unsqueeze", "expand", "slice", "detach", "squeeze", "permute"),
    *("split", "select", "alias", "as_strided", "unbind", "split_with_sizes", "empty", "empty_like"),
}
SAVED = {torch.ops.aten.mm.default, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default}


def dense(layers: int) -> torch.nn.Module:
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, **SIZES)).train()


def experts(layers: int) -> torch.nn.Module:
    blocks = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(num_hidden_layers=layers, **blocks, **SIZES)).train()


def compiled(model: Any) -> None:
    for layer in model.model.layers:
        layer.compile()


def checkpointed(model: Any, **options: Any) -> None:
    layers = model.model.layers
    for index, layer in enumerate(layers):
        layers[index] = checkpoint_wrapper(layer, preserve_rng_state=False, **options)


def saves(_context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if operator in SAVED else CheckpointPolicy.PREFER_RECOMPUTE


def sharded(model: Any, *, gathers_again: bool) -> None:
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("dp", "tp"))["dp"]
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=gathers_again)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def sharded_flat(model: Any, *, gathers_again: bool) -> torch.nn.Module:
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({type(model.model.layers[0])}),
        device_id=torch.device("cpu"),
        sharding_strategy=ShardingStrategy.FULL_SHARD if gathers_again else ShardingStrategy.SHARD_GRAD_OP,
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
    )


def split(model: Any) -> None:
    """Tensor parallelism as torchtitan splits Llama: norms in sequence shards, inputs gathered."""
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("dp", "tp"))["tp"]
    sequence, whole, columns = Shard(1), Replicate(), ColwiseParallel
    rows, norm = partial(RowwiseParallel, output_layouts=sequence), SequenceParallel
    ends = {
        "model.embed_tokens": rows(input_layouts=whole),
        "model.norm": norm(),
        "lm_head": columns(input_layouts=sequence, output_layouts=whole),
    }
    attended = PrepareModuleInput(
        input_kwarg_layouts={"hidden_states": sequence}, desired_input_kwarg_layouts={"hidden_states": whole}
    )
    layer = {
        "input_layernorm": norm(),
        "self_attn": attended,
        **{f"self_attn.{name}_proj": columns() for name in "qkv"},
        "self_attn.o_proj": rows(),
        "post_attention_layernorm": norm(),
        "mlp": PrepareModuleInput(input_layouts=(sequence,), desired_input_layouts=(whole,)),
        **{f"mlp.{name}_proj": columns() for name in ("gate", "up")},
        "mlp.down_proj": rows(),
    }
    parallelize_module(model, mesh, ends)
    for block in model.model.layers:
        parallelize_module(block, mesh, layer)


Change = Callable[[Any], torch.nn.Module | None]
WAYS: dict[str, tuple[Callable[[int], torch.nn.Module], tuple[Change, ...]]] = {
    "dense": (dense, ()),
    "experts, one product": (experts, ()),
    "dense, compiled": (dense, (compiled,)),
    "dense, recomputed": (dense, (partial(checkpointed, early_stop=False),)),
    "dense, products kept": (
        dense,
        (partial(checkpointed, context_fn=partial(create_selective_checkpoint_contexts, saves)),),
    ),
    "dense, fully_shard": (dense, (partial(sharded, gathers_again=True),)),
    "dense, fully_shard, weights stay": (dense, (partial(sharded, gathers_again=False),)),
    "dense, FSDP 1": (dense, (partial(sharded_flat, gathers_again=True),)),
    "dense, FSDP 1, weights stay": (dense, (partial(sharded_flat, gathers_again=False),)),
    "dense, tensor parallel": (dense, (split,)),
}


class Kernels(TorchDispatchMode):
    """Counts operators that launch a kernel."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += function.overloadpacket.__name__ not in VIEWS
        return function(*args, **(kwargs or {}))


def passes(model: Any) -> tuple[Callable[[], torch.Tensor], Callable[[torch.Tensor], None]]:
    """Forward, which returns a loss, and backward from it."""
    tokens, positions = torch.zeros((1, TOKENS), dtype=torch.long), torch.arange(TOKENS)[None]
    return lambda: model(tokens, position_ids=positions).logits.sum(), lambda loss: loss.backward()


def seconds(model: Any) -> tuple[float, float]:
    """The least of many rounds, forward and backward."""
    forward, backward = passes(model)
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        loss = forward()
        between = time.perf_counter()
        backward(loss)
        times.append((between - start, time.perf_counter() - between))
        model.zero_grad(set_to_none=True)
    return min(first for first, _ in times), min(second for _, second in times)


def kernels(model: Any) -> tuple[float, float]:
    """Kernels of one forward and one backward."""
    forward, backward = passes(model)
    with Kernels() as first:
        loss = forward()
    with Kernels() as second:
        backward(loss)
    return first.count, second.count


def per_layer(way: str, count: Callable[[Any], tuple[float, float]]) -> tuple[float, float]:
    make, changes = WAYS[way]
    found = []
    for layers in (FEW, MANY):
        torch._dynamo.reset()
        model = make(layers)
        for change in changes:
            model = change(model) or model
        found.append(count(model))
    few, many = found
    return (many[0] - few[0]) / (MANY - FEW), (many[1] - few[1]) / (MANY - FEW)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    for way in ("dense", "experts, one product"):
        forward, backward = per_layer(way, kernels)
        print(f"{way:34} kernels a layer: forward {forward:4.0f}, backward {backward:4.0f}", flush=True)
    for way in WAYS:
        forward, backward = per_layer(way, seconds)
        print(f"{way:34} ms a layer: forward {forward * 1e3:.3f}, backward {backward * 1e3:.3f}", flush=True)
    one = torch.zeros(8)
    print(f"an addition of 8 elements          us: {min(addition(one) for _ in range(ROUNDS)) * 1e6:.2f}")
    dist.destroy_process_group()


def addition(tensor: torch.Tensor, repeats: int = 2000) -> float:
    with torch.no_grad():
        start = time.perf_counter()
        for _ in range(repeats):
            tensor + 1.0
        return (time.perf_counter() - start) / repeats


if __name__ == "__main__":
    main()
