"""Recipe: what the objects of a recipe of Megatron-Bridge say: its model by name, its precision, its sections."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from meshwright.launch.imports.files.functions import without_objects
from meshwright.launch.imports.spellings.bridge_adapters import SECTION, with_adapters
from meshwright.launch.imports.spellings.unsaid import maker_of, recipes_elsewhere, unsaid_degrees
from meshwright.launch.imports.spellings.vocabulary import model_of_class
from meshwright.launch.readers.python.names import is_class
from meshwright.launch.readers.settings import OBJECT, FileSetting, LaunchSettings, Scalar

_PASSED = ("config", "cfg")
"""What training takes a whole recipe as."""
_SECTIONS = (
    "model",
    "train",
    "dataset",
    "ddp",
    "optimizer",
    "mixed_precision",
    "comm_overlap",
    "dist",
    "checkpoint",
    SECTION,
)
_SIZES = {f"model.{name}" for name in ("num_layers", "hidden_size", "num_attention_heads", "vocab_size")}
VOCABULARY = "model.vocab_size"
_POSITIONS = "model.position_embedding_type"
_PLAIN = "GPTModelProvider"
_OF_HUGGING_FACE = "from_hf_pretrained"
_LAYOUT = "model.pipeline_model_parallel_layout"
_MARKS = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
_ENVIRONMENT = "env_vars."
PRECISION = "mixed_precision"
DISPATCHES = "apply_flex_dispatcher_backend"
"""A function of training/flex_dispatcher_backend.py: with one of these backends the dispatcher is `flex`."""
_BACKENDS = ("deepep", "hybridep")
_MADE = {f"{section}.{OBJECT}" for section in ("dataset", "train", "ddp", "comm_overlap")}
_RENAMED = {"dataset.sequence_length": "dataset.seq_length"}
"""Names of fields before 0.3."""


def with_recipe(read: LaunchSettings) -> LaunchSettings:
    """The settings with the name of the model and without objects.

    Source: NVIDIA-NeMo/Megatron-Bridge@067f987df03b recipes (`AutoBridge.from_hf_pretrained(NAME)`), and its providers
    of v0.1.0 (`Llama31ModelProvider70B`).
    """
    read = replace(read, elsewhere=(*read.elsewhere, *_whole_recipes(read)))
    makers = [each for each in recipes_elsewhere(read) if each in read.elsewhere]
    read = with_adapters(replace(read, settings=(*map(_settled, read.settings), *_dispatcher(read))))
    kept_elsewhere = [each for each in read.elsewhere if each.key != DISPATCHES]
    read = replace(read, elsewhere=(*kept_elsewhere, *_made_elsewhere(read)))
    said = {each.key for each in read.settings if not each.open and each.value is not None}
    named = [] if said & (_SIZES - {"model.vocab_size"}) else [*_names(read)]
    if named:
        read = replace(read, settings=tuple(map(_of_the_named, read.settings)))
    presets = [replace(each, key=PRECISION, open=()) for each in read.settings if each.key == f"{PRECISION}.{OBJECT}"]
    kept = [each for each in read.settings if each.key != PRECISION or not (presets and each.open)]
    set_by_it = {each.key.partition(".")[2]: str(each.value) for each in kept if each.key.startswith(_ENVIRONMENT)}
    kept = [each for each in kept if not each.key.startswith(_ENVIRONMENT)]
    read = replace(read, environment=read.environment | set_by_it)
    unsaid = unsaid_degrees({each.key for each in kept}, makers[0]) if makers else ()
    usual = _usual(read, {each.key for each in kept})
    return without_objects(replace(read, settings=(*kept, *presets, *named, *usual, *unsaid)))


def _of_the_named(each: FileSetting) -> FileSetting:
    """A setting beside a model that is named: entries of its vocabulary that only running would tell are the model's.

    Source: NVIDIA-NeMo/Megatron-Bridge@067f987df03b recipes/gemma/h100/gemma2.py L293-310: no fewer than a tokenizer's.
    """
    unknown = each.key == VOCABULARY and each.open
    return replace(each, value=None, span=None, open=()) if unknown else each


def _usual(read: LaunchSettings, said: Collection[str]) -> Iterator[FileSetting]:
    """What a model of the plain provider has that a recipe does not say; said: the keys of what it does.

    Source: NVIDIA-NeMo/Megatron-Bridge@067f987df03b models/gpt_provider.py L142, training/setup.py L741-776.
    """
    plain = [each for each in read.settings if each.key == f"model.{OBJECT}" and str(each.value) == _PLAIN]
    if plain and _POSITIONS not in said:
        yield replace(plain[-1], key=_POSITIONS, value="learned_absolute", span=None)
    if plain and VOCABULARY not in said:
        tokenizers = (each for each in read.settings if each.key == "tokenizer.vocab_size" and not each.open)
        yield from (replace(each, key=VOCABULARY, span=None) for each in tokenizers)


def _whole_recipes(read: LaunchSettings) -> Iterator[FileSetting]:
    """Recipes of other files that are trained as they are: `cfg = qwen3_8b_pretrain_config()`."""
    imported = {name.rpartition(".")[2] for name in read.program.split() if "recipes" in name.split(".")}
    for each in recipes_elsewhere(read):
        made = maker_of(each)
        if each.key.count(".") == 1 and made in imported and each not in read.elsewhere:
            yield replace(each, key=made, value=[])


def _settled(each: FileSetting) -> FileSetting:
    """A setting of a recipe that is handed to training, by the key that it has in the recipe."""
    passed, _, key = each.key.partition(".")
    own = passed in _PASSED and key.partition(".")[0] in _SECTIONS
    name = key if own else each.key
    value = _layout(each.value) if name == _LAYOUT and isinstance(each.value, list) else each.value
    return replace(each, key=_RENAMED.get(name, name), value=value)


def _layout(stages: Sequence[Scalar]) -> Scalar:
    """The layout of a pipeline, of a list of the layers of every stage, as text."""
    try:
        if not stages:
            return None
        listed = [ast.literal_eval(str(stage)) for stage in stages]
        return "|".join("".join(_MARKS[layer] for layer in stage) for stage in listed)
    except (KeyError, TypeError, ValueError, SyntaxError):
        return str(stages)


def _dispatcher(read: LaunchSettings) -> Iterator[FileSetting]:
    """What the function that chooses a dispatcher sets."""
    for each in read.elsewhere:
        words = each.value if isinstance(each.value, list) else []
        if each.key == DISPATCHES and (backend := next((word for word in words if word in _BACKENDS), None)):
            yield replace(each, key="model.moe_token_dispatcher_type", value="flex")
            yield replace(each, key="model.moe_flex_dispatcher_backend", value=backend)


def _made_elsewhere(read: LaunchSettings) -> Iterator[FileSetting]:
    """Functions of other files that make a section."""
    for each in read.settings:
        called = str(each.value).partition(" ")[0]
        if each.key in _MADE and not is_class(called):
            yield replace(each, key=called)


def _names(read: LaunchSettings) -> Iterator[FileSetting]:
    """The model that is named where it is made."""
    for each in read.settings:
        called, _, first = str(each.value).partition(" ")
        if each.key != f"model.{OBJECT}":
            continue
        provider = called.rpartition(".")[2]
        if called.rpartition(".")[2] == _OF_HUGGING_FACE and first and not first.isidentifier():
            yield replace(each, key="--name", value=first)
        elif "ModelProvider" in provider and not provider.endswith("ModelProvider"):
            yield replace(each, key="--name", value=model_of_class(provider))
