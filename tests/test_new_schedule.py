"""A schedule that the recipe of CONTRIBUTING.md adds is there in every answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from recipes import blocks_of, copy_of_project, execute

ASK = """
from meshwright.answers.basis.cite import citations
from meshwright.answers.pictures.pipeline import PipelineChart, pipeline_picture
from meshwright.answers.plan_file import json_schema
from meshwright.answers.explain.trace import play_pipeline, slices
from meshwright.cost.step import estimate_each
from meshwright.layout.legality import require_legal
from meshwright.launch.settings import launch_settings
from meshwright.layout.named import plan_of
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.pytorch.scope import SCHEDULE_CLASSES
from meshwright.schedules.records import Schedule
from meshwright.search.plan_space.space import space
from strategies import llama_8b, question

inputs = question(llama_8b(), "1x8:h100", "torchtitan", global_batch=66)
plan = plan_of(inputs, pp=4, vpp=2, schedule="breadth-first")
assert Plan.from_dict(plan.to_dict()) == plan and str(plan).endswith("breadth-first")
assert plan.schedule.record.name in json_schema()["$defs"]["schedule"]["enum"]
require_legal(plan, inputs)
searched = Plans.join(space(inputs))
assert (searched.vpp[searched.schedule == plan.schedule] > 1).any()
(estimate,) = estimate_each([plan], inputs)
interleaved, = estimate_each([plan_of(inputs, pp=4, vpp=2)], inputs)
assert estimate.time.bubble_s == interleaved.time.bubble_s > 0
assert [stage.live_micro_batches for stage in estimate.stages] == [plan.num_microbatches] * 4
assert "arXiv:2211.05953" in {each.about: each.source for each in citations([plan], inputs)}["pp: schedule"]
drawn = [each for each in slices(estimate, inputs) if each.category in ("forward", "backward")]
assert len(drawn) == 2 * 4 * 2 * plan.num_microbatches
played = play_pipeline(plan, inputs).timeline
assert "<svg" in pipeline_picture([PipelineChart("breadth-first", played.events, played.makespan_s)], "P")
assert any("LoopedBFS" in str(setting) for setting in launch_settings(plan, inputs))
assert SCHEDULE_CLASSES[plan.schedule] == "LoopedBFS"
"""


def test_a_new_schedule_is_in_every_answer(tmp_path: Path) -> None:
    root = copy_of_project(tmp_path)
    execute([block for block in blocks_of("Add a pipeline schedule") if block.language], root)
    path = f"{root / 'src'}:{root / 'tests'}"
    done = subprocess.run([sys.executable, "-c", ASK], env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
