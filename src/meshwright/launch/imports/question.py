"""Question: the plan that a launch file is, with model, cluster, job and runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from meshwright.arguments import checked
from meshwright.errors import IllegalPlan, InvalidInput, InvalidSpec
from meshwright.launch.facts import facts_of
from meshwright.launch.fields import question_of
from meshwright.launch.forms import Fields
from meshwright.launch.imports.answered import batched
from meshwright.launch.imports.behaviours import left_out, runtime_as_set
from meshwright.launch.imports.dialects.dialect import Dialect
from meshwright.launch.imports.files.lines import faults_of, with_lines
from meshwright.launch.imports.gaps import gaps_of, says_sizes
from meshwright.launch.imports.machines import Machines
from meshwright.launch.imports.meaning import Meaning, meaning_of
from meshwright.launch.imports.rules.demands import FileRule
from meshwright.launch.imports.rules.file_rules import broken_lines, file_rules, with_line
from meshwright.launch.imports.rules.misspelt import misspelt_rules
from meshwright.launch.imports.source import Given as Given
from meshwright.launch.imports.source import Source, source_of
from meshwright.launch.imports.spellings.adapters import units_of_trainer
from meshwright.launch.imports.spellings.deepspeed_json import engine_left_out
from meshwright.launch.imports.unread import unread
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings, Understood
from meshwright.launch.table import LaunchTable
from meshwright.layout.legality import faults, require_counts
from meshwright.layout.plan import Plan
from meshwright.layout.splits import layers_of_chunks
from meshwright.specs.cluster import Cluster
from meshwright.specs.defaults import DEFAULT_PRECISION
from meshwright.specs.inputs import Inputs
from meshwright.specs.runtime import Runtime, read_runtime


@dataclass(frozen=True, kw_only=True)
class LaunchQuestion:
    """A launch file, understood."""

    path: Path
    given: Given
    settings: LaunchSettings
    dialect: Dialect
    table: LaunchTable
    understood: Understood
    machines: Machines
    """What the file itself starts."""
    notes: tuple[str, ...]
    answered: tuple[str, ...]
    """Fields that the file leaves open and options say."""
    spelled: Settings
    """Its settings as they are spelled, with those that are said beside it and variables of the environment."""
    rules: tuple[FileRule, ...]
    """What its framework checks of the settings themselves, kept or broken."""
    plan: Plan
    inputs: Inputs

    @property
    def positions_follow_length(self) -> bool:
        """Whether the model has as many learned positions as a sequence has tokens because the file leaves them to the
        framework, which makes them so.
        """
        said = {"--max-position-embeddings", *self.table.recipe_targets("--max-position-embeddings", None)}
        ours = self.understood.fields.get("model.learned_positions") == self.inputs.model.learned_positions
        return bool(self.inputs.model.learned_positions) and ours and not said & self.spelled.keys()


@checked
def read_launch(
    launch_file: str | Path,
    cluster: str | None = None,
    *,
    model: str | None = None,
    runtime: str | None = None,
    framework: str | None = None,
    values: Mapping[str, str] | None = None,
) -> LaunchQuestion:
    """The plan of a launch file and its question, to be priced, checked and compared; nothing in the file is run.

    launch_file: a framework's script or configuration, or a folder with one; cluster, model: what it does not say;
    runtime: priced as another one; framework: whose file it is; values: of what it leaves open, as `--set` names them.
    Raises `InvalidInput` where it cannot be read or leaves open what is needed.
    """
    given = Given(cluster=cluster, model=model, runtime=runtime, framework=framework, values=dict(values or {}))
    return question_of_file(Path(launch_file), given)


def question_of_file(path: Path, given: Given, text: str | None = None) -> LaunchQuestion:
    """The plan of a launch file and its question; nothing in the file is run. path: the file, or a folder that `launch`
    wrote; text: what the file holds instead.

    Raises `InvalidInput` where it cannot be read, is of no known framework, or leaves open what is needed: all of it
    at once, each with what says it.
    """
    source = source_of(path, given, text)
    meant = meaning_of(source, given)
    gaps, wrong = _gaps(source, meant, given), _wrong(source, meant)
    usual = read_runtime(given.runtime) if given.runtime else _runtime_of(meant.fields, source.table, meant.notes)
    asked = _asked(source, meant, usual, given, wrong) if _tells_a_plan(meant, gaps, wrong) else None
    rules = _rules(source, meant, asked)
    if gaps or wrong or asked is None:
        broken = [*broken_lines(rules), *(str(fault) for fault in (faults(*asked) if asked else ()))]
        raise InvalidInput(unread(meant.read, source.dialect, gaps, wrong, broken, source.unheard))
    plan, inputs = asked
    return LaunchQuestion(
        path=source.path,
        given=given,
        settings=meant.read,
        dialect=source.dialect,
        table=source.table,
        understood=meant.understood,
        machines=meant.machines,
        notes=(*meant.notes, *_notes(source, meant, plan, inputs)),
        answered=meant.answered,
        spelled=meant.settings,
        rules=rules,
        plan=plan,
        inputs=inputs,
    )


def _gaps(source: Source, meant: Meaning, given: Given) -> list[str]:
    """What the file leaves open and the answer rests on, each with what says it."""
    read, table, machines = meant.read, source.table, meant.machines
    gaps = gaps_of(read, meant.fields, table, source.keyed, meant.model)
    gaps = [
        line for gap in gaps for line in (with_lines([gap], read, table) if gap.startswith("the model ") else [gap])
    ]
    if given.cluster is None:
        nodes = f"{machines.nodes or 'NODES'}x{machines.gpus_per_node or 8}"
        return [f"the accelerator: --cluster {nodes}:h100, or yours", *gaps]
    unsized = not gaps and meant.cluster is None
    return [f"how many GPUs it starts: --cluster NODESxGPUS:{given.cluster}"] if unsized else gaps


def _wrong(source: Source, meant: Meaning) -> list[str]:
    """What is not valid in the file, each with its line."""
    named = bool(meant.model or meant.fields.get("model.name") or not says_sizes(meant.fields))
    wrong = faults_of(meant.read, meant.understood, source.table, named=named)
    return wrong + with_lines(meant.wrong, meant.read, source.table)


def _tells_a_plan(meant: Meaning, gaps: list[str], wrong: list[str]) -> bool:
    """Whether what is wrong leaves a plan to be looked at."""
    hidden = wrong and (meant.understood.hides_the_plan or len(wrong) > len(meant.understood.wrong))
    return not gaps and not hidden


def _asked(
    source: Source, meant: Meaning, usual: Runtime, given: Given, wrong: list[str]
) -> tuple[Plan, Inputs] | None:
    """The plan of the file and its question; None where it is none, and why is added to what is wrong."""
    cluster = meant.cluster
    if cluster is None:
        return None
    try:
        return _as_set(source, meant, usual, cluster)
    except (InvalidSpec, IllegalPlan) as error:
        wrong += with_lines([str(fault) for fault in error.faults], meant.read, source.table)
        if meant.fields.get("model.experts") and not usual.plans.experts and given.runtime is None:
            wrong.append("--runtime megatron-core prices its experts as Megatron-LM runs them")
    return None


def _as_set(source: Source, meant: Meaning, usual: Runtime, cluster: Cluster) -> tuple[Plan, Inputs]:
    """The plan of fields and its question, with the runtime as the settings switch it; raises `InvalidSpec` or
    `IllegalPlan`.
    """
    precision = str(meant.fields.get("job.precision") or DEFAULT_PRECISION)
    runtime = runtime_as_set(usual, source.dialect.name, meant.spelled, precision, meant.notes)
    fields = batched(meant.fields | {"cluster.gpus": cluster.num_gpus}, cluster.num_gpus)
    plan, inputs = question_of(fields, cluster, runtime, model=meant.model, name=source.path.stem)
    require_counts(plan)
    return _without_full_count(plan, inputs), inputs


def _without_full_count(plan: Plan, inputs: Inputs) -> Plan:
    """The plan, without a number of recomputed layers where no chunk has more."""
    if not plan.recompute_layers or faults(plan, inputs):
        return plan
    every = plan.recompute_layers >= layers_of_chunks(inputs, plan).max()
    return replace(plan, recompute_layers=0) if every else plan


def _rules(source: Source, meant: Meaning, asked: tuple[Plan, Inputs] | None) -> tuple[FileRule, ...]:
    """What the framework checks of the settings themselves; asked: the plan and its question, where it is one."""
    read, keyed, dialect = meant.read, source.keyed, source.dialect
    rules = file_rules(dialect.name, read, meant.settings, facts_of(*asked) if asked else {}, keyed)
    misspelt = misspelt_rules(dialect, {*meant.understood.unknown} - {*keyed}, read.by_key(), source.table)
    return (*rules, *(with_line(rule, read) for rule in misspelt))


def _notes(source: Source, meant: Meaning, plan: Plan, inputs: Inputs) -> list[str]:
    """What is told of a plan beside what reading the file told."""
    notes, machines, gpus = [], meant.machines, inputs.cluster.num_gpus
    if machines.ranks and machines.ranks != gpus:
        notes.append(f"the file starts {machines}; asked about: {gpus} GPUs")
    if meant.understood.fields.get("plan.recompute") is None:
        notes.append("recomputation stands in the training script; priced without: --recompute full says otherwise")
    notes += left_out(plan, inputs, source.table, meant.spelled)
    notes += engine_left_out(plan, inputs, meant.read, meant.spelled)
    return notes + units_of_trainer(plan, inputs, meant.spelled)


def _runtime_of(fields: Fields, table: LaunchTable, notes: list[str]) -> Runtime:
    """The first runtime of the table that has the stage of ZeRO, the context parallelism and the adapters of a
    file; else the first.

    The one that the file itself names goes before both; where there is one replica, any stage will do. notes: what
    another one is taken for is added.
    """
    if named := fields.get("runtime.id"):
        return read_runtime(str(named))
    runtimes = [read_runtime(name) for name in table.runtimes]
    exchanged, adapted = (fields.get("plan.cp") or 1) > 1, bool(fields.get("job.lora_rank"))
    alone = fields.get("plan.dp_shard") == fields.get("plan.dp_replicate") == 1
    for each in runtimes:
        shards = alone or fields.get("plan.zero") in (None, *each.plans.zero_stages)
        adapts = each.plans.adapters or not adapted
        if shards and adapts and (each.plans.context_exchanges or not exchanged):
            if each is not runtimes[0]:
                what = f"ZeRO {fields.get('plan.zero')}" + (f" with cp {fields.get('plan.cp')}" if exchanged else "")
                what += " beside adapters" if adapted else ""
                notes.append(f"{what} is not modelled for {runtimes[0].id}; priced as {each.id} runs it")
            return each
    return runtimes[0]
