"""Cite: every formula of the plan's axes names its source, and every source of its data is there."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.answers.basis.cite import ALWAYS, EXCHANGES, ONLY_WITH, citations
from meshwright.layout.named import plan_of
from meshwright.schedules.records import Schedule
from meshwright.specs.inputs import Inputs
from strategies import latent, llama_8b, mixture, question

IN_FLIGHT = [each.record.in_flight for each in Schedule]
DENSE = question(llama_8b(), "2x8:h100", global_batch=64)


def cited(inputs: Inputs, **degrees: Any) -> dict[str, str]:
    return {each.about: each.source for each in citations([plan_of(inputs, **degrees)], inputs)}


@pytest.mark.parametrize("formula", [*ALWAYS.values(), *EXCHANGES.values(), *IN_FLIGHT])
def test_every_formula_that_is_cited_names_its_source(formula: Any) -> None:
    assert "Source: " in getattr(formula, "func", formula).__doc__


def test_the_sources_are_of_the_plans_own_axes() -> None:
    told = cited(DENSE, tp=2, pp=2, vpp=2)
    assert "arXiv:2104.04473" in told["pp: stage-to-stage messages"]
    assert "get_pp_rank_microbatches" in told["pp: schedule"]
    assert told["tp: tensor parallelism"].startswith("Megatron-LM")
    assert not any(about.startswith(("cp:", "ep:")) for about in told)
    alone = cited(question(llama_8b(), "1x1:h100", global_batch=8))
    assert not any(about.partition(":")[0] in ("tp", "cp", "dp", "pp", "ep") for about in alone)
    assert "arXiv:2310.01889" in cited(DENSE, cp=2)["cp: context parallelism"]
    assert "arXiv:2304.11277" in cited(DENSE.replace(), zero=3)["dp: data parallelism with ZeRO 3"]


def test_every_source_of_the_data_is_there() -> None:
    told = cited(DENSE, tp=2)
    accelerator, runtime = DENSE.cluster.accelerator, DENSE.runtime
    kernels = accelerator.kernels
    for name, sources in ((accelerator.id, accelerator.sources), (runtime.id, runtime.sources)):
        wanted = {f"{name}, {key.replace('_', ' ')}" for key in sources if key not in ONLY_WITH}
        assert wanted <= told.keys()
    assert told[f"kernels {kernels.id}, gemm"] == kernels.sources["gemm"]
    assert runtime.version in told[runtime.id]


def test_what_the_answer_does_not_rest_on_is_left_out() -> None:
    dense, routed = cited(DENSE, tp=2), cited(question(mixture(), "2x8:h100", global_batch=64), tp=2, ep=4)
    assert not any("expert exchange" in about for about in dense)
    assert any("expert exchange" in about for about in routed)
    assert "ep: all-to-all dispatcher" in routed
    for model, degrees, buffers in ((mixture(), {"ep": 8}, True), (mixture(), {}, False), (llama_8b(), {}, False)):
        told = cited(question(model, "2x8:h100", "megatron-bridge", global_batch=64), **degrees)
        assert ("ep: exchange buffers" in told) is buffers
    quantised = cited(question(latent(), "1x8:b200", global_batch=64, precision="mxfp8"), ep=8)
    assert any(about.startswith("precision mxfp8") for about in quantised)
    assert not any(about.startswith("precision") for about in dense)
