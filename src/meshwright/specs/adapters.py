"""Adapters: low-rank adapters (LoRA), the weights that are trained beside frozen ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import groupby
from typing import NamedTuple

from meshwright.errors import Fault, any_of
from meshwright.specs import catalog
from meshwright.specs.defaults import DEFAULT_RUNTIME
from meshwright.specs.job import LORA_MODULES, Job
from meshwright.specs.job_options import ALL_LINEAR
from meshwright.specs.model import LayerKind, Mlp, Model
from meshwright.specs.runtime import Runtime, read_runtime
from meshwright.specs.weights import Weight

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
FUSED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Modules that are one product where a runtime fuses them."""
ROW_PARALLEL = ("o_proj", "down_proj")
"""Modules of which tensor parallelism divides what they read; of the others what they put out."""
JOINED = {"attention": "linear_qkv", "block": "linear_fc1"}
"""What the one product of queries, keys and values, and that of gate and up, is called, by what it reads."""
READ = {"o_proj": "core", "gate_proj": "block", "up_proj": "block", "linear_fc1": "block", "down_proj": "product"}
"""What a layer reads, where that is not the first norm's output: the attention core's, the second norm's, or the
product of gate and up."""


class Adapter(NamedTuple):
    """Two products beside one frozen linear layer of `features` to `outputs`, by way of `rank` elements."""

    module: str
    features: int
    outputs: int
    rank: int

    @property
    def parameters(self) -> int:
        """r (in + out), a count. Source: Hu et al., arXiv:2106.09685, section 4.1."""
        return self.rank * (self.features + self.outputs)

    @property
    def reads(self) -> str:
        """What it has for input; those of one input have the same."""
        return READ.get(self.module, "attention")

    @property
    def row_parallel(self) -> bool:
        """Whether tensor parallelism divides what the frozen layer reads; else what it puts out."""
        return self.module in ROW_PARALLEL

    @property
    def weights(self) -> tuple[Weight, Weight]:
        """A, r x in, and B, out x r. Tensor parallelism divides A by r, or by what a row-parallel layer reads, and B by
        out. Source: NVIDIA-NeMo/Megatron-Bridge@067f987df03b src/megatron/bridge/peft/utils.py, ParallelLinearAdapter.
        """
        size, by_rank = self.rank * self.features, not self.row_parallel
        down = Weight("adapters", f"{self.module} A", size, split="rank", rows=self.rank, split_rows=by_rank)
        up = Weight("adapters", f"{self.module} B", self.rank * self.outputs, split="rank", rows=self.outputs)
        return down, up

    @property
    def in_attention(self) -> bool:
        """Whether it stands beside a projection of attention, not of the feed-forward block."""
        return self.reads in ("attention", "core")


@lru_cache(maxsize=64)
def layer_adapters(
    model: Model, kind: LayerKind, rank: int, modules: tuple[str, ...], joined: bool = False
) -> tuple[Adapter, ...]:
    """The adapters of one layer of a kind, in the order of its modules; none where all weights are trained.

    joined: one stands beside queries, keys and values together, and one beside gate and up.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> adapters = layer_adapters(LLAMA.model, LLAMA.model.layer_kinds[0], 16, ("q_proj", "v_proj"))
    >>> [(each.module, each.outputs) for each in adapters], sum(each.parameters for each in adapters)
    ([('q_proj', 4096), ('v_proj', 1024)], 212992)
    """
    if not rank:
        return ()
    shapes = _shapes(model, kind)
    apart = [Adapter(name, *shapes[name], rank) for name in adapted_modules(modules) if name in shapes]
    return tuple(_joined(apart) if joined else apart)


def _joined(apart: list[Adapter]) -> Iterator[Adapter]:
    """One adapter for those that read the same: r (in + sum of out) parameters."""
    for reads, group in groupby(apart, key=lambda each: each.reads):
        first, *others = group
        outputs = first.outputs + sum(each.outputs for each in others)
        yield first._replace(module=JOINED.get(reads, first.module), outputs=outputs)


