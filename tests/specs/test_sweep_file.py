"""Sweep files: the product that they ask for, and every mistake at once, with its line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from meshwright.errors import InvalidInput, InvalidSpec
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.reading.toml_lines import TomlLines
from meshwright.specs.sweep.read_sweep import read_sweep

SWEEP = """\
models = ["llama-3.1-8b", "mixtral-8x7b"]
clusters = ["1x8:h100", "2x8:a100"]

[[jobs]]
seq_len = ["8k", 4096]
global_batch_tokens = "1M"
tokens = "1T"

[[jobs]]
seq_len = 2048
global_batch = [64, 128]

[knobs]
runtime = ["megatron-core", "accelerate"]
precision = ["bf16", "fp8"]
with = [[], ["overlap.expert=0.7"]]

[limits.any]

[limits.narrow]
tp = "1-4"
sp = true

[prices]
h100 = 2.9
"2x8:a100" = 1.5
"""
CLUSTERS = 'clusters = ["1x8:h100", "2x8:a100"]'
PRECISIONS = 'precision = ["bf16", "fp8"]'
BEHAVIOURS = 'with = [[], ["overlap.expert=0.7"]]'
MISTAKES = {
    'models = ["llama-3.1-8b", "mixtral-8x7b"]': (
        'models = ["llama-3.1-9b", "mixtral-8x7b",\n  "Mixtral_8x7B",\n  3]',
        "line 1, models[0]: unknown model 'llama-3.1-9b'; nearest: llama-3.1-8b",
        "line 2, models[2]: 'Mixtral_8x7B' is the same as models[1]; leave one out",
        "line 3, models[3]: must be text (given: 3)",
    ),
    CLUSTERS: (
        'cluster = ["1x8:h100"]',
        "line 1, cluster: is not a key here; nearest: clusters",
        "clusters: is missing",
    ),
    'seq_len = ["8k", 4096]': (
        'seq_len = ["8k", "4o96", -1]\nglobal_batc = 3',
        "line 1, jobs[0].seq_len[1]: '4o96' is not a whole count",
        "line 1, jobs[0].seq_len[2]: must be 1 or more (given: -1)",
        "line 2, jobs[0].global_batc: is not a key here; nearest: global_batch",
    ),
    "seq_len = 2048": ("tokens = true", "jobs[1]: says no seq_len", "line 1, jobs[1].tokens: True is not a whole"),
    "global_batch = [64, 128]": ("global_batch = []", "line 1, jobs[1].global_batch: must hold one or more"),
    'global_batch_tokens = "1M"': (
        'global_batch_tokens = "1M"\nglobal_batch = 3\nrisk = 0.7',
        "give either global_batch in sequences or global_batch_tokens; both are given",
    ),
    'tokens = "1T"': ("risk = 0.7", "line 1, jobs[0].risk: must be less than or equal to 0.5"),
    'runtime = ["megatron-core", "accelerate"]': ('runtime = "torchtitn"', "line 1, knobs.runtime: unknown runtime"),
    PRECISIONS: ('precision = ["fp9"]', "line 1, knobs.precision[0]: unknown precision 'fp9'"),
    BEHAVIOURS: (
        'with = ["overlp=1", "overlap.expert=7"]',
        "line 1, knobs.with[0].overlp: unknown behaviour 'overlp'; nearest: overlap",
        "line 1, knobs.with[1].overlap.expert: must be less than or equal to 1",
    ),
    'tp = "1-4"\nsp = true': (
        'tp = [1, 0]\nspp = true\nrecompute = "some"',
        "line 1, limits.narrow.tp[1]: must be greater than or equal to 1",
        "line 2, limits.narrow.spp: is not a field; nearest: sp",
        "line 3, limits.narrow.recompute: 'some' is unknown; known: none, selective, full",
    ),
    "[knobs]": (
        '[runtime]\nname = "nanotron"\n[knobs]',
        'line 1, runtime: is not a key here; write it below [knobs]: runtime = "megatron-core"',
    ),
    "[limits.any]": ("[limits]\ntp = 8", "line 2, limits.tp: is no set of constraints; write [limits.NAME]"),
    "h100 = 2.9": (
        "h10 = 2.9",
        "line 1, prices.h10: is no cluster or accelerator of this sweep; it can price 1x8:h100",
    ),
    '"2x8:a100" = 1.5': ('"2x8:a100" = "1.5"', "prices.2x8:a100: must be a price, a number from 0 to 1e+09"),
}
"""By a part of the file, what stands there instead, and what is said of it; lines counted from that part's first."""


def written(folder: Path, text: str) -> Path:
    path = folder / "sweep.toml"
    path.write_text(text, "utf-8")
    return path


def said(path: Path) -> str:
    with pytest.raises(InvalidSpec) as refused:
        read_sweep(path)
    return str(refused.value)


