"""The page of a memo that is signed, and the appendix: what they say, and how many pages they are."""

from __future__ import annotations

import re
import shlex
from itertools import takewhile

import pytest
from memos_asked import FITTING, NAMES, document, figures, given, recommended

from commands import LLAMA, asked
from meshwright.answers.basis.uncertainty import step_time_interval
from meshwright.answers.compare.training import training_on
from meshwright.answers.document.blocks import Block, Bullets, Callout, Document, Figure, Heading, Paragraph, Table
from meshwright.answers.document.inline import plain
from meshwright.answers.document.pdf import source
from meshwright.answers.memo.bottleneck import LOCAL
from meshwright.answers.memo.exchanges import NAMES as EXCHANGED
from meshwright.answers.memo.memo import memo
from meshwright.answers.memo.scaling import scaling
from meshwright.answers.memo.sections.decision import IN_WORDS, cost_of
from meshwright.answers.memo.sections.plan import reason_lost
from meshwright.answers.memo.sections.risk import OF_LAYOUT, risk_words
from meshwright.answers.memo.sections.scaling import _other_axes
from meshwright.answers.memo.unfit import unfit, unfit_document
from meshwright.answers.plans.switches import WORTH, library_of, newly_set
from meshwright.answers.plans.ties import preferred_words, tied_share
from meshwright.answers.step_parts import ALL_NAMES, from_peak
from meshwright.answers.unfit.nothing_fits import change_words
from meshwright.answers.words import capitalised, percent
from meshwright.cost.memory.fit import MOST_CERTAIN, Verdict
from meshwright.cost.step import estimate_each
from meshwright.layout.groups import expert_data_ranks
from meshwright.layout.named import plan_of
from meshwright.search.changes.sensitivity import sensitivity
from meshwright.search.find import find
from meshwright.search.many_searches.remedies import Kind, remedies
from meshwright.search.plan_space.constrained import satisfies
from meshwright.search.published.untested import unpublished
from meshwright.search.ranking.rank import rank_key
from meshwright.search.ranking.ties import share_of_ties
from meshwright.specs.constraints import Constraints
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs
from meshwright.units import format_count, format_days, format_gib, format_seconds
from strategies import dense_model, mixture, question

pytestmark = pytest.mark.slow

MOST_WORDS = 430
"""On the signed page, its tables included: about what an A4 page in 10.5 points holds beside two callouts."""
MOST_ROWS = 7
APPENDIX_PAGES = 6


def signed(name: str) -> list[Block]:
    """The blocks of the page to sign."""
    return [*takewhile(lambda block: not (isinstance(block, Heading) and block.new_page), document(name).blocks)]


def words(blocks: list[Block]) -> str:
    """All their text."""
    texts: list[str] = []
    for block in blocks:
        match block:
            case Heading() | Paragraph():
                texts.append(block.text)
            case Callout():
                texts += [block.title, block.text]
            case Table():
                texts += [block.caption, *block.columns, *(cell for row in block.rows for cell in row)]
            case _:
                pass
    return plain(" ".join(texts))


def pages(written: Document) -> int:
    """Of A4 that typst sets."""
    typst = pytest.importorskip("typst")
    made = typst.compile(source(written).encode(), format="png", ppi=10.0, ignore_system_fonts=True)
    return 1 if isinstance(made, bytes) else len(made)


@pytest.mark.parametrize("name", NAMES)
def test_one_page_is_signed_and_the_appendix_has_six_at_most(name: str) -> None:
    whole = document(name)
    if name in FITTING:
        assert pages(Document(whole.title, whole.subtitle, tuple(signed(name)))) == 1
    assert pages(whole) <= 1 + APPENDIX_PAGES


@pytest.mark.parametrize("name", FITTING)
def test_the_signed_page_is_short_by_words_too(name: str) -> None:
    blocks = signed(name)
    assert len(words(blocks).split()) <= MOST_WORDS
    assert sum(len(block.rows) for block in blocks if isinstance(block, Table)) <= MOST_ROWS
    assert not [block for block in blocks if isinstance(block, Figure)]


