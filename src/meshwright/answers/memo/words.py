"""Words: figures as the memo writes them."""

from __future__ import annotations


def percent(share: float) -> str:
    """A share with as many digits as it needs.

    >>> percent(0.157), percent(0.0042), percent(0.00001)
    ('15.7%', '0.42%', '0%')
    """
    if abs(share) < 5e-5:
        return "0%"
    return f"{share:.1%}" if abs(share) >= 0.01 else f"{share:.2%}"


def times(ratio: float) -> str:
    """A ratio.

    >>> times(3.528), times(18.05)
    ('3.53 times', '18 times')
    """
    return f"{ratio:.3g} times" if ratio < 10 else f"{ratio:.0f} times"


def plural(count: int, one: str, many: str = "") -> str:
    """A count with its noun.

    >>> plural(1, "stage"), plural(4, "stage"), plural(2, "batch", "batches")
    ('1 stage', '4 stages', '2 batches')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def accelerators(count: int) -> str:
    """A count of accelerators.

    >>> accelerators(1), accelerators(1024)
    ('1 accelerator', '1,024 accelerators')
    """
    return plural(count, "accelerator")


def listed(words: list[str]) -> str:
    """Words in a row.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
