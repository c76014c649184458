"""Named: a plan from the degrees that a user names, the rest filled in."""

from __future__ import annotations

from meshwright.errors import InvalidInput, quoted
from meshwright.layout.plan import RECOMPUTE_NAMES, Plan, Schedule
from meshwright.specs.inputs import Inputs


def plan_of(
    inputs: Inputs,
    *,
    tp: int = 1,
    sp: bool | None = None,
    cp: int = 1,
    pp: int = 1,
    vpp: int = 1,
    dp: int | None = None,
    ep: int = 1,
    etp: int = 1,
    zero: int | None = None,
    micro_batch: int = 1,
    embedding_as_layer: bool = False,
    head_as_layer: bool = False,
    recompute: str = "none",
) -> Plan:
    """The plan with these degrees; not yet held against the runtime's rules.

    sp: None turns it on where tp > 1 and the runtime has it; dp: None takes what the other degrees leave of the
    cluster; zero: None takes the runtime's last stage where dp > 1. Micro-batches follow from the global batch.
    Raises `InvalidInput` for an unknown recompute kind.
    """
    codes = {name: code for code, name in RECOMPUTE_NAMES.items()}
    if recompute not in codes:
        raise InvalidInput(f"unknown recompute {quoted(recompute)}; known: {', '.join(codes)}")
    runtime, replica = inputs.runtime, tp * cp * pp
    dp = max(inputs.cluster.num_gpus // max(replica, 1), 1) if dp is None else dp
    return Plan(
        tp=tp,
        sp=tp > 1 and runtime.sequence_parallel if sp is None else sp,
        cp=cp,
        pp=pp,
        vpp=vpp,
        dp=dp,
        ep=ep,
        etp=etp,
        zero=(runtime.zero_stages[-1] if dp > 1 else 0) if zero is None else zero,
        micro_batch=micro_batch,
        num_microbatches=max(inputs.job.global_batch // max(micro_batch * dp, 1), 1),
        embedding_as_layer=embedding_as_layer,
        head_as_layer=head_as_layer,
        recompute=codes[recompute],
        schedule=Schedule.INTERLEAVED if vpp > 1 else Schedule.ONE_F_ONE_B,
    )
