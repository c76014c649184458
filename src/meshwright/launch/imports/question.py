"""Question: the plan that a launch file is, with model, cluster, job and runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from meshwright.arguments import checked
from meshwright.errors import IllegalPlan, InvalidInput, InvalidSpec, UnknownName
from meshwright.launch.facts import facts_of
from meshwright.launch.fields import question_of
from meshwright.launch.forms import Fields, read_value
from meshwright.launch.imports.adapters import units_of_trainer, with_usual_modules
from meshwright.launch.imports.answered import answered, batched, says
from meshwright.launch.imports.attention import with_attention
from meshwright.launch.imports.behaviours import left_out, runtime_as_set, without_switches
from meshwright.launch.imports.bridge_workloads import is_workload, one_workload
from meshwright.launch.imports.deepspeed_json import engine_left_out, known_to_deepspeed, sized_by_the_model
from meshwright.launch.imports.demands import FileRule
from meshwright.launch.imports.dialects import dialect_of
from meshwright.launch.imports.dialects.dialect import Dialect, Spelled
from meshwright.launch.imports.file_rules import broken_lines, file_rules, with_line
from meshwright.launch.imports.folder import (
    environment_in,
    launch_file_in,
    with_configuration,
    with_folder,
    with_script,
)
from meshwright.launch.imports.functions import one_function
from meshwright.launch.imports.gaps import NEEDED, OF_THE_MODEL, gaps_of, says_sizes, settled
from meshwright.launch.imports.given_values import is_setting, not_read, passed_over
from meshwright.launch.imports.import_table import import_table
from meshwright.launch.imports.lines import faults_of, with_lines
from meshwright.launch.imports.machines import Machines, cluster_for, counted, machines_of
from meshwright.launch.imports.misspelt import misspelt_rules
from meshwright.launch.imports.training import require_training
from meshwright.launch.imports.unread import told_elsewhere, unread
from meshwright.launch.imports.vocabulary import spellings_of
from meshwright.launch.readers.read import read_launch_file
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings, Understood, understand
from meshwright.launch.table import LaunchTable
from meshwright.layout.legality import faults, require_counts
from meshwright.layout.plan import Plan
from meshwright.specs import catalog
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Model
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import Runtime, read_runtime


@dataclass(frozen=True, kw_only=True)
class Given:
    """What is said beside the file."""

    cluster: str | None = None
    model: str | None = None
    runtime: str | None = None
    framework: str | None = None
    values: dict[str, str] = field(default_factory=dict)
    """Of what the file leaves open: variables of a script, its arguments by number, settings by key."""
    answers: Fields = field(default_factory=dict)
    """Fields that options of the question say, taken where the file leaves them open."""


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
    started = environment_in(path) if path.is_dir() else {}
    path = launch_file_in(path) if path.is_dir() else path
    keyed = {name: value for name, value in given.values.items() if name.startswith("--") or "." in name}
    variables = {name: value for name, value in given.values.items() if name not in {*keyed, "function"}}

    def reader(variables: dict[str, str]) -> LaunchSettings:
        asked_for = given.values.get("function")
        read = one_workload(with_configuration(read_launch_file(path, variables, text)), asked_for)
        return read if is_workload(read) else one_function(read, asked_for)

    try:
        read = reader(variables)
        dialect = dialect_of(read, given.framework)
    except InvalidInput as error:
        raise with_folder(error, path) from None
    table = import_table(dialect.name)
    unused = not_read(variables, reader, read)
    path = Path(read.path)
    keyed |= {name: variables[name] for name in unused if is_setting(name, read, table)}
    unheard = [passed_over(name, path.name, read, table) for name in unused if name not in keyed]
    read = dialect.objects(read)
    notes = [*unheard, *told_elsewhere(read)]
    read, empty = settled(with_script(read, table, keyed, notes), table)
    notes += [f"{name}, which nothing sets, is taken as empty" for name in empty]
    known: Settings = {each.key: each.value for each in read.settings if says(each)}  # type: ignore[misc]
    named = _fields_given(keyed)
    known |= {name: value for name, value in keyed.items() if name not in named}
    machines = machines_of(read, notes)
    cluster = cluster_for(machines, given.cluster)
    require_training(read)
    ranks = cluster.num_gpus if cluster else machines.ranks
    stage = named.get("plan.zero")
    spelled = dialect.translate(Spelled(read=read, known=known, notes=notes, ranks=ranks, stage=stage))
    understood = without_switches(known_to_deepspeed(understand(spelled, table), read), dialect.name, spelled)
    fields, used = answered(_plain(understood.fields | named), given.answers, read, table, spelled)
    cluster = cluster or cluster_for(counted(machines, fields), given.cluster)
    model = read_model(given.model) if given.model else named_model(fields, table)
    fields, unnamed = with_usual_modules(fields, model)
    fields, understood = with_attention(fields, spelled, understood, dialect.name, model, notes)
    usual = read_runtime(given.runtime) if given.runtime else _runtime_of(fields, table, notes)
    settings = known | started | read.environment
    spelled |= started | read.environment
    spelled |= sized_by_the_model(read, model.hidden_size if model else fields.get("model.hidden_size"))
    gaps = gaps_of(read, fields, table, keyed, model)
    if given.cluster is None:
        gaps.insert(
            0, f"the accelerator: --cluster {machines.nodes or 'NODES'}x{machines.gpus_per_node or 8}:h100, or yours"
        )
    gaps = [
        line for gap in gaps for line in (with_lines([gap], read, table) if gap.startswith("the model ") else [gap])
    ]
    wrong = faults_of(read, understood, table, named=bool(model or fields.get("model.name") or not says_sizes(fields)))
    if not gaps and cluster is None:
        gaps.append(f"how many GPUs it starts: --cluster NODESxGPUS:{given.cluster}")
    wrong += with_lines(unnamed, read, table)
    hidden = gaps or (wrong and (understood.hides_the_plan or len(wrong) > len(understood.wrong)))
    asked = None
    if cluster and not hidden:
        try:
            asked = _asked(fields, cluster, usual, dialect, spelled, model, path.stem, notes)
        except (InvalidSpec, IllegalPlan) as error:
            wrong += with_lines([str(fault) for fault in error.faults], read, table)
            if fields.get("model.experts") and not usual.plans.experts and given.runtime is None:
                wrong.append("--runtime megatron-core prices its experts as Megatron-LM runs them")
    rules = file_rules(dialect.name, read, settings, facts_of(*asked) if asked else {}, keyed)
    misspelt = misspelt_rules(dialect, {*understood.unknown} - {*keyed}, read.by_key(), table)
    rules += tuple(with_line(rule, read) for rule in misspelt)
    if gaps or wrong or asked is None or cluster is None:
        broken = [*broken_lines(rules), *(str(fault) for fault in (faults(*asked) if asked else ()))]
        raise InvalidInput(unread(read, dialect, gaps, wrong, broken, unheard))
    plan, inputs = asked
    if machines.ranks and machines.ranks != cluster.num_gpus:
        notes.append(f"the file starts {machines}; asked about: {cluster.num_gpus} GPUs")
    if understood.fields.get("plan.recompute") is None:
        notes.append("recomputation stands in the training script; priced without: --recompute full says otherwise")
    notes += left_out(plan, inputs, table, spelled) + engine_left_out(plan, inputs, read, spelled)
    notes += units_of_trainer(plan, inputs, spelled)
    return LaunchQuestion(
        path=path,
        given=given,
        settings=read,
        dialect=dialect,
        table=table,
        understood=understood,
        machines=machines,
        notes=tuple(notes),
        answered=used,
        spelled=settings,
        rules=rules,
        plan=plan,
        inputs=inputs,
    )


def _asked(
    fields: Fields,
    cluster: Cluster,
    usual: Runtime,
    dialect: Dialect,
    settings: Settings,
    model: Model | None,
    name: str,
    notes: list[str],
) -> tuple[Plan, Inputs]:
    """The plan of fields and its question, with the runtime as the settings switch it; raises `InvalidSpec` or
    `IllegalPlan`. notes: what switches mean is added.
    """
    runtime = runtime_as_set(usual, dialect.name, settings, str(fields.get("job.precision") or "bf16"), notes)
    counted = batched(fields | {"cluster.gpus": cluster.num_gpus}, cluster.num_gpus)
    plan, inputs = question_of(counted, cluster, runtime, model=model, name=name)
    require_counts(plan)
    return plan, inputs


def named_model(fields: Fields, table: LaunchTable) -> Model | None:
    """The catalogued model that a file names instead of its sizes; None where it names none that is known."""
    name = fields.get("model.name")
    registry = {theirs: ours for ours, theirs in table.models.items()}
    for each in () if name is None else spellings_of(registry.get(str(name), str(name))):
        try:
            return read_model(catalog.resolve("models", each))
        except UnknownName:
            continue
    return None


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


def _fields_given(keyed: dict[str, str]) -> Fields:
    """Fields that are said by their own names, as `job.sequence_length`: what has no setting in such a file."""
    names = {*NEEDED, *OF_THE_MODEL, "plan.zero"}
    return {name: read_value("count", name, value) for name, value in keyed.items() if name in names}


def _plain(fields: Fields) -> Fields:
    """The fields without what means nothing beside the others: a schedule of one stage, sequence parallelism of one
    rank.
    """
    plain = dict(fields)
    if (plain.get("plan.tp") or 1) == 1:
        plain["plan.sp"] = False
    if (plain.get("plan.pp") or 1) == 1:
        plain |= {"plan.schedule": "1f1b", "plan.vpp": 1, "plan.embedding_as_layer": False, "plan.head_as_layer": False}
    return plain
