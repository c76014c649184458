"""Ties: equal plans are told apart by what there is to set up, never at the cost of more than the tolerance."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from meshwright.answers.pace import pace
from meshwright.answers.plans.ties import best_tested_lines, proven_lines, reasons, tie_lines, tied_share
from meshwright.answers.step_parts import why_lost
from meshwright.cost.memory.fit import EVEN, Verdict
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.find import SearchResult, find
from meshwright.search.published import layouts as published_layouts
from meshwright.search.published.extents import generation
from meshwright.search.published.layouts import fastest_run_of, has_published_layout, is_known_to_work
from meshwright.search.published.runs import (
    LAYOUT,
    PublishedRun,
    extent,
    extents_of,
    published_plans,
    published_plans_of,
)
from meshwright.search.published.untested import beaten_kinds, is_unbeaten, unpublished
from meshwright.search.ranking.rank import rank_time_s
from meshwright.search.ranking.ties import (
    Ranks,
    choices,
    complexity,
    recomputed_in_vain,
    share_of_layouts,
    share_of_ties,
    tied_rows,
)
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.choices import Recompute
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import read_inputs
from meshwright.specs.runtime import read_runtime
from meshwright.units import format_seconds
from strategies import inputs, llama_8b, llama_70b, mixture, question

DENSE = question(llama_70b(), "8x8:h100", global_batch=256, sequence_length=8192)
PLAIN = Plan(tp=4, sp=True, pp=4, vpp=5, dp=4, zero=1, num_microbatches=64)
MORE = [
    {"cp": 2},
    {"chunk_layers": (4,) * 20},
    {"last_stage_layers": 15},
    {"zero": 3},
    {"sp": False},
    {"recompute": "full"},
    {"recompute": "selective"},
    {"schedule": "zb-v"},
    {"embedding_as_layer": True},
    {"dp_replicate": 2},
]


@pytest.mark.parametrize("change", MORE, ids=str)
def test_whatever_has_to_be_set_up_counts(change: dict[str, object]) -> None:
    one, other = complexity(Plans.of([PLAIN, replace(PLAIN, **change)]), DENSE)
    assert other > one


def test_layers_that_do_not_divide_count_where_a_launch_spells_them_out() -> None:
    """Less where no stages of equal size are to be had: 5 divide neither 32 layers nor 34 with both ends."""
    chunks = [Plan(pp=4, num_microbatches=8), Plan(pp=4, vpp=3, num_microbatches=8), Plan(pp=5, num_microbatches=8)]
    for runtime, more, least in (("megatron-core", 20, 6), ("torchtitan", 0, 0)):
        even, uneven, no_equal = complexity(Plans.of(chunks), question(llama_8b(), "2x8:h100", runtime))
        assert uneven - even == more + 1
        assert no_equal - even == least


def test_no_runner_up_recomputes_whole_layers_in_vain() -> None:
    """At risk without recomputation it stays, and so does one that nothing else is like."""
    full = replace(PLAIN, recompute=Recompute.FULL)
    plans = Plans.of([PLAIN, full, replace(full, zero=3), replace(PLAIN, tp=8), replace(full, tp=8)])
    verdict = np.array([Verdict.SAFE, Verdict.SAFE, Verdict.SAFE, Verdict.AT_RISK, Verdict.SAFE])
    ranks = Ranks(
        verdict, np.arange(1.0, 6.0), np.full(5, True), *2 * (np.full(5, False),), np.zeros(5, dtype=np.int64)
    )
    assert recomputed_in_vain(plans, ranks).tolist() == [False, True, False, False, False]
    found = find(question(llama_8b(), "2x8:h100", global_batch=32, sequence_length=8192))
    assert len(found.best) == 5
    assert Recompute.FULL not in [each.plan.recompute for each in found.best]


def test_plans_of_one_choice_differ_in_how_it_is_laid_out_alone() -> None:
    alike = [{"vpp": 4}, {"chunk_layers": (4,) * 20}, {"zero": 0}, {"recompute": "selective"}, {"dp_replicate": 2}]
    other = [{"tp": 8}, {"micro_batch": 2}, {"zero": 3}, {"recompute": "full"}, {"schedule": "zb-v"}, {"cp": 2}]
    numbers = choices(Plans.of([PLAIN, *(replace(PLAIN, **change) for change in (*alike, *other))]))
    assert (numbers[1 : len(alike) + 1] == numbers[0]).all()
    assert len({*numbers[len(alike) + 1 :]} | {numbers[0]}) == len(other) + 1


@given(inputs())
def test_any_recommendation_is_as_good_as_is_told(asked: Inputs) -> None:
    found = find(asked, top=50)
    _check_published(found)
    if found.best:
        _check_recommended(found)
        _check_equal(found)


def _check_recommended(found: SearchResult) -> None:
    """As good as the fastest."""
    best, fastest, asked = found.best[0], found.fastest, found.inputs
    assert fastest.verdict == best.verdict
    assert found.equal >= 1
    widest = share_of_ties(asked) if not unpublished(fastest.plan, asked) else share_of_ties(asked, published=False)
    assert best.step_time_s <= fastest.step_time_s * (1 + widest) * (1 + share_of_layouts(asked))


def _check_published(found: SearchResult) -> None:
    """Of one plan what it is of many."""
    plans = [each.plan for each in (*found.best[:5], *found.other_splits)]
    if plans:
        one_by_one = [not (unpublished(plan, found.inputs) or beaten_kinds(plan, found.inputs)) for plan in plans]
        np.testing.assert_array_equal(is_unbeaten(Plans.of(plans), found.inputs), one_by_one)


def _check_equal(found: SearchResult) -> None:
    """The recommended one and the fastest among them, and every plan of the ranking that is faster than it."""
    best, fastest, share = found.best[0], found.fastest or found.best[0], tied_share(found)
    alike = {each.plan for each in (*found.best, fastest) if each.verdict == best.verdict}
    within = [each for each in found.best if each.plan in alike]
    near = [each for each in within if rank_time_s(each) <= rank_time_s(fastest) * (1 + share)]
    assert best in near
    assert found.equal >= len(near)
    assert {each.plan for each in within if rank_time_s(each) < rank_time_s(best)} <= {each.plan for each in near}


def test_more_accelerators_than_any_run_had_are_untested() -> None:
    asked = read_inputs("llama-3.1-8b", "10000x8:h100", Job(sequence_length=8192, global_batch=80000))
    plan = Plan(tp=2, sp=True, dp=40000, zero=1, num_microbatches=2)
    assert [each for each in unpublished(plan, asked) if each == ("80,000 accelerators", "16,384")]
    usual = read_inputs("llama-3.1-8b", "2048x8:h100", Job(sequence_length=8192, global_batch=80000))
    assert not [each for each in unpublished(replace(plan, dp=8192), usual) if each.what.endswith(" accelerators")]


def test_the_plans_of_published_runs_are_published() -> None:
    known = published_plans_of([PublishedRun(PLAIN, DENSE, None)])
    assert known.generations[9].degrees["pp"] == 4
    assert published_plans().generations[9].degrees["pp"] >= 8
    assert not unpublished(PLAIN, DENSE)


def test_a_layout_that_another_run_of_the_job_beats_is_not_kept() -> None:
    slower, other = replace(PLAIN, vpp=2), replace(PLAIN, vpp=4)
    runs = [PublishedRun(PLAIN, DENSE, 10.0), PublishedRun(slower, DENSE, 10.3), PublishedRun(other, DENSE, None)]
    elsewhere = question(llama_70b(), "8x8:h100", global_batch=512, sequence_length=8192)
    assert {layout.degrees[LAYOUT.index("vpp")] for layout in published_plans_of(runs).layouts} == {5, 4}
    runs.append(PublishedRun(slower, elsewhere, 30.0))
    layouts = published_plans_of(runs).layouts
    assert {(layout.degrees[LAYOUT.index("vpp")], layout.global_batch, layout.beaten) for layout in layouts} == {
        (5, DENSE.job.global_batch, False),
        (4, DENSE.job.global_batch, False),
        (2, 512, True),
    }


def test_a_layout_names_its_fastest_run_of_the_job_or_of_the_nearest_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow, untimed = replace(PLAIN, recompute=Recompute.FULL), replace(PLAIN, vpp=2)
    runs = [
        PublishedRun(slow, DENSE, 10.1, "b"),
        PublishedRun(PLAIN, DENSE, 10.0, "a", predicted_s=9.0),
        PublishedRun(PLAIN, DENSE, None, "c"),
        PublishedRun(untimed, DENSE, None, "d"),
    ]
    monkeypatch.setattr(published_layouts, "published_plans", lambda: published_plans_of(runs))
    assert fastest_run_of(slow, DENSE) == ("a", "llama", DENSE.job.global_batch, 10.0, 9.0, None, str(PLAIN), ())
    assert fastest_run_of(untimed, DENSE) is None
    larger = DENSE.replace(job=DENSE.job.replace(global_batch=512))
    assert fastest_run_of(PLAIN, larger) == fastest_run_of(PLAIN, DENSE)
    twice = [*runs, PublishedRun(PLAIN, larger, 21.0, "e")]
    monkeypatch.setattr(published_layouts, "published_plans", lambda: published_plans_of(twice))
    nearest = larger.replace(job=larger.job.replace(global_batch=1024))
    assert [each.name for ran in (DENSE, larger, nearest) if (each := fastest_run_of(PLAIN, ran))] == ["a", "e", "e"]


def test_a_run_tells_the_options_that_it_had_and_the_question_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = with_behaviours(read_runtime("megatron-core@nemo-25.02"), ["cross_entropy=fused"])
    ran = DENSE.replace(runtime=fused, job=DENSE.job.replace(document_length=200))
    monkeypatch.setattr(
        published_layouts, "published_plans", lambda: published_plans_of([PublishedRun(PLAIN, ran, 10.0, "a")])
    )
    told = fastest_run_of(PLAIN, DENSE)
    assert told
    assert told.options == ("--runtime megatron-core@nemo-25.02", "--document-length 200", "--with cross_entropy=fused")
    alike = fastest_run_of(PLAIN, ran)
    assert alike
    assert not alike.options


def test_layouts_of_the_job_itself_come_first_and_beaten_ones_of_others_never(monkeypatch: pytest.MonkeyPatch) -> None:
    fast, slow = replace(PLAIN, vpp=2), replace(PLAIN, vpp=4)
    small, large, other = (DENSE.replace(job=DENSE.job.replace(global_batch=batch)) for batch in (512, 1024, 2048))
    runs = [(fast, small, 10.0), (slow, small, 12.0), (slow, large, 20.0)]
    known = published_plans_of(PublishedRun(*run) for run in runs)
    monkeypatch.setattr(published_layouts, "published_plans", lambda: known)
    elsewhere = question(llama_70b(), "8x8:h100", "torchtitan", global_batch=512, sequence_length=8192)
    both = Plans.of([fast, slow])
    found = [has_published_layout(both, asked).tolist() for asked in (small, large, other, elsewhere)]
    assert found == [[True, False], [False, True], [True, False], [False, False]]


def test_a_layout_that_takes_longer_a_sequence_with_a_larger_batch_is_beaten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger batches leave less of a step to its ends. With smaller ones nothing follows."""
    quick, other = replace(PLAIN, vpp=2), replace(PLAIN, vpp=4)
    small, large, asked = (DENSE.replace(job=DENSE.job.replace(global_batch=batch)) for batch in (256, 512, 1024))
    for runs, known in (
        ([(quick, small, 10.0), (other, large, 21.0)], [True, False]),
        ([(quick, small, 10.0), (other, large, 20.1)], [True, True]),
        ([(quick, large, 20.0), (other, small, 10.5)], [True, True]),
        ([(quick, small, 10.0), (other, large, None)], [True, True]),
    ):
        plans = published_plans_of(PublishedRun(*run) for run in runs)
        monkeypatch.setattr(published_layouts, "published_plans", lambda plans=plans: plans)
        assert has_published_layout(Plans.of([quick, other]), asked).tolist() == known


