"""Layout strings: Megatron-LM's `--pipeline-model-parallel-layout`, written and read.

E is the embedding, t a transformer layer, m one of multi-token prediction, L the loss, | the border of a chunk;
`x*3` and `(xy|)*3` repeat, commas mean nothing. Source: Megatron-LM, pipeline_parallel_layer_layout.py L90-140.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from meshwright.errors import InvalidInput, quoted

_REPEATED = re.compile(r"(\(([^()]*)\)|[EtmL|])(?:\*(\d{1,4}))?")
_LONGEST = 1 << 16


def layout_string(sizes: Sequence[int], mtp_layers: int = 0) -> str:
    """The layout of chunks with these numbers of layers, two or more, and layers of multi-token prediction in the last.

    >>> layout_string([3, *[4] * 13, 3, 3]), layout_string([4, *[4] * 14, 1], mtp_layers=1)
    ('Et*3|(t*4|)*13t*3|t*3L', 'Et*4|(t*4|)*14tmL')
    """
    inner = [("", "t")[size] if size < 2 else f"t*{size}" for size in sizes]
    first, *middle, last = inner
    runs = ((chunk, len(list(run))) for chunk, run in groupby(middle))
    spelled = "".join(f"({chunk}|)*{count}" if count > 2 else f"{chunk}|" * count for chunk, count in runs)
    return f"E{first}|{spelled}{last}{'m' * mtp_layers}L"


def read_layout_string(layout: str) -> tuple[int, ...]:
    """Layers of every chunk in a layout string, in the order of the model.

    Raises `InvalidInput` for a string that is none: a strange letter, an embedding that is not first or a loss that is
    not last, a layer of multi-token prediction that does not stand before the loss.

    >>> read_layout_string("Et*3|(t*4|)*2,t*3mL")
    (3, 4, 4, 3)
    """
    flat = _flat(layout)
    if not re.fullmatch(r"E[t|]*m*L", flat):
        raise InvalidInput(
            f"pipeline layout {quoted(layout)} must begin with its one E, end with its one L, and hold only t, | and, "
            "just before the L, m; an example: 'Et*3|(t*4|)*2t*3L'"
        )
    return tuple(chunk.count("t") for chunk in flat.split("|"))


def _flat(layout: str) -> str:
    """The string with every repetition written out."""
    text = re.sub(r"[,\s]", "", layout)
    while "(" in text or "*" in text:
        spelled = _REPEATED.sub(lambda each: (each[2] if each[2] is not None else each[1]) * int(each[3] or 1), text)
        if spelled == text or len(spelled) > _LONGEST:
            raise InvalidInput(f"pipeline layout {quoted(layout)} repeats what is none: use x*3 or (xy|)*3")
        text = spelled
    return text