@pytest.mark.parametrize("name", FITTING)
def test_days_have_the_range_of_the_step_and_are_measured_as_the_appendix_says(name: str) -> None:
    """The decision rests on twenty steps, of which both pages take the last ten."""
    known, text = recommended(name), words(signed(name))
    interval, cost = step_time_interval(known.best, known.inputs), cost_of(known)
    ratios = [seconds / known.best.step_time_s for seconds in (interval.p10, interval.p90)]
    assert [days / cost.days for days in cost.range_days] == pytest.approx(ratios)
    assert f"8 in 10 take {format_days(*cost.range_days)};" in text
    assert "First confirm on twenty steps" in text
    assert "(median of the last ten)" in text
    measured = [item for block in document(name).blocks if isinstance(block, Bullets) for item in block.items]
    assert any(item.startswith("Step time, the median of the last ten of twenty steps") for item in measured)


@pytest.mark.parametrize("name", FITTING)
def test_the_signed_page_says_what_a_signature_needs(name: str) -> None:
    text, best = words(signed(name)), recommended(name).best
    for fact in (
        str(best.plan),
        "8 in 10 runs like this take",
        "accelerator-hours",
        "in tokens/s, with",
        f"probability of fitting {best.fit.probability:.0%}",
        "The one risk: ",
        "First mitigation: ",
        "Decision asked",
        "Approved, yes or no",
    ):
        assert fact in text
    assert text.count("The one risk: ") == 1


@pytest.mark.parametrize("name", FITTING)
def test_the_signed_page_names_the_largest_part_and_the_largest_that_one_accelerator_would_not_have(name: str) -> None:
    """Beside the one that grows most, which may be small; the largest of all stands first."""
    target = recommended(name)
    parts = {part: each for part, each in from_peak(target.best, target.inputs).items() if part != "ideal_s"}
    largest = max((part for part in parts if part not in LOCAL), key=lambda part: parts[part])
    of_all = max(parts, key=lambda part: parts[part])
    if parts[largest] < 0.02 * target.best.step_time_s:
        largest = of_all
    figures_of = next(block for block in signed(name) if isinstance(block, Table))
    (row,) = (row for row in figures_of.rows if row[0] == "limited by")
    called = IN_WORDS.get(largest, ALL_NAMES[largest])
    seconds = f"{format_seconds(parts[largest])} of the step"
    if of_all == largest:
        assert row[2].startswith(f"{called}: {seconds}")
    else:
        assert row[2].startswith(f"{ALL_NAMES[of_all]}, which one accelerator has too; next: {called} (")
        assert seconds in row[2]
    assert row[1] == percent(parts[of_all] / target.best.step_time_s)
    if target.bottleneck.grows:
        most = target.bottleneck.chosen
        assert ("; this grows most from " in row[2]) == (most.part == largest)
        assert (f" accelerators: {most.name} (" in row[2]) == (most.part != largest)


@pytest.mark.parametrize("name", FITTING)
def test_where_memory_is_the_risk_the_way_out_keeps_the_layout_as_far_as_that_frees_enough(name: str) -> None:
    """As much as such runs differ by; and else no safer proven plan costs less than the one that is named."""
    target = recommended(name)
    title, text = risk_words(target)
    if title != "The one risk: memory":
        return
    best, fit = target.best, target.best.fit
    freeing = [
        each
        for each in target.sensitivity.changes
        if each.knob in OF_LAYOUT and each.estimate.fit.probability >= MOST_CERTAIN
        if best.memory.device - each.estimate.memory.device >= fit.most_bytes - fit.least_bytes
    ]
    if freeing:
        assert f"{min(freeing, key=lambda each: each.estimate.step_time_s).change} frees" in text
        return
    longer = re.search(r"([\d.]+)% longer", text)
    for each in (*target.search.best[1:], *target.search.other_splits):
        if each.fit.probability >= MOST_CERTAIN and not unpublished(each.plan, target.inputs):
            assert longer
            assert float(longer[1]) / 100 <= each.step_time_s / target.best.step_time_s - 1 + 0.001


