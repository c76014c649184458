"""Screen: a score as it is printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import shorten

from meshwright.answers.document.blocks import Block, Lines, Paragraph, Table
from meshwright.answers.words import plural
from meshwright.search.published.runs import AS_FAST
from meshwright.validation.score.errors import Errors
from meshwright.validation.score.score import Score

HEAD = ("mean", "median", "bias", "p90", "within 10 %", "within 20 %")
LONGEST_REASON = 160
MOST_IDS = 4
MOST_DOUBTS = 10
"""Reasons to doubt runs that are told, those of the most runs."""


def score_screen(score: Score) -> tuple[Block, ...]:
    """Coverage, step time by family and source, memory by kind, fits, rankings, and what was left out."""
    sources = score.by["dataset"].items()
    step_times, memories = ({name: getattr(part, what) for name, part in sources} for what in ("step_time", "memory"))
    unknown = f"{score.memory_not_scored} memory figures of an unknown kind are not scored."
    unscored = unknown if score.memory_not_scored else ""
    return (
        _coverage(score),
        *(
            [_judged_together(score), _errors("step time", step_times | {"all": score.step_time})]
            if score.step_time
            else [Paragraph("No step time is scored.")]
        ),
        *(
            [_errors("memory", {**score.memory_by_kind, **memories, "all": score.memory}, unscored)]
            if score.memory
            else [Paragraph(unscored or "No memory is scored.")]
        ),
        *([_doubted(score)] if score.apart else []),
        *([_intervals(score)] if score.intervals else []),
        Lines((_verdicts(score), _rankings(score))),
        *([Lines(tuple(_skipped(score)))] if score.skipped else []),
    )


def _coverage(score: Score) -> Paragraph:
    share = score.represented / score.rows if score.rows else 0.0
    rows = "1 row is" if score.rows == 1 else f"{score.rows} rows are"
    represented = f"{score.represented} of {rows} represented ({share:.1%})"
    return Paragraph(f"**{represented}**; errors are predicted / measured - 1")


def _judged_together(score: Score) -> Table:
    rows = (
        (name, str(each.step_time.n), str(each.datasets), _share(each.mean_of_datasets), *_figures(each.step_time)[1:4])
        for name, each in score.judged_together.items()
    )
    return Table(("step time, judged together", "n", "sources", "mean of sources", *HEAD[:3]), tuple(rows))


def _doubted(score: Score) -> Table:
    """The reasons of the most runs first."""
    doubted = [
        (f"{quality}: {what}", errors)
        for quality, part in score.apart.items()
        for what, errors in (("step time", part.step_time), ("memory", part.memory))
        if errors
    ]
    doubted.sort(key=lambda each: -each[1].n)
    more = len(doubted) - MOST_DOUBTS
    note = f"{more} more of fewer runs are in --json." if more > 0 else ""
    return _errors("scored separately, as their source doubts them", dict(doubted[:MOST_DOUBTS]), note)


def _errors(title: str, parts: Mapping[str, Errors | None], note: str = "") -> Table:
    rows = ((name, *_figures(errors)) for name, errors in parts.items() if errors)
    return Table((title, "n", *HEAD), tuple(rows), note=note)


def _figures(errors: Errors) -> tuple[str, ...]:
    """The number of runs, then shares in the order of `HEAD`."""
    n, mape, median, bias, *rest = errors
    return (str(n), _share(mape), _share(median), _share(bias, "+"), *map(_share, rest))


def _share(share: float, sign: str = "") -> str:
    """Short also where a table holds figures of something else."""
    return format(share, f"{sign}.1%" if abs(share) < 100 else f"{sign}.0e")


def _verdicts(score: Score) -> str:
    counts, text = score.fit, "No run ran out of memory; "
    if counts.oom:
        runs = plural(counts.oom, "run")
        text = f"Of {runs} that ran out of memory, {_are_predicted(counts.oom_called_safe)} to be safe; "
    return f"{text}of {counts.fitted} that fitted, {_are_predicted(counts.fitted_called_oom)} to run out of memory."


def _are_predicted(runs: int) -> str:
    return f"{runs} {'is' if runs == 1 else 'are'} predicted"


def _intervals(score: Score) -> Table:
    rows = (
        (
            name,
            str(each.n),
            str(each.sources),
            f"{each.mean_of_sources:.0%}",
            f"{each.standard_error:.0%}" if each.sources > 1 else "-",
            f"{each.inside:.0%}",
        )
        for name, each in score.intervals.items()
    )
    head = ("inside intervals meant to hold 80 %", "n", "sources", "mean of sources", "±", "runs")
    return Table(head, tuple(rows))


def _rankings(score: Score) -> str:
    if not score.ranking:
        return "No job has two runs that could be ranked."
    spearman = sum(each.spearman for each in score.ranking) / len(score.ranking)
    regret = sum(each.regret for each in score.ranking) / len(score.ranking)
    first = sum(each.regret_of_fastest <= AS_FAST for each in score.ranking) / len(score.ranking)
    worst = max(score.ranking, key=lambda each: each.regret)
    near = sum(each.regret <= AS_FAST for each in score.ranking) / len(score.ranking)
    text = f"Ranking runs within {len(score.ranking)} jobs: mean Spearman correlation {spearman:.2f}. On average the "
    text += f"recommended plan was {regret:.1%} slower than the fastest run. It was within {AS_FAST:.0%} in {near:.0%} "
    text += f"of the jobs (the plan predicted fastest: in {first:.0%}). The worst was {worst.regret:.1%} slower, in "
    return f"{text}{worst.group}."


def _skipped(score: Score) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for name, reason in score.skipped:
        reasons.setdefault(reason, []).append(name)
    yield f"Not represented, {plural(len(score.skipped), 'row')}:"
    for reason, names in reasons.items():
        more = f" and {len(names) - MOST_IDS} more" if len(names) > MOST_IDS else ""
        yield f"  {', '.join(names[:MOST_IDS])}{more}: {shorten(reason, LONGEST_REASON, placeholder=' …')}"
