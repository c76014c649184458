"""PyTorch's pipelines hold, allocate and send what the planner says, in the planned order."""

from __future__ import annotations

import pytest
from plans_run import PIPELINES, off, run

pytestmark = pytest.mark.clients("torch")


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_agrees_with_every_figure(name: str) -> None:
    done = run(name)
    assert not off(done)
    assert done.holds
