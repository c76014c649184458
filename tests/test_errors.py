"""Errors: the tree, and that messages list every fault and the nearest names."""

from __future__ import annotations

import pytest

from meshwright import errors
from meshwright.errors import Fault, IllegalPlan, InvalidInput, InvalidSpec, MeshwrightError, NothingFits, UnknownName


def test_the_tree_is_the_one_drawn_in_the_docstring() -> None:
    classes = {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, MeshwrightError)
    }
    assert errors.__doc__ is not None
    assert all(name in errors.__doc__ for name in classes)
    for name in ("InvalidSpec", "UnknownName", "NotModelled", "IllegalPlan"):
        assert issubclass(classes[name], InvalidInput)
    assert issubclass(InvalidInput, ValueError)
    assert not issubclass(NothingFits, InvalidInput)


@pytest.mark.parametrize("kind", [InvalidSpec, IllegalPlan])
def test_every_fault_is_listed_with_its_path(kind: type[InvalidSpec] | type[IllegalPlan]) -> None:
    error = kind("cluster 'mine'", [Fault("levels[1].size", "must be 16"), Fault("", "has no nodes")])
    assert error.faults[0].where == "levels[1].size"
    assert "cluster 'mine'" in str(error)
    assert "levels[1].size: must be 16" in str(error)
    assert "\n  - has no nodes" in str(error)


def test_an_unknown_name_tells_the_nearest() -> None:
    error = UnknownName("accelerator", "H10O", ["h100", "a100", "mi300x"])
    assert "'H10O'" in str(error)
    assert "nearest: h100" in str(error)
    assert error.known == ("a100", "h100", "mi300x")


def test_an_unknown_name_far_from_all_lists_what_is_known() -> None:
    assert "known: a100, h100" in str(UnknownName("accelerator", "zzzz", ["h100", "a100"]))
