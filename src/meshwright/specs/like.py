"""Like: a table of data that starts from another one and says what differs."""

from __future__ import annotations

from collections.abc import Callable
from operator import or_
from typing import Any

Table = dict[str, Any]


def over_like(table: Table, read: Callable[[str], Table], over: Callable[[Table, Table], Table] = or_) -> Table:
    """A table over the one that its key `like` names; itself where it names none.

    read: the table of a name, over what that is like itself; over: of the two, the one below first; all keys are
    replaced unless it says otherwise.

    >>> over_like({"like": "h100", "sms": 114}, {"h100": {"sms": 132, "clock_hz": 1.83e9}}.__getitem__)
    {'sms': 114, 'clock_hz': 1830000000.0}
    """
    own = {key: value for key, value in table.items() if key != "like"}
    return over(read(table["like"]), own) if "like" in table else own
