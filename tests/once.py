"""Work that is done once for two ways of showing it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Once:
    """A function that works the first time, and says the same ever after, whatever it is asked."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self.answers = function, list[Any]()

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if not self.answers:
            self.answers.append(self._function(*arguments, **named))
        return self.answers[0]
