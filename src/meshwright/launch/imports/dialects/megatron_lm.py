"""Megatron-LM: its command line, with what MindSpeed-LLM has beside it in Megatron's own arguments."""

from __future__ import annotations

from meshwright.launch.imports.dialects import megatron_deepspeed, zero_bubble
from meshwright.launch.imports.dialects.dialect import Dialect, of_megatron
from meshwright.launch.imports.spellings.arguments import modern_arguments
from meshwright.launch.imports.spellings.numbers import whole_number
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings

_EXCHANGES = {"megatron_cp_algo": "p2p", "ulysses_cp_algo": "a2a", "kvallgather_cp_algo": "all_gather"}
_MOST_LAYERS = 10_000
_LAYERS, _STAGES = "--num-layers", "--pipeline-model-parallel-size"
_LAYOUT = "--pipeline-model-parallel-layout"
_CHUNKS, _PER_CHUNK = "--num-virtual-stages-per-pipeline-rank", "--num-layers-per-virtual-pipeline-stage"


def _megatron_arguments(settings: Settings) -> Settings:
    """The arguments as Megatron-LM has them, where they mean the same; what only MindSpeed has stays as it is.

    Source: Ascend/MindSpeed-LLM@c77308a1 mindspeed_llm/features_manager (transformer_block.py, shared_expert.py,
    num_layer_list.py, context_parallel_feature.py).
    """
    plain = dict(settings)
    algorithm = str(plain.get("--context-parallel-algo"))
    if str(plain.get("--context-parallel-size", 1)) == "1":
        plain.pop("--context-parallel-algo", None)
    elif algorithm in _EXCHANGES:
        del plain["--context-parallel-algo"]
        plain["--cp-comm-type"] = _EXCHANGES[algorithm]
    _stages(plain)
    dense, shared = plain.pop("--first-k-dense-replace", None), plain.pop("--n-shared-experts", None)
    first, several = whole_number(dense) or 0, whole_number(shared) or 0
    layers, width = whole_number(plain.get(_LAYERS)), whole_number(plain.get("--moe-ffn-hidden-size"))
    if str(plain.get("--moe-layer-freq")) == "-1":  # every index is a multiple of it
        plain["--moe-layer-freq"] = 1
    if layers and 0 < first < layers:
        plain["--moe-layer-freq"] = f"([0]*{first}+[1]*{layers - first})"
    if width and several:
        plain.setdefault("--moe-shared-expert-intermediate-size", width * several)
    return plain


def _stages(plain: Settings) -> None:
    """Layers that are listed by stage, and those that do nothing, as a layout."""
    layers, stages = whole_number(plain.get(_LAYERS)), whole_number(plain.get(_STAGES))
    listed, idle = _numbers(plain.get("--num-layer-list")), _numbers(plain.get("--noop-layers"))
    predicted = whole_number(plain.get("--mtp-num-layers")) or 0
    if not layers or not stages or max(layers, stages, predicted) > _MOST_LAYERS or _LAYOUT in plain:
        return
    if 1 < len(listed) == stages and sum(listed) == layers:
        counts = listed
        del plain["--num-layer-list"]
    elif idle:
        chunks = stages * (whole_number(plain.get(_CHUNKS)) or 1)
        per_chunk = whole_number(plain.get(_PER_CHUNK)) or layers // chunks or layers
        if layers % per_chunk:
            return
        held = [index not in idle for index in range(layers)]
        counts = [sum(held[start : start + per_chunk]) for start in range(0, layers, per_chunk)]
        del plain["--noop-layers"]
        plain[_LAYERS] = sum(counts)
        for name in (_CHUNKS, _PER_CHUNK) if stages > 1 else ():
            plain.pop(name, None)
    else:
        return
    if stages > 1:
        plain[_LAYOUT] = f"E{'|'.join('t' * count for count in counts)}{'m' * predicted}L"


def _numbers(value: object) -> list[int]:
    """The whole numbers between commas; nothing where one of them is none."""
    numbers = [whole_number(each.strip()) for each in str(value).split(",")]
    return [] if None in numbers else [each for each in numbers if each is not None]


def _holds(settings: LaunchSettings, keys: set[str]) -> bool:
    forks = (megatron_deepspeed.DIALECT, zero_bubble.DIALECT)
    return of_megatron(keys) and not any(fork.holds(settings, keys) for fork in forks)


DIALECT = Dialect(
    name="megatron-lm",
    framework="Megatron-LM",
    holds=_holds,
    translate=lambda spelled: modern_arguments(_megatron_arguments(spelled.known), spelled.notes),
)
