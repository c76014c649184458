"""Scope: what of a plan PyTorch can be made to run here, and what of another framework's plan it stands for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from meshwright.cost.shard import vocabulary_shard
from meshwright.errors import CannotVerify
from meshwright.layout.plan import Plan
from meshwright.pytorch.frameworks import NONE, Versions, is_gpt2, own_framework
from meshwright.schedules.records import SCHEDULE_NAMES, Schedule
from meshwright.specs.behaviours import position_of, with_behaviours
from meshwright.specs.choices import CONTEXT_EXCHANGE_NAMES, ContextExchange, Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import Experts, LayerKind, Mlp
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES
from meshwright.specs.runtime import read_runtime

SCHEDULE_CLASSES = {
    schedule: schedule.record.framework_names["torch"]
    for schedule in Schedule
    if "torch" in schedule.record.framework_names
}
"""What torch.distributed.pipelining calls the schedules that it has."""
RUN_EXCHANGES = (ContextExchange.RING, ContextExchange.ALL_GATHER)
ACTIVATIONS = ("silu", "gelu", "relu")
UNCOMPILED = ("compiled=false",)
WHOLE_LOSS = "cross_entropy=eager"
"""One over all of the sequence, as runtimes that are not PyTorch-native have it."""
NATIVE = "torchtitan"
"""The runtime whose way the trainer follows."""


class Scope(NamedTuple):
    """What of a plan is run."""

    plan: Plan
    """Of which predictions are made."""
    inputs: Inputs
    run_plan: Plan
    """That is run: the same, or what another runtime's plan has in common with torchtitan."""
    run_inputs: Inputs
    unchecked: tuple[str, ...]
    framework: str = ""
    """Whose own model and wrapping is run, by name and version; none: those of the trainer."""
    own_because: str = ""
    """Why it is the trainer's, where the runtime is a framework whose own could be run."""
    uncompiled: bool = False
    """The runtime is compiled and `inputs` are not, as a compiler needs an accelerator."""

    @property
    def native(self) -> bool:
        """Whether the plan is run as it is, by the runtime's own way."""
        return not self.unchecked


def scope_of(plan: Plan, inputs: Inputs, versions: Versions = NONE) -> Scope:
    """What to run for a plan; raises `CannotVerify` with every reason why it cannot be, and what to change.

    versions: of the frameworks whose own models may be run.
    """
    compiled = is_native(inputs) and position_of(inputs.runtime, "compiled") == "true"
    if compiled:
        inputs = inputs.replace(runtime=with_behaviours(inputs.runtime, UNCOMPILED))
    framework, because = own_framework(plan, inputs, versions) if is_native(inputs) else ("", "")
    reasons = [*_plan_reasons(plan, inputs), *_job_reasons(inputs)]
    reasons += [] if framework and is_gpt2(inputs.model) else _model_reasons(inputs)
    reasons += [] if framework else _trainer_reasons(inputs, because)
    if reasons:
        raise CannotVerify("verify cannot run this plan on PyTorch:" + "".join(f"\n  - {reason}" for reason in reasons))
    inputs = inputs.with_even_routing()
    if is_native(inputs):
        return Scope(
            plan=plan,
            inputs=inputs,
            run_plan=plan,
            run_inputs=inputs,
            unchecked=(),
            framework=framework,
            own_because=because,
            uncompiled=compiled,
        )
    inputs = inputs.replace(job=inputs.job.replace(precision="bf16"))
    model = inputs.model.replace(vocab_size=plan.tp * int(vocabulary_shard(plan, inputs)))
    shared = replace(plan, zero=2, dp_replicate=1, recompute=Recompute.NONE, recompute_layers=0)
    carried = inputs.replace(model=model, runtime=with_behaviours(read_runtime(NATIVE), (*UNCOMPILED, WHOLE_LOSS)))
    unchecked = (
        f"{inputs.runtime.id} is no PyTorch-native runtime: the plan was run as {NATIVE} would, without recomputation,"
        " and only what both share is compared",
        "not checked: gradients, optimizer states, saved activations, the peak, backward and data-parallel traffic, and"
        " messages where tensor-parallel ranks scatter them",
    )
    return Scope(plan=plan, inputs=inputs, run_plan=shared, run_inputs=carried, unchecked=unchecked)


def is_native(inputs: Inputs) -> bool:
    """Whether the runtime shards full weights by fully_shard, or replicates them in 2 bytes or under autocast."""
    runtime = inputs.runtime
    half = runtime.storage.weight_bytes == HALF_BYTES or inputs.freezes_weights
    replicates = runtime.storage.autocast or (half and not runtime.sharding.shards_rows)
    return runtime.storage.weights == "full" and runtime.sharding.shards_rows != replicates


def _model_reasons(inputs: Inputs) -> Iterator[str]:
    model = inputs.model
    if model.norm != "rms":
        yield f"{model.name} has layer norms; the trainer has only RMS norms"
    if model.head_softcap or any(kind.attention.softcap for kind in model.layer_kinds):
        yield f"{model.name} caps logits or attention scores, which the trainer does not"
    if model.learned_positions:
        yield f"{model.name} has learned positions; the trainer has only rotary ones"
    if inputs.mtp_layers:
        yield f"{inputs.mtp_layers} layers of multi-token prediction are not built; leave them out with --mtp-layers 0"
    for kind in model.layer_kinds:
        yield from (f"layers of kind {kind.name!r} have {what}" for what in _kind_reasons(kind))


