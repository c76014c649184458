"""The plans that `make verified` draws, and what it says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import verified
from drawn_plans import NAMES, TRANSFORMERS, drawn_plans
from meshwright.pytorch.fake_world.compare import Quantity, StageCheck
from meshwright.pytorch.fake_world.verify import Verification
from meshwright.pytorch.frameworks import INSTALLED
from meshwright.pytorch.scope import scope_of

DRAWN = [name for name in NAMES if INSTALLED.transformers or name not in TRANSFORMERS]


def _seen(place: int, predicted: float) -> verified.Seen:
    """What would be seen of the plan in this place, if its only stage had a peak of 100 bytes."""
    case = drawn_plans("a", place + 1)[place]
    peak = Quantity("peak allocated", predicted, 100, tolerance=0.02)
    stage = StageCheck((0,), (peak,), "forward", (), True, ())
    done = Verification(case.plan, case.inputs, scope_of(case.plan, case.inputs, INSTALLED), True, (stage,), 1.0)
    return verified.seen_of(case, done, "code")


def test_a_seed_draws_the_same_plans_however_many_are_asked_for() -> None:
    few, many, others = drawn_plans("a", len(DRAWN)), drawn_plans("a", 2 * len(DRAWN) + 1), drawn_plans("b", len(DRAWN))
    assert [case.name for case in few] == DRAWN
    assert [*map(str, few)] == [*map(str, many[: len(few)])]
    assert len({*map(str, many)}) == len(many)
    assert {*map(str, few)} != {*map(str, others)}


def test_the_table_says_how_many_of_how_many_were_run_and_what_disagrees() -> None:
    cases = drawn_plans("a", 4)
    answer = verified.table([_seen(0, 101), _seen(1, 97)], cases).splitlines()
    assert answer[1].split()[:4] == [cases[0].name, "1", "of", "1"]
    assert answer[3].split()[1:] == ["0", "of", "1", "0", "0", "none", "was", "run"]
    assert answer[-2] == f"OFF {cases[1]}: stage 0 peak allocated 97 for 100"
    assert answer[-1] == "2 of 4 plans were run; 2 were not run; 1 disagree"


def test_a_seed_goes_on_where_it_was_left_with_the_same_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verified, "FOLDER", tmp_path)
    ran: list[str] = []

    def verify(plan: object, inputs: object) -> Verification:
        case = drawn_plans("a", 3)[len(ran)]
        ran.append(str(case))
        assert (case.plan, case.inputs) == (plan, inputs)
        stage = StageCheck((0,), (Quantity("peak allocated", 1, 1, tolerance=0.02),), "forward", (), True, ())
        return Verification(case.plan, case.inputs, scope_of(case.plan, case.inputs, INSTALLED), True, (stage,), 1.0)

    monkeypatch.setattr(verified, "verify", verify)
    assert verified.run("a", 2, NAMES, minutes=10)
    assert verified.run("a", 3, NAMES, minutes=10)
    assert ran == [*map(str, drawn_plans("a", 3))]
    assert capsys.readouterr().out.splitlines()[-1] == "3 of 3 plans were run; 0 disagree"
    assert verified.run("a", 4, NAMES, minutes=0)
    assert capsys.readouterr().out.splitlines()[-1] == "3 of 4 plans were run; 1 was not run; 0 disagree"
    monkeypatch.setattr(verified, "code_of", lambda: "other")
    assert verified.run("a", 3, NAMES, minutes=0)
    assert capsys.readouterr().out.splitlines()[-1] == "0 of 3 plans were run; 3 were not run; 0 disagree"
