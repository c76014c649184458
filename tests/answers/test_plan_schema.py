"""The JSON Schema of the plan file: it holds for what is written, is exactly as wide as that, and the page is true."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from answered import QUESTIONS, asked, document, found
from meshwright.answers.basis.cite import citations
from meshwright.answers.experts.exchanges import ExpertLayers
from meshwright.answers.experts.parts import ExpertPart
from meshwright.answers.explain.context import ContextLayers
from meshwright.answers.explain.table import explain_document
from meshwright.answers.plan_file import SCHEMA, json_schema
from meshwright.answers.plans.beyond import Beyond
from meshwright.answers.plans.table import plan_document
from meshwright.answers.records import json_of
from meshwright.answers.step_parts import Computed
from meshwright.cost.compute.work import Work
from meshwright.cost.estimate import StageEstimate, Waterfall
from meshwright.cost.memory.components import Components
from meshwright.cost.memory.fit import Bounds, Verdict
from meshwright.cost.step import estimate_each
from meshwright.layout.named import plan_of
from meshwright.layout.plan import Plan
from meshwright.search.many_searches.pareto import pareto
from meshwright.specs.cluster import Cluster
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.model import Model
from meshwright.specs.runtime import Runtime
from meshwright.specs.runtime.capabilities import Capabilities

PAGE = Path(__file__).parents[2] / "docs" / "plan-file.md"
DEFINITIONS = json_schema()["$defs"]


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema())


@pytest.mark.parametrize("kind", ["plan", "explain"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_written_is_valid(name: str, kind: str) -> None:
    faults = validator().iter_errors(document(name, kind))
    assert [f"{fault.json_path}: {fault.message}"[:200] for fault in faults] == []


def test_what_is_written_when_more_is_asked_for_is_valid() -> None:
    answer, inputs = found("llama on h100"), asked("llama on h100")
    cited = {"citations": json_of(citations([answer.best[0].plan], inputs))}
    explained = explain_document(answer.best[-1], inputs, answer)
    assert explained["plans"][0]["neighbours"]
    unsafe = explain_document(estimate_each([plan_of(inputs, zero=0)], inputs)[0], inputs, answer)
    assert unsafe["plans"][0]["what_would_fit"]
    for written in (plan_document(answer, Beyond(front=pareto(answer))) | cited, explained | cited, unsafe):
        assert list(validator().iter_errors(json.loads(json.dumps(written)))) == []


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert json_schema()["properties"]["schema"]["const"] == SCHEMA


@pytest.mark.parametrize(
    ("definition", "names"),
    [
        ("plan", [field.name for field in fields(Plan)]),
        ("time", Waterfall._fields),
        ("compute", [f"{kind}_s" for kind in Work._fields]),
        ("components", Components._fields),
        ("stage", [field.name for field in fields(StageEstimate)]),
        ("expert_layers", [field.name for field in fields(ExpertLayers)]),
        ("context_layers", [field.name for field in fields(ContextLayers)]),
        ("expert_part", [field.name for field in fields(ExpertPart)]),
        ("inputs", Inputs.model_fields),
        ("confidence", [*(f"{name}_bytes" for name in (*Bounds._fields, "safe", "margin")), "sources"]),
        ("from_peak", [*Computed._fields, *(name for name in Waterfall._fields if name != "compute_s")]),
    ],
)
def test_closed_forms_have_exactly_the_fields_of_the_code(definition: str, names: list[str]) -> None:
    form = DEFINITIONS[definition]
    optional = {"constraints"} if definition == "inputs" else set()
    assert set(form["properties"]) == set(form["required"]) | optional == set(names)
    assert form["additionalProperties"] is False


def test_constraints_have_exactly_the_fields_of_the_code() -> None:
    assert set(DEFINITIONS["constraints"]["properties"]) == set(Constraints.model_fields)


@pytest.mark.parametrize(("definition", "spec"), [("model", Model), ("cluster", Cluster), ("job", Job)])
def test_what_is_given_is_described_field_by_field(definition: str, spec: type[Model | Cluster | Job]) -> None:
    assert set(DEFINITIONS[definition]["properties"]) == set(spec.model_fields)


def test_of_a_runtime_what_is_described_exists() -> None:
    described = DEFINITIONS["runtime"]["properties"]
    assert set(described) <= set(Runtime.model_fields)
    assert set(described["plans"]["properties"]) <= set(Capabilities.model_fields)


def test_words_are_the_words_of_the_code() -> None:
    assert DEFINITIONS["verdict"]["enum"] == [str(verdict) for verdict in Verdict]


WRONG: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another version": lambda answer: answer.update(schema="meshwright.plan/1"),
    "an unknown key": lambda answer: answer.update(note="mine"),
    "no assumptions": lambda answer: answer.pop("assumptions"),
    "no plans": lambda answer: answer.update(plans=[]),
    "a degree as text": lambda answer: answer["plans"][0]["plan"].update(tp="8"),
    "a degree of 0": lambda answer: answer["plans"][0]["plan"].update(pp=0),
    "sp as a number": lambda answer: answer["plans"][0]["plan"].update(sp=1),
    "an unknown schedule": lambda answer: answer["plans"][0]["plan"].update(schedule="pipedream"),
    "an unknown module": lambda answer: answer["plans"][0]["plan"].update(recompute_modules=["head"]),
    "a plan without dp": lambda answer: answer["plans"][0]["plan"].pop("dp"),
    "a tenth part of time": lambda answer: answer["plans"][0]["time"].update(other_s=0.0),
    "a missing part of time": lambda answer: answer["plans"][0]["time"].pop("exposed_ep_s"),
    "a negative part of time": lambda answer: answer["plans"][0]["time"].update(bubble_s=-1.0),
    "an unknown verdict": lambda answer: answer["plans"][0]["memory"].update(verdict="fits"),
    "bytes as text": lambda answer: answer["plans"][0]["memory"].update(allocated_bytes="80GB"),
    "no reason to have lost": lambda answer: answer["plans"][1].pop("lost"),
    "no runtime": lambda answer: answer["inputs"].pop("runtime"),
    "an unknown key of the job": lambda answer: answer["inputs"]["job"].update(batch=1),
    "an unknown precision": lambda answer: answer["inputs"]["job"].update(precision="int1"),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_what_is_not_a_plan_file_is_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    answer = document("llama on h100")
    change(answer)
    assert not validator().is_valid(answer)


def test_an_explained_plan_without_stages_is_refused() -> None:
    answer = document("llama on h100", "explain")
    del answer["plans"][0]["stages"]
    assert not validator().is_valid(answer)


def keys(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every key in a JSON value, without the indices of arrays."""
    if isinstance(value, list):
        for item in value:
            yield from keys(item, path)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from keys(inner, (*path, key))


def known(schema: dict[str, Any], path: tuple[str, ...]) -> bool:
    """Whether the schema describes the key at this path."""
    schema = DEFINITIONS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if "items" in schema:
        inner = schema["items"]
        return known(inner["allOf"][0] if "allOf" in inner else inner, path)
    if path and isinstance(schema.get("additionalProperties"), dict):
        return known(schema["additionalProperties"], path[1:])
    return not path or (path[0] in schema.get("properties", {}) and known(schema["properties"][path[0]], path[1:]))


def test_every_key_that_the_page_shows_is_in_the_schema() -> None:
    excerpts = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)]
    shown = {path for excerpt in excerpts for path in keys(excerpt)}
    assert len(shown) > 40
    assert [path for path in sorted(shown) if not known(json_schema(), path)] == []


def test_every_part_of_time_and_memory_stands_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    names = [*Waterfall._fields, *Components._fields, *(field.name for field in fields(Plan))]
    assert [name for name in names if f"`{name}`" not in page and f'"{name}"' not in page] == []
