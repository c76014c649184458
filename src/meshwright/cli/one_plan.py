"""One plan and its question, given by options or taken from a plan file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import typer

from meshwright import errors
from meshwright.cli import completion
from meshwright.cli.groups import (
    JobOptions,
    RuntimeOptions,
    SubjectOptions,
    given,
    inputs_of,
    refuse_given,
    require_subject,
)
from meshwright.cli.launch_file import (
    ABOUT_A_FILE,
    ANSWERS,
    BESIDE_A_FILE,
    OF_A_FILE,
    WORDS_BESIDE_A_FILE,
    LaunchFileOptions,
    read_question,
)
from meshwright.cli.options import Degree, Measured

if TYPE_CHECKING:
    from meshwright.launch.imports.question import LaunchQuestion
    from meshwright.layout.plan import Plan
    from meshwright.search.changes.variation import Variation
    from meshwright.specs.inputs import Inputs

OTHER_NAMES = {"seq_len": "sequence_length"}
"""Options whose fields are called otherwise."""
UNNAMED = "No plan was named, so this is data parallelism alone; meshwright plan finds the best plan."
NAME_ONE = "Name a plan by its options (--tp, --pp, ...), or ask meshwright plan, which finds the best one."
NETWORK_ALONE = "{} is of a cluster that is named: name the plan file's again, as --cluster 8x8:h100 --network 10Gb/s"
END_HELP = "count it as a layer in the pipeline split; default: the runtime's choice"


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The fields of a plan, as `layout.named.plan_of` takes them."""

    PANEL: ClassVar[str] = "The plan"
    tp: Degree = 1
    sp: Annotated[bool | None, typer.Option(help="sequence parallelism; default: on with tp, if available")] = None
    cp: Degree = 1
    context_exchange: Annotated[
        str | None,
        typer.Option(help="ring, all_gather, all_to_all or hierarchical; default: the runtime's first"),
    ] = None
    pp: Degree = 1
    vpp: Degree = 1
    dp: Annotated[int | None, typer.Option(min=1, help="data-parallel degree; default: all remaining ranks")] = None
    ep: Degree = 1
    etp: Degree = 1
    zero: Annotated[
        int | None,
        typer.Option(min=0, max=3, help="ZeRO stage; default: 1 if the runtime has it, else its highest"),
    ] = None
    dp_replicate: Annotated[
        int, typer.Option(min=1, help="hybrid sharding: replicas of the group that ZeRO shards over (dp x cp / this)")
    ] = 1
    micro_batch: Degree = 1
    embedding_as_layer: Annotated[bool | None, typer.Option(help=END_HELP)] = None
    head_as_layer: Annotated[bool | None, typer.Option(help=END_HELP)] = None
    first_stage_layers: Annotated[int, typer.Option(min=0, help="layers on the first pipeline rank; 0: even")] = 0
    last_stage_layers: Annotated[int, typer.Option(min=0, help="layers on the last pipeline rank; 0: even")] = 0
    pipeline_layout: Annotated[
        str | None,
        typer.Option(metavar="LAYERS", help="layers of each chunk: 9,10,10,... or Megatron's 'Et*9|(t*10|)*6t*11L'"),
    ] = None
    microbatch_group: Annotated[
        int, typer.Option(min=0, help="micro-batches that a chunk runs before the next chunk; 0: the runtime's choice")
    ] = 0
    schedule: Annotated[
        str | None,
        typer.Option(
            help="pipeline schedule: 1f1b, interleaved, zb-1p, zb-v, ...; default: interleaved with vpp, else 1f1b"
        ),
    ] = None
    recompute: Annotated[str, typer.Option(help="none, selective or full")] = "none"
    recompute_modules: Annotated[
        str | None, typer.Option(help="for selective: core_attn, layernorm, moe_act, ..., separated by , or +")
    ] = None
    recompute_layers: Annotated[
        int, typer.Option(min=0, help="for full: recompute only the first N layers of each chunk; 0: all")
    ] = 0


@dataclass(frozen=True, kw_only=True)
class FileOrSubjectOptions(SubjectOptions):
    """A plan file, or the model and the cluster."""

    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PLAN.json | MODEL CLUSTER]",
            autocompletion=completion.subject,
            help="a plan file (- for standard input) that the options below change, or a model and a cluster",
        ),
    ] = None

    @property
    def plan_file(self) -> str | None:
        """The plan file: a word that stands alone, or the name of a file beside options that change it."""
        if not self.words or len(self.words) > 1:
            return None
        (word,) = self.words
        if word == "-" or not (self.model or self.cluster):
            return word
        path = Path(word)
        return word if path.suffix == ".json" or (path.is_file() and path.suffix != ".toml") else None


@dataclass(frozen=True, kw_only=True)
class OnePlanOptions:
    """A plan and its question, or a plan file that holds both, and what is changed of it."""

    subject: FileOrSubjectOptions
    plan: PlanOptions
    job: JobOptions
    framework: RuntimeOptions
    launch: LaunchFileOptions
    rank: Annotated[int | None, typer.Option(min=1, help="number of the plan in the plan file; default: 1")] = None
    measured: Measured = None


