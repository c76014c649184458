"""Behaviours: a runtime with some of what it does replaced for one question."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any

from meshwright.errors import Fault, InvalidSpec, UnknownName, any_of, quoted
from meshwright.specs import catalog
from meshwright.specs.job import Job
from meshwright.specs.runtime import SECTION_OF, Runtime, read_runtime
from meshwright.specs.runtime.communication import FOR_EXPERTS
from meshwright.specs.runtime.replaced import ReplacedBehaviour

IDENTITY = (
    *("id", "framework", "aliases", "family", "version", "checks", "rules", "launch", "assumed", "replaced", "sources"),
    "switches",
)
"""Fields that say what a runtime is and refuses, not how it behaves."""
PERMUTE_FUSION = "permute_fusion"
"""The switch for fused kernels that sort the rows of experts."""
GROUPED_EXPERTS = "grouped_experts"
"""The switch for one module that computes the experts of a rank."""
ACTIVATION_FUSION = "activation_fusion"
"""The switch for one kernel that computes biases and activation."""
ROPE_FUSION = "rope_fusion"
"""The switch for one kernel that applies rotary positions."""
LIGER = "liger"
"""The switch for the kernels of Liger in models of transformers."""
FUSED_EXPERTS = "fused_experts"
"""The switch for one kernel that computes all experts of a rank."""
OF_EXPERTS = (
    *(field for field in FOR_EXPERTS if field != "dispatcher"),
    *("expert", "fused_expert", "expert_products", "permuted_rows", "unpermuted_rows", "host_s_per_expert_layer"),
    "host_s_per_looped_expert",
)
"""Fields that models without experts do not read, but for the dispatcher."""
TRAINING_DTYPE, FROZEN = "training_dtype", "frozen"
"""The switch for the format of weights, and its position where they are frozen in 2 bytes."""
GIVES_WAY = {"dispatcher": "fused"}
"""Usual behaviours in place of which another runs on clusters without them, unless a question names them
(`dispatcher_on`)."""
_ALIKE = 0.6
"""Share of letters from which on a behaviour is offered for one that is not known."""


def with_behaviours(runtime: Runtime, changes: Sequence[str]) -> Runtime:
    """The runtime with behaviours replaced as `KEY=VALUE` says, and `replaced` telling of each.

    changes: keys are fields of a section, `dispatcher` or `communication.dispatcher`, or of a table, with dots; values
    are TOML, and bare words, also with + or commas between them, stand for text. Usual ones are not told, but for what
    `GIVES_WAY` has. A switch of the runtime stands for all that it sets, of which a change that names one itself goes
    before it. Raises `InvalidSpec` with every fault, in the words of the runtime's own form.

    >>> from meshwright.specs.runtime import read_runtime
    >>> print(*with_behaviours(read_runtime("megatron-core"), ["overlap.expert=0.7"]).replaced)
    overlap.expert 0.7 in place of 0
    """
    if not changes:
        return runtime
    fields: dict[str, Any] = {name: getattr(runtime, name) for name in Runtime.model_fields}
    opened, changed = set[str](), dict[str, ReplacedBehaviour]()
    faults: list[Fault] = []
    for change in _without_switches(runtime, changes):
        key, _, text = change.partition("=")
        key = key.strip()
        try:
            value, path = _value(key, text, change), _path(key, runtime)
            if path[0] not in opened:
                opened.add(path[0])
                fields |= runtime.model_dump(include={path[0]})
            table = _table_of(path, fields)
        except InvalidSpec as error:
            faults += error.faults
            continue
        where = ".".join(path)
        if where in changed:
            faults.append(Fault(where, f"is replaced twice, by {changed[where].value} and {_written(value)}; keep one"))
        usual = "" if table.get(path[-1]) is None else _written(table[path[-1]])
        changed[where] = ReplacedBehaviour(behaviour=key, value=_written(value), usual=usual)
        table[path[-1]] = value
    try:
        new = [each for each in changed.values() if each.value != each.usual or each.value == GIVES_WAY.get(each.field)]
        replaced = Runtime(**fields | {"replaced": (*runtime.replaced, *new)})
    except InvalidSpec as error:
        faults += error.faults
    if faults:
        raise InvalidSpec(f"runtime {runtime.id} with --with", faults)
    return replaced


def beside_adapters(runtime: Runtime, job: Job) -> Runtime:
    """The runtime as it runs a job: with weights that are frozen in 2 bytes where adapters are trained beside them.

    >>> from meshwright.specs.runtime import read_runtime
    >>> job = Job(sequence_length=2048, global_batch=8, lora_rank=16)
    >>> beside_adapters(read_runtime("pytorch-ddp"), job).storage.autocast
    False
    """
    casts = job.lora_rank and runtime.storage.autocast and FROZEN in runtime.switches.get(TRAINING_DTYPE, {})
    return with_behaviours(runtime, [f"{TRAINING_DTYPE}={FROZEN}"]) if casts else runtime


def as_catalogued(runtime: Runtime, field: str) -> Runtime:
    """The runtime with a replaced behaviour as the catalogue has it; the same where the question did not replace it, or
    the catalogue has no such runtime.

    >>> from meshwright.specs.runtime import read_runtime
    >>> usual = read_runtime("megatron-core")
    >>> as_catalogued(with_behaviours(usual, ["dispatcher=fused"]), "dispatcher") == usual
    True
    """
    kept = tuple(each for each in runtime.replaced if each.field != field)
    if kept == runtime.replaced:
        return runtime
    try:
        usual = read_runtime(runtime.id)
    except UnknownName:
        return runtime
    return runtime.replace(replaced=kept, **{field: getattr(getattr(usual, SECTION_OF[field]), field)})


@lru_cache(maxsize=1024)
def position_of(runtime: Runtime, switch: str) -> str:
    """The position of a switch that the runtime is at in all that it sets; nothing where it is at none, or has no such.

    >>> from meshwright.specs.runtime import read_runtime
    >>> position_of(read_runtime("torchtitan"), "compiled")
    'true'
    """
    known = runtime.switches.get(switch, {})
    there = (position for position, values in known.items() if all(_is_at(runtime, each) for each in _changes(values)))
    return next(there, "")


def _is_at(runtime: Runtime, change: str) -> bool:
    """Whether a change leaves the runtime as it is."""
    key, _, text = change.partition("=")
    path = _path(key, runtime)
    usual = _table_of(path, runtime.model_dump(include={path[0]})).get(path[-1])
    value = _value(key, text, change)
    return bool(usual == (tuple(value) if isinstance(value, list) else value))


def switch_at(runtime: Runtime, key: str, value: str) -> str:
    """The switch and the position that set a behaviour to a value; nothing where none does.

    key: the behaviour as a switch names it; value: as after `--with KEY=`.

    >>> from meshwright.specs.runtime import read_runtime
    >>> switch_at(read_runtime("megatron-core"), "overlap.tensor_parallel", "0.5")
    'tensor_parallel_overlap=on'
    """
    positions = (
        (f"{switch}={position}", values.get(key))
        for switch, known in runtime.switches.items()
        for position, values in known.items()
    )
    return next((words for words, set_ in positions if set_ == value), "")


def replaced_words(runtime: Runtime) -> list[str]:
    """What a question replaced of a runtime: positions of switches, and changes that belong to none or are a number.

    >>> from meshwright.specs.runtime import read_runtime
    >>> replaced_words(with_behaviours(read_runtime("torchtitan"), ["training_dtype=bf16", "moment_block=8"]))
    ['training_dtype bf16', 'moment_block 8']
    >>> replaced_words(with_behaviours(read_runtime("deepspeed"), ["storage.offloaded=states_and_gradients"]))
    ['optimizer_states offloaded']
    >>> replaced_words(with_behaviours(read_runtime("megatron-core"), ["overlap.tensor_parallel=0.5"]))
    ['overlap.tensor_parallel 0.5']
    """
    switched = switched_fields(runtime)
    left = {each.field: each.change for each in runtime.replaced if each.field not in switched}
    return [*dict.fromkeys(switched.values()), *left.values()]


def switched_fields(runtime: Runtime) -> dict[str, str]:
    """By field that a question replaced, the switch and the position that set it, but for a single number.

    >>> from meshwright.specs.runtime import read_runtime
    >>> switched_fields(with_behaviours(read_runtime("megatron-core"), ["grouped_experts=off"]))
    {'host_s_per_looped_expert': 'grouped_experts off'}
    """
    left, found = {each.field for each in runtime.replaced}, dict[str, str]()
    numbers = {each.field for each in runtime.replaced if each.value[:1].isdigit()}
    for switch, positions in runtime.switches.items():
        fields = {_field(key) for values in positions.values() for key in values}
        set_here = fields & left - found.keys()
        if set_here and (len(fields) > 1 or not fields <= numbers) and (position := position_of(runtime, switch)):
            found |= dict.fromkeys(set_here, f"{switch} {position}")
    return found


def _without_switches(runtime: Runtime, changes: Sequence[str]) -> list[str]:
    """The changes with what switches set in place of these; raises `InvalidSpec` for a position that one has not."""
    named = {_field(change) for change in changes} - runtime.switches.keys()
    switched, others = list[str](), list[str]()
    for change in changes:
        key, _, value = (part.strip() for part in change.partition("="))
        if key not in runtime.switches:
            others.append(change)
        elif value in runtime.switches[key]:
            switched += [each for each in _changes(runtime.switches[key][value]) if _field(each) not in named]
        else:
            raise _fault(key, f"is {quoted(value)}; it must be {any_of(runtime.switches[key])}")
    return [*switched, *others]


def _changes(values: Mapping[str, str]) -> list[str]:
    """What a position sets, as changes."""
    return [f"{key}={value}" for key, value in values.items()]


def _field(change: str) -> str:
    """The name of the field that a change is of, without its section."""
    return change.partition("=")[0].strip().split(".")[-1]


def _value(key: str, text: str, change: str) -> Any:
    """A value as TOML reads it; raises `InvalidSpec` where it is none, or the key is no behaviour."""
    if not all(key.split(".")) or not text.strip():
        raise _fault("", f"{quoted(change)} is not KEY=VALUE, as overlap.expert=0.7")
    if key.split(".")[0] in IDENTITY:
        raise _fault(key, "is no behaviour, so it cannot be replaced")
    if re.fullmatch(r"[A-Za-z_][\w,+-]*", text.strip()) and text.strip() not in ("true", "false", "inf", "nan"):
        return text.strip()
    document = _document(text)
    if document.keys() != {"value"}:
        raise _fault(key, f'{quoted(text)} is not a value: write a number, true, false, a word or a list, as ["fp8"]')
    return deepcopy(document["value"])


@lru_cache(maxsize=1024)
def _document(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return {}


def _path(key: str, runtime: Runtime) -> list[str]:
    """The steps to a field, with the section of one that is named alone; raises `InvalidSpec` where there is none, with
    the runtimes that have a switch of that name.
    """
    steps = key.split(".")
    if steps[0] in Runtime.model_fields:
        return steps
    if steps[0] not in SECTION_OF:
        others = [name for name in catalog.names("runtimes") if key in read_runtime(name).switches]
        if others:
            raise _fault(key, f"is no switch of {runtime.id}; it is one of {', '.join(others)}")
        known = SECTION_OF.keys() | Runtime.model_fields.keys() | runtime.switches.keys()
        raise _fault(key, str(UnknownName("behaviour", steps[0], known, alike=_ALIKE)))
    return [SECTION_OF[steps[0]], *steps]


def _table_of(path: list[str], fields: dict[str, Any]) -> dict[str, Any]:
    """The table that holds the last step of a path, made where a table of named entries lacks it."""
    table = fields
    for depth, step in enumerate(path[:-1]):
        inner = table.setdefault(step, {})
        if not isinstance(inner, dict):
            where = ".".join(path[: depth + 1])
            raise _fault(".".join(path), f"{where} is {_written(inner)}, which holds no {quoted(path[depth + 1])}")
        table = inner
    return table


def _written(value: Any) -> str:
    """As after `--with KEY=`: a word stands alone, or in quotation marks within a list or a table; 4.0 is 4."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_within, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {_within(each)}' for name, each in value.items())}}}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _within(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else _written(value)


def _fault(where: str, what: str) -> InvalidSpec:
    return InvalidSpec("--with", [Fault(where, what)])