def _kind_reasons(kind: LayerKind) -> Iterator[str]:
    attention, block = kind.attention, kind.feed_forward
    if attention.latent:
        yield "latent attention, which the trainer lacks"
    elif attention.qk_norm == "width" or attention.sinks or attention.value_head_dim != attention.head_dim:
        yield "norms over the whole query width, attention sinks or values of another width, which the trainer lacks"
    if kind.norms != 2 or kind.parallel_residual:
        yield "another order of norms and residuals than the trainer"
    if block.activation not in ACTIVATIONS:
        yield f"the activation {block.activation}, which the trainer lacks"
    if isinstance(block, Experts) and (block.shared_ffn_size or block.bias or not block.gated or block.router_bias):
        yield "shared, biased or ungated experts, which the trainer lacks"
    if isinstance(block, Mlp) and block.bias and not block.gated:
        yield "biases on an ungated feed-forward block, which the trainer lacks"


def _plan_reasons(plan: Plan, inputs: Inputs) -> Iterator[str]:
    if plan.schedule not in SCHEDULE_CLASSES:
        known = ", ".join(SCHEDULE_NAMES[each] for each in SCHEDULE_CLASSES)
        yield f"torch.distributed.pipelining has no schedule {SCHEDULE_NAMES[plan.schedule]}; use {known}"
    if plan.cp > 1 and plan.context_exchange not in RUN_EXCHANGES:
        known = ", ".join(CONTEXT_EXCHANGE_NAMES[each] for each in RUN_EXCHANGES)
        yield f"PyTorch has no context exchange {CONTEXT_EXCHANGE_NAMES[plan.context_exchange]}; use {known}"
    if plan.etp > 1:
        yield f"etp {plan.etp}: the trainer keeps experts whole; use etp 1"
    if inputs.model.is_moe and plan.tp > 1 and (plan.ep == 1 or not plan.sp):
        yield f"tp {plan.tp} of a model with experts needs sp and an ep of 2: else torchtitan splits experts over tp"
    together = plan.dp * plan.cp > 1 or inputs.runtime.plans.shards_one_rank
    if plan.zero == 0 and together and inputs.runtime.sharding.shards_rows:
        yield "ZeRO 0: replicas are run as dp_replicate with ZeRO 2 or 3"
    order = inputs.runtime.plans.rank_order
    if order != read_runtime(NATIVE).plans.rank_order:
        yield f"{inputs.runtime.id} orders ranks as {', '.join(order)}; the trainer as {NATIVE}"


def _job_reasons(inputs: Inputs) -> Iterator[str]:
    runtime, kernels, native = inputs.runtime, inputs.runtime.kernels, is_native(inputs)
    if inputs.recipe.quantises:
        yield f"{inputs.job.precision}: quantised products need an accelerator; use bf16 or fp16"
    if runtime.storage.offloads_weights:
        yield "weights in the host's memory: a CPU has one memory for both; leave out optimizer_states=offloaded"
    if runtime.activations.offloaded_modules:
        yield "activations in the host's memory: a CPU has one memory for both; use --with offloaded_modules=[]"
    if runtime.activations.offloaded_layers:
        yield "activations in the host's memory: a CPU has one memory for both; use --with offloaded_layers=0"
    if inputs.packs_weights:
        yield "frozen weights in 4 bits are not run on fake tensors; use --with frozen_weights=half"
    if native and kernels.cross_entropy not in ("eager", "chunked"):
        yield f"the cross-entropy {kernels.cross_entropy} is not run here; use --with cross_entropy=eager"
    activations = runtime.activations.fused_activation or runtime.activations.dropout
    if native and (inputs.attention_kernel == "eager" or activations):
        yield "the trainer has flash attention, an activation apart from its product, and no dropout"
    if inputs.job.attended_length < inputs.job.sequence_length:
        yield "sequences are run as one document each; leave out --document-length"
    if inputs.job.expert_capacity is not None or inputs.job.expert_imbalance not in (None, 1.0):
        yield "tokens are dealt evenly to experts here; leave out --expert-imbalance and --expert-capacity"
    if runtime.storage.weights == "full" and not native:
        yield f"{runtime.id} shards weights in another way than fully_shard; use --runtime {NATIVE}"


def _trainer_reasons(inputs: Inputs, because: str) -> Iterator[str]:
    """What the trainer's own model lacks of it; because: why no framework's own is run."""
    runtime, kinds = inputs.runtime, inputs.model.layer_kinds
    if inputs.freezes_weights:
        yield f"adapters are run in transformers' own models{', and ' + because if because else ''}"
    if is_native(inputs) and runtime.elementwise_bytes.rms_norm_kept:
        yield (
            f"norms as transformers writes them keep fp32 copies, the trainer's do not, and {because}; use --with "
            "elementwise=eager"
        )
    if is_native(inputs) and inputs.model.is_moe and runtime.activations.weighed_output_bytes != FP32_BYTES:
        yield "the trainer's experts are weighed in fp32; use --with weighed_output_bytes=4"
    if runtime.storage.autocast and any(kind.is_moe or kind.attention.qk_norm != "none" for kind in kinds):
        yield "experts, and norms of queries and keys, are not run under autocast; use --runtime torchtitan"
