"""Check: one plan against the rules of its runtime, from Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from meshwright.answers.document.answer import Answer
from meshwright.answers.document.blocks import Block
from meshwright.answers.explain.check import PlanCheck, check_document, check_of, check_screen
from meshwright.arguments import checked
from meshwright.layout.plan import Plan
from meshwright.reprs import list_of
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.reading.inputs import ClusterSource, ModelSource, read_inputs
from meshwright.specs.runtime import Runtime


@dataclass(frozen=True, repr=False)
class CheckAnswer(Answer):
    """One plan checked, from `meshwright.check`."""

    inputs: Inputs
    check: PlanCheck

    @property
    def legal(self) -> bool:
        """Whether the runtime accepts the plan."""
        return self.check.legal

    def __repr__(self) -> str:
        check, broken = self.check, [rule for rule in self.check.rules if not rule.kept]
        verdict = f"{len(broken)} of {len(check.rules)} rules of {check.runtime} broken" if broken else "legal"
        reasons = [f"{rule.name}: {rule.reason}" for rule in broken]
        return list_of(f"<CheckAnswer {check.plan}: {verdict}", reasons) + ">"

    def to_dict(self) -> dict[str, Any]:
        """What `meshwright check --json` prints."""
        return check_document(self.check)

    def blocks(self) -> tuple[Block, ...]:
        """The screen of `meshwright check --more`."""
        return check_screen(self.check, self.inputs, more=True)

    def rows(self) -> list[dict[str, Any]]:
        """The rules, each with whether the plan keeps it."""
        return [rule._asdict() for rule in self.check.rules]


@checked
def check(
    model: ModelSource, cluster: ClusterSource, job: Job, plan: Plan, *, runtime: Runtime | str | None = None
) -> CheckAnswer:
    """One plan against every rule of its runtime; an illegal one is an answer too. The arguments are those of
    `estimate`.

    >>> job = Job(sequence_length=8192, global_batch=64)
    >>> check("llama-3.1-8b", "1x8:h100", job, Plan(tp=3, num_microbatches=64)).legal
    False
    """
    inputs = read_inputs(model, cluster, job, runtime)
    return CheckAnswer(inputs, check_of(plan, inputs))
