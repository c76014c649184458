"""Trees: JSON and YAML as flat settings, with lines; `${path}` stands for another setting of the file, `${.name}` for
one of the same section."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from meshwright.launch.readers.limits import MAX_DEPTH, MAX_SETTINGS, MAX_YAML_BYTES
from meshwright.launch.readers.settings import FileSetting, Form, LaunchSettings, Scalar, Value
from meshwright.launch.readers.traced import Unreadable

_ENVIRONMENT = re.compile(r"(env|envs|env_vars)\.", re.IGNORECASE)
_LATER_RUN = re.compile(r"\w+_[2-9]\.")
_PROGRAMS = ("TRAINING_SCRIPT_PATH", "script", "program")
_OF_FLAGSCALE = {"system.tensor_model_parallel_size", "model.num_layers"}
_OF_SWIFT = {"micro_batch_size", "tensor_model_parallel_size", "expert_model_parallel_size"}
"""Keys of which one stands beside `model` at the top of a file of `megatron sft` of ms-swift."""
_OF_LLAMA_FACTORY = "cutoff_len"
"""A key that files of its version 1 have, with `model` and `micro_batch_size`, and those of ms-swift have not."""
_OF_A_CHECKPOINT = re.compile(r"\.checkpoint\.|ckpt")
_REFERENCE = re.compile(r"\$\{(\.*)(\w[\w.]*)\}")


def read_tree(path: str, text: str, form: Form) -> LaunchSettings:
    """The settings of a JSON or YAML file; raises `Unreadable` with the place of a fault."""
    settings = list(_flat(_composed(text, form), "", 0))
    values = {each.key: each.value for each in settings}
    resolved = [_resolved(each, values) for each in settings]
    read = LaunchSettings(path=path, form=form, text=text, settings=tuple(resolved))
    if "model" in values and _OF_SWIFT & values.keys() and _OF_LLAMA_FACTORY not in values:
        return _as_options(read)
    if values.keys() >= _OF_FLAGSCALE:
        return _flattened(read)
    return _with_flags(read) if any("--" in each.key for each in resolved) else read


def _as_options(read: LaunchSettings) -> LaunchSettings:
    """A file whose keys are options of a command, with the environment under ENV.

    Source: modelscope/ms-swift@3602360a5 swift/cli/main.py, parse_yaml_args.
    """
    environment = {each.key.partition(".")[2]: str(each.value) for each in read.settings if _is_environment(each)}
    options = [
        replace(each, key=f"--{each.key}", value="none" if each.value is None else _words(each.value))
        for each in read.settings
        if not _is_environment(each)
    ]
    return replace(read, settings=tuple(options), environment=environment)


def _is_environment(setting: FileSetting) -> bool:
    return _ENVIRONMENT.match(setting.key) is not None


def _flattened(read: LaunchSettings) -> LaunchSettings:
    """A tree whose leaves are Megatron's arguments, whatever section they stand in, without those that are false.

    Source: FlagOpen/FlagScale@da4935ec6 flagscale/runner/utils.py, flatten_dict_to_args.
    """
    flags = [
        replace(each, key=f"--{each.key.rpartition('.')[2].replace('_', '-')}", value=_words(each.value))
        for each in read.settings
        if each.value is not False and each.value is not None and not (each.open and _OF_A_CHECKPOINT.search(each.key))
    ]
    return replace(read, settings=tuple(flags))


def _with_flags(read: LaunchSettings) -> LaunchSettings:
    """A tree that holds the flags of a command line, as the configurations of Megatron-LM's tests do: the flags by
    themselves, those that are false left out, and the environment beside them. Of several runs the first counts.
    """
    flags, environment, program = list[FileSetting](), dict[str, str](), ""
    for each in read.settings:
        section, dashes, name = each.key.partition("--")
        if _LATER_RUN.match(each.key):
            continue
        if dashes and (not section or section.endswith(".")):
            flags += [] if each.value is False else [replace(each, key=f"--{name}", value=_words(each.value))]
        elif _ENVIRONMENT.match(each.key):
            environment[each.key.partition(".")[2]] = str(each.value)
        elif each.key.rpartition(".")[2] in _PROGRAMS:
            program = str(each.value)
    return replace(read, settings=tuple(flags), environment=environment, program=program) if flags else read


def _words(value: Value) -> Value:
    """The value of a flag; of a list in brackets its words, as a command line takes them."""
    if isinstance(value, str) and re.fullmatch(r"\[[\w ]*\]", value):
        value = [value.strip("[]")]
    if not isinstance(value, list):
        return value
    words: list[Scalar] = [word for each in value for word in str(each).split()]
    return words[0] if len(words) == 1 else words


def _composed(text: str, form: Form) -> Any:
    import yaml

    if len(text.encode()) > MAX_YAML_BYTES:
        raise Unreadable(f"it is larger than {MAX_YAML_BYTES} bytes; no configuration is", 0)
    # JSON is read as YAML, which tells lines; only tabs between its tokens are no YAML.
    plain = text.replace("\t", " ") if form == "json" else text
    try:
        loader = yaml.SafeLoader(plain)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(error.problem or error.context or "it is no YAML", mark.index if mark else 0) from None
    except (yaml.YAMLError, ValueError) as error:
        raise Unreadable(str(error).splitlines()[0], getattr(error, "position", 0)) from None
    except RecursionError:
        raise Unreadable(f"it is nested deeper than {MAX_DEPTH} levels", 0) from None
    if node is None or not isinstance(node, yaml.MappingNode):
        raise Unreadable("it holds no settings: keys with values", 0)
    return node


def _flat(root: Any, prefix: str, depth: int) -> Iterator[FileSetting]:
    """The leaves of a tree, in the order of the file."""
    import yaml

    count = 0
    stack = [(prefix, key, value, 1) for key, value in reversed(root.value)]
    while stack:
        before, key, value, depth = stack.pop()
        count += 1
        if count > MAX_SETTINGS or depth > MAX_DEPTH:
            raise Unreadable(f"more than {MAX_SETTINGS} settings, or {MAX_DEPTH} levels", key.start_mark.index)
        name = f"{before}.{key.value}" if before else str(key.value)
        if not isinstance(key, yaml.ScalarNode):
            raise Unreadable("a key is no text", key.start_mark.index)
        if isinstance(value, yaml.MappingNode):
            stack += [(name, *pair, depth + 1) for pair in reversed(value.value)]
        elif isinstance(value, yaml.SequenceNode):
            span = (value.start_mark.index, value.end_mark.index) if value.flow_style else None
            yield FileSetting(name, _list(value, stack, name, depth), key.start_mark.line + 1, span)
        else:
            span = (value.start_mark.index, value.end_mark.index)
            yield FileSetting(name, _scalar(value), key.start_mark.line + 1, span)


def _list(node: Any, stack: list[Any], name: str, depth: int) -> Value:
    """The scalars of a list and of lists within it; mappings are left for later, by their number."""
    import yaml

    for index, each in enumerate(node.value[:MAX_SETTINGS]):
        if isinstance(each, yaml.MappingNode):
            stack += [(f"{name}.{index}", *pair, depth + 1) for pair in reversed(each.value)]
    return list(islice(_scalars(node), MAX_SETTINGS))


def _scalars(node: Any) -> Iterator[Scalar]:
    """The scalars of a list, and of lists within it."""
    import yaml

    for each in node.value:
        if isinstance(each, yaml.ScalarNode):
            yield _scalar(each)
        elif isinstance(each, yaml.SequenceNode):
            yield from _scalars(each)


def _scalar(node: Any) -> Scalar:
    """The value of a scalar as YAML 1.2 and these frameworks take it: `1e-4` is a number, `on` a word."""
    text = str(node.value)
    if node.style in ("'", '"', "|", ">"):
        return text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lower() in ("null", "~", "", "none"):
        return None
    if re.fullmatch(r"[-+]?\d[\d_]{0,20}", text, re.ASCII):
        return int(text.replace("_", ""))
    if re.fullmatch(r"[-+]?(\d[\d_]{0,20})?\.?\d{0,20}([eE][-+]?\d{1,3})?", text, re.ASCII) and re.search(r"\d", text):
        return float(text.replace("_", ""))
    return text


def _resolved(setting: FileSetting, values: dict[str, Value]) -> FileSetting:
    value, seen = setting.value, 0
    while isinstance(value, str) and (match := _REFERENCE.fullmatch(value)) and seen < MAX_DEPTH:
        sections = setting.key.split(".")[: -len(match[1])] if match[1] else []
        name = ".".join([*sections, match[2]])
        if name not in values:
            return FileSetting(setting.key, value, setting.line, setting.span, (name,))
        value, seen = values[name], seen + 1
    return FileSetting(setting.key, value, setting.line, setting.span)
