"""Groups of options that commands share: a parameter that is a group becomes its options, in its place."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from meshwright.cli import completion
from meshwright.cli.options import (
    AXES,
    CLUSTER_HELP,
    MODEL_HELP,
    Allowed,
    AllowedExchange,
    AllowedModules,
    AllowedRecomputation,
    AllowedSchedule,
    Behaviours,
    Dispatcher,
    EvenChunks,
    MostNodes,
    Network,
    RuntimeName,
    TextOnly,
    WithSequenceParallel,
    job_option,
)
from meshwright.errors import InvalidInput, MeshwrightError, quoted
from meshwright.specs.job_options import JOB_OPTIONS

Group = TypeVar("Group")
VALUES = {str: "NAME", int: "N", float: "NUMBER", Path: "FILE"}
"""What stands for the value of an option in help, by its type."""

if TYPE_CHECKING:
    from meshwright.specs.cluster import Cluster
    from meshwright.specs.constraints import Constraints
    from meshwright.specs.inputs import Inputs
    from meshwright.specs.job import Job
    from meshwright.specs.model import Model


@dataclass(frozen=True, kw_only=True)
class SubjectOptions:
    """The model and the cluster, by options or as words without one."""

    PANEL: ClassVar[str] = "The model and the cluster"
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL CLUSTER]",
            autocompletion=completion.subject,
            help="the model and the cluster; the same as --model and --cluster",
        ),
    ] = None
    model: Annotated[str | None, typer.Option(autocompletion=completion.models, help=MODEL_HELP)] = None
    cluster: Annotated[str | None, typer.Option(autocompletion=completion.clusters, help=CLUSTER_HELP)] = None
    network: Network = None
    text_only: TextOnly = False

    def named(self, command: str | None) -> Self:
        """The same with the words as model and cluster.

        Raises `InvalidInput` where there are more words than `command` takes.
        """
        words = [*(self.words or ())]
        model = words.pop(0) if self.model is None and words else self.model
        cluster = words.pop(0) if self.cluster is None and words else self.cluster
        if words:
            raise InvalidInput(
                f"{command} takes a model and a cluster, as in meshwright {command} llama-3.1-70b 8x8:h100; "
                f"{quoted(words[0])} is one word too many"
            )
        return replace(self, words=None, model=model, cluster=cluster)


def require_subject(subject: SubjectOptions, command: str, otherwise: str) -> None:
    """Raise `InvalidInput` where no model or no cluster is named; otherwise: what does without, `{}` for `command`."""
    absent = {"a model": subject.model, "a cluster": subject.cluster}
    if missing := [what for what, value in absent.items() if value is None]:
        example = f"{command} {subject.model or 'llama-3.1-70b'} {subject.cluster or '8x8:h100'}"
        raise InvalidInput(f"{' and '.join(missing)} must be given, as in {example}; or {otherwise.format(command)}")


def with_job_options(panel: str) -> Callable[[type[Group]], type[Group]]:
    """Gives a group, behind its own options, those of a job that stand in this panel of help."""

    def extended(group: type[Group]) -> type[Group]:
        for option in JOB_OPTIONS:
            if option.panel == panel:
                group.__annotations__[option.name] = job_option(option)
                setattr(group, option.name, option.default)
        return group

    return extended


@dataclass(frozen=True, kw_only=True)
@with_job_options("job")
class JobOptions:
    """What one step trains on."""

    PANEL: ClassVar[str] = "The job"
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


@dataclass(frozen=True, kw_only=True)
@with_job_options("framework")
class RuntimeOptions:
    """The framework, and how it treats experts and multi-token prediction."""

    PANEL: ClassVar[str] = "The framework"
    runtime: RuntimeName = None
    behaviours: Behaviours = None
    dispatcher: Dispatcher = None

    @property
    def of_questions(self) -> dict[str, Any]:
        """The options with the dispatcher among the behaviours."""
        options = dict(vars(self))
        if dispatcher := options.pop("dispatcher"):
            options["behaviours"] = [*(self.behaviours or ()), f"dispatcher={dispatcher.replace('-', '_')}"]
        return options


@dataclass(frozen=True, kw_only=True)
class ConstraintOptions:
    """Which plans a search may choose, as `specs.constraints.Constraints` takes them."""

    PANEL: ClassVar[str] = "Limits on the plans to search (VALUES such as 8, 1,2,4 or 1-4)"
    tp: Allowed = None
    cp: Allowed = None
    pp: Allowed = None
    vpp: Allowed = None
    dp: Allowed = None
    ep: Allowed = None
    etp: Allowed = None
    zero: Allowed = None
    micro_batch: Allowed = None
    recompute: AllowedRecomputation = None
    recompute_modules: AllowedModules = None
    schedule: AllowedSchedule = None
    context_exchange: AllowedExchange = None
    sp: WithSequenceParallel = None
    even_chunks: EvenChunks = False
    max_nodes_per_tp: MostNodes = None


def inputs_of(
    subject: SubjectOptions,
    job: JobOptions,
    framework: RuntimeOptions,
    measured: Path | None = None,
    allowed: ConstraintOptions | None = None,
    accelerators: int = 0,
) -> Inputs:
    """The question that the options ask.

    measured: a table of the site's own runs; allowed: limits on its plans; accelerators: those that share a batch which
    is not named, 0: the cluster's.
    """
    from meshwright.specs.adapters import with_usual_runtime
    from meshwright.specs.reading.cluster import read_cluster
    from meshwright.specs.reading.inputs import read_inputs
    from meshwright.specs.reading.model import read_model
    from meshwright.specs.runtime import read_runtime

    options = framework.of_questions
    runtime, behaviours = options.pop("runtime"), options.pop("behaviours")
    model = read_model(str(subject.model), text_only=subject.text_only)
    cluster = read_cluster(str(subject.cluster), subject.network)
    _tell_idle(subject, model, cluster)
    whole_job = _job(model, vars(job) | options, accelerators or cluster.num_gpus)
    if runtime is None:
        whole_job, runtime = with_usual_runtime(whole_job)
    if behaviours:
        from meshwright.specs.behaviours import with_behaviours

        runtime = with_behaviours(read_runtime(runtime), behaviours)
    constraints = constraints_of(allowed) if allowed else None
    inputs = read_inputs(model, cluster, whole_job, runtime, constraints)
    if measured is None:
        return inputs
    from meshwright.validation.site import with_measured_runs

    return with_measured_runs(inputs, measured)


def _tell_idle(subject: SubjectOptions, model: Model, cluster: Cluster) -> None:
    """Say which options about the model and the cluster change neither."""
    from meshwright.specs.reading.model import read_model

    if subject.network and cluster.num_nodes == 1:
        print("meshwright: --network has no effect within one node", file=sys.stderr)
    if subject.text_only:
        with suppress(MeshwrightError):
            if read_model(str(subject.model)) == model:
                print(f"meshwright: --text-only has no effect: {model.name} has no other towers", file=sys.stderr)


def _job(model: Model, options: dict[str, Any], accelerators: int) -> Job:
    """The job that the options name, with the usual length and batch where they name none."""
    from meshwright.specs.usual_job import job_or_usual

    return job_or_usual(model, accelerators, options.pop("seq_len"), " (set it with --{})", **options)


def constraints_of(allowed: ConstraintOptions) -> Constraints:
    """The constraints that the options name."""
    from meshwright.specs.constraints import Constraints

    return Constraints(**{name: value for name, value in vars(allowed).items() if value is not None})


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command with its groups of options spread out; it is called with the groups filled in."""
    own = inspect.signature(command).parameters.values()
    hints = get_type_hints(command, include_extras=True)
    options = [each for one in own for each in _options(one.name, hints[one.name], one.default)]

    def called(**values: Any) -> None:
        command(**{one.name: _filled(one.name, hints[one.name], values) for one in own})

    called.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in options}
    called.__name__, called.__doc__ = command.__name__, command.__doc__
    return called