def test_fewer_chunks_than_a_run_of_another_batch_had_are_known_to_work(monkeypatch: pytest.MonkeyPatch) -> None:
    ran, fewer, more = replace(PLAIN, vpp=4), replace(PLAIN, vpp=2), replace(PLAIN, vpp=8)
    plans = published_plans_of([PublishedRun(ran, DENSE, 10.0, "a")])
    monkeypatch.setattr(published_layouts, "published_plans", lambda: plans)
    other = DENSE.replace(job=DENSE.job.replace(global_batch=512))
    known = [is_known_to_work(Plans.of([ran, fewer, more]), asked).tolist() for asked in (DENSE, other)]
    assert known == [[True, False, False], [True, True, False]]
    assert has_published_layout(Plans.of([ran, fewer, more]), other).tolist() == [True, False, False]


def test_runs_that_train_all_weights_say_nothing_of_adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    adapters = DENSE.replace(job=DENSE.job.replace(lora_rank=16))
    runs = [PublishedRun(PLAIN, DENSE, 10.0, "all"), PublishedRun(replace(PLAIN, vpp=2), adapters, 8.0, "adapters")]
    monkeypatch.setattr(published_layouts, "published_plans", lambda: published_plans_of(runs))
    both = Plans.of([run.plan for run in runs])
    found = [has_published_layout(both, asked).tolist() for asked in (DENSE, adapters)]
    assert found == [[True, False], [False, True]]


