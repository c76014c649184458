"""Named: a plan from the degrees that a user names, the rest filled in."""

from __future__ import annotations

from typing import Any, TypeVar

from meshwright.errors import InvalidInput, quoted
from meshwright.layout.layout_string import read_layout_string
from meshwright.layout.legality.context import context_parallel_attention, exchanges_of_attention
from meshwright.layout.plan import USUAL, Plan
from meshwright.schedules.records import SCHEDULE_NAMES, Schedule, usual_schedule
from meshwright.specs.choices import CONTEXT_EXCHANGE_NAMES, RECOMPUTE_NAMES, ContextExchange, Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.recompute_modules import RecomputeModules, read_modules

MOST_DIGITS = 18
"""Of a number of layers: more do not go into 64 bits."""

Code = TypeVar("Code")


def plan_of(
    inputs: Inputs,
    *,
    tp: int = 1,
    sp: bool | None = None,
    cp: int = 1,
    context_exchange: str | None = None,
    pp: int = 1,
    dp: int | None = None,
    zero: int | None = None,
    micro_batch: int = 1,
    embedding_as_layer: bool | None = None,
    head_as_layer: bool | None = None,
    pipeline_layout: str | None = None,
    schedule: str | None = None,
    recompute: str = "none",
    recompute_modules: str | None = None,
    **others: Any,
) -> Plan:
    """The plan with these degrees; not yet held against the runtime's rules.

    sp: None turns it on where tp > 1 and the runtime has it; dp: None takes what the other degrees leave of the
    cluster; zero: None takes 1 where dp x cp > 1 and the runtime has it, else its last;
    context_exchange: None takes the runtime's first; embedding_as_layer, head_as_layer: None counts them where the
    runtime does unless problem; pipeline_layout: Megatron's string, or the layers of every chunk with commas between;
    schedule: None takes interleaved where vpp > 1, else 1f1b; recompute_modules: as `read_modules` takes them, None is
    the attention core; others: fields as `Plan` has them. Micro-batches follow from the global batch. Raises
    `InvalidInput` for an unknown name, or for modules without selective recomputation.
    """
    runtime, replica = inputs.runtime, tp * cp * pp
    chunk_layers = _chunk_layers(pipeline_layout)
    names_layers = chunk_layers or others.get("first_stage_layers") or others.get("last_stage_layers")
    ends = pp > 1 and not names_layers and runtime.plans.ends_as_layers[0]
    dp = max(inputs.cluster.num_gpus // max(replica, 1), 1) if dp is None else dp
    return Plan(
        tp=tp,
        sp=tp > 1 and runtime.plans.sequence_parallel if sp is None else sp,
        cp=cp,
        context_exchange=_code(CONTEXT_EXCHANGE_NAMES, "context exchange", context_exchange)
        if context_exchange
        else usual_exchange(inputs),
        pp=pp,
        dp=dp,
        zero=usual_stage(inputs, dp * cp) if zero is None else zero,
        micro_batch=micro_batch,
        num_microbatches=max(inputs.job.global_batch // max(micro_batch * dp, 1), 1),
        embedding_as_layer=ends if embedding_as_layer is None else embedding_as_layer,
        head_as_layer=ends if head_as_layer is None else head_as_layer,
        chunk_layers=chunk_layers,
        recompute=_code(RECOMPUTE_NAMES, "recompute", recompute),
        recompute_modules=_modules(recompute, recompute_modules),
        schedule=_code(SCHEDULE_NAMES, "schedule", schedule) if schedule else usual_schedule(others.get("vpp", 1)),
        **others,
    )


def changed_fields(plan: Plan, **named: Any) -> dict[str, Any]:
    """Fields of a plan that change where a user names some of them, in the words that `plan_of` takes.

    A number of chunks brings the schedule that has as many, and a schedule its number of chunks; selective
    recomputation computes the attention core again where the plan has no modules yet. Raises `InvalidInput` for an
    unknown name, or for modules without selective recomputation.

    >>> {name: int(value) for name, value in changed_fields(Plan(pp=2, vpp=4, schedule="interleaved"), vpp=1).items()}
    {'vpp': 1, 'schedule': 0}
    """
    fields = dict(named)
    if "recompute" in named:
        fields["recompute"] = _code(RECOMPUTE_NAMES, "recompute", named["recompute"])
    if "recompute_modules" in named:
        kind = RECOMPUTE_NAMES[fields.get("recompute", plan.recompute)]
        fields["recompute_modules"] = _modules(kind, named["recompute_modules"])
    if "context_exchange" in named:
        fields["context_exchange"] = _code(CONTEXT_EXCHANGE_NAMES, "context exchange", named["context_exchange"])
    if "pipeline_layout" in named:
        fields["chunk_layers"] = _chunk_layers(fields.pop("pipeline_layout"))
    if "schedule" in named:
        fields["schedule"] = _code(SCHEDULE_NAMES, "schedule", named["schedule"])
        chunks = Schedule(fields["schedule"]).record.chunks
        if "vpp" not in named and isinstance(chunks, int):
            fields["vpp"] = chunks
    elif "vpp" in named and plan.schedule in USUAL:
        fields["schedule"] = usual_schedule(named["vpp"])
    return fields


def usual_stage(inputs: Inputs, ranks: int) -> int:
    """ZeRO 1 where the runtime has it, else its last stage; 0 on a single rank that is not sharded."""
    plans = inputs.runtime.plans
    if ranks < 2 and not inputs.runtime.shards_one_rank:
        return 0
    return 1 if 1 in plans.zero_stages else plans.zero_stages[-1]


def usual_exchange(inputs: Inputs) -> ContextExchange:
    """The runtime's first context exchange that takes the model's attention; a ring, which means nothing, where it has
    none.
    """
    known = [ContextExchange[name.upper()] for name in (*inputs.runtime.plans.context_exchanges, "ring")]
    if all(rule.name != context_parallel_attention.name for rule in inputs.runtime.rules):
        return known[0]
    taken = exchanges_of_attention(inputs.model, inputs.job)
    return next((each for each in known if each in taken), known[0])


def _chunk_layers(text: str | None) -> tuple[int, ...]:
    """Layers of every chunk, from a layout string or from numbers."""
    if text is None:
        return ()
    numbers = text.split(",")
    if all(number.strip().isdecimal() for number in numbers):
        if max(map(len, numbers)) > MOST_DIGITS:
            raise InvalidInput(
                f"pipeline_layout is {quoted(text)}; a number of layers has at most {MOST_DIGITS} digits"
            )
        return tuple(int(number) for number in numbers)
    return read_layout_string(text)


def _modules(recompute: str, text: str | None) -> RecomputeModules:
    """The modules that are named, which only selective recomputation computes again."""
    if text is None:
        return RecomputeModules.CORE_ATTENTION
    if recompute != RECOMPUTE_NAMES[Recompute.SELECTIVE]:
        what = f"--recompute-modules {text} without --recompute selective: {recompute} has no modules"
        raise InvalidInput(f"{what}; add --recompute selective")
    try:
        return read_modules(text)
    except InvalidInput as error:
        raise InvalidInput(f"--recompute-modules: {error}") from None


def _code(names: dict[Code, str], what: str, text: str) -> Code:
    for code, name in names.items():
        if name.replace("-", "_") == text.lower().replace("-", "_"):
            return code
    raise InvalidInput(f"unknown {what} {quoted(text)}; known: {', '.join(names.values())}")
