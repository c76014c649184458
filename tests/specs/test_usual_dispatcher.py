"""A runtime's usual dispatcher is all-to-all where its fused one does not run."""

from __future__ import annotations

import pytest

from meshwright.answers.basis.assumptions import assumptions
from meshwright.launch.export import export
from meshwright.layout.plan import Plan
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from strategies import mixture, question


def _asked(cluster: str) -> Inputs:
    return question(mixture(), cluster, "megatron-bridge", global_batch=64)


@pytest.mark.parametrize(
    ("cluster", "dispatcher"),
    [("1x8:h100", "fused"), ("2x4:gb200", "fused"), ("1x8:mi300x", "all_to_all"), ("1x8:l40s", "all_to_all")],
)
def test_it_is_told_and_launched(cluster: str, dispatcher: str) -> None:
    inputs = _asked(cluster)
    assert inputs.dispatcher == dispatcher
    settings = export(Plan(dp=8, ep=8, zero=1, num_microbatches=8), inputs, "megatron-bridge").settings
    assert settings["--moe-token-dispatcher-type"] == {"fused": "flex", "all_to_all": "alltoall"}[dispatcher]
    told = any(each.startswith("tokens go to experts by all-to-all") for each in assumptions(inputs))
    assert told == (dispatcher == "all_to_all")


@pytest.mark.parametrize("runtime", ["megatron-core", "megatron-bridge"])
def test_one_that_is_asked_for_stays(runtime: str) -> None:
    """Also where it is the usual one."""
    inputs = question(mixture(), "1x8:mi300x", runtime, global_batch=64)
    assert inputs.replace(runtime=with_behaviours(inputs.runtime, ["dispatcher=fused"])).dispatcher == "fused"
