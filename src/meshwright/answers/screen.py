"""Screen: the pieces that every printed answer shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshwright.answers.document.blocks import Block, Bullets, Heading, Lines, Table, Tone, Toned
from meshwright.answers.step_parts import BAR, PART_NAMES
from meshwright.answers.words import job_details, rack_words, sequences
from meshwright.cost.comms.collectives import reached_bandwidths
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import MOST_CERTAIN, Verdict
from meshwright.cost.memory.graph_pool import WHOLE_STEP
from meshwright.specs.behaviours import FROZEN, TRAINING_DTYPE, replaced_words
from meshwright.specs.cluster import Cluster
from meshwright.specs.hosts import unknown_host
from meshwright.specs.inputs import Inputs
from meshwright.specs.weights import active_parameter_count, parameter_count
from meshwright.units import GIB, GIGA, format_bandwidth, format_count, format_days, format_gib, format_seconds

TONES: dict[Verdict, Tone] = {Verdict.SAFE: "good", Verdict.AT_RISK: "warning", Verdict.OUT_OF_MEMORY: "bad"}
TONE_OF = {str(verdict): tone for verdict, tone in TONES.items()}
"""The same by the names of verdicts."""
DAYS_OF_A_YEAR = 365.25
MOST_REPLACED = 2
"""Replaced behaviours that a headline names; of more it says the number."""
KIND_NAMES = {"gemm": "matrix products", "attention": "attention core", "elementwise": "element-wise and norms"}
TOTALS = {"workspaces": "allocated", "cuda_graphs": "reserved", "exchange_buffers": "device"}
"""Sums of the components of memory, each after its last one."""
SPEED_COLUMNS = ("step", "MFU", "GiB")


def verdict_cell(verdict: Verdict) -> str:
    """A verdict in its colour."""
    return Toned(str(verdict), TONES[verdict])


def memory_cell(estimate: Estimate) -> str:
    """GiB of the worst stage in the colour of the verdict."""
    return Toned(f"{estimate.memory.device / GIB:.1f}", TONES[estimate.verdict])


def speed_cells(estimate: Estimate) -> tuple[str, str, str]:
    """Step time, MFU and memory, as `SPEED_COLUMNS` names them."""
    return format_seconds(estimate.step_time_s), f"{estimate.mfu:.1%}", memory_cell(estimate)


def links(cluster: Cluster) -> str:
    """The bandwidth of every level of links, as `nvlink 450 GB/s, fabric 50 GB/s`."""
    return ", ".join(_level_words(cluster))


def _reached_links(cluster: Cluster) -> str:
    """The same with what large collectives reach of it, as `nvlink 450 GB/s (344 reached)`; of one GPU without."""
    if cluster.num_gpus == 1:
        return links(cluster)
    levels = zip(_level_words(cluster), reached_bandwidths(cluster), strict=True)
    return ", ".join(f"{level} ({reached / GIGA:.3g} reached)" for level, reached in levels)


def _level_words(cluster: Cluster) -> list[str]:
    return [f"{level.name} {format_bandwidth(level.effective_bandwidth)}" for level in cluster.levels]


def model_words(inputs: Inputs) -> str:
    """The model with its parameters."""
    model = inputs.model
    active = f", {format_count(active_parameter_count(model))} active" if model.is_moe else ""
    return f"**{model.name}** ({format_count(parameter_count(model))} parameters{active})"


def constraint_words(inputs: Inputs) -> str:
    """The constraints of a question, behind a comma; nothing where it has none."""
    options = " ".join(map(inputs.constraints.option, inputs.constraints.given))
    return f", only plans with {options}" if options else ""


def job_words(inputs: Inputs) -> str:
    """The batch, the precision and which plans may be chosen."""
    job = inputs.job
    tokens = format_count(job.tokens_per_step)
    question = f"{sequences(job.global_batch)} of {job.sequence_length} ({tokens} tokens) a step, {job.precision}"
    return question + job_details(inputs) + constraint_words(inputs)


def headline(inputs: Inputs) -> Lines:
    """What was asked: model, cluster with the links between its accelerators, job and runtime."""
    cluster = inputs.cluster
    several = cluster.num_gpus > 1
    return Lines(
        (
            f"{model_words(inputs)} on **{cluster.num_nodes} x {cluster.gpus_per_node} {cluster.accelerator.id}**"
            f"{rack_words(cluster)}",
            *([f"Links per GPU, one direction: {_reached_links(cluster)}"] if several else []),
            *([f"**{unknown}**"] if (unknown := unknown_host(cluster)) else []),
            f"{job_words(inputs)}, {runtime_words(inputs)}",
        )
    )


def runtime_words(inputs: Inputs) -> str:
    """The runtime's name, with what the question replaced of it."""
    runtime, words = inputs.runtime, replacements(inputs)
    if not words:
        return runtime.id
    many = f"{len(runtime.replaced)} of its behaviours replaced"
    return f"{runtime.id} with {many if len(words) > MOST_REPLACED else ', '.join(words)}"


def replacements(inputs: Inputs) -> list[str]:
    """What a question replaced of its runtime, without the frozen weights that adapters bring with them."""
    brought = f"{TRAINING_DTYPE} {FROZEN}" if inputs.job.lora_rank else ""
    return [words for words in replaced_words(inputs.runtime) if words != brought]


