"""Meaning: the fields that the settings of a launch file say, with its machines, before they are held to be a plan."""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.errors import UnknownName
from meshwright.launch.forms import Fields, read_value
from meshwright.launch.imports.answered import answered, says
from meshwright.launch.imports.behaviours import without_switches
from meshwright.launch.imports.dialects.dialect import Spelled
from meshwright.launch.imports.files.folder import with_script
from meshwright.launch.imports.gaps import NEEDED, OF_THE_MODEL, settled
from meshwright.launch.imports.machines import Machines, cluster_for, counted, machines_of
from meshwright.launch.imports.source import Given, Source
from meshwright.launch.imports.spellings.adapters import with_usual_modules
from meshwright.launch.imports.spellings.attention import with_attention
from meshwright.launch.imports.spellings.deepspeed_json import known_to_deepspeed, sized_by_the_model
from meshwright.launch.imports.spellings.training import require_training
from meshwright.launch.imports.spellings.vocabulary import spellings_of
from meshwright.launch.imports.unread import told_elsewhere
from meshwright.launch.readers.settings import LaunchSettings
from meshwright.launch.spelling import Settings, Understood, understand
from meshwright.launch.table import LaunchTable
from meshwright.specs import catalog
from meshwright.specs.cluster import Cluster
from meshwright.specs.model import Model
from meshwright.specs.reading.model import read_model

_SWITCHES = {"true": True, "false": False}


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """What a launch file says."""

    read: LaunchSettings
    settings: Settings
    """As they are spelled, with those said beside the file and variables of the environment."""
    spelled: Settings
    """The same as the table spells them."""
    understood: Understood
    fields: Fields
    answered: tuple[str, ...]
    """Fields that the file leaves open and options say."""
    model: Model | None
    """The one that is named, in the file or beside it; None: its sizes are fields."""
    wrong: list[str]
    """What is wrong with the model that is named."""
    machines: Machines
    cluster: Cluster | None
    """None where nothing says how many ranks there are."""
    notes: list[str]


def meaning_of(source: Source, given: Given) -> Meaning:
    """What the settings of a file say; raises `InvalidInput` for what is not modelled."""
    notes, table = list(source.unheard), source.table
    read, settings = _settings_of(source, notes)
    machines = machines_of(read, notes)
    cluster = cluster_for(machines, given.cluster)
    require_training(read)
    ranks = cluster.num_gpus if cluster else machines.ranks
    named = _fields_given(source.keyed)
    beside = Spelled(read=read, known=settings, notes=notes, ranks=ranks, stage=named.get("plan.zero"))
    spelled = source.dialect.translate(beside)
    environment = source.environment | read.environment
    understood = known_to_deepspeed(understand(spelled, table), read)
    understood = without_switches(understood, source.dialect.name, spelled | environment)
    fields, used = answered(_plain(understood.fields | named), given.answers, read, table, spelled)
    cluster = cluster or cluster_for(counted(machines, fields), given.cluster)
    model = read_model(given.model) if given.model else named_model(fields, table)
    fields, wrong = with_usual_modules(fields, model)
    fields, understood = with_attention(fields, spelled, understood, source.dialect.name, model, notes)
    sized = sized_by_the_model(read, model.hidden_size if model else fields.get("model.hidden_size"))
    return Meaning(
        read=read,
        settings=settings | environment,
        spelled=spelled | environment | sized,
        understood=understood,
        fields=fields,
        answered=used,
        model=model,
        wrong=wrong,
        machines=machines,
        cluster=cluster,
        notes=notes,
    )


def _settings_of(source: Source, notes: list[str]) -> tuple[LaunchSettings, Settings]:
    """The settings of a file and of the script beside it, and their values with those said beside both; notes: what is
    not read, or taken as empty, is added.
    """
    read = source.dialect.objects(source.read)
    notes += told_elsewhere(read)
    read, empty = settled(with_script(read, source.table, source.keyed, notes), source.table)
    notes += [f"{name}, which nothing sets, is taken as empty" for name in empty]
    known: Settings = {each.key: each.value for each in read.settings if says(each)}  # type: ignore[misc]
    fields = _fields_given(source.keyed)
    beside = {name: _as_in_file(value, read) for name, value in source.keyed.items() if name not in fields}
    return read, known | beside


def _as_in_file(value: str, read: LaunchSettings) -> str | bool:
    """A value that is said beside a file, as the file would hold it: a switch in one with keys is true or false."""
    return _SWITCHES.get(value.lower(), value) if read.form != "shell" else value


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