def test_what_shards_all_without_a_pipeline_is_its_own_alternative() -> None:
    """Long context: ZeRO 3 with another exchange was printed as the alternative to ZeRO 3."""
    question = "llama-3.1-8b 4x8:h100 --seq-len 131072 --global-batch 32 --zero 3"
    text = " ".join(asked("memo", *shlex.split(question)).out.split())
    assert "This plan is fully sharded: ZeRO 3 divides weights, gradients and states over 32 ranks." in text
    assert "full sharding over 32" not in text


@pytest.mark.parametrize("name", FITTING)
def test_the_largest_part_of_the_communication_is_that_of_an_axis(name: str) -> None:
    """Forward and backward of an axis together, not a line of the table."""
    lines, axes = recommended(name).exchanges, dict[str, float]()
    for each in lines:
        axes[each.axis] = axes.get(each.axis, 0.0) + each.exposed_s
    axis = max(axes, key=lambda each: axes[each])
    text = words(list(document(name).blocks))
    assert f"The largest part is {EXCHANGED[axis]}: {format_seconds(axes[axis])}." in text


@pytest.mark.parametrize("name", FITTING)
def test_states_before_anything_is_divided_are_those_of_the_table(name: str) -> None:
    """torchtitan: 16 bytes a parameter are 119.7 GiB, where Appendix B has 134.6 GiB."""
    text, held = words(list(document(name).blocks)), format_gib(recommended(name).budgets.one.memory.states)
    (stated,) = re.findall(r"parameters that is ([\d.,]+ GiB)", text)
    assert stated == held or f"Appendix B counts {held} on one accelerator" in text


def test_a_faster_layout_that_is_not_the_best_says_why() -> None:
    tables = [block for name in FITTING for block in document(name).blocks if isinstance(block, Table)]
    layouts = [row[-1] for table in tables for row in table.rows if len(row) == 4]
    faster = [reason for reason in layouts if "faster" in reason]
    assert faster
    assert [each for each in faster if ", but the best plan " not in each and "at-risk" not in each] == []


def test_one_accelerator_shares_with_none_and_divides_nothing() -> None:
    """Llama-3.2-1B on one H100: an empty table stood there, and a part "that a single accelerator would not have"."""
    text = asked("memo", "llama-3.2-1b", "1x1:h100", "--global-batch", "64").out
    assert "Nothing is divided: the only rank holds all of it." in text
    assert "A single accelerator has nothing to share with." in text
    assert "largest part beyond the model's FLOPs at the peak." in text
    assert "would not have" not in text
    assert "1 ranks" not in text


@pytest.mark.parametrize("name", FITTING)
def test_the_first_mitigation_is_free_and_shortens_the_part_that_it_names(name: str) -> None:
    target = recommended(name)
    mitigation, text = target.mitigation, words(signed(name))
    if mitigation is None:
        assert all(each.gain < WORTH for each in target.switches.gaining)
        assert "First mitigation: none worth making" in text
        assert f"reaches {target.best.mfu:.1%} of the ideal" in text
        return
    first = mitigation.switch
    alone = estimate_each([first.estimate.plan], first.inputs)[0]
    assert first.inputs.job == target.inputs.job
    assert first.inputs.cluster == target.inputs.cluster
    assert first.gain == pytest.approx(1 - alone.step_time_s / target.best.step_time_s, rel=1e-9)
    assert first.gain >= WORTH
    assert from_peak(alone, first.inputs)[mitigation.part] == pytest.approx(mitigation.part_after_s)
    assert mitigation.part_before_s - mitigation.part_after_s >= first.gain * target.best.step_time_s / 4
    assert alone.verdict <= target.best.verdict
    assert first.option in text
    assert capitalised(f"{first.condition}it cuts {mitigation.part_name} from ") in text


