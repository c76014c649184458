"""Layer parts: they add up to what the step is priced by, for one plan and for many."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.cost.layer_parts import layer_part_times
from meshwright.cost.step import estimate_plans
from meshwright.cost.unit import layer_unit_time
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.reading.model import read_model
from strategies import question, questions, some_legal_plans


@pytest.mark.parametrize("name", questions())
def test_parts_of_a_layer_add_up_to_its_price(name: str) -> None:
    inputs, plans = questions()[name], some_legal_plans(name, 30)
    for kind in inputs.model.layer_kinds:
        for plan in (plans, *(plans[row] for row in range(5))):
            parts, unit = layer_part_times(plan, inputs, kind), layer_unit_time(plan, inputs, kind)
            forward, backward = (sum(getattr(part, side).seconds for part in parts) for side in ("forward", "backward"))
            np.testing.assert_allclose(forward, unit.forward_total + unit.host_forward, rtol=1e-12)
            np.testing.assert_allclose(backward, unit.backward_total + unit.host_backward, rtol=1e-12)
            exposed = [part.forward.seconds + part.backward.seconds for part in (parts.dispatch, parts.combine)]
            np.testing.assert_allclose(
                sum(exposed), unit.exposed_forward.expert + unit.exposed_backward.expert, rtol=1e-12
            )


def test_parts_of_all_layers_add_up_to_the_step() -> None:
    """On one stage without ends that the step shares: all layers less embedding, head and what comes once."""
    inputs = question(read_model("qwen3-30b-a3b"), "4x8:h100", precision="bf16", global_batch=256)
    plan = Plan(tp=2, sp=True, dp=16, ep=8, zero=1, num_microbatches=16, recompute=Recompute.FULL)
    priced = estimate_plans(Plans.of([plan]), inputs, keep_all_stages=True)
    (kind,) = inputs.model.layer_kinds
    layers = 48 * sum(each.forward.seconds + each.backward.seconds for each in layer_part_times(plan, inputs, kind))
    ends = float(priced.stage_time.total[0]) - layers
    assert 0 < ends < 0.1 * layers


def test_hidden_exchanges_take_as_long_and_add_less() -> None:
    inputs = question(read_model("qwen3-30b-a3b"), "4x8:h100", precision="bf16", global_batch=256)
    hiding = inputs.replace(runtime=with_behaviours(inputs.runtime, ["overlap.expert=0.7"]))
    plan, (kind,) = Plan(dp=32, ep=8, zero=1, num_microbatches=8), inputs.model.layer_kinds
    shown, hidden = (layer_part_times(plan, each, kind).dispatch.forward for each in (inputs, hiding))
    assert shown.seconds == shown.alone_s == hidden.alone_s > hidden.seconds
    assert shown.bytes == hidden.bytes > 0


def test_a_dense_layer_has_no_expert_parts() -> None:
    inputs = questions()["llama on h100"]
    parts = layer_part_times(Plan(tp=4, dp=8), inputs, inputs.model.layer_kinds[0])
    for part in (parts.router, parts.permute, parts.dispatch, parts.experts, parts.combine, parts.unpermute):
        assert part.forward.seconds == part.backward.seconds == part.forward.bytes == 0