def test_what_no_run_has_is_named_with_how_far_runs_go() -> None:
    experts = question(mixture(), "32x8:h100", global_batch=256)
    sharded = Plan(dp=256, zero=3)
    (told,) = unpublished(sharded, experts)
    assert told.what == "experts fully sharded without expert parallelism in megatron"
    spread = question(mixture(), "4x8:h100", global_batch=64, runtime="deepspeed")
    (told,) = unpublished(Plan(dp=32, ep=4, zero=1, num_microbatches=2), spread)
    assert told == ("expert parallelism in deepspeed", "none")
    (across,) = unpublished(Plan(tp=16, sp=True, dp=4, zero=1), DENSE)
    assert across == ("tensor parallelism across scale-up domains in megatron", "none")


def test_a_layout_is_known_where_a_run_of_the_model_on_as_many_accelerators_had_it() -> None:
    """Megatron-Bridge's recipe llama3_70b_pretrain_64gpu_h100_bf16_config: tp 4, cp 2, pp 4, vpp 5."""
    recipe = Plan(tp=4, sp=True, cp=2, pp=4, vpp=5, dp=2, zero=1, num_microbatches=128)
    assert has_published_layout(Plans.of([recipe, replace(recipe, vpp=2)]), DENSE).tolist() == [True, False]
    elsewhere = question(llama_70b(), "16x8:h100", global_batch=256, sequence_length=8192)
    assert not has_published_layout(Plans.of([replace(recipe, dp=4, num_microbatches=64)]), elsewhere).any()


