"""Screen: a score as it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.validation.score.errors import Errors
from meshwright.validation.score.score import Part, Score

HEAD = ("mean", "median", "bias", "p90", "within 10 %", "within 20 %")
LONGEST_REASON = 160
MOST_IDS = 4


def score_screen(score: Score) -> RenderableType:
    """Coverage, step time by family and source, memory by kind, fits, rankings, and what was left out."""
    return Group(
        _coverage(score),
        "",
        _judged_together(score),
        "",
        _parts(
            "step time", {name: each.step_time for name, each in score.by["dataset"].items()}, score.whole.step_time
        ),
        "",
        _parts("memory", {**score.kinds, **_memory(score.by["dataset"])}, score.whole.memory),
        *_not_scored(score),
        *(_apart(score.apart) if score.apart else []),
        "",
        _verdicts(score),
        _intervals(score),
        _rankings(score),
        *_skipped(score),
    )


def _coverage(score: Score) -> Text:
    share = score.represented / score.rows if score.rows else 0.0
    text = Text(f"{score.represented} of {score.rows} rows are represented ({share:.1%})", style="bold")
    return text.append("; errors are predicted / measured - 1", style="not bold")


def _judged_together(score: Score) -> Table:
    table = _table("step time, judged together", "n", "sources", "mean of sources", *HEAD[:3])
    for each in score.judged_together:
        errors = each.step_time
        figures = (
            *map(_share, (each.mean_of_datasets, errors.mape, errors.median_ape)),
            _share(errors.bias, "+"),
        )
        table.add_row(each.name, str(errors.n), str(each.datasets), *figures)
    return table


def _memory(parts: dict[str, Part]) -> dict[str, Errors | None]:
    return {name: part.memory for name, part in parts.items()}


def _parts(title: str, parts: dict[str, Errors | None], whole: Errors | None) -> Table:
    table = _table(title, "n", *HEAD)
    for name, errors in (*parts.items(), ("all", whole)):
        if errors:
            table.add_row(name, *_figures(errors))
    return table


def _figures(errors: Errors) -> Sequence[str]:
    shares = (errors.mape, errors.median_ape)
    within = (errors.p90, errors.within_10, errors.within_20)
    return (
        str(errors.n),
        *map(_share, shares),
        _share(errors.bias, "+"),
        *map(_share, within),
    )


def _share(share: float, sign: str = "") -> str:
    """Short also where a table holds figures of something else."""
    return format(share, f"{sign}.1%" if abs(share) < 100 else f"{sign}.0e")


def _apart(parts: dict[str, Part]) -> list[RenderableType]:
    table = _table("scored separately, as their source doubts them", "n", *HEAD)
    for quality, part in parts.items():
        for what, errors in (("step time", part.step_time), ("memory", part.memory)):
            if errors:
                table.add_row(f"{quality}: {what}", *_figures(errors))
    return ["", table]


def _not_scored(score: Score) -> list[Text]:
    if not score.memory_not_scored:
        return []
    return [Text(f"{score.memory_not_scored} memory figures of an unknown kind are not scored.")]


def _verdicts(score: Score) -> Text:
    counts = score.verdicts
    text = f"Of {counts.oom} runs that ran out of memory, {counts.oom_called_safe} are predicted to be safe; "
    return Text(f"{text}of {counts.fitted} that fitted, {counts.fitted_called_oom} are predicted to run out of memory.")


def _intervals(score: Score) -> Text:
    time, memory = score.intervals
    contained = f"{time.inside:.0%} of {time.n} step times and {memory.inside:.0%} of {memory.n} memory figures"
    return Text(f"Intervals meant to contain 80% of runs contain {contained}.")


def _rankings(score: Score) -> Text:
    if not score.rankings:
        return Text("No job has three runs that could be ranked.")
    spearman = sum(each.spearman for each in score.rankings) / len(score.rankings)
    regret = sum(each.regret for each in score.rankings) / len(score.rankings)
    worst = max(score.rankings, key=lambda each: each.regret)
    text = f"Ranking within {len(score.rankings)} jobs: on average Spearman {spearman:.2f} and regret {regret:.1%}; "
    return Text(f"{text}the largest regret is {worst.regret:.1%}, in {worst.group}.")


def _skipped(score: Score) -> list[RenderableType]:
    reasons: dict[str, list[str]] = {}
    for name, reason in score.skipped:
        reasons.setdefault(reason, []).append(name)
    lines = [Text(f"\nNot represented, {len(score.skipped)} rows:")] if reasons else []
    for reason, names in reasons.items():
        more = f" and {len(names) - MOST_IDS} more" if len(names) > MOST_IDS else ""
        lines.append(
            Text(f"  {', '.join(names[:MOST_IDS])}{more}: {shorten(reason, LONGEST_REASON, placeholder=' …')}")
        )
    return [*lines]


def _table(title: str, *columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(title, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
