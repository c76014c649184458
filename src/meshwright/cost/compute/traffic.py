"""Traffic: bytes that the passes of a layer read and write."""

from __future__ import annotations

from typing import NamedTuple

from meshwright.arrays import Floats


class LayerTraffic(NamedTuple):
    """Bytes read and written; each scalar or array (n,)."""

    forward: Floats
    backward: Floats


NOTHING = LayerTraffic(0.0, 0.0)
