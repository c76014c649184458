"""Questions of the form: read with all faults at once, held by a link, never a file of the disk."""

from __future__ import annotations

import json
import zlib
from base64 import urlsafe_b64encode
from pathlib import Path
from random import Random
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

import meshwright
from meshwright.errors import InvalidInput
from meshwright.search.find import find
from meshwright.search.many_searches.remedies import remedies
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.runtime import read_runtime
from meshwright.web.changes import knobs, remedy_links
from meshwright.web.fields import FIELDS
from meshwright.web.packing import MOST_CHARACTERS, MOST_PACKED, pack, unpack
from meshwright.web.pages import EXAMPLE
from meshwright.web.question import Question
from meshwright.web.reading import read

CONFIG = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}


def of_link(link: str) -> tuple[Question, Question | None]:
    return Question.of_link(dict(parse_qsl(link, keep_blank_values=True)))


def test_the_first_page_asks_what_the_command_would() -> None:
    job = meshwright.Job(sequence_length=8192, global_batch=256)
    asked = read(EXAMPLE)
    assert asked.faults == {}
    assert asked.inputs == meshwright.plan("llama-3.1-70b", "8x8:h100", job, top=1).inputs


def test_a_length_and_a_batch_that_are_left_empty_are_the_usual_ones() -> None:
    asked = read(EXAMPLE.replace(seq_len="", global_batch=""))
    assert asked.faults == {}
    assert asked.inputs
    assert (asked.inputs.job.sequence_length, asked.inputs.job.global_batch) == (8192, 512)
    assert asked.inputs.job.assumptions == ("sequence length 8192", "global batch 512, near 4M tokens")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("model", "lama-3.1-70b", "llama-3.1-70b"),
        ("model", "", "Model is empty; write llama-3.1-70b (a catalogue name"),
        ("model", "x" * 300, "longer than 200"),
        ("cluster", "8x8:h10", "h100"),
        ("cluster", "8x8", "h100"),
        ("seq_len", "long", "whole count"),
        ("global_batch", "0.5", "whole"),
        ("precision", "fp1", "fp16"),
        ("runtime", "megatrn", "megatron"),
        ("tokens", "many", "15T"),
        ("price", "-1", "from 0 to"),
        ("price", "nan", "not a price"),
        ("risk", "some", "not a share"),
        ("tp", "eight", "1-4"),
        ("schedule", "2f2b", "1f1b"),
        ("sp", "perhaps", "true or false"),
        ("max_nodes_per_tp", "two", "whole number"),
        ("recompute_modules", "lm_head", "layernorm"),
        ("network", "fast", "Gb/s"),
        ("gradients", "fp8", "fp32, half"),
        ("with", "optimizer_states=sparse", "optimizer_states"),
        ("with", "overlap.expert", "overlap.expert"),
        ("dispatcher", "pigeons", "all_to_all"),
        ("expert_imbalance", "much", "1.2"),
        ("mtp_layers", "-1", "whole number"),
        ("config", "{", "line 1, column 2"),
        ("config", "[1]", "JSON list"),
        ("config", "[" * 100_000, ""),
        ("config", '{"model_type": "llama"}', "hidden_size"),
    ],
)
def test_a_wrong_field_is_named_with_what_works(name: str, value: str, said: str) -> None:
    asked = read(EXAMPLE.replace(**{name: value}))
    assert asked.inputs is None
    assert list(asked.faults) == [name]
    assert said in asked.faults[name]


def test_the_form_asks_for_every_constraint_and_all_of_a_job() -> None:
    job = set(Job.model_fields) - {"sequence_length", "optimizer", "expert_spread", "assumptions"}
    assert {*Constraints.model_fields, *job} <= {*FIELDS}


def test_what_is_typed_is_what_the_command_takes() -> None:
    """Every field of the form beside a name, in the form of the command line."""
    typed = {
        "network": "8x200Gb/s",
        "gradients": "half",
        "risk": "5%",
        "with": "overlap.expert=0.7 cross_entropy=fused",
        "tp": "2,4",
        "sp": "with",
        "even_chunks": "with",
        "max_nodes_per_tp": "1",
        "recompute_modules": "mlp",
    }
    asked = read(EXAMPLE.replace(**typed))
    assert asked.faults == {}
    assert asked.inputs is not None
    limits = Constraints(tp="2,4", sp=True, even_chunks=True, max_nodes_per_tp=1, recompute_modules="mlp")
    runtime = with_behaviours(read_runtime("megatron-core"), ["overlap.expert=0.7", "cross_entropy=fused"])
    assert asked.inputs == Inputs(
        model=meshwright.read_model("llama-3.1-70b"),
        cluster=read_cluster("8x8:h100", "8x200Gb/s"),
        job=meshwright.Job(sequence_length=8192, global_batch=256, gradients="half", risk=0.05),
        runtime=runtime,
        constraints=limits,
    )