class OnePlan(NamedTuple):
    """The one plan that a command is asked about."""

    inputs: Inputs
    plan: Plan
    variation: Variation | None
    """Of the plan of a file, where options change it."""
    launch: LaunchQuestion | None = None
    """Of a framework's launch file."""
    note: str = ""
    """That no plan was named, where none was."""


def one_plan(context: typer.Context, asked: OnePlanOptions) -> OnePlan:
    """The question and the plan of the options, or of a plan file with what the options change of it."""
    from meshwright.layout.named import plan_of

    if asked.launch.from_file is not None:
        refuse_given(context, ("words",), WORDS_BESIDE_A_FILE)
        refuse_given(context, ("rank", "measured", "network", "text_only"), BESIDE_A_FILE)
        options = vars(asked.job) | asked.framework.of_questions | vars(asked.plan)
        return from_launch_file(context, asked.launch, asked.subject, options)[1]
    if asked.subject.plan_file:
        return _from_plan_file(context, asked, asked.subject.plan_file)
    refuse_given(context, OF_A_FILE, ABOUT_A_FILE)
    command, subject = f"meshwright {context.info_name}", asked.subject.named(context.info_name)
    if asked.rank is not None:
        raise errors.InvalidInput(f"--rank chooses a plan in a plan file; name the file: {command} PLAN.json --rank 2")
    require_subject(subject, command, "a plan file: {} PLAN.json")
    inputs = inputs_of(subject, asked.job, asked.framework, asked.measured)
    note = "" if _given(context, vars(asked.plan)) else UNNAMED
    return OnePlan(inputs, plan_of(inputs, **vars(asked.plan)), None, note=note)


def inputs_and_plan(context: typer.Context, asked: OnePlanOptions, *, legal: bool = True) -> tuple[Inputs, Plan]:
    """The question and the plan alone; legal: raise `IllegalPlan` where nobody named the plan and it is not legal."""
    one = one_plan(context, asked)
    if legal:
        require_default_legal(one)
    return one.inputs, one.plan


def require_default_legal(one: OnePlan) -> None:
    """Raise `IllegalPlan` for a plan that is not legal, where nobody named it."""
    if not one.note:
        return
    from meshwright.layout.legality import faults

    if broken := faults(one.plan, one.inputs):
        raise errors.IllegalPlan(f"no plan was named, and the default one, {one.plan},", broken, NAME_ONE)


def _from_plan_file(context: typer.Context, asked: OnePlanOptions, file: str) -> OnePlan:
    from meshwright.answers.plan_file import ranked_plan

    if not asked.subject.cluster:
        refuse_given(context, ("network",), NETWORK_ALONE)
    inputs, plan = ranked_plan(file, asked.rank or 1)
    if asked.measured:
        raise errors.InvalidInput(
            "--measured cannot change a plan file; give it to meshwright plan, whose plan file then uses it"
        )
    subject = asked.subject
    options: dict[str, Any] = {"model": subject.model, "cluster": subject.cluster, "text_only": subject.text_only}
    options |= vars(asked.job) | asked.framework.of_questions | vars(asked.plan)
    named = {name: options[name] for name in _given(context, options)}
    if asked.subject.network and asked.subject.cluster:
        from meshwright.specs.reading.cluster import read_cluster

        named["cluster"] = read_cluster(asked.subject.cluster, asked.subject.network)
    if "text_only" in named and "model" not in named:
        raise errors.InvalidInput("--text-only needs a model to read; add --model")
    return _varied(inputs, plan, named)


def from_launch_file(
    context: typer.Context,
    launch: LaunchFileOptions,
    subject: SubjectOptions,
    options: dict[str, Any],
) -> tuple[LaunchQuestion, OnePlan]:
    """A launch file and its plan, with what options say that the file leaves open and what they change of it and its
    question; options: by their names.
    """
    named = {name: options[name] for name in _given(context, options)}
    question = read_question(launch, subject.model, subject.cluster, named.pop("runtime", None), named)
    changed = {name: value for name, value in named.items() if ANSWERS.get(name) not in question.answered}
    if "seq_len" in changed and question.positions_follow_length:
        changed["model"] = question.inputs.model.replace(learned_positions=changed["seq_len"])
    return question, _varied(question.inputs, question.plan, changed)._replace(launch=question)


def _given(context: typer.Context, options: dict[str, Any]) -> list[str]:
    """The options that were given, a dispatcher as one of the behaviours."""
    return given(context, options) + ["behaviours"] * bool(given(context, ["dispatcher"]))


def _varied(inputs: Inputs, plan: Plan, named: dict[str, Any]) -> OnePlan:
    from meshwright.answers.explain.vary import varied_by_names

    if not named:
        return OnePlan(inputs, plan, None)
    renamed = {OTHER_NAMES.get(name, name): value for name, value in named.items()}
    variation = varied_by_names(plan, inputs, **renamed)
    return OnePlan(variation.inputs, variation.plan, variation)