def adapter_parameters(model: Model, job: Job, runtime: Runtime) -> int:
    """Parameters of all adapters of a model under a runtime; 0 where all weights are trained.

    >>> from meshwright.specs.reading.examples import LLAMA
    >>> job = LLAMA.job.replace(lora_rank=16)
    >>> [adapter_parameters(LLAMA.model, job, read_runtime(name)) for name in ("accelerate", "megatron-bridge")]
    [41943040, 35651584]
    """
    joined = runtime.kernels.fused_adapters == "one"
    each = (layer_adapters(model, kind, job.lora_rank, job.lora_modules, joined) for kind in model.layer_kinds)
    return sum(
        count * sum(adapter.parameters for adapter in adapters)
        for count, adapters in zip(model.layers_per_kind, each, strict=True)
    )


@cache
def runtimes_with_adapters() -> tuple[str, ...]:
    """The runtimes of the catalogue under which adapters are priced, by id.

    >>> runtimes_with_adapters()
    ('accelerate', 'deepspeed', 'megatron-bridge', 'pytorch-ddp')
    """
    plans = ((name, read_runtime(name).plans) for name in catalog.names("runtimes"))
    return tuple(name for name, each in plans if each.adapters and not each.adapters_of)


def with_usual_runtime(job: Job) -> tuple[Job, str]:
    """The runtime of a question that names none, for a job that says so where it is another one than the default: with
    adapters, the one whose adapters the default prices, as that can launch them.

    >>> job = Job(sequence_length=2048, global_batch=8)
    >>> with_usual_runtime(job)[1], with_usual_runtime(job.replace(lora_rank=16))[1]
    ('megatron-core', 'megatron-bridge')
    """
    other = read_runtime(DEFAULT_RUNTIME).plans.adapters_of if job.lora_rank else ""
    if not other:
        return job, DEFAULT_RUNTIME
    told = f"runtime {other}, as {DEFAULT_RUNTIME} has no adapters of its own (set it with --runtime)"
    return job.replace(assumptions=(*job.assumptions, told)), other


@cache
def runtimes_with_packed_weights() -> tuple[str, ...]:
    """Those of them beside which frozen weights can be in 4 bits, by id: those that train weights they store.

    >>> runtimes_with_packed_weights()
    ('accelerate', 'pytorch-ddp')
    """
    return tuple(name for name in runtimes_with_adapters() if read_runtime(name).storage.weights == "full")


def adapter_faults(model: Model, job: Job, runtime: Runtime) -> Iterator[Fault]:
    """What a job with adapters asks of a model, recipe or runtime for which they are not priced."""
    packs = runtime.storage.frozen_weights == "nf4"
    if not job.lora_rank:
        if packs:
            what = "weights in 4 bits are not trained, and no adapters stand beside them"
            yield Fault("runtime.storage.frozen_weights", f"{what}; add --lora-rank 16, or use half")
        return
    if any(_is_other(kind) for kind in model.layer_kinds):
        what = "adapters are priced, under any runtime, for models with projections of queries, keys and values each"
        yield Fault("job.lora_rank", f"{what}, and {model.name} is none; leave them out to train all weights")
        return
    if model.is_moe and not set(job.lora_modules) <= set(ATTENTION):
        what = f"{job.modules_text} has adapters on experts, which are not priced, under any runtime"
        yield Fault("job.lora_modules", f"{what}; use {','.join(ATTENTION)}")
    beside = runtime.plans.adapters
    if not beside:
        others = any_of(runtimes_with_adapters())
        yield Fault("job.lora_rank", f"adapters are not priced under {runtime.id}; use {others}")
    elif runtime.storage.autocast:
        what = f"{runtime.id} casts weights that are all trained, and adapters stand beside frozen bf16 ones"
        yield Fault("job.lora_rank", f"{what}; add --with training_dtype=frozen")
    elif runtime.kernels.elementwise == "fused":
        yield Fault("job.lora_rank", "adapters are priced without torch.compile; use --with compiled=false")
    if packs and runtime.storage.weights == "half":
        what = f"4-bit weights are not priced under {runtime.id}"
        yield Fault("runtime.storage.frozen_weights", f"{what}; use {any_of(runtimes_with_packed_weights())}, or half")
    if runtime.storage.offloads_states:
        what = "adapters are not priced with states or weights in the host's memory"
        yield Fault("job.lora_rank", f"{what}; leave out optimizer_states=offloaded")
    if job.precision not in (beside or ("bf16",)):
        yield Fault("job.lora_rank", f"adapters are priced beside bf16 weights, not {job.precision}; use bf16")
    if beside and runtime.kernels.fused_adapters != "any":
        yield from _parted(model, job, runtime)
    if not adapter_parameters(model, job, runtime):
        yield Fault("job.lora_modules", f"{model.name} has no {job.modules_text}; use {ALL_LINEAR}")


