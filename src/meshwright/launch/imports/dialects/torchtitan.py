"""torchtitan: its configuration in Python, with its objects and counts of tokens as release 0.3 spells them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from meshwright.launch.imports.dialects.dialect import Dialect, Spelled, has
from meshwright.launch.imports.spellings.unsaid import unsaid_degrees
from meshwright.launch.readers.settings import OBJECT, FileSetting, LaunchSettings
from meshwright.launch.spelling import Settings
from meshwright.launch.table import launch_table
from meshwright.specs.reading.model import read_model

_NAMED = ("model_spec", "activation_checkpoint", "loss")
"""Settings that a table has by the name of their object."""
_DEGREES = tuple(f"parallelism.{name}_parallel_degree" for name in ("tensor", "pipeline", "context"))
_CONVERTERS = {
    "Float8GroupedExpertsConverter": "float8",
    "Float8GroupedMMConverter": "float8",
    "Float8LinearConverter": "float8",
    "MXFP8Converter": "mxfp8",
    "MXFP8GroupedExpertsConverter": "mxfp8",
    "MXFP8LinearConverter": "mxfp8",
    "MXGroupedMMConverter": "mxfp8",
    "MXLinearConverter": "mxfp8",
    "NVFP4LinearConverter": "nvfp4",
}
_OF_EXPERTS = ("GroupedExpertsConverter", "GroupedMMConverter")
"""How names of converters end that quantise the products of experts; the second until 6348d93d1 (2026-04-27)."""
QUANTISED_ALONE = "model_spec.quantised_alone"
"""A setting of no file: `linear` or `experts`, where it quantises the products of these alone."""
_REGISTRY = ".model_registry"
"""Among what a file imports: the registry of the package that it stands in."""
_OLDER_CHECKPOINTING = "ActivationCheckpointConfig"
"""The class of `activation_checkpoint` until 2026-06-15 (pull request 3674, c5d93d109)."""


def is_older(read: LaunchSettings) -> bool:
    """Whether a configuration in Python is of the months before release 0.3, with the settings of 0.2."""
    made = (str(each.value) for each in read.settings if each.key == f"activation_checkpoint.{OBJECT}")
    names = (name.rpartition(".")[2] for name in (*read.program.split(), *made))
    return read.form == "python" and _OLDER_CHECKPOINTING in names


def with_objects(read: LaunchSettings) -> LaunchSettings:
    """The settings with the objects that a table knows by name, and without the names of others.

    Source: pytorch/torchtitan@b5bcd76c66d0 and 0.3.0, models/*/config_registry.py: a model is `model_registry(FLAVOR)`
    of the package that the file stands in or imports from.
    """
    made = {each.key.removesuffix(f".{OBJECT}"): each for each in read.settings if each.key.endswith(OBJECT)}
    last = {each.key.removesuffix(f".{OBJECT}"): each for each in read.settings}
    none = [replace(each, value="None") for key, each in last.items() if key in _NAMED and each.value is None]
    named = {key: made[key] for key in _NAMED if key in made and last[key].value is not None}
    objects_of = {key for key in made if key in _NAMED}
    kept = [each for each in read.settings if not each.key.endswith(OBJECT) and each.key not in objects_of]
    kept = [_without_routers(each) for each in kept]
    objects = [_named(read, key, each) for key, each in named.items()]
    if read.elsewhere and not any(key.endswith("parallelism") for key in made):
        objects += unsaid_degrees({each.key for each in kept}, read.elsewhere[0], _DEGREES)
    return replace(read, settings=(*kept, *none, *objects, *_converters(kept, made)))


def _named(read: LaunchSettings, key: str, made: FileSetting) -> FileSetting:
    called, _, first = str(made.value).partition(" ")
    if key == "model_spec" and called.endswith("model_registry"):
        return replace(made, key=key, value=f"{_family(read, made)} {first}")
    return replace(made, key=key, value=called.partition(".")[0])


def _family(read: LaunchSettings, made: FileSetting) -> str:
    """The package of a model: the one that the file takes its registry from, which may be its own, else one that it
    imports from, else what its function is named after.
    """
    names, folder = read.program.split(), Path(read.path).resolve().parent
    if _REGISTRY in names and folder.parent.name == "models":
        return folder.name
    packages = [name.split(".")[2:] for name in names if name.startswith("torchtitan.models.")]
    of_models = [package for package, *_ in packages if package != "common"]
    registries = [package for package, *rest in packages if rest == [_REGISTRY.strip(".")]]
    known = {name.split()[0] for name in launch_table("torchtitan").models.values()}
    named = [each for each in known if re.search(rf"(?<![a-z0-9]){each}(?![a-z0-9])", made.made_in)]
    elsewhere = [] if _REGISTRY in names else of_models
    return (registries or elsewhere or named or [re.split(r"_(?=[\d.]+[bBmM])", made.made_in)[0]])[0]


def _without_routers(each: FileSetting) -> FileSetting:
    """A list of layers that are not quantised without those of routers, whose products are priced in bf16."""
    if not each.key.endswith(".filter_fqns") or not isinstance(each.value, list):
        return each
    return replace(each, value=[name for name in each.value if name != "router.gate"])


def _converters(kept: list[FileSetting], made: dict[str, FileSetting]) -> Iterator[FileSetting]:
    recipes = {each.key: str(each.value) for each in kept if each.key.endswith("recipe_name")}
    names = {key: str(each.value).partition(".")[0] for key, each in made.items() if ".converters" in key}
    known = {key: name for key, name in names.items() if name in _CONVERTERS}
    of_experts = {key for key, name in known.items() if name.endswith(_OF_EXPERTS)}
    whole = any("Linear" not in known[key] for key in known.keys() - of_experts)
    for key in sorted(known, key=of_experts.__contains__, reverse=True):
        # components/quantization/float8.py: without a name it was one scale for a tensor until 2026-04
        usual = "tensorwise" if key.startswith("model_converters") and key not in of_experts else "rowwise"
        kind = _CONVERTERS[known[key]]
        recipe = f" {recipes.get(f'{key}.recipe_name', usual)}" if kind == "float8" else ""
        yield replace(made[key], key="model_spec.converters", value=f"{kind}{recipe}")
    if known and not whole and len(of_experts) in (0, len(known)):
        alone = "experts" if of_experts else "linear"
        yield replace(made[next(iter(known))], key=QUANTISED_ALONE, value=alone)


def price_most(settings: Settings, key: str, notes: list[str]) -> None:
    """Price what most products run in where a file quantises those of linear layers or of experts alone, and tell it.
    key: of the converters.

    Experts compute most of what a model with experts does. Without them a converter of experts quantises nothing.

    Source: pytorch/torchtitan@b5bcd76c66d0 components/quantization/float8.py L156 and L247, mx.py L82 and L185: one
    converter goes over linear layers, another over experts; 0.2.2 has `quantize.grouped_mm` for these.
    """
    alone, has_experts = settings.pop(QUANTISED_ALONE, ""), settings.get("model_spec") in _with_experts()
    if alone == "linear" and has_experts:
        settings[key] = "none"
        notes.append(
            "experts stay in bf16, as linear layers alone are quantised; those are priced in bf16 too: the step takes "
            "less time than predicted"
        )
    elif alone == "experts" and has_experts:
        notes.append(
            "linear layers stay in bf16, as experts alone are quantised; both are priced as quantised: the step takes "
            "longer than predicted"
        )
    elif alone == "experts":
        settings[key] = "none"


@cache
def _with_experts() -> frozenset[str]:
    """The models of the table that have experts, by family and flavour."""
    models = launch_table("torchtitan").models
    return frozenset(named for name, named in models.items() if read_model(name).is_moe)


def _modern_recipe(settings: Settings, notes: list[str]) -> Settings:
    """The settings as torchtitan 0.3 has them: later ones count tokens; notes: what was taken to mean is added."""
    modern = dict(settings)
    if modern.get("model_spec.converters") == []:
        modern["model_spec.converters"] = "none"
    length, tokens = _count(modern.pop("training.max_context_length", None)), None
    if "training.num_tokens_per_microbatch_per_dp_rank" in modern:
        tokens = _count(modern.pop("training.num_tokens_per_microbatch_per_dp_rank"))
    parts = _count(modern.pop("parallelism.num_pp_microbatches", None)) or 1
    if length:
        modern["training.seq_len"] = length
    if length and tokens:
        modern["parallelism.pipeline_parallel_microbatch_size"] = max(tokens // length, 1)
        modern["training.local_batch_size"] = max(tokens // length, 1) * parts
        notes.append(f"{tokens} tokens of a micro-batch are {max(tokens // length, 1)} sequences of {length}")
    step = _count(modern.pop("training.num_tokens_per_train_step", None))
    if length and step and step > 0:
        modern["training.global_batch_size"] = step // length
    return modern


def with_compilation(settings: Settings, notes: list[str], undecided: bool = False) -> Settings:
    """The settings with `compile.enable`, which is off where a file leaves it out, in every release.

    undecided: the file has it, and does not say its value.

    Source: pytorch/torchtitan v0.1.0 and v0.2.2 torchtitan/config_manager.py and config/job_config.py L721, 0.3.0
    torchtitan/config/configs.py L292 and @b5bcd76c66d0 L295.
    """
    if "compile.enable" in settings or undecided:
        return settings
    notes.append("compile.enable, which is not in the file, is false in torchtitan: nothing is priced as compiled")
    return settings | {"compile.enable": False}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    named = "torchtitan" in settings.program or has("parallelism", "training")(settings, keys)
    return settings.form == "python" and named and not is_older(settings)


def _translated(spelled: Spelled) -> Settings:
    undecided = any(each.key == "compile.enable" and each.open for each in spelled.read.settings)
    modern = _modern_recipe(spelled.known, spelled.notes)
    price_most(modern, "model_spec.converters", spelled.notes)
    return with_compilation(modern, spelled.notes, undecided)


DIALECT = Dialect(
    name="torchtitan",
    framework="torchtitan",
    holds=_holds,
    objects=with_objects,
    translate=_translated,
    strict="fields of its configuration classes alone",
)