def test_a_sweep_is_a_product_whose_last_axis_turns_fastest(tmp_path: Path) -> None:
    sweep = read_sweep(written(tmp_path, SWEEP))
    questions = [*sweep.questions()]
    assert len(sweep) == len(questions) == 2 * 2 * (2 + 2) * 2 * 2 * 2 * 2
    jobs = list(dict.fromkeys((each.job.sequence_length, each.job.global_batch) for each in questions))
    assert jobs == [(8192, 128), (4096, 256), (2048, 64), (2048, 128)]
    first = [
        (each.model, each.cluster, each.job.precision, each.framework.behaviours, each.limits) for each in questions
    ]
    assert first[:3] == [
        ("llama-3.1-8b", "1x8:h100", "bf16", "", "any"),
        ("llama-3.1-8b", "1x8:h100", "bf16", "", "narrow"),
        ("llama-3.1-8b", "1x8:h100", "bf16", "overlap.expert=0.7", "any"),
    ]
    assert first[-1] == ("mixtral-8x7b", "2x8:a100", "fp8", "overlap.expert=0.7", "narrow")
    assert sweep.prices == {"1x8:h100": 2.9, "2x8:a100": 1.5}


def test_what_does_not_go_together_is_a_question_with_its_reason(tmp_path: Path) -> None:
    questions = [*read_sweep(written(tmp_path, SWEEP)).questions()]
    refused = [each for each in questions if isinstance(each.inputs, InvalidInput)]
    assert {(each.cluster, each.job.precision) for each in refused} == {("2x8:a100", "fp8")}
    assert all("no fp8 matrix units" in str(each.inputs) for each in refused)


def test_a_table_may_hold_what_its_names_stand_for(tmp_path: Path) -> None:
    by_name = {
        "models": "llama-3.1-8b",
        "clusters": "1x8:h100",
        "jobs": {"seq_len": 4096, "global_batch": 64},
        "limits": {"narrow": {"tp": 2}},
    }
    values: dict[str, Any] = {
        "clusters": [read_cluster("1x8:h100")],
        "jobs": [Job(sequence_length=4096, global_batch=64)],
        "limits": {"narrow": Constraints(tp=2)},
    }
    (named,), (given,) = (read_sweep(each).questions() for each in (by_name, by_name | values))
    assert isinstance(named.inputs, Inputs)
    assert named.inputs == given.inputs
    assert read_sweep(written(tmp_path, SWEEP)).models[0].value == named.inputs.model


@pytest.mark.parametrize("part", MISTAKES, ids=lambda part: re.sub(r"\W+", " ", part)[:20])
def test_a_mistake_is_told_with_its_line_and_key(tmp_path: Path, part: str) -> None:
    wrong, *expected = MISTAKES[part]
    above = SWEEP[: SWEEP.index(part)].count("\n")
    message = said(written(tmp_path, SWEEP.replace(part, wrong, 1)))
    for line in expected:
        moved = re.sub(r"^line (\d+)", lambda match: f"line {int(match[1]) + above}", line)
        assert f"\n  - {moved}" in message or (not line.startswith("line") and line in message)


def test_a_number_in_place_of_modules_is_refused(tmp_path: Path) -> None:
    job = "seq_len = 2048\nlora_rank = 16\nlora_modules = 5"
    assert "'5' is none of these" in said(written(tmp_path, SWEEP.replace("seq_len = 2048", job)))


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = SWEEP
    for part in CLUSTERS, PRECISIONS, BEHAVIOURS:
        text = text.replace(part, MISTAKES[part][0])
    lines = [int(line) for line in re.findall(r"- line (\d+)", said(written(tmp_path, text)))]
    assert len(lines) == 4
    assert lines == sorted(lines)


def test_what_is_no_sweep_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no sweep file"):
        read_sweep(tmp_path / "none.toml")
    with pytest.raises(InvalidInput, match=r"is not a TOML file: .* line 2"):
        read_sweep(written(tmp_path, "models = []\nclusters = = 1"))
    assert said(written(tmp_path, "")).count("is missing") == 3


def test_what_is_missing_is_written_as_the_message_says(tmp_path: Path) -> None:
    told = said(written(tmp_path, ""))
    models, clusters = (re.search(f"{name}: is missing; write (.*)", told) for name in ("models", "clusters"))
    jobs = re.search(r"jobs: is missing; write a table (\[jobs\]) with (.*) and (.*)", told)
    assert models
    assert clusters
    assert jobs
    sweep = read_sweep(written(tmp_path, "\n".join([models[1], clusters[1], *jobs.groups()])))
    assert len(sweep) == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (["a"], 2),
        (["a", 1], 4),
        (["b", 0, "x"], 7),
        (["b", 1, "x"], 9),
        (["b", 1, "y"], 8),
        (["c", "d", "e"], 12),
        (["f"], None),
    ],
)
def test_the_line_of_a_value(path: list[str | int], line: int | None) -> None:
    text = '# first\na = [ # list\n  "one",\n  "two",\n]\n[[b]]\nx = 1\n[[b]]\nx = 2\n[c]\n# d\nd.e = "["\n'
    assert TomlLines(text).line_of(path) == line
