"""Arguments: Megatron's command line with older spellings, and defaults that depend on others, put into today's."""

from __future__ import annotations

import re

from meshwright.launch.imports.spellings.numbers import whole_number
from meshwright.launch.imports.spellings.vocabulary import vocabulary_of
from meshwright.launch.spelling import Settings

_RECOMPUTED = ("--recompute-granularity", "--recompute-method", "--recompute-num-layers")
_OLDER = ("--checkpoint-activations", "--activations-checkpoint-method", "--deepspeed-activation-checkpointing")
_TOKENIZERS = ("--tokenizer-model", "--tokenizer-name-or-path", "--tokenizer-type", "--vocab-file")
USUAL_TOKENIZER = "GPT2BPETokenizer"
"""Of pretrain_gpt.py, where the file names none."""
_ANY, _NONE = re.compile(""), re.compile(r"(?!)")
_FILES = {
    USUAL_TOKENIZER: (
        "--vocab-file",
        re.compile(r"gpt-?2|50257", re.I),
        re.compile(r"tokenizer|\d{2,3}k\b|(?<!\d)\d{5,6}(?!\d)", re.I),
    ),
    "Llama2Tokenizer": (
        "--tokenizer-model",
        re.compile(r"(llama|mistral|mixtral)[^/]*(/tokenizer\.model)?$", re.I),
        re.compile(r"^(?!(.*/)?tokenizer\.model$)"),
    ),
}
"""Of classes that read their entries from a file: the flag that names it, what its path says where they are the usual
ones, and what it says where they are others."""
_PADDED = ("--padded-vocab-size", "--pad-vocab-size-to")


def modern_arguments(settings: Settings, notes: list[str]) -> Settings:
    """The arguments as Megatron-LM spells them today; notes: what was taken to mean something is added.

    Source: megatron/training/arguments.py validate_args of NVIDIA/Megatron-LM@d98e8a64ddf3, and of 2021 and 2022
    (checkpoint_activations, activations_checkpoint_method).
    """
    modern = dict(settings)
    if modern.get("--optimizer") == "adam":
        del modern["--optimizer"]
    _recomputation(modern, notes)
    if "--offload-modules" in modern and not modern.get("--fine-grained-activation-offloading"):
        del modern["--offload-modules"]
        notes.append("--offload-modules without --fine-grained-activation-offloading: Megatron-LM offloads nothing")
    _chunks(modern)
    _model(modern, notes)
    _query_groups(modern, notes)
    if "--sequence-parallel" in modern and whole_number(modern.get("--tensor-model-parallel-size", 1)) == 1:
        del modern["--sequence-parallel"]
        notes.append("--sequence-parallel without tensor parallelism: Megatron-LM switches it off without a word")
    if modern.get("--dataloader-inter-document-masking"):
        notes.append("attention works within the documents of a sequence: --document-length prices that")
    schedule = modern.get("--step-batch-size-schedule")
    steps = str(schedule).split()
    if not isinstance(schedule, list) and "--global-batch-size" not in modern and (last := _batch_of(steps)):
        modern["--global-batch-size"] = last
        notes.append(f"--step-batch-size-schedule: priced with its last batch, {last}")
    if isinstance(schedule, list):
        notes.append(
            f"--step-batch-size-schedule takes one value and gets {len(schedule)} words: the array that holds it is "
            'not quoted, and Megatron-LM refuses them ("${ARGS[@]}" keeps them together)'
        )
    return modern


def _recomputation(modern: Settings, notes: list[str]) -> None:
    older = [name for name in _OLDER if name in modern]
    if older and "--recompute-granularity" not in modern:
        method = modern.get("--activations-checkpoint-method", "uniform")
        layers = modern.get("--activations-checkpoint-num-layers", modern.get("--checkpoint-num-layers", 1))
        modern |= dict(zip(_RECOMPUTED, ("full", method, layers), strict=True))
        notes.append(f"{older[0]} is --recompute-granularity full of today")
    for name in (*_OLDER, "--activations-checkpoint-num-layers", "--checkpoint-num-layers"):
        modern.pop(name, None)
    if modern.get("--recompute-granularity") != "full":
        return
    if modern.get("--recompute-method", "uniform") == "uniform":
        number = whole_number(modern.get("--recompute-num-layers", 1))
        if number and number > 1 and "--recompute-method" in modern:
            notes.append(f"--recompute-method uniform keeps the input of every {number} layers; priced: of every layer")
        modern |= dict(zip(_RECOMPUTED, ("full", "uniform", 1), strict=True))


