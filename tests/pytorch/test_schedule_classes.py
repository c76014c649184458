"""The names that records give for torch.distributed.pipelining are classes of it, of one stage a rank or of several."""

from __future__ import annotations

import pytest

from meshwright.schedules.records import Schedule

NAMED = [each for each in Schedule if "torch" in each.record.framework_names]


@pytest.mark.parametrize("schedule", NAMED)
def test_torch_has_the_class_that_a_record_names(schedule: Schedule) -> None:
    schedules = pytest.importorskip(
        "torch.distributed.pipelining.schedules", reason="PyTorch is not installed: make test-clients"
    )
    kind = schedules.get_schedule_class(schedule.record.framework_names["torch"])
    assert issubclass(kind, schedules.PipelineScheduleSingle) == (schedule.record.chunks == 1)
