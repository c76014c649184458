"""Whether any plan of a question fits, told by as few plans as can be."""

from __future__ import annotations

import pytest

from meshwright.search.find import find
from meshwright.search.fits import any_fits as module
from meshwright.search.fits.any_fits import any_fits
from meshwright.specs.constraints import Constraints
from meshwright.specs.reading.model import read_model
from strategies import question


@pytest.mark.parametrize("runtime", ["accelerate", "deepspeed", "megatron-core", "nanotron"])
@pytest.mark.parametrize(("model", "cluster"), [("llama-3.1-8b", "1x2:h100"), ("llama-3.1-8b", "1x4:h100")])
def test_it_is_what_a_search_finds(model: str, cluster: str, runtime: str) -> None:
    inputs = question(read_model(model), cluster, runtime, global_batch=8)
    assert any_fits(inputs) == (find(inputs).fitting > 0)


def test_constraints_hold() -> None:
    inputs = question(read_model("llama-3.1-8b"), "1x8:h100", global_batch=8)
    whole = inputs.replace(constraints=Constraints(tp=1, pp=1, zero=0))
    assert (any_fits(inputs), any_fits(whole)) == (True, False)


def test_a_large_space_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = question(read_model("llama-3.1-405b"), "1x8:h100", "torchtitan", global_batch=8)
    monkeypatch.setattr(module, "MOST", module.TABLE)
    assert any_fits(inputs) is None
