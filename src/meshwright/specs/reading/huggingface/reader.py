"""A config.json, already parsed, becomes a Model."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from meshwright.errors import LONGEST, Fault, InvalidSpec, NotModelled
from meshwright.specs.base import faults_of
from meshwright.specs.model import LayerKind, Model
from meshwright.specs.reading.huggingface.decoder import Decoder
from meshwright.specs.reading.huggingface.families import FAMILIES, TEXT_OF_WRAPPER, family
from meshwright.specs.reading.huggingface.refusals import architectures_of, refuse_flat, refuse_unread, refuse_wrapper
from meshwright.specs.reading.huggingface.unread import unread_notes
from meshwright.specs.reading.huggingface.values import config_values

_OTHER_HEADS = re.compile(
    r"For(SequenceClassification|TokenClassification|QuestionAnswering|MultipleChoice|Reward\w*)$"
)
ALIKE = 0.9
"""Share of common letters (difflib) from which a key is taken for a misspelled one."""


def model_of_config(config: Mapping[str, Any], *, name: str, subject: str, text_only: bool = False) -> Model:
    """The model that a config.json describes.

    `name` is what the model is called, `subject` what errors call the file. Raises `InvalidSpec`, `NotModelled`
    or `UnknownName`.
    """
    model_type = _model_type(config, subject)
    towers = config.get("vision_config") or config.get("audio_config")
    if "text_config" in config or towers or model_type in TEXT_OF_WRAPPER:
        return _text_of_wrapper(config, model_type, name, subject, text_only)
    return _text_model(config, model_type, name, subject, "")


def _text_of_wrapper(config: Mapping[str, Any], model_type: str, name: str, subject: str, text_only: bool) -> Model:
    inner = config.get("text_config")
    if inner is None and model_type not in FAMILIES | TEXT_OF_WRAPPER:
        refuse_flat(subject, model_type)
    if not isinstance(inner, Mapping):
        raise InvalidSpec(subject, [Fault("text_config", f"must hold the language model of {model_type} as an object")])
    inner_type = _model_type({"model_type": TEXT_OF_WRAPPER.get(model_type), **inner}, subject, "text_config.")
    if not text_only:
        refuse_wrapper(subject, model_type, inner_type, inner)
    tied = config.get("tie_word_embeddings")
    text = inner if tied is None else {**inner, "tie_word_embeddings": tied}
    model = _text_model(text, inner_type, name, subject, "text_config.")
    alone = f"the language model alone: the vision and audio towers of {model_type} are left out of every number"
    return model.replace(assumptions=(alone, *model.assumptions))


def _model_type(config: Mapping[str, Any], subject: str, within: str = "") -> str:
    model_type = config.get("model_type")
    if isinstance(model_type, str) and model_type:
        return model_type
    where = f"{within}model_type"
    if model_type is None:
        raise InvalidSpec(subject, [Fault(where, "is missing: it names the architecture, such as llama")])
    raise InvalidSpec(subject, [Fault(where, f"must be a name such as llama (given: {model_type!r})")])


def _text_model(config: Mapping[str, Any], model_type: str, name: str, subject: str, within: str) -> Model:
    refuse_unread(subject, model_type, config)
    decoder = _validated(family(model_type), config, subject, within)
    if decoder.not_modelled():
        raise NotModelled(f"{subject}: of {model_type}, this is not modelled: {'; '.join(decoder.not_modelled())}")
    try:
        unread = unread_notes(type(decoder), config)
        notes = (*decoder.assumptions(), *_quantized(config), *_other_head(config), *unread)
        return _model(decoder, name, model_type).replace(assumptions=notes, config_values=config_values(config))
    except InvalidSpec as error:
        raise InvalidSpec(f"{subject} ({decoder.config_class})", error.faults) from None


def _model(decoder: Decoder, name: str, model_type: str) -> Model:
    kinds, pattern = _layers(decoder)
    return Model(
        name=name,
        family=model_type,
        hidden_size=decoder.hidden_size,
        vocab_size=decoder.vocab_size,
        layer_kinds=kinds,
        layer_pattern=pattern,
        tied_embeddings=decoder.tie_word_embeddings,
        norm=decoder.norm,
        learned_positions=decoder.learned_positions(),
        mtp_layers=decoder.mtp_layers,
        **decoder.head_details(),
    )


def _validated(family: type[Decoder], config: Mapping[str, Any], subject: str, within: str) -> Decoder:
    prepared = family.prepared(config)
    faults = [*_contradictions(family, prepared), *_misspelled(family, config)]
    try:
        decoder = family.model_validate(prepared)
    except ValidationError as error:
        faults += faults_of(error)
    if faults:
        raise InvalidSpec(
            f"{subject} ({family.config_class})", [_in_file(fault, within, family, config) for fault in faults]
        )
    return decoder


def _contradictions(family: type[Decoder], config: Mapping[str, Any]) -> list[Fault]:
    spellings = {field: [key for key in keys if key in config] for field, keys in family.spellings().items()}
    return [
        Fault(keys[0], f"is {config[keys[0]]!r}, but {key} is {config[key]!r}: they are two names of one value")
        for keys in spellings.values()
        for key in keys[1:]
        if config[key] != config[keys[0]]
    ]


def _in_file(fault: Fault, within: str, family: type[Decoder], config: Mapping[str, Any]) -> Fault:
    """A fault with its path in the file; one of a default says that it is none of the file."""
    what = fault.what
    if fault.where in family.model_fields and not any(key in config for key in family.keys_of(fault.where)):
        what = what.replace("(given: ", f"(not in the file; the default of {family.config_class}: ")
    return Fault(within + fault.where, what)


def _layers(decoder: Decoder) -> tuple[tuple[LayerKind, ...], tuple[int, ...]]:
    shapes = [(decoder.window(layer), decoder.is_moe(layer)) for layer in range(decoder.num_hidden_layers)]
    distinct = list(dict.fromkeys(shapes))
    windows, blocks = {window for window, _ in distinct}, {moe for _, moe in distinct}
    kinds = []
    for window, moe in distinct:
        block, reach = "moe" if moe else "dense", "full" if window is None else "sliding"
        name = reach if len(blocks) == 1 < len(windows) else block if len(windows) == 1 else f"{block} {reach}"
        kinds.append(decoder.layer_kind(window, moe).replace(name=name))
    return tuple(kinds), tuple(distinct.index(shape) for shape in shapes)


def _quantized(config: Mapping[str, Any]) -> list[str]:
    quantization = config.get("quantization_config")
    if not quantization:
        return []
    method = quantization.get("quant_method", "quantized") if isinstance(quantization, Mapping) else "quantized"
    return [f"the file's weights are {method} (quantization_config); they are planned in the job's precision"]


def _other_head(config: Mapping[str, Any]) -> list[str]:
    others = [name for name in architectures_of(config) if _OTHER_HEADS.search(name)]
    return [f"planned with the head of a language model; the file's {others[0]} has another"] if others else []


def _misspelled(family: type[Decoder], config: Mapping[str, Any]) -> Iterator[Fault]:
    """A fault for each key that the family does not read, and that nearly is one which it reads and the file lacks.

    Keys that start with `_` are notes of transformers to itself.
    """
    keys = {name: family.keys_of(name) for name in family.model_fields}
    read = {key for spellings in keys.values() for key in spellings}
    absent = [key for spellings in keys.values() if not any(key in config for key in spellings) for key in spellings]
    for key in config:
        if not isinstance(key, str) or key in read or key.startswith("_"):
            continue
        near = difflib.get_close_matches(key[:LONGEST], absent, n=1, cutoff=ALIKE)
        if near:
            yield Fault(key, f"is not a key of {family.config_class}; did you mean {near[0]}?")