@pytest.mark.parametrize(("asked", "first"), [(DENSE, 0), (question(mixture(), "8x8:h100", global_batch=256), 1)])
def test_a_published_layout_is_recommended_as_far_as_predictions_do_not_tell_it_is_slower(
    asked: Inputs, first: int
) -> None:
    """A tenth slower on paper: within what pairs of runs with experts are off by, not within that of dense ones."""
    none, both = np.zeros(2, dtype=np.int64), np.ones(2, dtype=bool)
    ranks = Ranks(none, np.array([1.0, 1.1]), both, *2 * (np.array([False, True]),), none)
    assert tied_rows(ranks, asked)[0] == first


@pytest.mark.parametrize(("accelerator", "proven"), [("v100", False), ("a100", True), ("h100", True), ("b200", True)])
def test_a_run_speaks_for_later_accelerators_and_for_the_generation_before(accelerator: str, proven: bool) -> None:
    """ZeRO 3 in Megatron was run on H100 and later ones alone: on A100 that tells something, on V100 it does not."""
    asked = question(llama_8b(), f"4x8:{accelerator}", global_batch=64)
    (sharded,) = Plans.of([Plan(dp=32, zero=3, num_microbatches=2)])
    assert is_unbeaten(Plans.of([sharded]), asked).item() == proven
    told = unpublished(sharded, asked)
    assert bool(told) != proven
    assert all(each.what.endswith("of this generation or the next") for each in told)