@pytest.mark.parametrize("name", FITTING)
def test_no_change_of_the_plan_alone_beats_the_recommendation(name: str) -> None:
    """What is faster by more than can be told apart would be the recommendation: the search has priced it."""
    target = recommended(name)
    assert target.sensitivity.changes
    least = target.best.step_time_s * (1 - share_of_ties(target.inputs, published=False))
    for each in target.sensitivity.changes:
        if each.inputs is target.inputs and satisfies(each.estimate.plan, target.inputs):
            safe = each.estimate.verdict <= target.best.verdict and each.estimate.fit.probability >= 0.99
            if safe and not unpublished(each.estimate.plan, target.inputs):
                assert each.estimate.step_time_s >= least, each.change


def test_a_mitigation_keeps_the_constraints() -> None:
    asked_for = Constraints(tp=1, ep=8)
    inputs = question(mixture(), "2x8:h100", global_batch=32, sequence_length=8192).replace(constraints=asked_for)
    target = memo(find(inputs, top=20), 8)
    assert target.best.plan.ep == 8
    for each in target.switches.gaining:
        assert satisfies(each.estimate.plan, inputs)


def test_a_mitigation_names_no_part_that_ends_below_zero() -> None:
    """The slowest stage computes less than the mean of both once the loss is fused."""
    model = dense_model(heads=8, kv_heads=4, ffn_size=2816, layers=8, vocab_size=32000)
    inputs = question(model, "1x2:h100", global_batch=6, sequence_length=4096)
    target = memo(find(inputs.replace(constraints=Constraints(micro_batch=2)), top=20), 2)
    assert target.mitigation is not None
    first = target.mitigation.switch
    assert from_peak(first.estimate, first.inputs)["uneven_s"] < 0
    assert 0 <= target.mitigation.part_after_s < target.mitigation.part_before_s


@pytest.mark.parametrize("name", FITTING)
def test_the_headline_compares_with_a_plan_that_fits(name: str) -> None:
    target = recommended(name)
    text = words([*document(name).blocks])
    if target.smaller is None:
        assert "Report one number: MFU" in text
        return
    assert target.smaller.estimate.verdict == Verdict.SAFE
    whole = target.best.tokens_per_s_per_gpu * target.inputs.cluster.num_gpus
    assert target.speed_up == pytest.approx(whole / target.smaller.tokens_per_s)
    (numbers,) = re.findall(r"Report two numbers: (.*?)\.(?:\s|$)(?=[A-Z])", text)
    assert numbers.count("predicted") == 2


@pytest.mark.parametrize("name", FITTING)
def test_every_runner_up_has_a_reason(name: str) -> None:
    target = recommended(name)
    others = (*target.search.best[1:6], *target.search.other_splits[:6])
    assert others
    for each in others:
        reason = reason_lost(each, target)
        if each.step_time_s < target.best.step_time_s and each.verdict <= target.best.verdict:
            assert "closer than predictions can tell: the best plan " in reason
        assert reason.split("; no published")[0][-1] not in ":;, "


@pytest.mark.parametrize("name", FITTING)
def test_scaling_starts_from_what_is_as_likely_as_not_to_run(name: str) -> None:
    target = recommended(name)
    for points in (target.scaling.strong, target.scaling.weak):
        assert all(
            each.estimate.fit.probability >= 0.5 for each in points if each.gpus < target.inputs.cluster.num_gpus
        )
    assert target.scaling.strong[-1].gpus == target.inputs.cluster.num_gpus


def test_a_layout_that_half_the_cluster_hardly_holds_is_no_baseline() -> None:
    """On 32 accelerators the plan for 64 needs more than there is, with a probability of fitting below a half."""
    inputs = read_inputs("llama-3.1-70b", "8x8:h100", Job(sequence_length=8192, global_batch=256))
    layout = plan_of(inputs, tp=4, cp=2, context_exchange="all_gather", pp=4, vpp=5, zero=1)
    scaled = scaling(estimate_each([layout], inputs)[0], inputs, 32)
    assert [point.gpus for point in scaled.strong] == [64]
    assert scaled.unfit == (32,)