def option_names(group: type) -> list[str]:
    """The names of the options of a group, and of the groups in it."""
    return [each.name for each in _options("", group, None)]


def refuse_given(context: typer.Context, names: Iterable[str], why: str) -> None:
    """Raise `InvalidInput` where the command line gives options of these names; why: the message, `{}` for names."""
    present = {*given(context, names)}
    parameters = [parameter for parameter in context.command.params if parameter.name in present]
    options = [one.opts[0] if one.param_type_name == "option" else str(one.metavar) for one in parameters]
    if options:
        raise InvalidInput(why.format(", ".join(options)))


def given(context: typer.Context, names: Iterable[str]) -> list[str]:
    """Of these names of options those that the command line gives."""
    sources = {name: context.get_parameter_source(name) for name in names}
    return [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]


def _options(name: str, hint: Any, default: Any, panel: str | None = None) -> Iterator[inspect.Parameter]:
    if not is_dataclass(hint):
        shown = _in_help(name, hint, panel)
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=shown)
        return
    hints = get_type_hints(hint, include_extras=True)
    for each in fields(hint):
        default = each.default if each.default is not MISSING else inspect.Parameter.empty
        yield from _options(each.name, hints[each.name], default, getattr(hint, "PANEL", panel))


def _in_help(name: str, hint: Any, panel: str | None) -> Any:
    """The type of an option with the group of help in which it stands, and what stands for its value."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *about = get_args(hint)
    kinds = {kind, *get_args(kind)} | {inner for each in get_args(kind) for inner in get_args(each)}
    value = next((word for one, word in VALUES.items() if one in kinds), None)
    return Annotated[(kind, *(_shown(each, panel, value, AXES.get(name)) for each in about))]


def _shown(about: Any, panel: str | None, value: str | None, what: str | None) -> Any:
    if not isinstance(about, OptionInfo):
        return about
    shown = copy(about)
    shown.rich_help_panel, shown.metavar = about.rich_help_panel or panel, about.metavar or value
    shown.help = about.help or what
    return shown


def _filled(name: str, hint: Any, values: dict[str, Any]) -> Any:
    if not isinstance(hint, type) or not is_dataclass(hint):
        return values[name]
    hints = get_type_hints(hint, include_extras=True)
    return hint(**{each.name: _filled(each.name, hints[each.name], values) for each in fields(hint)})
