"""Properties that are worked out once: in Python 3.11 `functools.cached_property` takes a lock each time, 3.12 none."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801
        """`functools.cached_property` as 3.12 has it."""

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value