def test_scaling_says_when_another_axis_changes() -> None:
    inputs = question(mixture(), "4x8:h100", global_batch=64, sequence_length=2048)
    best = estimate_each([plan_of(inputs, ep=8, tp=2)], inputs)[0]
    points = scaling(best, inputs, 4).strong
    first = points[0].estimate.plan
    assert (first.ep, best.plan.ep) == (4, 8), points
    assert "ep 4 on 4, ep 8 on 32" in _other_axes(points)
    assert _other_axes(points[-1:]) == ""


@pytest.mark.parametrize("name", FITTING)
def test_gradients_of_experts_have_lines_of_their_own(name: str) -> None:
    """Where several ranks hold the same experts; where each is on one rank it is said that nothing is summed."""
    target = recommended(name)
    own, experts = [each for each in target.exchanges if each.axis == "edp"], target.inputs.model.is_moe
    assert bool(own) == (experts and expert_data_ranks(target.best.plan) > 1)
    text = words([*document(name).blocks])
    assert ("that hold the same experts: " in text) == bool(own)
    assert ("so its gradients need no sum over ranks" in text) == (experts and not own)
    assert ("router's scores" in text) == ("with even routing" in text) == experts


@pytest.mark.parametrize("name", FITTING)
def test_zero_2_and_3_exchange_in_every_micro_batch(name: str) -> None:
    plan, text = recommended(name).best.plan, words([*document(name).blocks])
    every = plan.zero >= 2
    assert (f"Each of the {plan.num_microbatches} micro-batches gathers" in text) == every
    assert ("They are summed once a step" in text) == (not every)
    assert not (every and "must hide the whole gradient exchange" in text)


@pytest.mark.parametrize("name", FITTING)
def test_a_plan_without_a_pipeline_shows_the_best_one(name: str) -> None:
    target = recommended(name)
    pipelined = target.pipelined
    assert pipelined is not None
    assert pipelined.plan.pp > 1
    others = [each for each in (*target.search.best, *target.search.other_splits) if each.plan.pp > 1]
    if target.best.plan.pp == 1:
        assert rank_key(pipelined) == min(map(rank_key, others))
        assert f"The best plan with a pipeline is {pipelined.plan}" in words([*document(name).blocks])
    tables = [block.caption for block in document(name).blocks if isinstance(block, Table)]
    assert len([caption for caption in tables if caption.startswith("The bubble as a share of the step")]) == 1
    assert (
        len([block for block in document(name).blocks if isinstance(block, Figure) and block.name == "pipeline"]) == 1
    )


@pytest.mark.parametrize("name", ["own-adapters", "fp8"])
def test_other_questions_are_answered_by_a_search_of_their_own(name: str) -> None:
    target = recommended(name)
    assert [each.change for each in target.other_questions] == ["half the network", "half the batch", "twice the batch"]
    half, fewer, more = target.other_questions
    assert half.inputs.cluster.levels[-1].bandwidth == target.inputs.cluster.levels[-1].bandwidth / 2
    assert 4 * fewer.inputs.job.global_batch == more.inputs.job.global_batch == 2 * target.inputs.job.global_batch
    for each in target.other_questions:
        assert each.best == find(each.inputs, top=1).best[0]
        assert each.same is not None
        assert each.same.plan.tp == target.best.plan.tp


@pytest.mark.parametrize("name", FITTING)
def test_matrix_units_are_not_said_to_have_fp32(name: str) -> None:
    assert "matrix units' dense peak" not in words([*document(name).blocks])


def test_days_and_price_are_those_of_the_tokens() -> None:
    priced = ("--tokens", "2T", "--price", "h100=2")
    document = asked("memo", *LLAMA, *priced, "--json").document
    step, inputs = document["recommendation"]["step_time_s"], given(document)
    days = 2e12 / inputs.job.tokens_per_step * step / 86400
    assert document["training"]["days"] == pytest.approx(days)
    assert document["training"]["price"] == pytest.approx(2 * 24 * days * inputs.cluster.num_gpus)
    assert f"{24 * days * inputs.cluster.num_gpus * 2:,.0f} at the price given" in asked("memo", *LLAMA, *priced).out


