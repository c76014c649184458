"""The step of a rank, printed: what is allocated and released, and that its peak is the memory of the plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from meshwright.cost.footprint import footprints_of, step_events
from meshwright.cost.memory.timeline import MemoryTimeline, Moment
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs.choices import Recompute
from strategies import llama_8b, question, questions, some_legal_plans

PAGE = Path(__file__).parents[2] / "docs/memory.md"


def test_the_page_shows_the_step_of_8b_as_it_is_played() -> None:
    inputs = question(llama_8b(), "1x8:h100", "torchtitan", sequence_length=8192, global_batch=8, precision="bf16")
    events = step_events(Plan(dp=8, zero=3, recompute=Recompute.SELECTIVE), inputs)
    assert "\n".join(map(str, events)) in PAGE.read_text()


@pytest.mark.parametrize("name", questions())
def test_the_highest_moment_of_the_events_is_the_memory_of_the_stage(name: str) -> None:
    inputs = questions()[name]
    for row in range(6):
        plan = some_legal_plans(name, 6)[row]
        (estimate,) = estimate_each([plan], inputs)
        for stage in estimate.stages:
            events = step_events(plan, inputs, stage.stage)
            highest = max(range(len(events)), key=lambda index: events[index].allocated)
            assert events[highest].moment == stage.peak_moment
            for component in ("activations", "logits", "temporaries"):
                sizes = [event.size for event in events[: highest + 1] if event.component == component]
                assert sum(sizes) == pytest.approx(getattr(stage.memory, component), abs=1)


def test_what_a_timeline_holds_twice_is_counted_once_and_what_it_frees_no_more() -> None:
    step = MemoryTimeline(2)
    step.allocate("activations", "saved", np.array([4.0, 1.0]))
    step.at(Moment.LAST_LAYER_FORWARD)
    step.allocate("activations", "saved", 2.0)
    step.allocate("logits", "logits", np.array([1.0, 5.0]))
    step.at(Moment.LOSS_BACKWARD)
    step.free("logits")
    step.at(Moment.OPTIMIZER_STEP, np.array([True, False]))
    peak = step.peak()
    assert [Moment(code) for code in peak.moment] == [Moment.LAST_LAYER_FORWARD, Moment.LOSS_BACKWARD]
    assert (peak.activations.tolist(), peak.logits.tolist()) == ([4.0, 2.0], [0.0, 5.0])
    assert [event.size for event in step.events(0)] == [4.0, -2.0, 1.0, -1.0]


def test_what_is_of_no_use_counts_while_logits_are_alive() -> None:
    """More is allocated once they are gone, and yet less is held; a rank without logits has nothing beside them."""
    step = MemoryTimeline(2, beside_logits=3.0)
    step.allocate("activations", "saved", 4.0)
    step.allocate("logits", "logits", np.array([5.0, 0.0]))
    step.at(Moment.LOSS_BACKWARD)
    step.free("logits")
    step.allocate("temporaries", "working set", 6.0)
    step.at(Moment.LAST_LAYER_BACKWARD)
    assert (step.highest().tolist(), step.most_held.tolist()) == ([1, 1], [12.0, 10.0])


@pytest.mark.parametrize("runtime", ["torchtitan", "pytorch-ddp", "megatron-core"])
def test_no_plans_have_no_steps(runtime: str) -> None:
    assert len(footprints_of(Plans.of([]), question(llama_8b(), "1x8:h100", runtime))) == 0
