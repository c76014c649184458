"""Wrong arguments of the public functions: one error that says what was given, what is expected and what works."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel, ConfigDict, InstanceOf, TypeAdapter, ValidationError

import meshwright
from meshwright.answers.explain.vary import OF_A_PLAN, OF_A_QUESTION
from meshwright.arguments import EXAMPLES, checked
from meshwright.specs.reading.examples import LLAMA

JOB = meshwright.Job(sequence_length=8192, global_batch=64)
QUESTION = ("llama-3.1-8b", "1x8:h100", JOB)
PLAN = meshwright.Plan(tp=8, sp=True, num_microbatches=64)
VALUES: list[Any] = [
    *(None, True, 3, 2.5, float("nan"), 1j, "", "x", "\0", b"x", object(), Path("nowhere"), JOB, PLAN, LLAMA),
    *([], [3], ["x"], [None], [PLAN, 3], (), {}, {"tp": 8}, {3: 4}, {"x": None}, {"a": PLAN}, {3}, range(3)),
    *(int, print, meshwright, ValueError("x"), JOB.model_dump(), PLAN.to_dict()),
]
ANY_CLASS = ConfigDict(arbitrary_types_allowed=True)


def takes_arguments(function: object) -> bool:
    return inspect.isfunction(function) and len(inspect.signature(function).parameters) > 1


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, and every method of a public answer that takes an argument."""
    for name in meshwright.__all__:
        value = getattr(meshwright, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value) and issubclass(value, meshwright.Answer):
            methods = {each: function for each, function in vars(value).items() if not each.startswith("_")}
            yield from ((f"{name}.{each}", method) for each, method in methods.items() if takes_arguments(method))


FUNCTIONS = dict(public())
ARGUMENTS = [
    (name, argument, hint)
    for name, function in FUNCTIONS.items()
    for argument, hint in get_type_hints(inspect.unwrap(function)).items()
    if argument != "return" and hint is not Any
]


def as_instances(hint: Any) -> Any:
    """An annotation for pydantic, which would make a model of a dictionary."""
    origin, parts = get_origin(hint), tuple(map(as_instances, get_args(hint)))
    if origin in (Union, UnionType):
        return reduce(or_, parts)
    if origin in (Sequence, Iterable, Mapping):
        return (Sequence if origin is Iterable else origin)[parts]
    return InstanceOf[hint] if inspect.isclass(hint) and issubclass(hint, BaseModel | meshwright.Plan) else hint


def refused_by_pydantic(hint: Any) -> list[Any]:
    """The values that pydantic takes for none of an annotation."""
    adapter = TypeAdapter(tuple[as_instances(hint)], config=ANY_CLASS)  # type: ignore[misc]
    refused = []
    for value in VALUES:
        try:
            adapter.validate_python((value,), strict=True)
        except ValidationError:
            refused.append(value)
    return refused


def called(name: str, argument: str, value: Any) -> Any:
    """A public function with what works in all places but one."""
    function = FUNCTIONS[name]
    by_place, by_name = [], {}
    for each in inspect.signature(function).parameters.values():
        works = None if each.name == "self" else works_for(each.name, function)
        if each.kind == each.VAR_POSITIONAL:
            by_place.append(value)
        elif each.default is each.empty and each.kind == each.POSITIONAL_OR_KEYWORD:
            by_place.append(value if each.name == argument else works)
        elif each.name == argument:
            by_name[argument] = value
    return function(*by_place, **by_name)


def works_for(name: str, function: Callable[..., Any]) -> Any:
    written = EXAMPLES.get(name.title()) or EXAMPLES.get(name) or EXAMPLES.get(function.__name__, "None")
    return eval(written, {"Job": meshwright.Job, "Plan": meshwright.Plan})


def test_all_public_functions_are_found() -> None:
    assert {"plan", "estimate", "vary", "read_launch", "PlanAnswer.launch", "MemoAnswer.write"} < {*FUNCTIONS}
    assert len(ARGUMENTS) > 70