def verdict_lines(estimate: Estimate, inputs: Inputs) -> tuple[str, str]:
    """Speed and fit of one plan; of one that does not fit, the verdict first."""
    speed, fit = _speed(estimate, inputs), fit_words(estimate, inputs)
    return (speed, fit) if estimate.verdict.fits else (fit, f"If it did fit: {speed}")


def _speed(estimate: Estimate, inputs: Inputs) -> str:
    whole = estimate.tokens_per_s_per_gpu * inputs.cluster.num_gpus
    peak = f" of the {inputs.recipe.peak} peak" if inputs.recipe.quantises else ""
    text = (
        f"**{format_seconds(estimate.step_time_s)} a step**, {estimate.tokens_per_s_per_gpu:,.0f} tokens/s per GPU "
        f"({format_count(whole)} in all), MFU {estimate.mfu:.1%}{peak}"
    )
    if not inputs.job.tokens:
        return text
    days = inputs.job.tokens / inputs.job.tokens_per_step * estimate.step_time_s / 86400
    time = format_days(days) if days < DAYS_OF_A_YEAR else f"{days / DAYS_OF_A_YEAR:,.1f} years"
    return f"{text}; {format_count(inputs.job.tokens)} tokens in {time}"


def fit_words(estimate: Estimate, inputs: Inputs) -> str:
    """The verdict, what the worst stage needs, and how likely it fits."""
    fit = estimate.fit
    needed, visible = format_gib(fit.needed_bytes), format_gib(fit.visible_bytes)
    least = "at most " if fit.probability <= 1 - MOST_CERTAIN else ""
    text = (
        f"**{fit.verdict}**: stage {estimate.worst_stage} needs {needed} of {visible} ({fit.usage:.0%}); "
        f"probability of fitting {least}{fit.probability:.0%}"
    )
    if fit.verdict == Verdict.AT_RISK and fit.needed_bytes > fit.visible_bytes:
        text += "; it fits only if it takes less than predicted"
        if fit.needed_bytes - estimate.memory.fragmentation <= fit.visible_bytes:
            text += ", or PyTorch gives back what it holds and does not use, which makes a step longer"
    if fit.verdict.fits and inputs.runtime.host.graphs == WHOLE_STEP:
        text += "; one CUDA graph of the whole step may need more"
    return Toned(text, TONES[fit.verdict])


def memory_table(estimate: Estimate, inputs: Inputs) -> Table:
    """Memory of the worst stage by component, adding up to allocated, reserved and device bytes; the 80 % rule."""
    memory, rows = estimate.memory, []
    for name, size in memory._asdict().items():
        if size > 0:
            rows.append(_memory_row(name.replace("_", " "), size, estimate))
        if total := TOTALS.get(name):
            rows.append(_memory_row(f"= {total}", getattr(memory, total), estimate, bold=True))
    note = f"80% rule (states and activations alone): {eighty_percent_words(estimate, inputs)}"
    return Table(
        ("", "GiB", "% of usable"), tuple(rows), "lrw", caption=f"Memory of stage {estimate.worst_stage}", note=note
    )


def eighty_percent_words(estimate: Estimate, inputs: Inputs) -> str:
    """What the 80 % rule of arXiv:2411.06465 counts, and whether the plan keeps it."""
    fit, label = estimate.fit, inputs.cluster.accelerator.memory_bytes / GIGA
    kept = "within the rule" if fit.keeps_eighty_percent_rule else "over the rule"
    return f"{fit.eighty_percent_usage:.0%} of the {label:.0f} GB on the label, {kept}"


def _memory_row(name: str, size: float, estimate: Estimate, bold: bool = False) -> tuple[str, ...]:
    share = size / estimate.fit.visible_bytes
    return _row((name, f"{size / GIB:.1f}", f"{share:4.0%} {_bar(share)}"), bold)


def time_table(estimate: Estimate) -> Table:
    """The step time by part, adding up; compute by kind, with what is computed again."""
    total, rows = estimate.step_time_s, []
    for name, seconds in estimate.time._asdict().items():
        if name == "compute_s":
            rows += [_time_row(KIND_NAMES[kind], part, total) for kind, part in estimate.compute._asdict().items()]
        elif seconds > 0:
            rows.append(_time_row(PART_NAMES[name], seconds, total))
    rows.append(_time_row("= step", total, total))
    caption = f"Time of one step{recomputed_words(estimate)}"
    return Table(("", "time", "% of the step"), tuple(rows), "lrw", caption=caption, total=True)


def recomputed_words(estimate: Estimate) -> str:
    """That kinds of compute count what is computed again, which the waterfall has by itself."""
    return ", recomputation included" if estimate.plan.recompute else ""


def _time_row(name: str, seconds: float, whole: float) -> tuple[str, ...]:
    return name, format_seconds(seconds), f"{seconds / whole:4.0%} {_bar(seconds / whole)}"


def _row(cells: tuple[str, ...], bold: bool) -> tuple[str, ...]:
    return tuple(f"**{cell.strip()}**" if index < 2 else cell for index, cell in enumerate(cells)) if bold else cells


def _bar(share: float) -> str:
    return "█" * min(max(round(share * BAR), 0), 2 * BAR)


def assumption_list(assumed: Sequence[str]) -> Iterator[Block]:
    """What the answer rests on that nobody gave."""
    yield Heading("Assumed", 2)
    yield Bullets(tuple(assumed))


def without_plan(refused: Sequence[str]) -> Iterator[Block]:
    """Runtimes or clusters without a plan, and why."""
    if refused:
        yield Heading("Without a plan", 3)
        yield Bullets(tuple(refused))