@given(inputs())
def test_whatever_is_proven_on_older_accelerators_is_proven_on_later_ones(asked: Inputs) -> None:
    number = generation(asked)
    older, newer = extent(number), extent(number + 1)
    assert older.joined(newer) == newer


def test_a_line_and_the_table_give_the_fastest_plan_the_same_lead() -> None:
    """Shares of the recommended plan's step, in both."""
    asked = question(llama_8b(), "2x8:h100", global_batch=128, sequence_length=8192)
    result = find(asked)
    line, lost = tie_lines(result)[-1], why_lost(result.fastest or result.best[0], result.best[0])
    (faster,) = re.findall(r"[\d.]+% faster", line)
    assert lost.startswith(faster)


def test_megatron_has_no_published_zero_2() -> None:
    (told,) = unpublished(Plan(dp=64, zero=2), DENSE)
    assert told == ("ZeRO 2 in megatron", "none")


@pytest.mark.parametrize(("slower", "first"), [(0.99, 1), (1.01, 0)])
def test_a_plan_of_no_published_kind_gives_way_to_one_that_is_a_little_slower(slower: float, first: int) -> None:
    share = share_of_ties(DENSE, published=False)
    assert share > share_of_ties(DENSE) > 0
    none, proven = np.zeros(2, dtype=np.int64), np.array([False, True])
    ranks = Ranks(none, np.array([1.0, 1 + slower * share]), proven, *2 * (none.astype(bool),), none)
    assert tied_rows(ranks, DENSE)[0] == first


def test_a_kind_of_plan_counts_as_far_as_its_runs_were_not_beaten() -> None:
    asked = question(mixture(), "32x8:h100", global_batch=256)
    split, sharded = Plan(tp=2, sp=True, ep=8, pp=4, dp=32, zero=1, num_microbatches=8), Plan(dp=256, ep=8, zero=3)
    alone, beside = ([PublishedRun(sharded, asked, 9.0), *others] for others in ([], [PublishedRun(split, asked, 8.0)]))
    kind = "experts fully sharded under expert parallelism in megatron"
    assert [extents_of(runs)[9].unbeaten[kind] for runs in (alone, beside)] == [256, 0]
    assert [extents_of(runs)[9].accelerators[kind] for runs in (alone, beside)] == [256, 256]


def test_experts_sharded_by_megatron_give_way_as_every_published_job_had_a_faster_plan() -> None:
    asked = question(mixture(), "32x8:h100", global_batch=256)
    sharded, few = Plan(dp=256, ep=8, zero=3), question(mixture(), "1x8:h100", global_batch=256)
    assert not unpublished(sharded, asked)
    assert beaten_kinds(sharded, asked) == ["experts fully sharded under expert parallelism in megatron"]
    assert not is_unbeaten(Plans.of([sharded]), asked).any()
    assert not beaten_kinds(Plan(dp=8, ep=8, zero=3, num_microbatches=32), few)
    split, other = estimate_each([Plan(tp=2, sp=True, ep=8, pp=4, dp=32, zero=1, num_microbatches=8), sharded], asked)
    assert "avoids experts fully sharded under expert parallelism in megatron" in reasons(split, other, asked)


