"""Frameworks that the catalogue has not: their stand-ins hold what their own profilers measured."""

from __future__ import annotations

import pytest

from meshwright.cost.memory.activations import layer_memory
from meshwright.validation.rows.reading import Case, read_case
from tables import shipped

MIB = 2**20


def _case(name: str) -> Case:
    return read_case(next(row for row in shipped() if row["id"] == name))


@pytest.mark.parametrize(
    ("name", "measured_mib"), [("galvatron-001", 514.5634765625), ("galvatron-004", 546.5634765625)]
)
def test_a_layer_of_galvatron_keeps_what_its_profiler_counted(name: str, measured_mib: float) -> None:
    """Of 4096 tokens and one sequence or more: PKU-DAIR/Hetu-Galvatron@cea12ffb,
    models/gpt/configs/memory_profiling_bf16_llama2-7b_all.json, layertype_0_sp, tp_activation_per_bsz_dict,
    1 and 2 times 2; but for the means of its two norms, 32 KiB, which PyTorch's RMSNorm has not.
    """
    case = _case(name)
    layer = layer_memory(case.plan, case.inputs, case.inputs.model.layer_kinds[0])
    assert (layer.saved - layer.tables) / MIB == pytest.approx(measured_mib - 1 / 32, abs=0.002)


def test_the_length_that_galvatron_prints_is_not_the_one_that_it_measured() -> None:
    case = _case("galvatron-001")
    assert case.inputs.job.sequence_length == 4096
    assert any("4096" in said for said in case.assumed)
