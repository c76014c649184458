"""Reading: a row becomes a plan and its inputs, or is refused with what is wrong in it; nothing else happens."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.answers.records import json_of
from meshwright.errors import InvalidInput
from meshwright.validation.outcomes import Outcome
from meshwright.validation.rows.reading import read_case
from meshwright.validation.rows.table import COLUMNS, COUNTS, FIGURES, Row
from meshwright.validation.score.score import score_of
from tables import llama, outcome_of_row, shipped

NUMBERS = ["abc", "-1", "0", "1e400", "1,024", "2.0", "0.5", "nan", "3", "7", "65", "100000", "1e9", "1e18", "1e-300"]
NAMES = [
    *("abc", "'", "\x00", "none", "True", "interleaved", "zb-v", "fp8", "selective", "megatron-lm", "Llama", "v100"),
    *("mlp", "deep-ep; flash-2", "moment_bytes=2", "llama", "deepseek-v3"),
]


BRIDGE = {"runtime": "megatron-bridge"}


@st.composite
def _spoilt(draw: st.DrawFn) -> Row:
    """A shipped row with some blanks more, and junk in one or two columns."""
    row = dict(draw(st.sampled_from(shipped())))
    blank = draw(st.lists(st.sampled_from(COLUMNS), max_size=8) | st.just([]))
    row |= dict.fromkeys(blank, "") | {"id": "spoilt", "dataset": "any"}
    for column in draw(st.lists(st.sampled_from(COLUMNS[2:]), max_size=2, unique=True)):
        row[column] = draw(st.sampled_from(NUMBERS if column in (*COUNTS, *FIGURES) else NUMBERS + NAMES))
    return row


def _is_complete(outcome: Outcome) -> bool:
    """Either a reason, or figures that are finite and positive."""
    if not outcome.estimate:
        return bool(outcome.refusal)
    memory = outcome.estimate.memory
    figures = [outcome.estimate.step_time_s, memory.allocated, memory.reserved, memory.device]
    for pair in (each for each in (outcome.step_time, outcome.memory) if each):
        figures += [pair.measured, pair.predicted]
    return not outcome.refusal and all(math.isfinite(each) and each > 0 for each in figures)


@settings(max_examples=300)
@given(_spoilt())
def test_any_row_is_priced_or_refused(row: Row) -> None:
    outcome = outcome_of_row(row)
    assert _is_complete(outcome)
    document = json_of(score_of([outcome]))
    assert document["rows"] == document["represented"] + len(document["skipped"]) == 1
    json.dumps(document, allow_nan=False)


def test_modules_of_other_models_do_nothing_as_in_megatron() -> None:
    """A recipe may name experts for a dense model (Megatron-core, transformer_config.py); alone they are none."""
    plans = [
        outcome_of_row(llama(recompute="selective", recompute_modules=modules))
        for modules in ("mlp+moe+shared_experts", "mlp", "moe")
    ]
    both, one, none = (str(each.case.plan) for each in plans if each.case)
    assert both == one == f"{none} recompute-selective(mlp)"


@settings(max_examples=60)
@given(st.sets(st.sampled_from(COLUMNS)))
def test_any_blanks_are_filled_or_refused(blank: set[str]) -> None:
    assert _is_complete(outcome_of_row(llama(**dict.fromkeys(blank, ""))))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"gpu": "warp-9"}, "unknown accelerator 'warp-9'"),
        ({"runtime": "warp-drive"}, "unknown runtime 'warp-drive'"),
        ({"precision": "fp3"}, "fp3"),
        ({"schedule": "zb-9"}, "schedule"),
        ({"recompute": "some"}, "recompute"),
        (
            {"recompute": "selective", "recompute_modules": "warp+mlp"},
            "unknown recompute module 'warp'; known: core_attn",
        ),
        ({"recompute": "full", "recompute_modules": "mlp"}, "recompute_modules needs recompute selective; it is full"),
        ({"settings": "deepep"}, "unknown setting 'deepep'; nearest: deep-ep"),
        ({"settings": "flash-2"}, "settings has flash-2, which is for torchtitan; the runtime is megatron-core"),
        (
            {"with": "gradient_byte=2"},
            "settings or with is not valid.* unknown behaviour 'gradient_byte'; nearest: gradient_bytes",
        ),
        ({"with": "moment_bytes"}, "'moment_bytes' is not KEY=VALUE"),
        ({"with": "moment_bytes=2; storage.moment_bytes=4"}, "is replaced twice"),
        ({"settings": "tensor-parallel-overlap; no-tensor-parallel-overlap-nvfp4", **BRIDGE}, "is replaced twice"),
        ({"refused": "a technique of ours"}, "a technique of ours"),
        (
            {"power_limit_w": "300", "gpu": "a100"},
            "power_limit_w: is 300; what a power limit costs a100-sxm-80gb is not",
        ),
        ({"power_limit_w": "1200", "gpu": "b200"}, "power_limit_w: is 1200; b200-sxm-180gb draws 1000 W at most"),
        ({"memory_rank": "8"}, "memory_rank is 8; it must be from 0 to 7"),
        (
            {"memory_gib": "60000", "memory_kind": "device"},
            "memory_gib is 60000, but h100-sxm-80gb has 79.1 GiB; it is what one accelerator held, in GiB",
        ),
        ({"expert_capacity": "1"}, "has no experts"),
        ({"zero_stage": "9"}, "zero"),
        ({"tp": "3"}, "tp 3"),
        ({"num_gpus": "12"}, "12 accelerators do not fill nodes of 8"),
        ({"num_gpus": "16"}, "16"),
        ({"global_batch_size": "33"}, "33"),
        ({"shard_group_size": "3", "runtime": "torchtitan"}, "4 data-parallel ranks do not divide into"),
        ({"pp": "1e9"}, "1000000000"),
    ],
)
def test_what_cannot_be_represented_is_refused_by_name(changes: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidInput, match=f"(?s){told}"):
        read_case(llama(**changes))


@pytest.mark.parametrize("changes", [{"memory_gib": "85"}, {"memory_gib": "6e4", "fits": "no"}, {"gpu": ""}])
def test_memory_is_compared_with_that_of_a_named_accelerator_on_which_the_run_fitted(changes: dict[str, str]) -> None:
    """85 is a full H100 of 79.1 GiB in GB."""
    read_case(llama(**{"memory_gib": "100", "memory_kind": "device"} | changes))


def test_a_blank_step_time_comes_from_the_tokens() -> None:
    """32 sequences of 4096 tokens on 8 accelerators at 8192 tokens per second each: 2 s."""
    outcome = outcome_of_row(llama(step_time_s="", tokens_per_s_per_gpu="8192"))
    assert outcome.step_time
    assert outcome.step_time.measured == pytest.approx(2)


def test_a_printed_step_time_goes_before_the_tokens() -> None:
    outcome = outcome_of_row(llama(tokens_per_s_per_gpu="1"))
    assert outcome.step_time
    assert outcome.step_time.measured == 2.5


def test_a_network_that_is_printed_replaces_the_usual_one() -> None:
    clusters = [read_case(llama(num_gpus="16", dp="8", inter_node_GBps_per_gpu=each)).inputs.cluster for each in "19"]
    bandwidths = [cluster.levels[-1].bandwidth for cluster in clusters]
    assert bandwidths[1] == pytest.approx(9 * bandwidths[0])
