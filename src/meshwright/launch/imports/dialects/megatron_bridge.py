"""Bridge: recipes of Megatron-Bridge as Megatron-LM's arguments."""

from __future__ import annotations

from meshwright.errors import InvalidInput
from meshwright.launch.imports.behaviours import switches
from meshwright.launch.imports.dialects.dialect import Dialect, Spelled
from meshwright.launch.imports.dialects.nemo import NO_DROPOUT, nemo_arguments, with_dispatcher
from meshwright.launch.imports.files.bridge_workloads import is_workload
from meshwright.launch.imports.import_table import import_table
from meshwright.launch.imports.spellings.arguments import modern_arguments
from meshwright.launch.imports.spellings.bridge_adapters import adapter_settings
from meshwright.launch.imports.spellings.bridge_fusion import Fusion, left_unfused
from meshwright.launch.imports.spellings.bridge_precision import precision_of, says_precision, unknown_precision
from meshwright.launch.imports.spellings.bridge_recipe import PRECISION, with_recipe
from meshwright.launch.imports.spellings.unsaid import DEGREES, maker_of, recipes_elsewhere
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings
from meshwright.launch.table import launch_table

_GRADIENTS = ("--accumulate-allreduce-grads-in-fp32", "--grad-reduce-in-bf16")
_SECTIONS = ("model", "train", "dataset", "ddp")
_ON = ("overlap_grad_reduce", "overlap_param_gather")
"""Fields of `ddp` that are on unless a recipe says otherwise."""
_SHARDED = "use_distributed_optimizer"
"""Of `ddp` and of `optimizer`: on where one of them has it on."""
_OVERLAPS = {
    "--tp-comm-overlap": "model.tensor_model_parallel_size",
    "--overlap-moe-expert-parallel-comm": "model.expert_model_parallel_size",
}
"""With the degree whose exchanges they hide; recipes of dense models do not say that of experts."""
_GATE, _ACTIVATION = "model.gated_linear_unit", "model.activation_func"
_GATED = ("--swiglu", "--quick-geglu")
"""Arguments for a gate, each beside an activation of its own."""
_OF_MODULES = tuple(
    f"model.{name}"
    for name in (
        "offload_modules",
        "min_offloaded_tensor_size",
        "activation_offload_",
        "delta_offload_",
        "delay_offload_",
    )
)
"""Starts of fields that say which modules are offloaded, and how."""
_OF_PROVIDERS = {"should_pad_vocab", "bias_activation_fusion"}
"""Fields of a model that no argument is."""


def _bridge_arguments(read: LaunchSettings, known: Settings, notes: list[str]) -> Settings:
    """Fields of a recipe as Megatron's arguments; what it starts from stands in other files, which are not read.

    Source: NVIDIA-NeMo/Megatron-Bridge@067f987df03b recipes/common.py and training/config.py (the distributed optimizer
    and its overlaps are on), perf_recipes/environment.py (names of precisions) and models (no dropout).
    """
    known = _without_idle(known)
    named, fields = _named(read, known), _fields(known)
    on: Settings = {f"--{name.replace('_', '-')}": True for name in _ON if known.get(f"ddp.{name}") is not False}
    on |= _sharded(known, notes)
    said: Settings = {key: value for key, value in known.items() if key.startswith("--")}
    named = {key: value for key, value in named.items() if key not in _GRADIENTS}
    off = _off(known) | ({} if is_workload(read) or _unread_recipes(read) else _unsaid_overlaps(known))
    settings = NO_DROPOUT | nemo_arguments(fields) | on | precision_of(known, notes) | named | off | said
    settings |= adapter_settings(known)
    for name in ("permute-fusion", "grouped-gemm"):
        if known.get(f"model.moe_{name.replace('-', '_')}") is False:
            settings[f"--moe-{name}"] = False
    for each in left_unfused(read, known):
        settings[each.without] = True
        notes.append(_told_as_unfused(each, read))
    if "--expert-model-parallel-size" in settings and "--expert-tensor-parallel-size" not in settings:
        settings["--expert-tensor-parallel-size"] = 1
        notes.append("expert_tensor_parallel_size, which is not in the file, is 1 in every recipe of Megatron-Bridge")
    settings = with_dispatcher(settings, "Megatron-Bridge", notes)
    if (unread := _unread_recipes(read)) and "model.recompute_granularity" not in read.by_key():
        notes.append(f"recomputation may stand in {unread} and is priced without: --recompute full says otherwise")
    if left := [name for name in DEGREES if f"model.{name}" not in known]:
        notes.append(f"taken as 1, as the file does not say them: {', '.join(left)}")
    if settings.get("--position-embedding-type") == "learned_absolute" and "--seq-length" in settings:
        settings["--max-position-embeddings"] = settings["--seq-length"]
    return settings


