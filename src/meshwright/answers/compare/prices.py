"""Prices: what users say that an accelerator costs an hour; none is shipped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from meshwright.errors import InvalidInput, UnknownName, quoted
from meshwright.specs import catalog
from meshwright.specs.cluster import Cluster


def prices_of(given: Sequence[str], clusters: Mapping[str, Cluster]) -> dict[str, float]:
    """The price of an accelerator-hour by the name of its cluster; clusters without a price are left out.

    given: `KEY=NUMBER`, the key an accelerator by id or alias, or a cluster, which goes before its accelerator;
    clusters: by the text that asks for them. Raises `InvalidInput` for what is no price, names nothing that is
    compared, or names the same twice.
    """
    by_accelerator: dict[str, float] = {}
    by_cluster: dict[str, float] = {}
    for text in given:
        key, price = _read(text)
        names = {cluster.name for asked, cluster in clusters.items() if key in (asked, cluster.name)}
        found = by_cluster if names else by_accelerator
        for name in names or {_accelerator(key, text, clusters)}:
            if name in found:
                raise InvalidInput(f"--price {text}: {name} has the price {found[name]:g} already; give one of the two")
            found[name] = price
    priced = {name: by_cluster.get(name, by_accelerator.get(each.accelerator.id)) for name, each in _named(clusters)}
    return {name: price for name, price in priced.items() if price is not None}


def _named(clusters: Mapping[str, Cluster]) -> list[tuple[str, Cluster]]:
    return [(cluster.name, cluster) for cluster in clusters.values()]


def _read(text: str) -> tuple[str, float]:
    key, _, number = text.rpartition("=")
    try:
        price = float(number)
    except ValueError:
        price = math.nan
    if not key.strip() or not math.isfinite(price) or price < 0:
        raise InvalidInput(f"--price {quoted(text)} is not a price of an accelerator-hour: write it as h100=2.9")
    return key.strip(), price


def _accelerator(key: str, text: str, clusters: Mapping[str, Cluster]) -> str:
    """The accelerator of one of the clusters that a key names."""
    ids = {cluster.accelerator.id for cluster in clusters.values()}
    try:
        wanted = catalog.resolve("accelerators", key)
    except UnknownName:
        wanted = key
    if wanted in ids:
        return wanted
    known = ", ".join([*sorted(ids), *(cluster.name for cluster in clusters.values())])
    raise InvalidInput(f"--price {text}: {quoted(key)} is not compared; it can price {known}")