def _chunks(modern: Settings) -> None:
    """--num-layers-per-virtual-pipeline-stage as the number of chunks of a rank."""
    per_chunk = whole_number(modern.get("--num-layers-per-virtual-pipeline-stage"))
    layers, stages = (whole_number(modern.get(name, 1)) for name in ("--num-layers", "--pipeline-model-parallel-size"))
    if per_chunk and layers and stages:
        modern.setdefault("--num-virtual-stages-per-pipeline-rank", max(layers // stages // per_chunk, 1))
        modern.pop("--num-layers-per-virtual-pipeline-stage")


def _model(modern: Settings, notes: list[str]) -> None:
    hidden = whole_number(modern.get("--hidden-size"))
    if hidden and "--swiglu" in modern and "--multiple-of" in modern:
        modern.setdefault("--ffn-hidden-size", _rounded(hidden, modern))
    if hidden:
        width = 4 * hidden * 2 // 3 // 64 * 64 if "--swiglu" in modern else 4 * hidden
        modern.setdefault("--ffn-hidden-size", width)
    if modern.get("--position-embedding-type") == "alibi":
        modern["--position-embedding-type"] = "none"
    padded = next((modern.pop(name) for name in _PADDED if name in modern), None)
    if "--vocab-size" not in modern and padded is not None:
        modern["--vocab-size"] = padded
    if "--vocab-size" not in modern:
        _vocabulary(modern, notes)
    words = (modern.get("--tokenizer-type", ""), str(modern.get("--vocab-file", "")).rpartition("/")[2])
    if any(str(word).lower().startswith("bert") for word in words):
        modern.setdefault("--bert-no-binary-head", True)


def _query_groups(modern: Settings, notes: list[str]) -> None:
    """Groups that nothing reads. Source: megatron/training/argument_utils.py L330 at the same commit."""
    groups = whole_number(modern.get("--num-query-groups"))
    read = {"--group-query-attention", "--multi-latent-attention"} & modern.keys()
    if groups and not read and groups != whole_number(modern.get("--num-attention-heads")):
        notes.append(
            f"--num-query-groups {groups} without --group-query-attention: Megatron-LM passes it over, and queries, "
            "keys and values have as many heads"
        )


def _vocabulary(modern: Settings, notes: list[str]) -> None:
    """The entries of the tokenizer that is named, unless its class reads them from a file of other ones."""
    named = [str(modern[name]) for name in _TOKENIZERS if name in modern]
    usual = [USUAL_TOKENIZER] if "--merge-file" in modern and "--tokenizer-type" not in modern else []
    found = vocabulary_of([*named, *usual])
    if found is None:
        return
    flag, own, others = _FILES.get(found[1], ("", _ANY, _NONE))
    file = str(modern.get(flag, ""))
    plain = not file or own.search(file) is not None
    if not plain and others.search(file):
        return
    modern["--vocab-size"] = found[0]
    named_by = "the default of pretrain_gpt.py" if found[1] in usual else "which the file names"
    unless = "" if plain else f"; --set --vocab-size=... where {file} holds others"
    notes.append(f"vocabulary: {found[0]} entries, of {found[1]}, {named_by}{unless}")


def _rounded(hidden: int, modern: Settings) -> int:
    """The width of a gated block as FlagScale rounds it: up to a multiple of what it names.

    Source: FlagOpen/FlagScale@da4935ec6 flagscale/runner/auto_tuner/utils.py, multiple_of and hidden_dim_multiplier.
    """
    multiple, factor = whole_number(modern.pop("--multiple-of")) or 1, str(modern.pop("--hidden-dim-multiplier", 1))
    wider = float(factor) if re.fullmatch(r"\d{1,3}(\.\d{1,6})?", factor, re.ASCII) else 1.0
    return multiple * -(-int(4 * hidden * 2 // 3 * wider) // multiple)


def _batch_of(steps: list[str]) -> int | None:
    """The batch of the last step of a schedule, `0:384 200B:768`."""
    return whole_number(steps[-1].rpartition(":")[2]) if steps else None
