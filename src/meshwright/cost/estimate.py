"""Estimate: what one plan, or many, cost: the time waterfall of a step and the memory of every stage."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple

import numpy as np

from meshwright.arrays import Amount, FloatColumn, IntColumn, column, filled, total
from meshwright.cost.compute.work import Work
from meshwright.cost.flops import model_flops_per_step
from meshwright.cost.footprint import Footprints
from meshwright.cost.memory.components import Components
from meshwright.cost.memory.fit import Fit, Verdict, fit_of
from meshwright.cost.memory.timeline import Moment
from meshwright.cost.unit import UnitTime
from meshwright.distinct import combined, spread
from meshwright.layout.plan import Plan
from meshwright.reprs import lines_of
from meshwright.units import format_gib, format_seconds


class Waterfall(NamedTuple, Generic[Amount]):
    """Seconds of one step, or of many, seen from its slowest stage; the parts add up to the step."""

    compute_s: Amount
    exposed_tp_s: Amount
    exposed_cp_s: Amount
    exposed_ep_s: Amount
    exposed_pp_s: Amount
    exposed_dp_s: Amount
    bubble_s: Amount
    optimizer_s: Amount
    host_s: Amount

    @property
    def total(self) -> Amount:
        """Seconds of one step."""
        return total(self)

    @property
    def waiting(self) -> Amount:
        """Share of it that waits for exchanges, the host or other stages."""
        return 1 - (self.compute_s + self.optimizer_s) / self.total


@dataclass(frozen=True)
class StageEstimate:
    """One pipeline stage of one plan."""

    stage: int
    """Pipeline rank, 0 first."""
    layers: int
    """Those of multi-token prediction apart."""
    mtp_layers: int
    embedding: bool
    head: bool
    live_micro_batches: int
    """Micro-batches of which it keeps activations at the peak."""
    forward_s: float
    """Seconds of the forward pass of one micro-batch, with exposed tensor-parallel communication."""
    backward_s: float
    peak_moment: Moment
    """The moment of a step at which it holds the most memory."""
    memory: Components[float]
    """Bytes at that moment."""


@dataclass(frozen=True)
class Estimate:
    """What one plan costs."""

    plan: Plan
    time: Waterfall[float]
    """Seconds of one step."""
    compute: Work
    """Seconds of compute on the slowest stage by kind; they add up to `time.compute_s`."""
    tokens_per_s_per_gpu: float
    mfu: float
    """Model FLOPs (causal attention counted half, multi-token prediction counted) over the dense peak."""
    fit: Fit
    """Whether the worst stage fits, by which margin, and how likely."""
    worst_stage: int
    """The stage with the most memory."""
    slowest_stage: int
    """The stage with the most work."""
    stages: tuple[StageEstimate, ...]

    def __repr__(self) -> str:
        return lines_of(f"<Estimate {self.brief}>")

    @property
    def brief(self) -> str:
        """Its plan, the time of a step, the memory of the worst stage and the verdict in one line."""
        speed = f"{format_seconds(self.step_time_s)} a step, MFU {self.mfu:.1%}"
        return f"{self.plan}: {speed}, {format_gib(self.memory.device)}, {self.verdict}"

    @property
    def verdict(self) -> Verdict:
        """Whether the worst stage fits."""
        return self.fit.verdict

    @property
    def step_time_s(self) -> float:
        """Seconds of one optimizer step."""
        return self.time.total

    @property
    def memory(self) -> Components[float]:
        """Bytes on the worst stage."""
        return next(stage.memory for stage in self.stages if stage.stage == self.worst_stage)


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimates(Footprints):
    """What many plans cost; columns of shape (n,) per plan and (r,) per stage."""

    time: Waterfall[FloatColumn]
    slowest: IntColumn
    """Row of the stage with the most work, shape (n,)."""
    works: UnitTime
    """Seconds of one micro-batch on each kind of stage there is, shape (w,)."""
    work: IntColumn
    """The row of `works` of each stage, shape (r,)."""

    @cached_property
    def compute(self) -> Work:
        """Seconds of compute on the slowest stage by kind, shape (n,); they add up to `compute_s`."""
        # Of every kind of stage, (w,), then of the slowest stage of each plan, (n,).
        each, slowest = self.works.forward.plus(self.works.backward), self.work.take(self.slowest)
        return combined(lambda part: spread(part, slowest) * self.plans.num_microbatches, each)

    @cached_property
    def stage_time(self) -> UnitTime:
        """Seconds of one micro-batch on each stage, shape (r,)."""
        return combined(lambda part: filled(spread(part, self.work), len(self.work)), self.works)

    @cached_property
    def passes(self) -> tuple[FloatColumn, FloatColumn]:
        """Seconds of forward and of backward of one micro-batch on each stage, without the host, shape (r,) each."""
        forward, backward = self.works.forward_total, self.works.backward_total
        return column(forward)[self.work], column(backward)[self.work]

    @cached_property
    def step_time_s(self) -> FloatColumn:
        """Seconds of one optimizer step, shape (n,)."""
        return self.time.total

    @cached_property
    def tokens_per_s_per_gpu(self) -> FloatColumn:
        """Tokens per second and accelerator, shape (n,)."""
        return self._tokens_per_step / self.step_time_s / self.inputs.cluster.num_gpus

    @cached_property
    def mfu(self) -> FloatColumn:
        """Model FLOPs, as `model_flops_per_step` counts them, over the dense peak of all accelerators, shape (n,)."""
        peak = self.inputs.peak_flops * self.inputs.cluster.num_gpus
        return np.asarray(model_flops_per_step(self.inputs, self._tokens_per_step) / self.step_time_s / peak)

    @property
    def _tokens_per_step(self) -> IntColumn:
        """Of the plans themselves, shape (n,): a table may hold plans of several global batches."""
        return self.inputs.job.sequence_length * self.plans.global_batch

    def __getitem__(self, row: int) -> Estimate:
        """One plan's estimate, with the stages that were kept."""
        first, worst, slowest = (int(each[row]) for each in (self.stages.start, self.worst, self.slowest))
        end = int(self.stages.start[row + 1]) if row + 1 < len(self) else len(self.stages.plan)
        stages = self._stages(slice(first, end))
        memory = stages[worst - first].memory
        return Estimate(
            plan=self.plans[row],
            time=Waterfall(*(float(part[row]) for part in self.time)),
            compute=Work(*(float(column(part)[row]) for part in self.compute)),
            tokens_per_s_per_gpu=float(self.tokens_per_s_per_gpu[row]),
            mfu=float(self.mfu[row]),
            fit=fit_of(memory, self.inputs, float(self.worst_routing[row])),
            worst_stage=stages[worst - first].stage,
            slowest_stage=stages[slowest - first].stage,
            stages=stages,
        )

    def _stages(self, rows: slice) -> tuple[StageEstimate, ...]:
        """Those of one plan; rows: theirs, which stand together."""
        stages, kept = self.stages, (*self.passes, self.peak_moment, *self.memory)
        counts = stages.stage, stages.layers, stages.embedding, stages.head, stages.in_flight_micro_batches
        each = zip(*(column[rows].tolist() for column in (*counts, *kept)), strict=True)
        return tuple(
            StageEstimate(
                stage=stage,
                layers=sum(layers) - self.inputs.mtp_layers * head,
                mtp_layers=self.inputs.mtp_layers * head,
                embedding=embedding,
                head=head,
                live_micro_batches=in_flight,
                forward_s=forward,
                backward_s=backward,
                peak_moment=Moment(moment),
                memory=Components(*map(round, memory)),
            )
            for stage, layers, embedding, head, in_flight, forward, backward, moment, *memory in each
        )
