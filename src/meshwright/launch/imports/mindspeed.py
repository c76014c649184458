"""MindSpeed: arguments that MindSpeed-LLM has beside those of Megatron-LM, in Megatron's own."""

from __future__ import annotations

from meshwright.launch.spelling import Settings

_EXCHANGES = {"megatron_cp_algo": "p2p", "ulysses_cp_algo": "a2a", "kvallgather_cp_algo": "all_gather"}
_LAYERS, _STAGES = "--num-layers", "--pipeline-model-parallel-size"
_CHUNKS, _PER_CHUNK = "--num-virtual-stages-per-pipeline-rank", "--num-layers-per-virtual-pipeline-stage"


def megatron_arguments(settings: Settings) -> Settings:
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
    layers, width = _count(plain.get(_LAYERS)), _count(plain.get("--moe-ffn-hidden-size"))
    if str(plain.get("--moe-layer-freq")) == "-1":  # every index is a multiple of it
        plain["--moe-layer-freq"] = 1
    if layers and 0 < (_count(dense) or 0) < layers:
        plain["--moe-layer-freq"] = f"([0]*{_count(dense)}+[1]*{layers - (_count(dense) or 0)})"
    if width and _count(shared):
        plain.setdefault("--moe-shared-expert-intermediate-size", width * (_count(shared) or 0))
    return plain


def _stages(plain: Settings) -> None:
    """Layers that are listed by stage, and those that do nothing, as a layout."""
    layers, stages = _count(plain.get(_LAYERS)), _count(plain.get(_STAGES))
    listed = str(plain.get("--num-layer-list", "")).split(",")
    idle = str(plain.get("--noop-layers", "")).split(",")
    if not layers or not stages or "--pipeline-model-parallel-layout" in plain:
        return
    if stages > 1 and len(listed) == stages and all(_count(each) for each in listed):
        counts = [_count(each) or 0 for each in listed]
        del plain["--num-layer-list"]
    elif all(_count(each) is not None for each in idle):
        per_chunk = _count(plain.get(_PER_CHUNK)) or layers // (stages * (_count(plain.get(_CHUNKS)) or 1)) or layers
        if layers % per_chunk or layers // per_chunk > layers:
            return
        absent = {_count(each) for each in idle}
        counts = [
            sum(index not in absent for index in range(start, start + per_chunk))
            for start in range(0, layers, per_chunk)
        ]
        del plain["--noop-layers"]
        plain[_LAYERS] = sum(counts)
        for name in (_CHUNKS, _PER_CHUNK) if stages > 1 else ():
            plain.pop(name, None)
    else:
        return
    if stages > 1:
        predicted = "m" * (_count(plain.get("--mtp-num-layers")) or 0)
        chunks = "|".join("t" * count for count in counts)
        plain["--pipeline-model-parallel-layout"] = f"E{chunks}{predicted}L"


def _count(value: object) -> int | None:
    text = str(value).strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else None
