"""Reading: a question of the form as the planner takes it, or everything that is wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from meshwright.errors import InvalidInput, InvalidSpec, quoted
from meshwright.specs import catalog
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.cluster import Cluster
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from meshwright.specs.job_options import READERS
from meshwright.specs.model import Model
from meshwright.specs.reading.cluster import adapters_of, named_cluster
from meshwright.specs.reading.inputs import read_inputs
from meshwright.specs.reading.model import catalogued_model, read_model
from meshwright.specs.runtime import Runtime, read_runtime
from meshwright.specs.usual_job import job_or_usual
from meshwright.web.fields import FIELDS, LIMITS, WITH, WITHOUT
from meshwright.web.question import Question, read_price

MOST_TYPED = 200
"""Characters of one line."""
Value = TypeVar("Value")


@dataclass(frozen=True)
class Read:
    """A question as the planner takes it, or what is wrong with it."""

    inputs: Inputs | None
    faults: Mapping[str, str]
    """By field; under no name what is wrong with all of them together."""


def read(question: Question) -> Read:
    """Every field read, with all faults at once."""
    faults: dict[str, str] = {}
    typed = question.values

    def of(name: str, reader: Callable[[str], Value]) -> Value | None:
        try:
            return reader(_typed(name, typed))
        except InvalidSpec as error:
            faults[name] = "; ".join(str(fault) if name == "with" else fault.what for fault in error.faults)
        except InvalidInput as error:
            faults[name] = str(error)
        return None

    def if_typed(name: str, reader: Callable[[str], Value]) -> Value | None:
        return of(name, reader) if name in typed else None

    network = typed.get("network") if if_typed("network", adapters_of) else None
    runtime = of("runtime", read_runtime)
    if runtime is not None:
        runtime = if_typed("dispatcher", _dispatching(runtime)) or runtime
        runtime = if_typed("with", _behaving(runtime)) or runtime
    given = _Given(
        model=_config_of(typed["config"], faults) if "config" in typed else of("model", catalogued_model),
        cluster=of("cluster", lambda text: named_cluster(text, network)),
        runtime=runtime,
        job={"precision": of("precision", lambda text: catalog.resolve("precisions", text))}
        | {name: if_typed(name, reader) for name, reader in READERS.items()},
        limits={name: value for name in LIMITED if (value := if_typed(name, _limit(name))) is not None},
    )
    if_typed("price", read_price)
    return _together(given, faults)


@dataclass(frozen=True, kw_only=True)
class _Given:
    """Every field that could be read."""

    model: Model | None
    cluster: Cluster | None
    runtime: Runtime | None
    job: dict[str, Any]
    limits: dict[str, Any]


def _together(given: _Given, faults: dict[str, str]) -> Read:
    if faults or given.model is None or given.cluster is None or given.runtime is None:
        return Read(None, faults)
    try:
        job = job_or_usual(given.model, given.cluster.num_gpus, given.job.pop("seq_len"), **given.job)
        limits = Constraints(**given.limits)
        inputs = read_inputs(given.model, given.cluster, job, given.runtime, limits)
    except InvalidInput as error:
        return Read(None, {"": str(error)})
    return Read(inputs, {})


def _dispatching(runtime: Runtime) -> Callable[[str], Runtime]:
    return lambda text: with_behaviours(runtime, [f"dispatcher={text.replace('-', '_')}"])


def _behaving(runtime: Runtime) -> Callable[[str], Runtime]:
    return lambda text: with_behaviours(runtime, _BETWEEN.split(text))


def _limit(name: str) -> Callable[[str], Any]:
    """Of the text of a field, what `Constraints` takes, which it holds."""

    def value(text: str) -> Any:
        limit: Any = {WITH: True, WITHOUT: False}.get(text, int(text) if text.isdecimal() else text)
        return getattr(Constraints(**{name: limit}), name)

    return value


def _config_of(text: str, faults: dict[str, str]) -> Model | None:
    try:
        config = json.loads(text)
        if not isinstance(config, dict):
            raise InvalidInput(f"this is a JSON {type(config).__name__}: a config.json is an object, {{...}}")
        return read_model(config)
    except json.JSONDecodeError as error:
        faults["config"] = f"this is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError) as error:
        faults["config"] = str(error)
    return None


def _typed(name: str, typed: Mapping[str, str]) -> str:
    field = FIELDS[name]
    text = typed.get(name, field.default if field.only_names else "")
    if not text:
        raise InvalidInput(f"{field.label} is empty; write {field.default or 'a value'} ({field.help})")
    if len(text) > MOST_TYPED:
        raise InvalidInput(f"{quoted(text)} is longer than {MOST_TYPED} characters")
    return text


LIMITED = tuple(field.name for field in LIMITS)
_BETWEEN = re.compile(r"\s+(?=[\w.]+\s*=)")
