"""What runs operator by operator: in Megatron-core experts' clamp and scaled rotary positions; GPT-2's GELU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from meshwright.cost.compute.experts import expert_shard, expert_time
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.memory.saved import expert_bytes, feed_forward_bytes
from meshwright.cost.shard import layer_shard
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime
from strategies import question

PLAN = Plan(dp=8, ep=8, zero=1)


def _asked(
    clamped: bool = True, scaled: bool = True, *behaviours: str, cluster: str = "1x8:h100", precision: str = "bf16"
) -> Inputs:
    model = read_model("gpt-oss-20b")
    kinds = tuple(
        kind.replace(
            feed_forward=kind.feed_forward.replace(clamped=clamped),
            attention=kind.attention.replace(scaled_rotary=scaled),
        )
        for kind in model.layer_kinds
    )
    inputs = question(model.replace(layer_kinds=kinds), cluster, precision=precision)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, behaviours))


def _kind(inputs: Inputs) -> Any:
    return inputs.model.layer_kinds[0]


def test_a_clamp_moves_gate_and_up_four_times_more_and_is_kept() -> None:
    with_clamp, without = _asked(), _asked(clamped=False)
    kind = _kind(with_clamp)
    shard = expert_shard(PLAN, with_clamp, kind)
    elements = shard.rows * shard.ffn
    times = [expert_time(PLAN, inputs, _kind(inputs)) for inputs in (with_clamp, without)]
    assert times[0].forward.experts.moved_bytes - times[1].forward.experts.moved_bytes == pytest.approx(16 * elements)
    assert times[0].backward.experts.moved_bytes - times[1].backward.experts.moved_bytes == pytest.approx(30 * elements)
    kept = [expert_bytes(PLAN, inputs, _kind(inputs)) for inputs in (with_clamp, without)]
    assert kept[0] - kept[1] == pytest.approx(4 * elements)


def test_recomputing_the_activation_of_experts_keeps_no_clamped_copy() -> None:
    plan = Plan(dp=8, ep=8, zero=1, recompute="selective", recompute_modules=["moe_act"])
    memory = [layer_memory(plan, inputs, _kind(inputs)) for inputs in (_asked(), _asked(clamped=False))]
    assert memory[0].saved == pytest.approx(memory[1].saved)


def test_fused_products_of_experts_clamp_and_add_biases_on_their_own() -> None:
    quantised = {"cluster": "1x8:b200", "precision": "mxfp8"}
    inputs = [_asked(clamped, True, "expert_products=fused", **quantised) for clamped in (True, False)]
    times = [expert_time(PLAN, each, _kind(each)) for each in inputs]
    assert times[0].forward.experts.moved_bytes == times[1].forward.experts.moved_bytes
    assert times[0].backward.experts.moved_bytes == times[1].backward.experts.moved_bytes
    kinds = [
        _kind(inputs[0]).replace(feed_forward=_kind(inputs[0]).feed_forward.replace(bias=bias))
        for bias in (False, True)
    ]
    none, biased = (expert_time(PLAN, inputs[0], kind) for kind in kinds)
    assert biased.forward.experts.moved_bytes == none.forward.experts.moved_bytes
    shard = expert_shard(PLAN, inputs[0], kinds[1])
    assert biased.backward.experts.moved_bytes - none.backward.experts.moved_bytes == pytest.approx(
        2 * shard.rows * 2880
    )


@pytest.mark.parametrize(("runtime", "slower"), [("megatron-core", True), ("torchtitan", False), ("accelerate", False)])
def test_scaled_rotary_positions_take_longer_where_no_fused_kernel_has_the_factor(runtime: str, slower: bool) -> None:
    inputs = [each.replace(runtime=read_runtime(runtime)) for each in (_asked(), _asked(scaled=False))]
    scaled, plain = (layer_time(Plan(), each, _kind(each)) for each in inputs)
    assert (scaled.forward.elementwise > plain.forward.elementwise) == slower
    assert (scaled.backward.elementwise > plain.backward.elementwise) == slower
    if slower:
        shard, chip = layer_shard(Plan(), inputs[0], _kind(inputs[0])), inputs[0].cluster.accelerator
        bandwidth = chip.kernels.elementwise_efficiency * chip.memory_bandwidth
        extra = (scaled.forward.elementwise - plain.forward.elementwise) * bandwidth
        assert extra / (shard.tokens * (shard.query + shard.key)) == pytest.approx(21, rel=0.1)


def test_the_bytes_are_those_of_the_operators() -> None:
    """Counted on meta tensors, written as Megatron-core has them."""
    torch = pytest.importorskip("torch")
    rows, ffn, tokens, head = 512, 64, 4096, 64
    table = read_runtime("megatron-core").elementwise_bytes
    inner = torch.empty(rows, 2 * ffn, dtype=torch.bfloat16, device="meta", requires_grad=True)

    def clamp() -> Any:
        gate, up = inner.chunk(2, -1)
        return torch.cat((gate.clamp(max=7.0), up.clamp(min=-7.0, max=7.0)), -1)

    counted = _moved(clamp)
    fused = read_runtime("torchtitan").elementwise_bytes.gated_activation
    assert counted[0] / rows / ffn == pytest.approx(table.clamped_activation.forward - fused.forward)
    assert counted[1] / rows / ffn == pytest.approx(table.clamped_activation.backward - fused.backward, abs=0.01)
    angles = torch.empty(tokens, 1, 1, head, device="meta")
    totals = [0.0, 0.0]
    for heads in (64, 8):
        part = torch.empty(tokens, 1, heads, head, dtype=torch.bfloat16, device="meta", requires_grad=True)

        def rotated(part: Any = part) -> Any:
            turned, passed = part[..., :head], part[..., head:]
            cosine, sine = (1.3 * torch.cos(angles)).to(part.dtype), (1.3 * torch.sin(angles)).to(part.dtype)
            first, second = torch.chunk(turned, 2, dim=-1)
            turned = turned * cosine + torch.cat((-second, first), dim=-1) * sine
            return torch.cat((turned, passed), dim=-1)

        totals = [total + moved for total, moved in zip(totals, _moved(rotated), strict=True)]
    assert totals[0] / (72 * tokens * head) == pytest.approx(table.scaled_rotary.forward, rel=0.02)
    assert totals[1] / (72 * tokens * head) == pytest.approx(table.scaled_rotary.backward, rel=0.02)


def test_the_clamp_of_interleaved_gate_and_up_moves_all_that_its_views_span() -> None:
    """Written as torchtitan and transformers have it; the tables convert from 0.9 to 0.8 of the bandwidth. Every second
    element reads twice its own bytes, and the gradient of such a view is zeros and a copy into every second element,
    where one operator is counted: 16 bytes for 6.
    """
    torch = pytest.importorskip("torch")
    rows, ffn = 512, 64

    def parts() -> tuple[Any, Any]:
        inner = torch.empty(rows, 2 * ffn, dtype=torch.bfloat16, device="meta", requires_grad=True)
        return inner[..., ::2].clamp(max=7.0), inner[..., 1::2].clamp(min=-7.0, max=7.0)

    def torchtitan() -> Any:
        gate, up = parts()
        glu = gate * torch.sigmoid(1.702 * gate)
        return torch.addcmul(glu, glu, up)

    def transformers() -> Any:
        gate, up = parts()
        return (up + 1) * (gate * torch.sigmoid(gate * 1.702))

    for table, written in (("eager", torchtitan), ("transformers", transformers)):
        traffic = read_runtime("accelerate").elementwise_kernels[table].clamped_activation
        forward, backward = (moved / rows / ffn for moved in _moved(written, spanned=True))
        assert traffic.forward == pytest.approx(forward * 8 / 9, abs=0.5)
        assert traffic.backward == pytest.approx((backward + 2 * (16 - 6)) * 8 / 9, abs=0.5)


@pytest.mark.parametrize(("table", "copied"), [("eager", 0), ("transformers", 4)])
def test_latent_attention_rotates_a_part_of_each_head_and_joins_it_with_the_rest(table: str, copied: int) -> None:
    """Heads of 128 and 64, split and joined as torchtitan and transformers do, at 0.9 of the bandwidth; transformers
    first puts pairs of elements in another order.
    """
    torch = pytest.importorskip("torch")
    tokens, heads = 64, 16
    query, expanded, shared = (
        torch.empty(tokens, count, width, dtype=torch.bfloat16, device="meta", requires_grad=True)
        for count, width in ((heads, 192), (heads, 256), (1, 64))
    )

    def joined() -> Any:
        kept, turned = torch.split(query, [128, 64], -1)
        key, value = torch.split(expanded, [128, 128], -1)
        return torch.cat([kept, turned], -1), torch.cat([key, shared.expand(-1, heads, -1)], -1), value

    traffic = read_runtime("accelerate").elementwise_kernels[table]
    elements, rotated = 2 * 192 * heads * tokens, 64 * (heads + 1) * tokens
    for moved, phase in zip(_moved(joined), ("forward", "backward"), strict=True):
        rotary, priced = getattr(traffic.rotary, phase), getattr(traffic.latent_rotary, phase)
        assert priced == pytest.approx((rotary * rotated + (moved + copied * rotated) * 8 / 9) / elements, rel=0.05)


def test_rotary_positions_of_latent_attention_take_less_than_those_of_whole_heads() -> None:
    inputs = question(read_model("deepseek-v3"), "1x8:h100", "torchtitan")
    inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, ["compiled=false"]))
    kind, table = _kind(inputs), inputs.runtime.elementwise_bytes
    whole = inputs.runtime.elementwise_kernels | {"eager": table.replace(latent_rotary=None)}
    part, all_of_it = (
        layer_time(Plan(), each, kind).forward_parts.attention.moved_bytes
        for each in (inputs, inputs.replace(runtime=inputs.runtime.replace(elementwise_kernels=whole)))
    )
    shard = layer_shard(Plan(), inputs, kind)
    assert all_of_it - part == pytest.approx((33 - 9) * shard.tokens * (shard.query + shard.key))


def test_eager_rows_are_weighed_in_kernels_of_their_own() -> None:
    inputs = question(read_model("qwen3-30b-a3b"), "1x8:h100", "torchtitan")
    eager = inputs.replace(runtime=with_behaviours(inputs.runtime, ["compiled=false"]))
    fused, compiled = (
        each.replace(runtime=with_behaviours(each.runtime, ["dispatcher=fused"])) for each in (eager, inputs)
    )
    plan, kind = Plan(dp=8, ep=8), _kind(inputs)
    elements = expert_shard(plan, inputs, kind).rows * 2048
    for phase, more in (("forward", 15), ("backward", 26)):
        apart, together = (getattr(expert_time(plan, each, kind), phase).unpermute for each in (eager, inputs))
        assert apart.moved_bytes - together.moved_bytes == pytest.approx(more * elements)
        sent = [getattr(expert_time(plan, each, kind), phase).unpermute.moved_bytes for each in (fused, compiled)]
        assert sent[0] == sent[1]


def _moved(computed: Callable[[], Any], *, spanned: bool = False) -> tuple[float, float]:
    """Bytes that the operators of both passes read and write; a broadcast operand once.

    spanned: of a view, all memory that lies between its elements.
    """
    torch = pytest.importorskip("torch")
    dispatch = pytest.importorskip("torch.utils._python_dispatch")
    views = {"split", "split_with_sizes", "slice", "expand", "view", "t", "transpose", "narrow", "detach", "alias"}
    views |= {"unsqueeze", "squeeze", "empty"}
    moved = [0.0]

    def size(tensors: Any) -> int:
        flat = torch.utils._pytree.tree_leaves(tensors)
        return sum(span(each) for each in {id(each): each for each in flat}.values() if isinstance(each, torch.Tensor))

    def span(tensor: Any) -> int:
        lengths = [length for length, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride]
        apart = min(filter(None, tensor.stride()), default=1) if spanned else 1
        return int(tensor.element_size() * apart * torch.tensor(lengths).prod())

    class Count(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), named=None):  # type: ignore[no-untyped-def]
            result = function(*arguments, **(named or {}))
            if str(function).split(".")[1] not in views:
                moved[0] += size((arguments, named)) + size(result)
            return result

    with Count():
        result = computed()
    forward, results = moved[0], result if isinstance(result, tuple) else (result,)
    gradients = [torch.empty_like(each) for each in results]
    with Count():
        torch.autograd.backward(results, gradients)
    return forward, moved[0] - forward


def test_transformers_5_17_masks_the_rows_of_experts() -> None:
    """Inputs in place, and both outputs: 4 bytes an element and 8, and 8 for every gradient."""
    model = read_model("qwen3-30b-a3b")
    today, older = (question(model, "1x8:h100", name) for name in ("accelerate", "accelerate@transformers-5.17"))
    kind, plan = model.layer_kinds[0], Plan(dp=8, zero=3)
    rows = expert_shard(plan, today, kind).rows
    for phase, inputs in (("forward", 4), ("backward", 8)):
        masked, plain = (getattr(expert_time(plan, each, kind), phase) for each in (older, today))
        outputs = masked.experts.moved_bytes - plain.experts.moved_bytes
        assert outputs == pytest.approx(8 * rows * (2 * 768 + 2048))
        assert masked.permute.moved_bytes - plain.permute.moved_bytes == pytest.approx(inputs * rows * 2048)


@pytest.mark.parametrize("runtime", ["pytorch-fsdp1", "pytorch-ddp"])
def test_gpt2_keeps_what_its_written_out_gelu_reads(runtime: str) -> None:
    """Of each element of the FFN in 2 bytes: its input and product, and the cube's, the tangent's and the sum's; in 4
    under autocast. One kernel keeps the first two (transformers 5.23, activations.py, NewGELUActivation).
    """
    inputs = question(read_model("gpt2-xl"), "1x2:h200", runtime, sequence_length=1024)
    (kind,) = inputs.model.layer_kinds
    shard = layer_shard(Plan(), inputs, kind)
    width = inputs.residual_bytes / 2
    elements = 1024 * kind.feed_forward.ffn_size
    assert float(feed_forward_bytes(Plan(), inputs, kind, shard)) == (4 + 6 * width) * elements
