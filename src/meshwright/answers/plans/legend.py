"""Legend: what the words of a plan's name mean."""

from __future__ import annotations

import re

from meshwright.errors import InvalidInput, quoted
from meshwright.schedules.records import SCHEDULE_NAMES
from meshwright.specs.choices import CONTEXT_EXCHANGE_NAMES

_EXCHANGES = "|".join(name.replace("_", "-") for name in CONTEXT_EXCHANGE_NAMES.values())
_SCHEDULES = "|".join(map(re.escape, SCHEDULE_NAMES.values()))
MEANINGS = {
    r"tp\d+": "tensor parallel",
    r"sp": "sequence parallel: norms and residuals are split over tp as well",
    rf"cp\d+( ({_EXCHANGES}))?": "context parallel: how they exchange keys and values stands beside it",
    r"ep\d+": "expert parallel",
    r"etp\d+": "tensor parallel in experts",
    r"pp\d+": "pipeline stages",
    r"vpp\d+": "chunks of a stage: virtual stages",
    r"(ends|embedding|head)-as-layers?": "the split counts it as a layer: the embedding, the head or both (ends)",
    r"first\d+": "layers of the first stage",
    r"last\d+": "layers of the last stage",
    r"chunks\([\d,*]+\)": "layers of every chunk: 5*17 is seventeen chunks of 5",
    r"dp\d+": "data-parallel replicas",
    r"zero[0-3]": "ZeRO stage: 1 shards optimizer states among replicas, 2 gradients too, 3 weights too",
    r"replicate\d+": "copies of each shard: ZeRO shards within a part of the replicas (HSDP)",
    r"mbs\d+": "micro-batch size: in sequences",
    r"m\d+": "micro-batches: of a replica in one step",
    r"group\d+": "micro-batches of a chunk before the next chunk",
    rf"({_SCHEDULES})": "the pipeline schedule",
    r"recompute-full(\(\d+ a chunk\))?": "whole layers are computed again: all, or that many of a chunk",
    r"recompute-selective(\([\w,]+\))?": "some modules are computed again: those named, or the runtime's own choice",
}
"""What each word of a name means, by its form: in short, and behind a colon the rest."""
NAMES = "names look like tp4 sp cp2 ring pp4 dp2 zero1 mbs1 m8"
_WORD = re.compile("|".join(f"(?:{form})(?= |$)" for form in MEANINGS))
_LETTERS = re.compile(r"[a-z-]+")


def legend(name: str) -> list[tuple[str, str]]:
    """The words of a plan's name with what they mean; lists may have spaces behind their commas, as in tables.

    Raises `InvalidInput` at the first word that no plan's name has.

    >>> legend("tp8 pp2")
    [('tp8', 'tensor parallel'), ('pp2', 'pipeline stages')]
    """
    meanings, rest = [], re.sub(r",\s+", ",", " ".join(name.split()))
    while rest:
        match = _WORD.match(rest)
        if match is None:
            word = quoted(rest.partition(" ")[0])
            raise InvalidInput(f"{word} is not part of any plan's name; {NAMES}")
        form = next(form for form in MEANINGS if re.fullmatch(form, match[0]))
        meanings.append((match[0], MEANINGS[form]))
        rest = rest[match.end() :].lstrip()
    return meanings


def legend_line(name: str) -> str:
    """The same in one sentence, in short.

    >>> legend_line("tp8 pp2")
    'Plan names: tp = tensor parallel, pp = pipeline stages.'
    """
    short = {_LETTERS.match(word)[0]: meaning.partition(":")[0] for word, meaning in legend(name)}  # type: ignore[index]
    return f"Plan names: {', '.join(f'{word} = {meaning}' for word, meaning in short.items())}."