def test_the_first_mitigation_is_one_that_the_launch_sets() -> None:
    launched = [memo for memo in map(recommended, FITTING) if memo.inputs.runtime.launch]
    gaining = [each for memo in launched for each in memo.switches.gaining]
    assert gaining
    assert [each.change for each in gaining if not each.flag] == []


def test_a_fused_dispatcher_says_whose_kernels_it_needs() -> None:
    inputs = question(mixture(), "2x8:h100", global_batch=64)
    estimate = estimate_each([plan_of(inputs, ep=8)], inputs)[0]
    changes = sensitivity(estimate, inputs).changes
    fused = next(each for each in changes if each.change.startswith("dispatcher") and each.change.endswith("fused"))
    assert library_of(estimate.plan, fused.inputs) == "DeepEP"
    assert newly_set(estimate.plan, fused.inputs, inputs)["--moe-token-dispatcher-type"] == "flex"
    assert not any(library_of(estimate.plan, each.inputs) for each in changes if each.knob != "dispatcher")


@pytest.mark.parametrize("name", FITTING)
def test_plans_that_cannot_be_told_apart_differ_by_no_more_than_is_said(name: str) -> None:
    search = recommended(name).search
    assert search.fastest
    assert search.best[0].step_time_s <= search.fastest.step_time_s * (1 + tied_share(search)) * (1 + 1e-9)
    text = words(signed(name))
    within, closer = f"within {tied_share(search):.1%}", ", closer than predictions can tell"
    assert (within in text) == (search.equal > 1)
    assert (f"{within}{closer}" in text) == (search.equal > 1 and not preferred_words(search))
    assert "If it does:" not in text
    assert "(the most: none)" not in words([*document(name).blocks])


def test_a_memo_without_a_plan_asks_for_a_decision_between_the_ways_to_fit() -> None:
    blocks = [*document("cannot-fit").blocks]
    (table,) = [block for block in blocks if isinstance(block, Table) and "accelerator-hours" in block.columns]
    inputs = given(figures("cannot-fit"))
    ways = remedies(find(inputs))
    assert [row[1] for row in table.rows] == [f"`{way.estimate.plan}`" for way in ways]
    assert [row[-1] for row in table.rows] == [f"{way.estimate.fit.probability:.0%}" for way in ways]
    text = words(blocks)
    assert "Decision asked" in text
    assert "Approved, yes or no" in text
    assert {way.kind for way in ways} == {Kind.FEWER_BYTES, Kind.ADAPTERS, Kind.MORE_ACCELERATORS}
    of_all_weights = [way for way in ways if way.kind != Kind.ADAPTERS]
    least = min(of_all_weights, key=lambda way: way.estimate.step_time_s * way.inputs.cluster.num_gpus)
    assert f"Plan again with {change_words(least)}: the probability of fitting is then" in text


def test_a_memo_without_a_plan_has_a_page_to_sign() -> None:
    """Verdict, why, the ways with their price, and the decision; memory by component follows."""
    page = words(signed("cannot-fit"))
    assert all(each in page for each in ("No plan fits", "The bottleneck is memory", "Decision asked", "Approved, yes"))
    assert "Memory by component" not in page
    assert "Memory by component" in words([*document("cannot-fit").blocks])


def test_a_price_stands_beside_the_ways_to_fit() -> None:
    inputs = given(figures("cannot-fit"))
    missing = unfit(find(inputs), price=2.5)
    (table,) = [each for each in unfit_document(missing).blocks if isinstance(each, Table) and "price" in each.columns]
    hours, price = (table.rows[0][table.columns.index(name)] for name in ("accelerator-hours", "price"))
    training = training_on(1e12, missing.remedies[0].estimate, missing.remedies[0].inputs, 2.5)
    assert (hours, price) == (format_count(training.accelerator_hours), format_count(2.5 * training.accelerator_hours))