def test_experts_are_asked_about() -> None:
    typed = {"model": "mixtral-8x7b", "dispatcher": "all-gather", "expert_imbalance": "1.5"}
    inputs = read(EXAMPLE.replace(**typed)).inputs
    assert inputs is not None
    assert (inputs.runtime.communication.dispatcher, inputs.job.expert_imbalance) == ("all_gather", 1.5)
    both = read(EXAMPLE.replace(**typed, expert_capacity="1.2"))
    assert "give one of the two" in both.faults[""]


def test_all_faults_are_told_at_once() -> None:
    assert set(read(EXAMPLE.replace(model="?", cluster="?", seq_len="?", tp="?")).faults) == {
        *("model", "cluster", "seq_len", "tp")
    }


def test_no_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in which the command line would find a model and a cluster."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "llama-3.1-8b").mkdir()
    for name in ("llama-3.1-8b/config.json", "config.json"):
        (tmp_path / name).write_text(json.dumps(CONFIG))
    (tmp_path / "mine.toml").write_text('accelerator = "h100"\nnodes = 1\n')
    assert meshwright.read_model("llama-3.1-8b").num_layers == 12
    assert meshwright.read_cluster("mine.toml").num_nodes == 1
    catalogued = read(EXAMPLE.replace(model="llama-3.1-8b")).inputs
    assert catalogued is not None
    assert catalogued.model.num_layers == 32
    for fields in ({"model": "config.json"}, {"model": str(tmp_path)}, {"cluster": "mine.toml"}, {"cluster": "./mine"}):
        assert list(read(EXAMPLE.replace(**fields)).faults) == [*fields]


TYPED = st.dictionaries(
    st.sampled_from([*FIELDS]), st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)
)
CONFIGS = st.sampled_from(["", "{", '{"model_type":"gpt2"}'])
WITH_CONFIG = st.builds(lambda typed, config: typed | {"config": config}, TYPED, CONFIGS)


@given(WITH_CONFIG, WITH_CONFIG)
def test_a_link_holds_the_question_and_what_the_one_before_had(typed: dict[str, str], changes: dict[str, str]) -> None:
    before, question = Question.of(typed), Question.of({**typed, **changes})
    assert of_link(question.link()) == (question, None)
    assert of_link(question.link(before)) == (question, before if before != question else None)


def test_a_config_takes_little_of_a_link_and_never_much() -> None:
    text = json.dumps({**CONFIG, "ignored": ["model.layers.0.mlp"] * 2000}, indent=2)
    assert len(pack(text)) < len(text) / 20
    assert json.loads(unpack(pack(text))) == json.loads(text)
    with pytest.raises(InvalidInput, match="at most 65,536"):
        pack("a" * (MOST_CHARACTERS + 1))
    noise = Random(0).randbytes(MOST_CHARACTERS // 2).hex()
    with pytest.raises(InvalidInput, match="characters of a link"):
        pack(noise)


@pytest.mark.parametrize(
    "packed",
    [
        "",
        "%%%",
        "AAAA",
        pack('{"a":1}')[:-4],
        urlsafe_b64encode(zlib.compress(b"\xff")).decode(),
        "A" * MOST_PACKED * 2,
    ],
)
def test_a_damaged_link_is_refused(packed: str) -> None:
    with pytest.raises(InvalidInput, match="damaged"):
        unpack(packed)


def test_a_link_that_would_grow_without_bounds_is_refused() -> None:
    with pytest.raises(InvalidInput, match="damaged"):
        unpack(urlsafe_b64encode(zlib.compress(b"a" * 10_000_000, 9)).decode())


def test_single_changes_can_be_asked_and_change_one_thing() -> None:
    inputs = read(EXAMPLE).inputs
    assert inputs is not None
    for name, changed in knobs(EXAMPLE, inputs):
        assert read(changed).inputs is not None, name
        assert sum(changed.values.get(each) != EXAMPLE.values.get(each) for each in FIELDS) == 1


@pytest.mark.parametrize(
    ("cluster", "doubled"), [("8x8:h100", "16x8:h100"), ("2xdgx-h100", "4xdgx-h100"), ("dgx-h100", "2xdgx-h100")]
)
def test_a_cluster_keeps_its_form_with_other_nodes(cluster: str, doubled: str) -> None:
    question = EXAMPLE.replace(cluster=cluster)
    inputs = read(question).inputs
    assert inputs is not None
    assert dict(knobs(question, inputs))["twice the nodes"].values["cluster"] == doubled


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": "1x1:h100", "tp": "1"},
        {"cluster": "1x8:h100", "tp": "1", "zero": "0", "pp": "1"},
        {"cluster": "1xdgx-h100", "model": "llama-3.1-70b"},
    ],
)
def test_what_would_fit_is_a_link(changes: dict[str, str]) -> None:
    """More accelerators of a node, more nodes, fewer constraints, and states in fewer bytes."""
    question = EXAMPLE.replace(**{"model": "llama-3.1-8b", "global_batch": "16"} | changes)
    inputs = read(question).inputs
    assert inputs is not None
    ways = remedies(find(inputs))
    assert remedy_links(question, ways).count("<a ") == len(ways) > 0
