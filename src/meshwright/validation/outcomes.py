"""Outcomes: what is predicted for every configuration, beside what was measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from meshwright.cost.estimate import Estimate
from meshwright.cost.memory.components import Components
from meshwright.cost.step import estimate_each
from meshwright.errors import InvalidInput, NotModelled, Stopped
from meshwright.layout.plan import Plan
from meshwright.search.executors import InProcess
from meshwright.search.fan_out import results
from meshwright.search.stop import Progress
from meshwright.specs import catalog
from meshwright.specs.inputs import Inputs
from meshwright.units import GIB
from meshwright.validation.rows.configurations import SOUND, Configuration
from meshwright.validation.rows.reading import Case, read_case
from meshwright.validation.rows.settings import judged_together, stand_ins

NOT_REACHED = "it was stopped before"
NOT_MEASURED = "nothing is measured; fill in step_time_s, tokens_per_s_per_gpu, memory_gib with memory_kind, or fits"
KINDS = {
    "allocated": lambda memory: memory.allocated,
    "reserved": lambda memory: memory.reserved,
    "device": lambda memory: memory.device,
}
"""What is predicted for each kind of measured memory."""
PIECE = 64
"""Questions that are handed out at once, a fifth of a second of work: what they share goes to a process once."""


@dataclass(frozen=True)
class Pair:
    """A measured figure and its prediction, in one unit."""

    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Predicted / measured - 1, a share."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class Outcome:
    """What became of one configuration: an estimate, or the reason why it cannot be represented."""

    configuration: Configuration
    case: Case | None = None
    estimate: Estimate | None = None
    step_time: Pair | None = None
    """Seconds; None: not measured."""
    memory: Pair | None = None
    """GiB of the kind that was measured; None: not measured, or of no kind that is predicted."""
    refusal: str = ""

    @property
    def sound(self) -> bool:
        """Whether it counts; what its source doubts is scored separately."""
        return self.configuration.quality == SOUND

    @property
    def is_moe(self) -> bool:
        """Whether its model has experts."""
        return self.case is not None and self.case.inputs.model.is_moe

    @property
    def precision(self) -> str:
        """The recipe's id, bf16 where the table names none; of a row that is not represented, what it names."""
        name = self.configuration.rows[0]["precision"] or "bf16"
        return catalog.resolve("precisions", name) if self.case else name

    @cached_property
    def framework(self) -> str:
        """The id of its runtime, or the name of a framework that the catalogue has not."""
        name = self.configuration.rows[0]["runtime"].partition("@")[0]
        return catalog.resolve("runtimes", name) if self.case and name not in stand_ins() else name

    @property
    def framework_family(self) -> str:
        """Frameworks that work alike: Megatron, FSDP or other."""
        return judged_together().get(self.framework, "other")


def outcomes_of(
    configurations: Iterable[Configuration], progress: Progress | None = None, executor: Executor | None = None
) -> list[Outcome]:
    """Read every configuration, price it and hold it against what was measured.

    progress: told (questions priced, in all), and where it stops, the others are not represented; executor: what prices
    them; None: this process.
    """
    known = list(configurations)
    cases = [_case_of(configuration) for configuration in known]
    questions = _questions([case for case in cases if isinstance(case, Case)])
    pieces = [questions[start : start + PIECE] for start in range(0, len(questions), PIECE)]
    asked = [[(same[0].inputs, [case.plan for case in same]) for same in piece] for piece in pieces]
    estimates: dict[int, Estimate | InvalidInput] = {}

    def look() -> None:
        if progress:
            progress(len(estimates), len(known))

    with suppress(Stopped):
        for place, priced in results(_priced, asked, executor or InProcess(), look=look):
            for same, each in zip(pieces[place], priced, strict=True):
                estimates |= zip(map(id, same), each, strict=True)
        look()
    missing = InvalidInput(NOT_REACHED)
    estimates |= {id(case): missing for case in chain(*questions) if id(case) not in estimates}
    return [_outcome(configuration, case, estimates) for configuration, case in zip(known, cases, strict=True)]


def outcome_of(configuration: Configuration) -> Outcome:
    """Read one configuration, price it and hold it against what was measured."""
    return outcomes_of([configuration])[0]


def _case_of(configuration: Configuration) -> Case | InvalidInput:
    try:
        case = read_case(configuration.rows[0])
    except InvalidInput as reason:
        return reason
    return case if configuration.measured else NotModelled(NOT_MEASURED)


def _questions(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases by their question, whatever its global batch: that is for a plan to keep, and not for its price."""
    questions: dict[tuple[object, ...], list[Case]] = defaultdict(list)
    for case in cases:
        given, job = case.inputs, case.inputs.job.model_dump(exclude={"global_batch"})
        questions[given.model, given.cluster, given.runtime, *job.values()].append(case)
    return [*questions.values()]


def _priced(asked: Sequence[tuple[Inputs, Sequence[Plan]]]) -> list[Sequence[Estimate | InvalidInput]]:
    """What the plans of each question cost, those of one question priced together, or why they have no price."""
    priced: list[Sequence[Estimate | InvalidInput]] = []
    for inputs, plans in asked:
        try:
            priced.append(estimate_each(plans, inputs))
        except InvalidInput as reason:
            priced.append([reason] * len(plans))
    return priced


def _outcome(
    configuration: Configuration, case: Case | InvalidInput, estimates: Mapping[int, Estimate | InvalidInput]
) -> Outcome:
    estimate = case if isinstance(case, InvalidInput) else estimates[id(case)]
    if isinstance(case, InvalidInput) or isinstance(estimate, InvalidInput):
        return Outcome(configuration, refusal=" ".join(str(estimate).split()))
    seconds, gib, kind = _seconds(configuration, case), configuration.memory_gib, configuration.memory_kind
    return Outcome(
        configuration,
        case,
        estimate,
        step_time=Pair(seconds, estimate.step_time_s) if seconds and case.timed else None,
        memory=Pair(gib, predicted_gib(_measured(case, estimate), kind)) if gib and kind in KINDS else None,
    )


def predicted_gib(memory: Components[float], kind: str) -> float:
    """Predicted GiB of one kind; memory: of one stage; kind: allocated, reserved or device."""
    return float(KINDS[kind](memory)) / GIB


def _measured(case: Case, estimate: Estimate) -> Components[float]:
    """Of the stage of the rank that was measured; else of the worst one."""
    if case.memory_rank is None or len(estimate.stages) == 1:
        return estimate.memory
    return estimate.stages[case.memory_rank * case.plan.pp // case.plan.num_gpus].memory


def _seconds(configuration: Configuration, case: Case) -> float | None:
    """Measured seconds of one step, from the throughput where only that is printed."""
    if configuration.step_time_s or not configuration.tokens_per_s_per_gpu:
        return configuration.step_time_s
    ranks = case.inputs.cluster.num_gpus
    return case.inputs.job.tokens_per_step / (configuration.tokens_per_s_per_gpu * ranks)
