"""What heads an answer of verify: how much was compared, how it follows from what was run, and what was left out."""

from __future__ import annotations

from meshwright.answers.document.blocks import Bullets, Paragraph, Table, Toned
from meshwright.layout.plan import Plan
from meshwright.pytorch.fake_world.compare import Quantity, StageCheck
from meshwright.pytorch.fake_world.verify import Verification
from meshwright.pytorch.real_world.real_run import RealRun
from meshwright.pytorch.report import real_blocks, verification_blocks
from meshwright.pytorch.scope import Scope
from strategies import llama_8b, question

RIGHT, WRONG = Quantity("parameters", 4.0, 4.0), Quantity("gradients", 4.0, 6.0)


def _verification(
    *quantities: Quantity, runtime: str = "torchtitan", unchecked: tuple[str, ...] = (), all_layers: bool = False
) -> Verification:
    plan, inputs = Plan(dp=8, zero=2), question(llama_8b(), "1x8:h100", runtime)
    scope = Scope(plan=plan, inputs=inputs, run_plan=plan, run_inputs=inputs, unchecked=unchecked)
    check = StageCheck(
        stages=(0,), quantities=quantities, peak_at="", collectives=(), order_holds=True, order=("F0:0", "B0:0")
    )
    return Verification(plan, inputs, scope, all_layers, (check,), 1.2)


def _heading(done: Verification) -> str:
    return next(block.text for block in verification_blocks(done) if isinstance(block, Paragraph))


def test_the_heading_counts_what_was_compared_and_says_which_layers_were_run() -> None:
    layers = "extrapolated from two and four layers of each kind"
    assert _heading(_verification(RIGHT)) == f"PyTorch agrees with all 2 figures compared (1 s), {layers}."
    assert _heading(_verification(RIGHT, all_layers=True)).endswith("(1 s), with all layers run.")
    assert _heading(_verification(RIGHT, WRONG)).startswith("PyTorch disagrees with 1 of the 3 figures compared")
    shared = _heading(_verification(RIGHT, runtime="megatron-core", unchecked=("the peak",)))
    assert shared.startswith("PyTorch agrees with all 2 figures that megatron-core shares with torchtitan (1 s)")


def test_figures_that_are_off_are_red() -> None:
    table = next(block for block in verification_blocks(_verification(RIGHT, WRONG)) if isinstance(block, Table))
    red = [[isinstance(cell, Toned) and cell.tone == "bad" for cell in row] for row in table.rows]
    assert red == [[False] * 5, [True] * 5]


def _real(left_out: tuple[str, ...], holds: bool) -> RealRun:
    return RealRun(
        run="tp2",
        left_out=left_out,
        holds=holds,
        losses=(2.0,),
        reference_losses=(2.0,),
        gradient_norms=(1.0,),
        reference_gradient_norms=(1.0,),
        loss_difference=0.0,
        gradient_difference=0.0,
        farthest_weight=("head.weight", 0.0),
        executed=((), ()),
        planned=((), ()),
        logged_bytes=((), ()),
        counted_bytes=((), ()),
        elapsed_s=3.0,
    )


def test_a_real_run_is_headed_by_what_was_trained_and_whether_all_of_the_plan_was() -> None:
    first, *_, last = real_blocks(_real(("dp 8: not run with 2 processes",), True))
    assert isinstance(first, Paragraph)
    rest = "; the parts of the plan listed below were left out."
    assert first.text == f"2 processes trained a small model as one process would (3 s){rest}"
    assert isinstance(last, Bullets)
    assert last.items == ("dp 8: not run with 2 processes",)
    off = real_blocks(_real((), False))[0]
    assert isinstance(off, Paragraph)
    assert off.text == "2 processes did NOT train a small model as one process would (3 s)."
