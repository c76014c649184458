"""What the shell offers for a word that is begun: names of the catalogue."""

from __future__ import annotations

from collections.abc import Iterable


def models(incomplete: str) -> list[str]:
    """Names of models."""
    return _catalogued("models", incomplete)


def runtimes(incomplete: str) -> list[str]:
    """Names of runtimes, and all of them."""
    return [*_catalogued("runtimes", incomplete), *_begun(["all"], incomplete)]


def precisions(incomplete: str) -> list[str]:
    """Names of precisions."""
    return _catalogued("precisions", incomplete)


def clusters(incomplete: str) -> list[str]:
    """Names of clusters; behind a colon those of accelerators. bash gives what stands behind the colon alone."""
    counts, colon, name = incomplete.rpartition(":")
    accelerators = [f"{counts}{colon}{each}" for each in _catalogued("accelerators", name)]
    return accelerators if colon else _catalogued("clusters", incomplete) or accelerators


def subject(incomplete: str) -> list[str]:
    """What stands for a model or a cluster."""
    return models(incomplete) or clusters(incomplete)


def kinds(incomplete: str) -> list[str]:
    """Kinds of the catalogue that its command lists."""
    from meshwright.answers.catalog_table import COLUMNS

    return _begun(COLUMNS, incomplete)


def _catalogued(kind: str, incomplete: str) -> list[str]:
    from meshwright.specs import catalog

    return _begun(catalog.names(kind), incomplete)  # type: ignore[arg-type]


def _begun(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete.lower())]
