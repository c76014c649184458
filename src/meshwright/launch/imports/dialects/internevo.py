"""InternEvo: its configuration in Python."""

from __future__ import annotations

from meshwright.errors import InvalidInput, quoted
from meshwright.launch.imports.dialects.dialect import Dialect, has
from meshwright.launch.spelling import Settings
from meshwright.specs.model import MAX_SIZE


def _translated(known: Settings, ranks: int | None) -> Settings:
    """Degrees by the mode of tensor parallelism, and the size of the gated block.

    Source: InternLM/InternEvo@c628a8c87411 configs/7B_isp_sft.py (modes) and internlm/model/modules/mlp.py (rounding).
    """
    settings = dict(known)
    size, mode = settings.get("parallel.tensor.size", 1), settings.get("parallel.tensor.mode", "mtp")
    settings |= (
        {"context": size, "tensor": 1} if mode == "isp" else {"tensor": size, "sequence": mode in ("msp", "fsp")}
    )
    shared = settings.get("parallel.weight.size", 1)
    if isinstance(shared, int) and shared > 1:
        settings |= {"zero": 3, "replicas": max((ranks or shared) // shared, 1)}
    hidden, ratio = settings.get("model.hidden_size"), settings.get("model.mlp_ratio")
    if isinstance(hidden, int) and isinstance(ratio, int | float):
        if max(abs(hidden), abs(ratio)) > MAX_SIZE:
            raise InvalidInput(f"hidden_size {quoted(hidden)} and mlp_ratio {quoted(ratio)} make no width of a layer")
        settings["ffn_size"] = 256 * -(-int(hidden * ratio) // 256)
    return settings


DIALECT = Dialect(
    name="internevo",
    framework="InternEvo",
    holds=has("parallel.tensor", "data.micro_bsz"),
    translate=lambda spelled: _translated(spelled.known, spelled.ranks),
)
