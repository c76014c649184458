"""The types of a formula: a scalar for one plan, a column for many.

NumPy's operators widen `float | array` unions until no annotation fits, so scalar-or-array values are not checked
statically; the tests hold every public function to "element i of the array result equals the scalar result".
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

IntColumn: TypeAlias = NDArray[np.integer[Any]]
FloatColumn: TypeAlias = NDArray[np.floating[Any]]
BoolColumn: TypeAlias = NDArray[np.bool_]

Ints: TypeAlias = Any
"""A whole number or a column of them, shape (n,)."""
Floats: TypeAlias = Any
"""A number or a column of them, shape (n,)."""
Bools: TypeAlias = Any
"""A truth or a column of them, shape (n,)."""
Numbers: TypeAlias = Any
"""Either of the two."""
