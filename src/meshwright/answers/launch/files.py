"""Launch files: a plan as the files that start it, each saying first what it is and what was predicted."""

from __future__ import annotations

from dataclasses import dataclass, replace

from meshwright.answers.basis.assumptions import assumptions
from meshwright.answers.basis.uncertainty import step_time_line
from meshwright.answers.context_length import beyond_positions
from meshwright.answers.launch.hosts import host_lines, host_warning
from meshwright.answers.launch.release import release_lines
from meshwright.answers.screen import fit_words
from meshwright.answers.words import job_details, sequences
from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.fit import MOST_CERTAIN
from meshwright.cost.step import estimate_each
from meshwright.errors import Fault, IllegalPlan, InvalidInput, InvalidSpec, NothingFits
from meshwright.launch.carried import carried_settings
from meshwright.launch.export import Launch, export, nearest_spelled
from meshwright.launch.facts import facts_of, was_read
from meshwright.launch.fields import trained_as
from meshwright.launch.imports.rules.conditions import Said
from meshwright.launch.imports.rules.demands import demanded
from meshwright.launch.spelling import Settings
from meshwright.launch.table import launch_table, launch_tables, table_named, table_of
from meshwright.launch.writers import files_of
from meshwright.layout.legality import faults, require_legal
from meshwright.layout.plan import Plan
from meshwright.search.changes.nearest import nearest_legal
from meshwright.search.fits.any_fits import any_fits
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime import Runtime, read_runtime
from meshwright.units import format_gib, format_seconds
from meshwright.version import VERSION

POSITIONS = {"rotary base": "rope_theta", "rotary scaling": "rope.rope_type"}
"""Keys of `Model.config_values` for what positions rest on."""
LIKELY = 0.5
"""Probability of fitting below which files warn."""


@dataclass(frozen=True)
class LaunchFiles:
    """The files of one plan."""

    launch: Launch
    estimate: Estimate
    files: dict[str, str]
    """Text by name."""
    replaced: tuple[str, ...]
    """What differs from the plan that was asked for."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line each where the plan more likely runs out of memory than not, and where no such node is known."""
        return *memory_warning(self.estimate), *host_warning(self.launch.inputs.cluster)

    @property
    def hosts(self) -> tuple[str, ...]:
        """One line where each node of the question is several hosts."""
        return host_lines(self.launch.inputs.cluster)


def framework_of(runtime: str) -> str:
    """The launch table of a runtime's own framework; raises `InvalidInput` where no files are written for it."""
    if name := table_of(runtime):
        return name
    raise InvalidInput(_without_files(read_runtime(runtime)))


def _without_files(runtime: Runtime) -> str:
    """Why a runtime has no launch files, and the options that write some."""
    head = f"no launch files are written for {runtime.id}, the runtime of {runtime.version}"
    for name in launch_tables():
        table = launch_table(name)
        written = table.runtimes[0]
        if runtime.framework in (name, written):
            return (
                f"{head}: --to {name} writes those of {table.release}, whose runtime is {written}. Add --to {name} "
                f"--nearest for the nearest plan that {written} runs, priced again; or plan with --runtime {written}, "
                "which says whether it has a plan that fits"
            )
    return (
        f"{head}. Add --to FRAMEWORK --nearest for the nearest plan that another framework runs, priced again: "
        f"{', '.join(launch_tables())}"
    )


def launch_files(plan: Plan, inputs: Inputs, name: str, *, nearest: bool = False) -> LaunchFiles:
    """The files that launch a plan with a framework.

    name: of a launch table, or of its runtime; nearest: what the framework cannot say is replaced by the nearest legal
    plan of its own runtime, named and priced again. Raises `IllegalPlan` for a plan that the runtime refuses,
    `InvalidSpec` with every field that the framework has no setting for, `NothingFits` where the nearest plan does not
    fit in memory.
    """
    name = table_named(name)
    replaced: tuple[str, ...] = ()
    if nearest:
        plan, inputs, replaced = _moved(plan, inputs, name)
    require_legal(plan, inputs)
    launch = export(plan, inputs, name)
    carried = carried_settings(inputs.model, launch.table)
    launch = replace(launch, settings=launch.settings | carried)
    _require_accepted(launch)
    estimate = estimate_each([plan], inputs)[0]
    if replaced:
        _require_fitting(estimate, inputs)
    return LaunchFiles(launch, estimate, files_of(launch, _notes(launch, estimate, replaced, carried)), replaced)


def _require_accepted(launch: Launch) -> None:
    """Raise `InvalidSpec` for settings that the framework refuses beside one another."""
    said = Said(launch.table.as_recipe(launch.settings))
    rules = demanded(launch.name, said, facts_of(launch.plan, launch.inputs))
    broken = [Fault(rule.name, rule.reason) for rule in rules if not rule.kept]
    if broken:
        raise InvalidSpec(f"a launch of {launch.table.framework} ({launch.table.release}) with this plan", broken)


def memory_warning(estimate: Estimate) -> tuple[str, ...]:
    """What files and the screen say of a plan that more likely runs out of memory than not; nothing of others."""
    fit = estimate.fit
    if fit.probability >= LIKELY:
        return ()
    certain = fit.probability <= 1 - MOST_CERTAIN
    will = "will" if certain else "will probably"
    chance = "" if certain else f"; it fits with a probability of {fit.probability:.0%}"
    needed, visible = format_gib(fit.needed_bytes), format_gib(fit.visible_bytes)
    return (
        f"WARNING: this plan {will} run out of memory: stage {estimate.worst_stage} needs {needed} of {visible} "
        f"({fit.usage:.0%}){chance}. meshwright explain with this plan names changes with which it fits.",
    )


