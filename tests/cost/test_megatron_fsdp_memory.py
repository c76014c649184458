"""What Megatron-FSDP keeps beside shards: weights of the ends, gradients that wait in its queue or in two buffers."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.cost.memory.stage_parameters import stage_parameters
from meshwright.cost.memory.states import States, stage_states
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model
from strategies import llama_8b, llama_70b, question, split_stages

PLAN = Plan(dp=64, zero=3, num_microbatches=2)


def _asked(model: Model, *behaviours: str) -> Inputs:
    inputs = question(model, "8x8:h100", sequence_length=4096, precision="bf16")
    return inputs.replace(runtime=with_behaviours(inputs.runtime, [*behaviours]))


def _states(inputs: Inputs) -> tuple[States, float, float]:
    """Of the one stage, with the parameters of a layer and of the head."""
    plans = Plans.of([PLAN])
    stages = split_stages(inputs, plans, keep_all=True)
    parameters = stage_parameters(plans, stages, inputs)
    layer = float((parameters.dense - parameters.ends)[0]) / inputs.model.num_layers
    return stage_states(plans, stages, inputs), layer, float(parameters.head[0])


def test_ends_stay_gathered_beside_two_layers() -> None:
    inputs = _asked(llama_70b())
    states, layer, head = _states(inputs)
    whole = 80 * layer + 2 * head
    assert states.parameters[0] == pytest.approx(2 * whole / 64 + 2 * (2 * layer + 2 * head), rel=1e-4)


def test_gradients_of_four_large_layers_wait() -> None:
    """Of two layers, as a billion parameters are fewer, of the one that is added and of the one that works."""
    states, layer, head = _states(_asked(llama_70b()))
    assert states.whole_gradients[0] == pytest.approx(4 * (head + layer), rel=1e-4)
    assert np.asarray(states.queued)[0] == pytest.approx(4 * 4 * layer, rel=1e-4)
    assert np.asarray(states.passed)[0] == pytest.approx(3 / 80)


def test_gradients_of_a_billion_parameters_wait_where_layers_are_small() -> None:
    """Llama 3 8B has 218 million a layer: of four layers, and two more."""
    states, layer, _ = _states(_asked(llama_8b()))
    assert np.asarray(states.queued)[0] == pytest.approx(4 * 6 * layer, rel=1e-4)


def test_two_buffers_stand_all_along_where_there_is_no_queue() -> None:
    """param_and_grad_buffer.py, FixedPoolAllocator: buffers go back to a pool and are never given back."""
    plain, layer, head = _states(_asked(llama_70b()))
    states, _, _ = _states(_asked(llama_70b(), "double_buffered=true"))
    assert states.gradients[0] - plain.gradients[0] == pytest.approx(4 * 2 * layer, rel=1e-4)
    assert states.whole_gradients[0] == pytest.approx(4 * head, rel=1e-4)
    assert not np.any(states.queued)
