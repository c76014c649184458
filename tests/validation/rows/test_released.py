"""Rows that name their framework and its release in words alone are priced as these."""

from __future__ import annotations

import pytest

from meshwright.validation.rows.reading import read_case
from meshwright.validation.rows.released import as_released, with_its_recipe
from meshwright.validation.rows.table import COLUMNS, Row, read_rows
from tables import llama


def _row(**said: str) -> Row:
    return dict.fromkeys(COLUMNS, "") | {"runtime": "megatron-core"} | said


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (
            {"runtime_detail": "Megatron-Bridge (Megatron-Core)", "software_release": "26.02.01"},
            "megatron-bridge@26.02",
        ),
        ({"runtime_detail": "Megatron-Bridge", "software_release": "26.03"}, "megatron-bridge@26.02"),
        ({"runtime_detail": "Megatron-Bridge", "software_release": "25.07"}, "megatron-bridge@25.09"),
        ({"runtime_detail": "megatron-bridge"}, "megatron-bridge"),
        (
            {"runtime_detail": "NeMo container 24.12 (Megatron-Core)", "software_release": "25.02"},
            "megatron-core@nemo-25.02",
        ),
        ({"runtime_detail": "NeMo 24.07 (Megatron-Core)"}, "megatron-core@nemo-24.07"),
        (
            {"runtime_detail": "NeMo Framework Launcher (Megatron-Core)", "source": "README.md (text of 2024-06)"},
            "megatron-core@nemo-24.03",
        ),
        ({"runtime_detail": "NeMo (Megatron-Core)", "source": "issue 7 (2024-08-15)"}, "megatron-core@nemo-24.07"),
        ({"runtime_detail": "Megatron-LM", "software_release": "24.07"}, "megatron-core"),
        ({"runtime_detail": "Megatron-LM of nemo_26.04.sif", "software_release": "26.04"}, "megatron-core"),
        ({"runtime": "pytorch-fsdp1", "runtime_detail": "Composer+PyTorch FSDP1 (llm-foundry)"}, "llm-foundry"),
        ({"runtime": "megatron-lm", "runtime_detail": "Megatron-LM fork (sail-sg zero-bubble)"}, "zero-bubble"),
        ({"runtime": "torchtitan", "source": "benchmarks/llama3_h100_202412_torchtitan.md@b5b"}, "torchtitan@0.1.0"),
        ({"runtime": "megatron-bridge", "software_release": "26.04.01"}, "megatron-bridge@26.04"),
        ({"runtime": "torchtitan", "software_release": "0.2.2"}, "torchtitan@0.2.2"),
        ({"runtime": "torchtitan", "software_release": "torchtitan 0.2.0", "source": "2026-11-22"}, "torchtitan@0.2.2"),
        ({"runtime": "torchtitan", "software_release": "0.3.0"}, "torchtitan"),
        ({"runtime": "accelerate", "software_release": "transformers 5.17.0"}, "accelerate@transformers-5.17"),
        ({"runtime": "accelerate", "software_release": "transformers 4.57.6"}, "accelerate@transformers-4.57"),
        ({"runtime": "deepspeed", "runtime_detail": "Trainer, transformers 4.46"}, "deepspeed@transformers-4.57"),
        ({"runtime": "pytorch-ddp", "runtime_detail": "Trainer, transformers 5.1"}, "pytorch-ddp"),
        ({"runtime": "deepspeed", "source": "issue 1158 (2023-10-14)"}, "deepspeed@transformers-4.57"),
        ({"runtime": "accelerate", "source": "a blog of 2026-01"}, "accelerate"),
        ({"runtime": "accelerate", "software_release": "transformers 5.23.0"}, "accelerate"),
        ({"runtime": "accelerate", "software_release": "1.15.0"}, "accelerate"),
        ({"runtime": "torchtitan", "source": "docs/performance.md (2024)"}, "torchtitan@0.1.0"),
        ({"runtime": "torchtitan", "source": 'commit 5940ddeb5 "reshard_after_forward (#822)"'}, "torchtitan@0.1.0"),
        ({"runtime": "torchtitan", "source": 'commit d9bdfbb20 "bucketing (#1881)"'}, "torchtitan@0.2.2"),
        ({"runtime": "torchtitan", "source": "a blog of 2026-03-02"}, "torchtitan@0.2.2"),
        ({"runtime": "torchtitan", "source": "pull request 3914"}, "torchtitan"),
        ({"runtime": "torchtitan", "source": "a user's log"}, "torchtitan"),
        ({"runtime": "pytorch-fsdp1", "source": "issues/407 (2023-04)"}, "pytorch-fsdp1@torch-2.0"),
        ({"runtime": "pytorch-fsdp1", "software_release": "2023-08"}, "pytorch-fsdp1@torch-2.0"),
        ({"runtime": "pytorch-fsdp1", "source": "2024-01", "software_release": "2023-08"}, "pytorch-fsdp1@torch-2.0"),
        ({"runtime": "pytorch-fsdp1", "source": "2023-08", "software_release": "torch 2.1.0"}, "pytorch-fsdp1"),
        ({"runtime": "pytorch-fsdp1", "source": "issues/1 (2023-10)"}, "pytorch-fsdp1"),
        ({"runtime": "pytorch-ddp", "software_release": "2022-08"}, "pytorch-ddp@torch-1.13"),
        ({"runtime": "pytorch-ddp", "software_release": "torch 1.12.1"}, "pytorch-ddp@torch-1.13"),
        ({"runtime": "pytorch-ddp", "source": "2023-03"}, "pytorch-ddp@torch-2.0"),
        ({"runtime": "torchtitan@0.1.0", "source": "2026-03"}, "torchtitan@0.1.0"),
        ({"runtime": "galvatron", "source": "2024"}, "galvatron"),
    ],
)
def test_the_release_is_the_one_that_the_row_names(said: Row, meant: str) -> None:
    assert as_released(_row(**said))["runtime"] == meant


def test_fp8_of_nemo_and_composer_is_delayed() -> None:
    said = {"runtime_detail": "NeMo 24.07 (Megatron-Core)", "precision": "fp8"}
    assert as_released(_row(**said))["precision"] == "fp8-delayed"
    assert as_released(_row(runtime="llm-foundry", precision="fp8"))["precision"] == "fp8-delayed"
    assert as_released(_row(precision="fp8"))["precision"] == "fp8"
    assert as_released(_row(runtime="megatron-bridge", precision="fp8"))["precision"] == "fp8"


def test_a_recipe_that_the_framework_dropped_is_that_of_its_newest_release_with_it() -> None:
    case = read_case(llama(runtime="torchtitan", precision="fp8", zero_stage="3", settings="flash-2"))
    assert case.inputs.runtime.id == "torchtitan@0.2.2"
    assert "torchtitan@0.2.2, the newest release that has fp8" in case.assumed


def test_no_row_of_the_table_needs_it() -> None:
    assert read_rows()
    for row in read_rows():
        assert with_its_recipe(row) == (row, [])


def test_a_stage_that_the_framework_dropped_is_that_of_its_newest_release_with_it() -> None:
    case = read_case(llama(runtime="nanotron", zero_stage="1"))
    assert case.inputs.runtime.id == "nanotron@2025-05"
    assert "nanotron@2025-05, the newest release that has ZeRO 1" in case.assumed
