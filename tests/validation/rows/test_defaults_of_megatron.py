"""Rows of Megatron whose start scripts leave behaviours to the framework's defaults."""

from __future__ import annotations

from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.runtime import read_runtime
from meshwright.validation.rows.reading import read_case
from meshwright.validation.rows.table import Row
from tables import shipped


def _rows(dataset: str) -> list[Row]:
    return [row for row in shipped() if row["dataset"] == dataset]


def test_gradients_overlap_in_rows_of_xtuner_that_say_so_alone() -> None:
    overlapping = {row["id"] for row in _rows("xtuner") if read_case(row).inputs.runtime.overlap.data_parallel}
    assert overlapping == {row["id"] for row in _rows("xtuner") if "; zero " in row["notes"]}


def test_experts_of_megatron_core_0_6_gather_all_tokens_and_sort_them_without_a_fused_kernel() -> None:
    (mixtral,) = (row for row in _rows("flagperf") if row["architecture"] == "mixtral-8x7b")
    runtime = read_case(mixtral).inputs.runtime
    assert runtime.communication.dispatcher == "all_gather"
    unfused = with_behaviours(read_runtime("megatron-core"), ["permute_fusion=off"])
    assert runtime.kernels.permuted_rows == unfused.kernels.permuted_rows


def test_sync_free_experts_of_primus_sort_rows_with_a_fused_kernel() -> None:
    rows = [row for row in _rows("amd") if row["software_release"].startswith("Primus MoE package")]
    fused = read_runtime("megatron-core").kernels.permuted_rows
    free = {row["id"] for row in rows if "sync-free stage 1" in row["notes"] or "SyncFree1" in row["notes"]}
    assert free == {row["id"] for row in rows if read_case(row).inputs.runtime.kernels.permuted_rows == fused}