def _told_as_unfused(fusion: Fusion, read: LaunchSettings) -> str:
    costs = f"{fusion.what}; --set {fusion.field}=True says otherwise"
    if unread := _unread_recipes(read):
        return f"{fusion.field} is taken as off, as in most recipes of such models, but {unread} may set it: {costs}"
    return f"{fusion.field} is off, as nothing sets it: {costs}"


def _unread_recipes(read: LaunchSettings) -> str:
    """Recipes that a file starts from and that are not read."""
    names = dict.fromkeys(maker_of(each) for each in recipes_elsewhere(read) if each in read.elsewhere)
    return f"{' and '.join(names)}, which is not read," if names else ""


def _sharded(known: Settings, notes: list[str]) -> Settings:
    """The distributed optimizer, which is on in both sections where one of them does not turn it off.

    Source: NVIDIA-NeMo/Megatron-Bridge@067f987df03b training/config.py L2111 and
    recipes/utils/optimizer_utils.py L150.
    """
    ours, optimizer = (known.get(f"{section}.{_SHARDED}") for section in ("ddp", "optimizer"))
    if ours is None and optimizer is None:
        notes.append("the recipe starts from others, which are not read; the distributed optimizer is taken to be on")
    if ours is False and optimizer is not False:
        notes.append(
            f"ddp.{_SHARDED} is False and optimizer.{_SHARDED} is not: Megatron-Bridge turns the distributed optimizer "
            "on in both"
        )
    return {} if ours is False and optimizer is False else {"--use-distributed-optimizer": True}


def _off(known: Settings) -> Settings:
    """Switches that a recipe turns off, of those that its runtime has on."""
    targets = {flag: [each for each in targets if " = " not in each] for flag, targets in _recipe().items()}
    off = [flag for flag, names in targets.items() if any(known.get(name) is False for name in names)]
    on = [flag for flag, names in targets.items() if any(known.get(name) is True for name in names)]
    return {flag: False for flag in off if flag in switches("megatron-bridge") and flag not in on}


def _unsaid_overlaps(known: Settings) -> Settings:
    """Overlaps that a recipe does not say, which are off.

    Source: NVIDIA-NeMo/Megatron-Bridge@067f987df03b recipes/common.py L128 (no comm_overlap), training/comm_overlap.py
    L419-424 ("disabled by default").
    """
    split = [flag for flag, degree in _OVERLAPS.items() if degree in known]
    return {flag: False for flag in split if not {*_recipe()[flag], _own(flag)} & known.keys()}


def _own(flag: str) -> str:
    return f"model.{flag.removeprefix('--').replace('-', '_')}"


def _fields(known: Settings) -> Settings:
    """Fields that are called like arguments, as keys of `model`; of other sections those that the table knows."""
    others = {target.partition(" = ")[0] for targets in _recipe().values() for target in targets}
    unpriced = import_table("megatron-bridge").unpriced
    fields: Settings = {}
    for key, value in known.items():
        section, _, name = key.rpartition(".")
        own = section in _SECTIONS or f"--{name.replace('_', '-')}" in unpriced
        if own and key not in others and name not in _OF_PROVIDERS and value is not False:
            fields[f"model.{name}"] = value
    return fields


