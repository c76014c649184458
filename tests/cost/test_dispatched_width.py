"""The width of dispatched tokens: which dispatches carry the recipe's 8-bit format, and what that changes."""

from __future__ import annotations

import numpy as np
import pytest

from exchange_times import pass_times
from meshwright.cost.comms.experts import TOKENS, expert_exchanges
from meshwright.cost.compute.layer import layer_time
from meshwright.cost.memory.activations import layer_memory
from meshwright.cost.messages import layer_messages
from meshwright.layout.plan import Plan
from meshwright.specs import catalog
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime import read_runtime
from strategies import mixture, question

BLOCKWISE = 1 + 4 / 128
"""One byte, and one fp32 scale for 128 of them."""
DISPATCHERS = ("all_to_all", "all_gather", "fused")
PLAN = Plan(dp=32, ep=32, micro_batch=4)


def _asked(quantised: str, dispatcher: str = "all_to_all", precision: str = "fp8-blockwise") -> Inputs:
    kind = mixture().layer_kinds[0]
    kind = kind.replace(feed_forward=kind.feed_forward.replace(count=64))
    inputs = question(mixture().replace(layer_kinds=(kind,)), "4x8:h100", global_batch=128, precision=precision)
    changes = [f"quantised_dispatch={quantised}", f"dispatcher={dispatcher}"]
    return inputs.replace(runtime=with_behaviours(inputs.runtime, changes))


@pytest.mark.parametrize("name", catalog.names("runtimes"))
def test_no_catalogued_runtime_quantises_what_it_dispatches(name: str) -> None:
    assert read_runtime(name).communication.quantised_dispatch == "none"


@pytest.mark.parametrize(
    ("quantised", "precision", "widths"),
    [
        ("none", "fp8-blockwise", (2, 2)),
        ("forward", "fp8-blockwise", (BLOCKWISE, 2)),
        ("both", "fp8-blockwise", (BLOCKWISE, BLOCKWISE)),
        ("both", "fp8", (1, 1)),
        ("both", "bf16", (2, 2)),
    ],
)
def test_a_dispatch_carries_the_operands_of_an_8_bit_recipe_where_it_is_quantised(
    quantised: str, precision: str, widths: tuple[float, float]
) -> None:
    assert _asked(quantised, precision=precision).dispatch_bytes == widths


def test_4_bit_recipes_dispatch_2_bytes() -> None:
    inputs = question(mixture(), "1x8:b200", precision="nvfp4")
    runtime = inputs.runtime.replace(quantised_dispatch="both")
    assert inputs.replace(runtime=runtime).dispatch_bytes == (2, 2)


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_a_quantised_dispatch_shortens_its_own_pass_alone(dispatcher: str) -> None:
    kind = _asked("none").model.layer_kinds[0]
    none, forward, both = (
        pass_times(expert_exchanges(PLAN, inputs, kind, layer_time(PLAN, inputs, kind)), inputs)
        for inputs in (_asked(quantised, dispatcher) for quantised in ("none", "forward", "both"))
    )
    assert forward.forward < none.forward
    assert forward.backward == none.backward
    assert both.forward == forward.forward
    assert both.backward < none.backward
    # Forward learns first how many tokens come, where anything tells it: what both passes save is alike.
    assert none.forward - both.forward == pytest.approx(none.backward - both.backward)


def test_recomputed_dispatches_are_as_wide_as_the_first() -> None:
    inputs, plan = _asked("forward"), Plan(dp=32, ep=32, micro_batch=4, recompute=Recompute.FULL)
    kind = inputs.model.layer_kinds[0]
    time = pass_times(expert_exchanges(plan, inputs, kind, layer_time(plan, inputs, kind)), inputs)
    plain = pass_times(expert_exchanges(PLAN, inputs, kind, layer_time(PLAN, inputs, kind)), inputs)
    assert time.backward == pytest.approx(float(plain.backward + plain.forward))


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_what_a_rank_sends_is_as_wide_as_what_it_dispatches(dispatcher: str) -> None:
    wide, narrow = (_asked(quantised, dispatcher) for quantised in ("none", "forward"))
    kind = wide.model.layer_kinds[0]
    sent, less = (
        [
            row.sent_bytes
            for row in layer_messages(PLAN, inputs, kind)
            if (row.content, row.phase) == (TOKENS, "forward")
        ]
        for inputs in (wide, narrow)
    )
    np.testing.assert_allclose(np.multiply(less, 2), np.multiply(sent, BLOCKWISE))


def test_gradients_that_arrive_quantised_take_less_memory_and_what_is_kept_stays() -> None:
    none, forward, both = (_asked(quantised) for quantised in ("none", "forward", "both"))
    kind = none.model.layer_kinds[0]
    memory = [layer_memory(PLAN, inputs, kind) for inputs in (none, forward, both)]
    rows = 4 * none.job.sequence_length * kind.feed_forward.active  # type: ignore[union-attr]
    assert memory[0] == memory[1]
    assert memory[0].saved == memory[2].saved
    assert memory[0].working - memory[2].working == pytest.approx((2 - BLOCKWISE) * rows * none.model.hidden_size)
