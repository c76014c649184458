"""Question: what a form or a link asks, as it was typed, and as the planner takes it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

from meshwright.errors import InvalidInput, InvalidSpec, quoted
from meshwright.specs import catalog
from meshwright.specs.cluster import Cluster
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import USUAL_RISK, Job
from meshwright.specs.model import Model
from meshwright.specs.read_cluster import named_cluster
from meshwright.specs.read_model import catalogued_model, read_model
from meshwright.specs.runtime import Runtime, read_runtime
from meshwright.units import count_in_powers_of_two, parse_count
from meshwright.web.fields import FIELDS, LIMITS
from meshwright.web.packing import pack, unpack

BEFORE = "was_"
"""Begins the name of what the question before had otherwise."""
MOST_TYPED = 200
"""Characters of one line."""
Value = TypeVar("Value")


@dataclass(frozen=True)
class Question:
    """A question as it was typed."""

    values: Mapping[str, str]
    """By field, without those that are empty."""

    @classmethod
    def of(cls, typed: Mapping[str, str]) -> Self:
        """The question of a form, of which fields may be missing; unknown ones are passed over."""
        return cls({name: typed[name].strip() for name in FIELDS if typed.get(name, "").strip()})

    @classmethod
    def of_link(cls, pairs: Mapping[str, str]) -> tuple[Self, Self | None]:
        """The question of a link, and the one before it where the link says what that had otherwise.

        Raises `InvalidInput` for a damaged link.
        """
        values = dict(pairs)
        for name in ("config", f"{BEFORE}config"):
            if values.get(name):
                values[name] = unpack(values[name])
        changed = {name.removeprefix(BEFORE): value for name, value in values.items() if name.startswith(BEFORE)}
        return cls.of(values), cls.of({**values, **changed}) if changed else None

    def link(self, before: Question | None = None) -> str:
        """The question as the query of a link, with what the one before had otherwise.

        >>> Question.of({"model": "gpt2", "seq_len": "1024"}).link(Question.of({"model": "gpt2"}))
        'model=gpt2&seq_len=1024&was_seq_len='
        """
        pairs = dict(self.values)
        if before is not None:
            names = [name for name in FIELDS if self.values.get(name, "") != before.values.get(name, "")]
            pairs |= {f"{BEFORE}{name}": before.values.get(name, "") for name in names}
        packed = {name: pack(text) if name.endswith("config") and text else text for name, text in pairs.items()}
        return urlencode(packed)

    def replace(self, **changes: str) -> Question:
        """The question with other values; an empty one leaves a field out."""
        return Question.of({**self.values, **changes})

    @property
    def price(self) -> float | None:
        """Of one accelerator for one hour; None where none is given."""
        return _price(self.values["price"]) if "price" in self.values else None


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
            faults[name] = "; ".join(fault.what for fault in error.faults)
        except InvalidInput as error:
            faults[name] = str(error)
        return None

    model = _config_of(typed["config"], faults) if "config" in typed else of("model", catalogued_model)
    given = _Given(
        model=model,
        cluster=of("cluster", named_cluster),
        length=of("seq_len", _length),
        batch=of("global_batch", parse_count),
        precision=of("precision", _precision),
        runtime=of("runtime", read_runtime),
        tokens=of("tokens", parse_count) if "tokens" in typed else None,
        risk=of("risk", _share) if "risk" in typed else USUAL_RISK,
        limits={name: typed[name] for name in _limit_names(typed) if of(name, _limit(name)) is not None},
    )
    if "price" in typed:
        of("price", _price)
    return _together(given, faults)


@dataclass(frozen=True, kw_only=True)
class _Given:
    """Every field that could be read."""

    model: Model | None
    cluster: Cluster | None
    length: int | None
    batch: int | None
    precision: str | None
    runtime: Runtime | None
    tokens: int | None
    risk: float | None
    limits: dict[str, str]


def _together(given: _Given, faults: dict[str, str]) -> Read:
    if faults:
        return Read(None, faults)
    job: dict[str, Any] = {
        "sequence_length": given.length,
        "global_batch": given.batch,
        "precision": given.precision,
        "tokens": given.tokens,
        "risk": given.risk,
    }
    try:
        limits = Constraints(**given.limits)
        inputs = Inputs(
            model=given.model, cluster=given.cluster, job=Job(**job), runtime=given.runtime, constraints=limits
        )
    except InvalidInput as error:
        return Read(None, {"": str(error)})
    return Read(inputs, {})


def _limit_names(typed: Iterable[str]) -> list[str]:
    return [field.name for field in LIMITS if field.name in typed and field.name != "risk"]


def _limit(name: str) -> Callable[[str], Constraints]:
    return lambda text: Constraints(**{name: text})


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
        raise InvalidInput(f"is empty: {field.help}")
    if len(text) > MOST_TYPED:
        raise InvalidInput(f"{quoted(text)} is longer than {MOST_TYPED} characters")
    return text


def _length(text: str) -> int:
    return count_in_powers_of_two(text) or parse_count(text)


def _precision(text: str) -> str:
    return catalog.resolve("precisions", text)


def _share(text: str) -> float:
    return _number(text.removesuffix("%"), "a share: write it as 10% or 0.1") / (100 if text.endswith("%") else 1)


def _price(text: str) -> float:
    price = _number(text, "a price: write it as 2.9")
    if price < 0:
        raise InvalidInput(f"{quoted(text)} is below 0")
    return price


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidInput(f"{quoted(text)} is not {what}")
    return value
