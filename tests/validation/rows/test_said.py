"""What a row says in words is priced so, where a table names no settings."""

from __future__ import annotations

import pytest

from meshwright.specs.choices import Recompute
from meshwright.validation.rows.reading import read_case
from meshwright.validation.rows.said import said_layers, said_stage, with_said_recipe
from meshwright.validation.rows.siblings import as_known
from meshwright.validation.rows.table import Row
from tables import llama


def _stranger(**said: str) -> Row:
    return llama(runtime="pytorch-fsdp1", tp="1", dp="8", dataset="a stranger", id="new") | said


@pytest.mark.parametrize(
    ("precision", "detail", "meant"),
    [
        ("fp8", "TransformerEngine fp8 (delayed)", "fp8-delayed"),
        ("fp8-delayed", "fp8 current scaling (per tensor)", "fp8"),
        ("fp8", "fp8 rowwise + bf16", "fp8-rowwise"),
        ("fp8", "FP8 blockwise (128x128)", "fp8-blockwise"),
        ("fp8", "fp8_mx", "mxfp8"),
        ("fp8", "fp8 recipe not printed", "fp8"),
        ("bf16", "delayed", "bf16"),
        ("mxfp8", "mxfp8 (attention: current scaling)", "mxfp8"),
    ],
)
def test_the_recipe_of_fp8_is_the_one_that_the_words_name(precision: str, detail: str, meant: str) -> None:
    assert with_said_recipe(_stranger(precision=precision, precision_detail=detail))["precision"] == meant


@pytest.mark.parametrize(
    ("runtime", "said", "layers", "behaviours"),
    [
        ("torchtitan", "every-other-layer", "16", "takes_recompute_layers=true"),
        ("pytorch-fsdp1", "fraction-of-layers", "16", "takes_recompute_layers=true"),
        ("megatron-core", "every-other-layer", "16", ""),
    ],
)
def test_half_of_the_layers_are_recomputed_where_the_words_say_so(
    runtime: str, said: str, layers: str, behaviours: str
) -> None:
    (told,) = said_layers(_stranger(runtime=runtime, layers="32", recompute="selective", recompute_modules=said))
    assert told.columns == {"recompute": "full", "recompute_modules": "", "recompute_layers": layers}
    assert told.behaviours == ((behaviours,) if behaviours else ())
    assert not said_layers(_stranger(runtime=runtime, layers="32", recompute_modules="layernorm"))


def test_layers_of_a_stranger_are_recomputed_in_its_plan() -> None:
    said = {"layers": "32", "recompute": "selective", "recompute_modules": "every-other-layer"}
    (row,) = as_known([_stranger(runtime="torchtitan", **said)])
    plan = read_case(row).plan
    assert (plan.recompute, plan.recompute_layers) == (Recompute.FULL, 16)
    assert "16 layers of a chunk recomputed whole, by what the row says" in row["assumed"]


@pytest.mark.parametrize(
    ("runtime", "gpus", "stage", "meant"),
    [
        ("torchtitan", "1", "0", "3"),
        ("torchtitan", "1", "2", ""),
        ("torchtitan", "8", "0", ""),
        ("torchtitan", "1", "", ""),
        ("megatron-core", "1", "0", ""),
    ],
)
def test_one_rank_is_sharded_where_its_framework_does_so(runtime: str, gpus: str, stage: str, meant: str) -> None:
    told = said_stage(_stranger(runtime=runtime, num_gpus=gpus, zero_stage=stage))
    assert [each.columns for each in told] == ([{"zero_stage": meant}] if meant else [])
