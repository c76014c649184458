"""Export: the settings that launch a plan with one framework, read back before anybody is told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from meshwright.errors import InvalidInput, InvalidSpec, MeshwrightError, any_of
from meshwright.launch.attention import attention_changes, attention_faults, splits_attention
from meshwright.launch.facts import Facts, facts_of, holds
from meshwright.launch.fields import differences, fields_of, normal_fields, question_of
from meshwright.launch.forms import Fields
from meshwright.launch.kernels import dispatch_faults, kernel_faults
from meshwright.launch.refusals import limits_of, options_of, refusals, spelled_alone, way_on
from meshwright.launch.registry import published_name, registered, whole_axes
from meshwright.launch.spelling import Settings, settings_of, understand
from meshwright.launch.table import LaunchTable, launch_table, launch_tables
from meshwright.layout.plan import Plan
from meshwright.search.changes.nearest import nearest_legal
from meshwright.search.fits.any_fits import any_fits
from meshwright.specs.hosts import gpus_per_host
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime import read_runtime

FOLLOWING = ("plan.dp_shard", "plan.local_batch", "plan.num_microbatches", "plan.pipeline_micro_batch")
"""Fields that differ because others do."""
MOST_CHANGES = 5
"""Times that a plan is changed in search of one that a framework has settings for."""


@dataclass(frozen=True)
class Launch:
    """A plan as a framework spells it."""

    name: str
    """Of the table."""
    plan: Plan
    inputs: Inputs
    settings: Settings
    fields: Fields

    @property
    def table(self) -> LaunchTable:
        """The framework's settings."""
        return launch_table(self.name)

    @property
    def to_fill(self) -> dict[str, str]:
        """What the user has to say, with what belongs there: what neither settings nor the model's config.json do."""
        facts, table, settings = facts_of(self.plan, self.inputs), self.table, self.settings.keys()
        return {
            key: what
            for key, what in table.to_fill.items()
            if settings.isdisjoint({key, *table.answered_by.get(key, ())})
            and all(holds(each, facts) for each in table.asked_when.get(key, ()))
        }

    @property
    def nodes(self) -> int:
        """Hosts that the plan's ranks fill."""
        return -(-self.plan.num_gpus // gpus_per_host(self.inputs.cluster))

    @property
    def ranks_per_node(self) -> int:
        """Processes on each."""
        return min(gpus_per_host(self.inputs.cluster), self.plan.num_gpus)


def require_written(name: str, runtime: str) -> None:
    """Raise `InvalidInput` where a launch table does not write plans of a runtime, `UnknownName` for no such table."""
    table = launch_table(name)
    if runtime not in table.runtimes:
        raise InvalidInput(
            f"this plan is priced for the runtime {runtime}, and {name} writes files for {table.release}, whose "
            f"runtime is {any_of(table.runtimes)}: plan with --runtime {table.runtimes[0]}, which says "
            "whether it has a plan that fits, or add --nearest"
        )


def export(plan: Plan, inputs: Inputs, name: str) -> Launch:
    """The settings of a plan.

    name: of a launch table. Raises `UnknownName` for another; `InvalidInput` for a plan that was priced for another
    framework or release, `InvalidSpec` with every field that the framework has no setting for.
    """
    table = launch_table(name)
    require_written(name, inputs.runtime.id)
    launch, ran = _spelled_or_refused(plan, inputs, table, name)
    names = [each.partition(":")[0] for each in _causes(differences(plan, inputs, *ran))]
    whole = whole_axes(plan, inputs.model, table)
    theirs = normal_fields(*ran)
    changes = attention_changes(plan, inputs, table) | dict.fromkeys((f"plan.{axis}" for axis in whole), 1)
    faults = refusals(names, theirs, normal_fields(plan, inputs), table) if names else []
    faults += kernel_faults(plan, inputs, table)
    if unsent := dispatch_faults(plan, inputs):
        faults, changes = [*faults, *unsent], changes | {"runtime.dispatcher": "all_to_all"}
    if faults := [*faults, *attention_faults(plan, inputs, table), *whole.values()]:
        hint = way_on([*dict.fromkeys([*names, *changes])], theirs | changes, inputs, table)
        if any(fault.where == "model" for fault in faults) or "job.lora_rank" in names:
            hint = _elsewhere(inputs, name)
        raise InvalidSpec(f"a launch of {table.framework} ({table.release}) with this plan", faults, hint)
    return launch


def nearest_spelled(plan: Plan, inputs: Inputs, name: str) -> Plan | None:
    """The nearest legal plan that a framework has settings for, with as many of the plan's fields as it can say.

    name: of a launch table of the plan's runtime. Returns None where no legal plan comes near. Raises as `export` does
    for what no plan changes.
    """
    table, named = launch_table(name), set[str]()
    for _ in range(MOST_CHANGES):
        ran, read = _spelled_or_refused(plan, inputs, table, name)[1]
        different, alone = differences(plan, inputs, ran, read), _whole_axes(plan, inputs, table)
        if not different and not alone:
            return plan
        fields, causes = [_field(each) for each in different if each.startswith("plan.")], _causes(different)
        if not all(each.startswith("plan.") for each in causes):
            export(plan, inputs, name)
        named |= {*map(_field, causes), *alone}
        values = {field: getattr(ran, field) for field in fields if field in Plan.__dataclass_fields__}
        values |= dict.fromkeys(alone, 1)
        chosen = nearest_legal(replace(plan, **values), inputs, named)
        if chosen is None or chosen == plan:
            return None
        plan = chosen
    return None


def _whole_axes(plan: Plan, inputs: Inputs, table: LaunchTable) -> list[str]:
    """Axes that a framework's settings split, and its script cannot for this model."""
    cp = [] if splits_attention(plan, inputs, table) else ["cp"]
    return [*cp, *whole_axes(plan, inputs.model, table)]


def _spelled(plan: Plan, inputs: Inputs, table: LaunchTable, name: str) -> tuple[Launch, tuple[Plan, Inputs]]:
    """The settings of a plan, and the plan and question that they say."""
    named = published_name(inputs) if "model.name" in table.script.values() else registered(inputs, table)
    fields = fields_of(plan, inputs) | {"model.name": named}
    facts: Facts = facts_of(plan, inputs)
    settings = settings_of(fields, facts, table)
    told = understand(settings, table)
    known = None if "model.heads" in table.rows else inputs.model
    ran, read = question_of(
        told.fields | {"cluster.gpus": plan.num_gpus},
        inputs.cluster,
        inputs.runtime,
        model=known,
        name=inputs.model.name,
    )
    takes_all = told.fields.get("job.expert_capacity") == "none"
    imbalance = inputs.job.expert_imbalance or (1.0 if takes_all and inputs.model.is_moe else None)
    routed = read.job.replace(expert_imbalance=imbalance, expert_spread=inputs.job.expert_spread)
    return Launch(name, plan, inputs, settings, fields), (ran, read.replace(job=routed))


def _spelled_or_refused(
    plan: Plan, inputs: Inputs, table: LaunchTable, name: str
) -> tuple[Launch, tuple[Plan, Inputs]]:
    """The same; a model that is refused with the frameworks that have settings for it."""
    try:
        return _spelled(plan, inputs, table, name)
    except InvalidSpec as error:
        raise InvalidSpec(error.subject, error.faults, _elsewhere(inputs, name)) from None


def _elsewhere(inputs: Inputs, name: str) -> str:
    """What else there is for a model that a framework's files refuse: other frameworks, and recipes of their own."""
    others = [each for each in launch_tables() if each != name and launch_table(each).own_models]
    own = [_own(inputs, each) for each in others if _may_fit(each, inputs)]
    parts = (_own(inputs, name, written_for=True), _others(inputs, name), *own)
    return " ".join(each for each in parts if each)


@lru_cache(maxsize=256)
def _may_fit(name: str, inputs: Inputs) -> bool:
    """Whether a framework's runtime has a plan of the question that fits, or may have one."""
    table = launch_table(name)
    try:
        return any_fits(spelled_alone(inputs.replace(runtime=read_runtime(table.runtimes[0])), table)) is not False
    except MeshwrightError:
        return False


def _own(inputs: Inputs, name: str, *, written_for: bool = False) -> str:
    """What a framework that has recipes builds a model with by itself, as far as that is known; empty where nothing.

    written_for: it is the one that the plan was to be launched with.
    """
    table = launch_table(name)
    own, by_hand = table.own_models.get(inputs.model.family), "degrees are set there by hand."
    if own and written_for:
        return f"{table.framework} has {own}. Nothing of it is written here: the plan's {by_hand}"
    if own:
        return f"{table.framework} has {own}: --runtime {table.runtimes[0]} finds plans for it, whose {by_hand}"
    if not written_for or table.writer != "recipe":
        return ""
    if own is None:
        return f"This is of the recipe that is written here; {table.framework} may have one of its own for the model."
    return f"{table.framework} has nothing of its own for the model either."


def _others(inputs: Inputs, name: str) -> str:
    """The frameworks but one that have settings for a model and a plan that fits, as options; where none has, those
    whose plans do not fit; empty where none has settings.
    """
    others = {options: fits for each in launch_tables() if each != name for options, fits in _options(each, inputs)}
    fitting = [options for options, fits in others.items() if fits]
    if fitting:
        return f"Plan with {_ways(fitting)}."
    if unknown := [options for options, fits in others.items() if fits is None]:
        return f"Plan with {_ways(unknown)}; whether a plan fits there is not known before that search."
    return f"No plan that fits was found with {_ways([*others])} either, which have settings for it." if others else ""


def _ways(options: list[str]) -> str:
    """Options of the command, of which each is one way."""
    plain = [each for each in options if " " not in each]
    ways = [*([any_of(plain)] if plain else []), *(each for each in options if each not in plain)]
    return ", or with ".join(f"--runtime {each}" for each in ways)


@lru_cache(maxsize=256)
def _options(name: str, inputs: Inputs) -> list[tuple[str, bool | None]]:
    """The runtime and the options with which a search finds plans of a framework for a model, and whether one of them
    fits, None where that is not known; empty where it has no settings for it.
    """
    table, ranks = launch_table(name), inputs.cluster.num_gpus
    plan = Plan(dp=ranks, num_microbatches=max(inputs.job.global_batch // ranks, 1))
    try:
        moved = inputs.replace(runtime=read_runtime(table.runtimes[0]))
        ran = _spelled(plan, moved, table, name)[1]
    except MeshwrightError:
        return []
    faults, changes = attention_faults(plan, moved, table), attention_changes(plan, moved, table)
    names = [each.partition(":")[0] for each in differences(plan, moved, *ran)]
    if any(each.startswith("model.") for each in names) or any(each.where == "model" for each in faults):
        return []
    asked = options_of([*names, *changes], normal_fields(*ran) | changes, moved)
    options = " ".join([moved.runtime.id, *asked, *limits_of({}, moved, table)])
    return [(options, any_fits(spelled_alone(moved, table)))]


def _field(difference: str) -> str:
    return difference.partition(":")[0].removeprefix("plan.")


def _causes(different: list[str]) -> list[str]:
    """The differences without those that follow from others: of stages, of ranks, of micro-batches."""
    names = {each.partition(":")[0] for each in different}
    split = names & {"plan.pp", "plan.tp", "plan.cp"}
    follow = {"plan.dp", "job.global_batch", *FOLLOWING} if split else {*FOLLOWING}
    follow |= {"plan.chunk_layers", "plan.schedule"} if "plan.pp" in names else set()
    follow |= {"plan.context_exchange"} if "plan.cp" in names else set()
    follow |= {"job.lora_modules", "runtime.canonical_lora"} if "job.lora_rank" in names else set()
    return [each for each in different if each.partition(":")[0] not in follow] or different
