"""An axis along which no plan has more than one rank sends nothing, and is not priced; beside plans that have more, a
plan of one rank waits for nothing all the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from meshwright.cost.comms.context import context_exchanges
from meshwright.cost.comms.exchange import Exchange, exposed_seconds
from meshwright.cost.comms.pipeline import pipeline_exchanges
from meshwright.cost.comms.tensor import layer_tensor_exchanges
from meshwright.cost.compute.layer import layer_time
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Layout, Plans
from meshwright.specs.examples import LLAMA

KIND = LLAMA.model.layer_kinds[0]
AXES: dict[str, Callable[[Layout], tuple[Exchange, ...]]] = {
    "tp": lambda plan: layer_tensor_exchanges(plan, LLAMA, KIND, layer_time(plan, LLAMA, KIND)),
    "cp": lambda plan: context_exchanges(plan, LLAMA, KIND, layer_time(plan, LLAMA, KIND)),
    "pp": lambda plan: pipeline_exchanges(plan, LLAMA, 0.1),
}


@pytest.mark.parametrize("axis", AXES)
def test_one_rank_sends_nothing(axis: str) -> None:
    one, two = Plan(), Plan.from_dict({axis: 2})
    assert AXES[axis](one) == AXES[axis](Plans.of([one, one])) == ()
    waits = exposed_seconds(AXES[axis](Plans.of([one, two])), LLAMA)
    assert np.asarray(waits)[0] == 0 < np.asarray(waits)[1]
    assert np.asarray(waits)[1] == exposed_seconds(AXES[axis](two), LLAMA)