def _without_idle(known: Settings) -> Settings:
    """The settings without those of CUDA graphs where there are none, and of activations on the host where none go."""
    idle: tuple[str, ...] = ()
    if str(known.get("model.cuda_graph_impl")) == "none":
        idle += ("model.cuda_graph_",)
    if known.get("model.cpu_offloading") is not True:
        idle += ("model.cpu_offloading_num_layers",)
    if known.get("model.fine_grained_activation_offloading") is not True:
        idle += _OF_MODULES
    return {key: value for key, value in known.items() if not key.startswith(idle)} if idle else known


def _named(read: LaunchSettings, known: Settings) -> Settings:
    """Arguments that recipes have elsewhere, or in words of Python, as the writer of recipes has them."""
    words = {each.key: str(each.value) for each in read.settings} | {key: str(value) for key, value in known.items()}
    settings: Settings = {}
    for flag, targets in _recipe().items():
        pairs = [target.partition(" = ")[::2] for target in targets]
        values = [known[name] for name, word in pairs if not word and known.get(name) not in (None, False)]
        if values:
            settings[flag] = values[0]
        elif pairs and all(word and _means(words.get(name), word.strip("'")) for name, word in pairs):
            key, _, value = flag.partition(" ")
            settings[key] = value or True
    return settings


def _means(given: str | None, word: str) -> bool:
    """Whether Python code says a word: names from modules under any alias of these, `F.silu` as
    `torch.nn.functional.silu`.
    """
    named = word.replace(".", "").isidentifier()
    return given == word or (named and given is not None and given.rpartition(".")[2] == word.rpartition(".")[2])


def _recipe() -> dict[str, tuple[str, ...]]:
    return launch_table("megatron-bridge").recipe


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    del keys
    return settings.form == "python" and ("megatron.bridge" in settings.program or is_workload(settings))


def _translated(spelled: Spelled) -> Settings:
    if is_workload(spelled.read) and not says_precision(spelled.known):
        raise InvalidInput(
            f"{spelled.read.path!r}: a workload says no precision, which the command that runs it chooses: "
            f"--set {PRECISION}.preset=bf16, or fp8_cs, fp8_sc, fp8_mx, nvfp4"
        )
    if unknown_precision(spelled.known):
        each = spelled.read.by_key()[PRECISION]
        raise InvalidInput(
            f"{spelled.read.path!r}, line {each.line}: {PRECISION} is {each.value}, which the file does not say: "
            f"--set {PRECISION}.preset=bf16_mixed, or another preset of training/mixed_precision.py"
        )
    settings = _bridge_arguments(spelled.read, spelled.known, spelled.notes)
    _require_known_gate(spelled, settings)
    return modern_arguments(settings, spelled.notes)


def _require_known_gate(spelled: Spelled, settings: Settings) -> None:
    """Raises `InvalidInput` where a provider with sizes of its own has a gate beside an activation that no argument of
    Megatron-LM is.
    """
    gate, said = spelled.read.by_key().get(_GATE), spelled.read.by_key().get(_ACTIVATION)
    if gate is None or gate.value is not True or "--num-layers" not in settings or {*_GATED} & settings.keys():
        return
    activation = f"{_ACTIVATION} {said.value}" if said else f"no {_ACTIVATION}, which is gelu where it is left out,"
    raise InvalidInput(
        f"{spelled.read.path!r}, line {gate.line}: {_GATE} beside {activation} is not modelled; gates are with "
        "torch.nn.functional.silu or quick_gelu"
    )


DIALECT = Dialect(
    name="megatron-bridge",
    framework="Megatron-Bridge",
    holds=_holds,
    objects=with_recipe,
    translate=_translated,
    strict="fields of its configuration classes, which take any other that is assigned and never read it",
)
