"""Accelerators and kernel tables: by catalogue name, or as a file states them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from meshwright.errors import InvalidInput
from meshwright.specs import catalog
from meshwright.specs.cluster import Accelerator
from meshwright.specs.kernels import CollectiveLibrary, Kernels
from meshwright.specs.like import over_like
from meshwright.units import GIB, GIGA, parse_bytes

OF_SPEED = ("peak_flops", "memory_bandwidth", "multiprocessors")
"""Fields on which the speed of kernels rests."""


def read_kernels(name: str) -> Kernels:
    """The kernel table of that name; raises `UnknownName` with the nearest.

    >>> read_kernels("h100").gemm.efficiency
    0.8356
    """
    return Kernels(**_kernels(catalog.load_named("kernels", name)))


def _kernels(table: dict[str, Any]) -> dict[str, Any]:
    """A kernel table with all that it is like, and its library of collectives in place of its name."""
    table = _kernel_entry(table)
    library = table.get("library")
    if not isinstance(library, str):
        return table
    return table | {"library": read_library(library)}


def read_library(name: str) -> CollectiveLibrary:
    """The library of collectives of that name; raises `UnknownName` with the nearest.

    >>> read_library("nccl-efa").network_efficiency
    0.9
    """
    return CollectiveLibrary(**catalog.load_named("library", name))


def _kernel_entry(table: dict[str, Any]) -> dict[str, Any]:
    """A table of kernels over the one that it is `like`, of an architecture or another accelerator."""

    def base(like: str) -> dict[str, Any]:
        return _kernel_entry(
            catalog.load("architectures" if like in catalog.names("architectures") else "kernels", like)
        )

    return over_like(table, base, _fitted_over)


def _fitted_over(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """`attention` and `sources` merge key by key; other tables, whose constants were fitted together, are replaced."""
    return base | own | {key: base[key] | own.get(key, {}) for key in ("attention", "sources")}


def read_accelerator(source: str | Mapping[str, Any]) -> Accelerator:
    """An accelerator by catalogue id or alias, or from a table.

    source: a name, or a table of the fields of `Accelerator`. A table may start from a catalogued one with
    `like = "h100"` and change some fields. Without `kernels` (a name or a table) the generic `assumed` constants are
    taken, without `visible_memory_bytes` the least published share of the label, without `scale_up_latency_s` that of
    NVLink; all of it is then listed in `assumed`.
    Raises `UnknownName` or `InvalidSpec`.

    >>> read_accelerator("H100-SXM-80GB").id
    'h100-sxm-80gb'
    """
    if isinstance(source, str):
        return _catalogued(catalog.resolve("accelerators", source))
    if not isinstance(source, Mapping):
        raise InvalidInput(f"{source!r} is not an accelerator: write a name such as h100, or a table of its fields")
    table = {str(key): value for key, value in source.items()}
    if "like" not in table:
        return _built(_completed(table))
    like = catalog.resolve("accelerators", str(table.pop("like")))
    return _as_fast_as_it_is(_built(_changed(table, like)), read_accelerator(like))


@cache
def _catalogued(id_: str) -> Accelerator:
    return _built(catalog.load_named("accelerators", id_))


def _built(table: dict[str, Any]) -> Accelerator:
    kernels = table["kernels"]
    if isinstance(kernels, str):
        kernels = read_kernels(kernels)
    return Accelerator(**table | {"kernels": _kernels(kernels) if isinstance(kernels, dict) else kernels})


def _as_fast_as_it_is(own: Accelerator, like: Accelerator) -> Accelerator:
    """An accelerator with the kernels of one that it is like, which draw power in proportion to the peak in bf16."""
    if own.kernels != like.kernels or all(getattr(own, name) == getattr(like, name) for name in OF_SPEED):
        return own
    peaks = [each.peak_flops.get("bf16") for each in (own, like)]
    ratio = peaks[0] / peaks[1] if peaks[0] and peaks[1] else 1.0
    drawn = {of: each.replace(watts=ratio * each.watts) for of, each in own.kernels.sustained.items()}
    return own.replace(of_another=True, kernels=own.kernels.replace(sustained=drawn))


def _changed(table: dict[str, Any], like: str) -> dict[str, Any]:
    base = catalog.load("accelerators", like)
    sources = base["sources"] | _as_table(table.pop("sources", {}))
    own = _as_list(table.pop("assumed", ()))
    changes = f"Taken from {like}, with its own {', '.join(sorted(table)) or 'nothing'}."
    visible, told = _visible_of(table)
    assumed = (*base.get("assumed", ()), *own, changes, *told)
    return {"id": f"like-{like}", **base, "aliases": (), **table, **visible, "sources": sources, "assumed": assumed}


def _completed(table: dict[str, Any]) -> dict[str, Any]:
    assumed = _as_list(table.get("assumed", ()))
    defaults = catalog.table("accelerator_defaults")
    complete = {"vendor": "other", "kernels": "assumed", "sources": {"all": "as given"}, **table}
    if "kernels" not in table:
        assumed.append("Kernel constants: the generic table, not measured.")
    if "scale_up_latency_s" not in table:
        complete["scale_up_latency_s"] = defaults["scale_up_latency_s"]
        assumed.append("Latency inside the scale-up domain: that of NVLink in NCCL's tuning constants.")
    visible, told = _visible_of(table)
    return {**complete, **visible, "assumed": (*assumed, *told)}


def _visible_of(table: dict[str, Any]) -> tuple[dict[str, float], list[str]]:
    """What a process can take of the memory that a table states, where it states that alone, and what is said of it."""
    label = _bytes_or_none(table.get("memory_bytes"))
    if label is None or "visible_memory_bytes" in table:
        return {}, []
    share = catalog.table("accelerator_defaults")["visible_share"]
    told = [f"Visible memory: {share} GiB per GB of the label, the least that is known."]
    return {"visible_memory_bytes": share * label / GIGA * GIB}, told


def _bytes_or_none(value: Any) -> float | None:
    try:
        return parse_bytes(value)
    except InvalidInput:
        return None


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _as_table(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {"given": str(value)}