def _require_fitting(estimate: Estimate, inputs: Inputs) -> None:
    """Raise `NothingFits` for a nearest plan that does not fit: nobody chose it."""
    if estimate.verdict.fits:
        return
    raise NothingFits(
        f"the nearest plan that {inputs.runtime.id} runs does not fit in memory, and no files were written: "
        f"{estimate.plan}; {fit_words(estimate, inputs).replace('**', '')}. {_others_of(inputs)}"
    )


def _others_of(inputs: Inputs) -> str:
    """Whether another plan of a runtime fits, and how to find it."""
    name = inputs.runtime.id
    return {
        True: f"Other plans of {name} fit: plan with --runtime {name}",
        False: f"No plan of {name} fits here; plan with --runtime {name} says what would",
        None: f"Plan with --runtime {name}, which says whether another one fits",
    }[any_fits(inputs)]


def _moved(plan: Plan, inputs: Inputs, name: str) -> tuple[Plan, Inputs, tuple[str, ...]]:
    """The plan, or the nearest that the framework has settings for, and what is different."""
    runtimes, moved = launch_table(name).runtimes, inputs
    if inputs.runtime.id not in runtimes:
        moved = inputs.replace(runtime=trained_as(inputs.runtime, read_runtime(runtimes[0])))
    legal = nearest_legal(plan, moved, ()) if faults(plan, moved) else plan
    if legal is None:
        raise IllegalPlan(f"plan {plan} with {moved.runtime.id}", faults(plan, moved))
    chosen = nearest_spelled(legal, moved, name) or legal
    before, after = plan.to_dict(), chosen.to_dict()
    idle = {"context_exchange"} if plan.cp == chosen.cp == 1 else set[str]()
    changed = [field for field in before if before[field] != after[field] and field not in idle]
    changes = [f"{field} {before[field]} becomes {after[field]}" for field in changed]
    runtime = [f"runtime {inputs.runtime.id} becomes {moved.runtime.id}"] if moved is not inputs else []
    if inputs.runtime.storage.weight_bytes < moved.runtime.storage.weight_bytes:
        runtime.append("training in bf16 alone becomes training with fp32 weights and moments")
    return chosen, moved, (*runtime, *changes)


def _notes(launch: Launch, estimate: Estimate, replaced: tuple[str, ...], carried: Settings) -> list[str]:
    """What every file says first."""
    inputs, table = launch.inputs, launch.table
    cluster, job = inputs.cluster, inputs.job
    return [
        *memory_warning(estimate),
        *host_warning(cluster),
        f"{inputs.model.name} on {cluster.num_nodes} x {cluster.gpus_per_node} {cluster.accelerator.id}: {launch.plan}",
        *host_lines(cluster),
        f"Written by Meshwright {VERSION} for {table.framework} ({table.release}).",
        *release_lines(table, inputs.runtime),
        f"{sequences(job.global_batch)} of {job.sequence_length} tokens a step, {job.precision}{job_details(inputs)}.",
        f"Predicted: {format_seconds(estimate.step_time_s)} a step. {step_time_line(estimate, inputs)}",
        f"Memory: {fit_words(estimate, inputs).replace('**', '')}.",
        *(f"Replaced: {each}." for each in replaced),
        *_of_the_config(launch, carried),
        *_unscaled(launch),
        *_packed(launch),
        *beyond_positions(inputs),
        "The prediction assumes:",
        *(f"  {each}" for each in assumptions(inputs)),
    ]


def _of_the_config(launch: Launch, carried: Settings) -> list[str]:
    """What comes from the model's config.json, or has to; nothing where the framework reads it itself."""
    model = launch.inputs.model
    if carried and was_read(model):
        return [f"From the model's config.json: {', '.join(carried)}."]
    rotary = {} if model.learned_positions else POSITIONS
    missing = [name for name, key in rotary.items() if key not in model.config_values]
    routed = not model.is_moe or carried.keys() & {*launch.table.answered_by.get("ROUTER", ())}
    missing += ["the epsilon of norms", *([] if routed else ["the scores and losses of the router"])]
    said = ", ".join([*missing, "initial weights"])
    what = f"This plan's model was not read from a config.json. Take these from the config.json: {said}."
    return [what] if launch.table.carried else []


def _unscaled(launch: Launch) -> list[str]:
    """That a framework trains plain rotary positions, where the model's are scaled and it has no setting for that."""
    kind, carried = launch.inputs.model.config_values.get("rope.rope_type", "default"), launch.table.carried
    if kind == "default" or not carried or any(each.value == "rope.factor" for each in carried):
        return []
    return [
        f"{launch.table.framework} has no scaled rotary positions ({kind} in the model's config.json) and trains plain "
        "ones: weights that were trained with scaled ones do not go on as they were."
    ]


def _packed(launch: Launch) -> list[str]:
    """What the data has to be for attention to stay within documents, where the price takes it to."""
    job, masks = launch.inputs.job, launch.table.masks_documents
    if job.attended_length == job.sequence_length:
        return []
    packed = f"The price is for documents of {job.attended_length} tokens packed into sequences"
    if masks and masks in launch.settings:
        return [f"{packed}: {masks} keeps attention within the documents of your data, which have to be as long."]
    return [
        f"{packed}: the data has to be packed so, and its loader has to tell the attention kernel where documents end. "
        "Else a step takes as long as with whole sequences."
    ]
