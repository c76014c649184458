"""Screen: the pieces that every printed answer shares."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.answers.step_parts import PART_NAMES
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import Verdict
from meshwright.specs.inputs import Inputs
from meshwright.specs.weights import active_parameter_count, parameter_count
from meshwright.units import GIB, GIGA, format_bandwidth, format_count, format_gib, format_seconds

BAR = 24
STYLES = {Verdict.SAFE: "green", Verdict.AT_RISK: "yellow", Verdict.OUT_OF_MEMORY: "red"}
DAYS_OF_A_YEAR = 365.25
KIND_NAMES = {"gemm": "matrix products", "attention": "attention core", "elementwise": "element-wise and norms"}


def headline(inputs: Inputs) -> Text:
    """What was asked: model, cluster with its links, job and runtime."""
    model, cluster, job = inputs.model, inputs.cluster, inputs.job
    text = Text()
    active = f", {format_count(active_parameter_count(model))} active" if model.is_moe else ""
    parameters = f"{format_count(parameter_count(model))} parameters{active}"
    text.append(model.name, style="bold").append(f" ({parameters}) on ")
    text.append(f"{cluster.num_nodes} x {cluster.gpus_per_node} {cluster.accelerator.id}", style="bold")
    links = ", ".join(f"{level.name} {format_bandwidth(level.effective_bandwidth)}" for level in cluster.levels)
    text.append(f"\nLinks per GPU, one direction: {links}")
    tokens = format_count(job.tokens_per_step)
    text.append(f"\n{job.global_batch} sequences of {job.sequence_length} ({tokens} tokens) a step, {job.precision}, ")
    text.append(inputs.runtime.id)
    replaced = len(inputs.runtime.replaced)
    return text.append(f" with {replaced} of its behaviours replaced" if replaced else "")


def verdict_line(estimate: Estimate, inputs: Inputs) -> Text:
    """Fit and speed of one plan; of one that does not fit, the verdict first."""
    fits = estimate.verdict.fits
    lines = [_speed(estimate, inputs), _fit(estimate)]
    if not fits:
        lines = [lines[1], Text("If it did fit: ").append_text(lines[0])]
    return Text("\n").join(lines)


def _speed(estimate: Estimate, inputs: Inputs) -> Text:
    text = Text(f"{format_seconds(estimate.step_time_s)} a step", style="bold")
    whole = estimate.tokens_per_s_per_gpu * inputs.cluster.num_gpus
    text = Text().append_text(text)
    text.append(f", {estimate.tokens_per_s_per_gpu:,.0f} tokens/s per GPU ({format_count(whole)} in all)")
    text.append(f", MFU {estimate.mfu:.1%}")
    if inputs.job.tokens:
        days = inputs.job.tokens / inputs.job.tokens_per_step * estimate.step_time_s / 86400
        time = f"{days:,.1f} days" if days < DAYS_OF_A_YEAR else f"{days / DAYS_OF_A_YEAR:,.1f} years"
        text.append(f"; {format_count(inputs.job.tokens)} tokens in {time}")
    return text


def _fit(estimate: Estimate) -> Text:
    fit, text = estimate.fit, Text()
    needed, visible = format_gib(fit.needed_bytes), format_gib(fit.visible_bytes)
    text.append(str(fit.verdict), style=f"bold {STYLES[fit.verdict]}")
    text.append(f": stage {estimate.worst_stage} needs {needed} of {visible} ({fit.usage:.0%})")
    text.append(f"; probability of fitting {fit.probability:.0%}")
    if fit.verdict == Verdict.AT_RISK and fit.needed_bytes > fit.visible_bytes:
        text.append("; it fits only with less fragmentation than usual")
    return text


def memory_table(estimate: Estimate, inputs: Inputs) -> Table:
    """Memory of the worst stage by component, adding up to allocated, reserved and device bytes; the 80 % rule."""
    memory, visible = estimate.memory, estimate.fit.visible_bytes
    table = Table(title=f"Memory of stage {estimate.worst_stage}", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    table.add_column("GiB", justify="right", no_wrap=True)
    table.add_column("% of visible", no_wrap=True)
    allocated = ("parameters", "gradients", "optimizer_states", "activations", "logits", "temporaries", "workspaces")
    for names, total in (
        (allocated, "allocated"),
        (("fragmentation",), "reserved"),
        (("context", "communicators"), "device"),
    ):
        for name in names:
            _bar_row(table, name.replace("_", " "), getattr(memory, name), visible)
        _bar_row(table, f"= {total}", getattr(memory, total), visible, style="bold")
    share, rule = estimate.eighty_percent_usage, estimate.eighty_percent_verdict
    label = inputs.cluster.accelerator.memory_bytes / GIGA
    table.caption = f"The 80 % rule (states and activations alone): {share:.0%} of {label:.0f} GB, {rule}"
    table.caption_justify = "left"
    return table


def time_table(estimate: Estimate) -> Table:
    """The step time by part, adding up; compute by kind."""
    total = estimate.step_time_s
    table = Table(title="Time of one step", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("% of the step", no_wrap=True)
    for name, seconds in estimate.time._asdict().items():
        if name == "compute_s":
            for kind, part in estimate.compute._asdict().items():
                _time_row(table, KIND_NAMES[kind], part, total)
        elif seconds > 0:
            _time_row(table, PART_NAMES[name], seconds, total)
    _time_row(table, "= step", total, total, style="bold")
    return table


def assumption_list(assumed: Sequence[str]) -> RenderableType:
    """What the answer rests on that nobody gave."""
    lines = [Text(f"- {line}", style="dim") for line in assumed]
    return Group(Text("Assumed", style="bold"), *lines)


def _bar_row(table: Table, name: str, size: float, whole: float, style: str = "") -> None:
    if size > 0:
        table.add_row(name, f"{size / GIB:.1f}", f"{size / whole:4.0%} {_bar(size / whole)}", style=style)


def _time_row(table: Table, name: str, seconds: float, whole: float, style: str = "") -> None:
    table.add_row(name, format_seconds(seconds), f"{seconds / whole:4.0%} {_bar(seconds / whole)}", style=style)


def _bar(share: float) -> str:
    return "█" * min(max(round(share * BAR), 0), 2 * BAR)