def _parted(model: Model, job: Job, runtime: Runtime) -> Iterator[Fault]:
    """Modules without others that are one product with them.

    Source: NVIDIA-NeMo/Megatron-Bridge@067f987df03b src/megatron/bridge/peft/canonical_lora.py: the forward of
    LoRALinearSplitQKV and LoRALinearSplitFC1UpGate calls the adapter of each, which is None where it is not asked for.
    """
    has = {name for kind in model.layer_kinds for name in _shapes(model, kind)}
    named = has & set(adapted_modules(job.lora_modules))
    whole = named.union(*(has & set(names) for names in FUSED if named & set(names)))
    if whole != named:
        what = f"{job.modules_text} is a part of what {runtime.id} computes in one product, whose adapters go together"
        yield Fault("job.lora_modules", f"{what}; use {','.join(name for name in LORA_MODULES if name in whole)}")


def _is_other(kind: LayerKind) -> bool:
    return kind.attention.latent is not None or kind.attention.fused_qkv


def adapted_modules(modules: tuple[str, ...]) -> tuple[str, ...]:
    """The modules that have an adapter, in the order of a layer: all where `all-linear` is among them.

    >>> adapted_modules(("v_proj", "q_proj"))
    ('q_proj', 'v_proj')
    """
    return LORA_MODULES if ALL_LINEAR in modules else tuple(name for name in LORA_MODULES if name in modules)


def named_modules(modules: tuple[str, ...]) -> tuple[str, ...]:
    """The same modules as they are told: `all-linear` where they are all, else in the order of a layer.

    >>> named_modules(("v_proj", "q_proj")), named_modules(LORA_MODULES)
    (('q_proj', 'v_proj'), ('all-linear',))
    """
    adapted = adapted_modules(modules)
    return (ALL_LINEAR,) if adapted == LORA_MODULES else adapted


def _shapes(model: Model, kind: LayerKind) -> dict[str, tuple[int, int]]:
    """Inputs and outputs of every linear layer of attention and of a dense feed-forward block."""
    attention, block, hidden = kind.attention, kind.feed_forward, model.hidden_size
    shapes = {
        "q_proj": (hidden, attention.heads * attention.head_dim),
        "k_proj": (hidden, attention.kv_heads * attention.head_dim),
        "v_proj": (hidden, attention.kv_heads * attention.value_head_dim),
        "o_proj": (attention.heads * attention.value_head_dim, hidden),
    }
    if not isinstance(block, Mlp):
        return shapes
    shapes |= {
        "gate_proj": (hidden, block.ffn_size),
        "up_proj": (hidden, block.ffn_size),
        "down_proj": (block.ffn_size, hidden),
    }
    return {name: shape for name, shape in shapes.items() if block.gated or name != "gate_proj"}
