"""Meshwright plans distributed training of large language models.

Names load on first use, so that `meshwright --help` need not import the engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from meshwright.version import VERSION

if TYPE_CHECKING:
    from meshwright.answers.document.answer import Answer as Answer
    from meshwright.answers.explain.vary import vary as vary
    from meshwright.answers.public.ask import estimate as estimate
    from meshwright.answers.public.ask import plan as plan
    from meshwright.answers.public.check import CheckAnswer as CheckAnswer
    from meshwright.answers.public.check import check as check
    from meshwright.answers.public.compare import ClustersAnswer as ClustersAnswer
    from meshwright.answers.public.compare import PlansAnswer as PlansAnswer
    from meshwright.answers.public.compare import compare as compare
    from meshwright.answers.public.explain import ExplainAnswer as ExplainAnswer
    from meshwright.answers.public.explain import explain as explain
    from meshwright.answers.public.limits import LimitsAnswer as LimitsAnswer
    from meshwright.answers.public.limits import limits as limits
    from meshwright.answers.public.memo import MemoAnswer as MemoAnswer
    from meshwright.answers.public.memo import memo as memo
    from meshwright.answers.public.plans import PlanAnswer as PlanAnswer
    from meshwright.answers.sweep.run import SweepResult as SweepResult
    from meshwright.answers.sweep.run import sweep as sweep
    from meshwright.cost.estimate import Estimate as Estimate
    from meshwright.cost.memory.fit import Verdict as Verdict
    from meshwright.errors import IllegalPlan as IllegalPlan
    from meshwright.errors import InvalidInput as InvalidInput
    from meshwright.errors import InvalidSpec as InvalidSpec
    from meshwright.errors import MeshwrightError as MeshwrightError
    from meshwright.errors import NothingFits as NothingFits
    from meshwright.errors import NotModelled as NotModelled
    from meshwright.errors import UnknownName as UnknownName
    from meshwright.launch.imports.question import read_launch as read_launch
    from meshwright.layout.plan import Plan as Plan
    from meshwright.schedules.records import Schedule as Schedule
    from meshwright.search.find import SearchResult as SearchResult
    from meshwright.specs.choices import Recompute as Recompute
    from meshwright.specs.cluster import Accelerator as Accelerator
    from meshwright.specs.cluster import Cluster as Cluster
    from meshwright.specs.cluster import Level as Level
    from meshwright.specs.constraints import Constraints as Constraints
    from meshwright.specs.job import Job as Job
    from meshwright.specs.model import Model as Model
    from meshwright.specs.reading.cluster import read_cluster as read_cluster
    from meshwright.specs.reading.model import read_model as read_model
    from meshwright.specs.recompute_modules import RecomputeModules as RecomputeModules
    from meshwright.specs.runtime import Runtime as Runtime
    from meshwright.specs.runtime import read_runtime as read_runtime
    from meshwright.validation.logs.answer import RunsAnswer as RunsAnswer
    from meshwright.validation.logs.answer import runs as runs
    from meshwright.validation.score.validate import ValidateAnswer as ValidateAnswer
    from meshwright.validation.score.validate import validate as validate

__version__ = VERSION

_HOMES = {
    "Accelerator": "specs.cluster",
    "Answer": "answers.document.answer",
    "CheckAnswer": "answers.public.check",
    "Cluster": "specs.cluster",
    "ClustersAnswer": "answers.public.compare",
    "Constraints": "specs.constraints",
    "Estimate": "cost.estimate",
    "ExplainAnswer": "answers.public.explain",
    "IllegalPlan": "errors",
    "InvalidInput": "errors",
    "InvalidSpec": "errors",
    "Job": "specs.job",
    "Level": "specs.cluster",
    "LimitsAnswer": "answers.public.limits",
    "MemoAnswer": "answers.public.memo",
    "MeshwrightError": "errors",
    "Model": "specs.model",
    "NotModelled": "errors",
    "NothingFits": "errors",
    "Plan": "layout.plan",
    "PlanAnswer": "answers.public.plans",
    "PlansAnswer": "answers.public.compare",
    "Recompute": "specs.choices",
    "RecomputeModules": "specs.recompute_modules",
    "Runtime": "specs.runtime",
    "RunsAnswer": "validation.logs.answer",
    "Schedule": "schedules.records",
    "SearchResult": "search.find",
    "SweepResult": "answers.sweep.run",
    "UnknownName": "errors",
    "ValidateAnswer": "validation.score.validate",
    "Verdict": "cost.memory.fit",
    "check": "answers.public.check",
    "compare": "answers.public.compare",
    "estimate": "answers.public.ask",
    "explain": "answers.public.explain",
    "limits": "answers.public.limits",
    "memo": "answers.public.memo",
    "plan": "answers.public.ask",
    "read_cluster": "specs.reading.cluster",
    "read_launch": "launch.imports.question",
    "read_model": "specs.reading.model",
    "read_runtime": "specs.runtime",
    "runs": "validation.logs.answer",
    "sweep": "answers.sweep.run",
    "validate": "validation.score.validate",
    "vary": "answers.explain.vary",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