def test_a_reason_never_sets_a_probability_against_itself() -> None:
    inputs = read_inputs(
        "mixtral-8x7b",
        "8x8:h100",
        Job(sequence_length=4096, global_batch=512),
        constraints=Constraints(tp=1, ep=8, pp=[2, 4], cp=1),
    )
    lines = tie_lines(find(inputs))
    assert lines
    assert all(one != other for one, other in re.findall(r"\((\d+%) for (\d+%)\)", " ".join(lines)))


def test_a_layout_that_recomputes_whole_layers_only_here_is_not_known_to_work() -> None:
    asked = read_inputs("llama-3.1-8b", "4x8:h100", Job(sequence_length=8192, global_batch=128))
    as_run = Plan(cp=2, dp=16, zero=1, num_microbatches=8)
    ways = [replace(as_run, recompute=each) for each in Recompute]
    ways += [replace(as_run, recompute=Recompute.FULL, recompute_layers=2)]
    plans = Plans.of(ways)
    assert has_published_layout(plans, asked).tolist() == [True] * 4
    assert is_known_to_work(plans, asked).tolist() == [True, True, False, False]
    best = find(asked).best[0]
    assert best.plan.recompute == Recompute.NONE  # a published split would fit in 91 % with two layers recomputed
    assert best.fit.probability > 0.91


def test_tensor_parallelism_comes_with_sequence_parallelism_where_it_costs_a_hundredth() -> None:
    asked = read_inputs("llama-3.1-8b", "1x8:h100", Job(sequence_length=8192, global_batch=64))
    best = find(asked.replace(constraints=Constraints(tp=2))).best[0].plan
    assert (best.tp, best.sp) == (2, True)


def test_the_best_plan_that_was_published_stands_beside_another_one() -> None:
    """As good as a search of that layout alone finds it, though many other plans are faster."""
    job = Job(sequence_length=4096, global_batch=2048)
    result = find(read_inputs("qwen3-235b-a22b", "32x8:h100", job))
    proven, best = result.proven, result.best[0]
    assert proven is not None
    published, recommended = has_published_layout(Plans.of([proven.plan, best.plan]), result.inputs)
    assert (published, recommended) == (True, False)
    (line,) = proven_lines(result)
    assert line.startswith(f"Published alternative: {proven.plan} is split as the fastest published run of this job")
    waits = proven.time.exposed_ep_s - best.time.exposed_ep_s
    assert re.search(r"and predicted [\d.]+% slower \(", line)
    assert f" slower ({format_seconds(waits)} more exposed expert exchange); that run took " in line
    layout = {name: getattr(proven.plan, name) for name in LAYOUT}
    alone = find(result.inputs.replace(constraints=Constraints(**layout)), top=1)
    assert proven.fit.probability >= EVEN
    assert rank_time_s(proven) <= rank_time_s(alone.best[0])


def test_the_best_plan_of_a_kind_that_was_run_stands_beside_one_that_nobody_ran() -> None:
    asked = read_inputs("llama-3.1-70b", "8x8:h100", Job(sequence_length=131072, global_batch=32))
    result = find(asked, top=1)
    assert unpublished(result.best[0].plan, asked)
    assert result.tested
    assert not unpublished(result.tested.plan, asked)
    (line,) = best_tested_lines(result)
    slower = pace(result.tested, result.best[0])
    assert (
        line == f"The best tested plan is {result.tested.plan}: {format_seconds(result.tested.step_time_s)}, {slower}."
    )
    usual = find(DENSE, top=1)
    assert usual.tested
    assert not best_tested_lines(usual)


def test_a_recommended_plan_that_was_published_stands_alone() -> None:
    job = Job(sequence_length=8192, global_batch=128)
    result = find(read_inputs("llama-3.1-8b", "1x8:h100", job, runtime="megatron-core@nemo-24.11"))
    assert has_published_layout(Plans.of([result.best[0].plan]), result.inputs).item()
    (line,) = proven_lines(result)
    assert re.fullmatch(
        r"The fastest published run of this job \(with Llama3-8B\) was split so and took [\d.]+ s "
        r"\(with its settings predicted [\d.]+ s; .+\), less than the best plan here\. "
        r"To price that run: .*--runtime .+",
        line,
    )