@pytest.mark.parametrize(
    ("name", "argument", "hint"), [pytest.param(*each, id=".".join(each[:2])) for each in ARGUMENTS]
)
def test_a_wrong_type_is_refused_and_nothing_else_escapes(name: str, argument: str, hint: Any) -> None:
    wrong = refused_by_pydantic(hint)
    assert len(wrong) > 10
    for value in wrong:
        with pytest.raises(meshwright.InvalidSpec, match=f"the call of {name.split('.')[-1]} is not valid") as refusal:
            called(name, argument, value)
        assert any(fault.where.startswith(argument) for fault in refusal.value.faults)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: meshwright.plan(*QUESTION, top="2"),
            "must be a whole number (given: '2', of type str); nearest: 2",
        ),
        (lambda: meshwright.plan(*QUESTION, top=2.0), "(given: 2.0, of type float); nearest: 2"),
        (lambda: meshwright.plan(*QUESTION, top=True), "(given: True, of type bool), or left out"),
        (lambda: meshwright.plan(*QUESTION, runtime=3), "runtime: must be a Runtime or text (given: 3, of type int)"),
        (lambda: meshwright.plan("llama-3.1-8b", None, JOB), "a Path or a table (given: None); nearest: '8x8:h100'"),
        (lambda: meshwright.explain(*QUESTION, {"tp": 8}), "of type dict); nearest: Plan(**{'tp': 8})"),
        (lambda: meshwright.check(*QUESTION, "tp8"), "(given: 'tp8', of type str); nearest: Plan(tp=8, sp=True"),
        (lambda: meshwright.estimate(*QUESTION, [PLAN, None]), "plan[1]: must be a Plan (given: None)"),
        (
            lambda: meshwright.vary("p.json", behaviours="a=b"),
            "text (given: 'a=b', of type str); nearest: ['a=b']",
        ),
        (lambda: meshwright.runs(iter(["x", 3])), "logs[1]: must be text or a Path (given: 3, of type int)"),
        (lambda: meshwright.compare(*QUESTION, prices={"h100": "2"}), "prices['h100']: must be a number"),
        (lambda: meshwright.read_cluster({3: 4}), "source, a key: must be text (given: 3, of type int)"),
    ],
)
def test_what_is_wrong_is_said_with_what_works(call: Callable[[], object], says: str) -> None:
    with pytest.raises(meshwright.InvalidSpec) as refusal:
        call()
    assert says in str(refusal.value)


def test_all_wrong_arguments_are_told_at_once() -> None:
    with pytest.raises(meshwright.InvalidSpec) as refusal:
        meshwright.plan(None, 3, {}, top="x")
    assert [fault.where for fault in refusal.value.faults] == ["model", "cluster", "job", "top"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"plans": {}}, "no plan is named, and two or more are compared: give plans two or more, as plans=[Plan("),
        ({"plans": [PLAN]}, "one plan is named"),
        ({}, "given: 1x8:h100-sxm-80gb; nearest: ['1x8:h100', '2x8:h100']"),
    ],
)
def test_too_few_things_to_compare(given: dict[str, Any], says: str) -> None:
    with pytest.raises(meshwright.InvalidInput) as refusal:
        meshwright.compare(*QUESTION, **given)
    assert says in str(refusal.value)
    assert "--" not in str(refusal.value)


def test_no_clusters_to_compare() -> None:
    with pytest.raises(meshwright.InvalidInput, match="given: an empty list"):
        meshwright.compare("llama-3.1-8b", [], JOB)


def test_an_iterator_of_plans_is_a_list() -> None:
    @checked
    def names(plans: Sequence[meshwright.Plan], *paths: str) -> tuple[int, int]:
        return len(plans), len(paths)

    assert names([PLAN], "a", "b") == (1, 2)
    with pytest.raises(meshwright.InvalidSpec, match="paths"):
        names([PLAN], "a", 3)


def test_signatures_stay() -> None:
    assert [*inspect.signature(meshwright.plan).parameters][:4] == ["model", "cluster", "job", "runtime"]
    assert "every legal plan priced" in (meshwright.plan.__doc__ or "")


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_text(json.dumps(meshwright.explain(*QUESTION, PLAN).to_dict()), "utf-8")
    return path


@pytest.mark.parametrize("name", sorted(OF_A_PLAN | OF_A_QUESTION))
def test_a_change_of_a_wrong_type_raises_nothing_else(name: str, plan_file: Path) -> None:
    for value in VALUES:
        with suppress(meshwright.MeshwrightError):
            meshwright.vary(plan_file, **{name: value})


@pytest.mark.parametrize("name", ["schedule", "vpp", "sequence_length", "precision", "pipeline_layout"])
def test_a_change_of_a_wrong_type_is_refused(name: str, plan_file: Path) -> None:
    with pytest.raises(meshwright.InvalidSpec, match=f"the change is not valid:\n  - {name}: must be"):
        meshwright.vary(plan_file, **{name: 2.5})
