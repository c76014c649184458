"""Inputs: everything that is given, together, as the formulas take it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Self

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from meshwright.errors import Fault, InvalidSpec
from meshwright.specs.adapters import Adapter, layer_adapters
from meshwright.specs.base import Spec
from meshwright.specs.cluster import Cluster
from meshwright.specs.constraints import Constraints, lacking
from meshwright.specs.faults.question import question_faults
from meshwright.specs.fitted import fitted_values
from meshwright.specs.job import Job
from meshwright.specs.model import Attention, LayerKind, Model
from meshwright.specs.packed import packed_weights
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES, Precision, read_precision
from meshwright.specs.routing import dispatcher_on, expert_spread
from meshwright.specs.runtime import Runtime
from meshwright.specs.runtime.communication import Dispatcher
from meshwright.specs.runtime.device import AttentionKernel
from meshwright.specs.weights import Weight, layer_weights


class Inputs(Spec):
    """A model, a cluster, a job and a runtime, and which plans a search may choose."""

    called: ClassVar[str] = "the question"

    model: Model
    cluster: Cluster
    job: Job
    runtime: Runtime
    constraints: Constraints = Constraints()

    @model_serializer(mode="wrap")
    def _written(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without constraints where there are none."""
        parts: dict[str, Any] = written(self)
        return {name: part for name, part in parts.items() if name != "constraints" or part}

    @cached_property
    def recipe(self) -> Precision:
        """The job's precision."""
        return read_precision(self.job.precision)

    @property
    def peak_flops(self) -> float:
        """Dense peak of one accelerator in the number format of the recipe's products, FLOP/s."""
        return self.cluster.accelerator.peak_flops[self.recipe.peak]

    @property
    def half_peak_flops(self) -> float:
        """Dense peak of one accelerator in bf16 or fp16, whichever the recipe does not quantise, FLOP/s."""
        return self.cluster.accelerator.peak_flops[self.recipe.half]

    @cached_property
    def quantise_bytes(self) -> float:
        """Bytes read and written to quantise one element of what a product takes; 0 where nothing is quantised. No
        product reads columns of it where weights are frozen.
        """
        if not self.recipe.quantises:
            return 0.0
        rows = self.freezes_weights
        return self.recipe.quantise_bytes(self.cluster.accelerator, apart=self.quantises_apart, by_rows_alone=rows)

    @property
    def attention_kernel(self) -> AttentionKernel:
        """The runtime's, for this model."""
        kernels = self.runtime.kernels
        return (self.model.modifies_scores and kernels.modified_attention_kernel) or kernels.attention_kernel

    @cached_property
    def attention_generation(self) -> AttentionKernel:
        """Generation of the attention kernels that it takes on this accelerator, of which none may take its heads."""
        measured, kernels = self.cluster.accelerator.kernels.attention, self.runtime.kernels
        fused = kernels.pads_heads or self.model.has_heads_up_to(measured.widest_head, measured.head_alignment)
        newest = self.attention_kernel == "newest" and kernels.attends_with_pytorch
        return (measured.in_pytorch if newest else self.attention_kernel) if fused else "eager"

    @cached_property
    def dispatcher(self) -> Dispatcher:
        """The runtime's, as it runs on the cluster."""
        return dispatcher_on(self.cluster, self.runtime)

    @property
    def quantises_attention(self) -> bool:
        """Whether fused attention takes 8-bit operands."""
        return self.runtime.kernels.quantised_attention and self.recipe.quantises

    @property
    def quantises_apart(self) -> bool:
        """Whether rows and columns of an operand are quantised by two kernels."""
        return self.runtime.kernels.quantises_apart and self.recipe.columns == "own"

    @property
    def constants(self) -> Mapping[str, float]:
        """Values of the fitted constants by name: the catalogue's."""
        return fitted_values()

    @property
    def residual_bytes(self) -> int:
        """Bytes of an element of the activations between layers."""
        return FP32_BYTES if self.runtime.storage.autocast else HALF_BYTES

    @cached_property
    def weight_cast_bytes(self) -> int:
        """Bytes read and written to cast one weight of a product, or its gradient back; 0 without autocast."""
        return (FP32_BYTES + HALF_BYTES) * self.runtime.storage.autocast

    def fuses_qkv(self, attention: Attention) -> bool:
        """Whether queries, keys and values are one product: of the runtime's layers, or of the model's own."""
        return self.runtime.kernels.fused_projections or attention.fused_qkv

    @cached_property
    def gathers_ends_apart(self) -> bool:
        """Whether embedding and head are units of their own, gathered and reduced one after the other: tied ones are
        one.
        """
        return self.runtime.sharding.ends_apart and not self.model.tied_embeddings

    @cached_property
    def gradient_bytes(self) -> int:
        """Bytes per parameter of what data-parallel ranks sum, unless `summed_bytes` differs, and of the gradient
        buffer of half weights.
        """
        runtime = self.runtime
        usual = runtime.storage.fp16_gradient_bytes if self.recipe.half == "fp16" else runtime.storage.gradient_bytes
        return {"fp32": 4, "half": 2, None: usual}[self.job.gradients]

    @property
    def kept_gradient_bytes(self) -> int:
        """Bytes per parameter of gradients between micro-batches, once reduced: as `gradient_bytes`, but of full
        weights in their format.
        """
        storage = self.runtime.storage
        return storage.weight_bytes if storage.weights == "full" else self.gradient_bytes

    @property
    def sums_half_copies(self) -> bool:
        """Whether data-parallel ranks sum 2-byte copies of fp32 gradients: where the runtime does and no other form of
        gradients is asked for.
        """
        return (
            self.runtime.sharding.reduces_half_copies and self.gradient_bytes == FP32_BYTES and not self.job.gradients
        )

    @property
    def summed_bytes(self) -> int:
        """Bytes per parameter of what data-parallel ranks sum."""
        return HALF_BYTES if self.sums_half_copies else self.gradient_bytes

    @property
    def dispatch_bytes(self) -> tuple[float, float]:
        """Bytes of a dispatched element with its share of scales: of tokens in forward, of gradients in backward.

        2, or the width of an 8-bit recipe's operands where the runtime dispatches them.
        """
        narrow = self.recipe.operand_bytes if self.recipe.number_format == "fp8" else HALF_BYTES
        quantised = {"none": 0, "forward": 1, "both": 2}[self.runtime.communication.quantised_dispatch]
        return narrow if quantised > 0 else HALF_BYTES, narrow if quantised > 1 else HALF_BYTES

    @property
    def sequence_gather_bytes(self) -> tuple[float, float]:
        """Bytes of an element that tensor-parallel ranks gather along the sequence: of what a product takes, and of a
        gradient, whose rows and columns go apart where they are quantised on their own.

        2, or those of the recipe's operands where the runtime gathers them.
        """
        if not self.gathers_quantised:
            return HALF_BYTES, HALF_BYTES
        size = self.recipe.operand_bytes
        return size, size * (2 if self.recipe.columns == "own" else 1)

    @cached_property
    def gathers_quantised(self) -> bool:
        """Whether tensor-parallel ranks quantise what they gather along the sequence before they do."""
        gathers = {"none": False, "one_scale": self.recipe.columns != "own", "all": True}
        return self.recipe.quantises and gathers[self.runtime.communication.quantised_gathers]

    @cached_property
    def freezes_weights(self) -> bool:
        """Whether the model's weights are frozen, and adapters beside them are trained."""
        return self.job.lora_rank > 0

    @cached_property
    def packs_weights(self) -> bool:
        """Whether frozen weights are stored in 4 bits."""
        return self.freezes_weights and self.runtime.storage.frozen_weights == "nf4"

    def adapters(self, kind: LayerKind) -> tuple[Adapter, ...]:
        """Those of one layer of a kind; none where all weights are trained."""
        if not self.freezes_weights:
            return ()
        joined = self.runtime.kernels.fused_adapters == "one"
        return layer_adapters(self.model, kind, self.job.lora_rank, self.job.lora_modules, joined)

    def adapted(self, kind: LayerKind, *reads: str) -> bool:
        """Whether a layer has an adapter that reads one of these, as `Adapter.reads` calls them."""
        return any(each.reads in reads for each in self.adapters(kind))

    @property
    def host_s_per_step(self) -> float:
        """Seconds of the host outside of the pipeline, also to update adapters tensor by tensor."""
        host, model = self.runtime.host, self.model
        adapters = (len(self.adapters(kind)) for kind in model.layer_kinds)
        updated = sum(layers * count for layers, count in zip(model.layers_per_kind, adapters, strict=True))
        return host.host_s_per_step + updated * host.host_s_per_updated_adapter

    def layer_weights(self, kind: LayerKind, *, fused: bool = False) -> tuple[Weight, ...]:
        """Those of one layer of a kind as they are stored, with its adapters; fused: queries, keys, values are one."""
        own = (packed_weights if self.packs_weights else layer_weights)(self.model, kind, fused)
        return (*own, *chain.from_iterable(adapter.weights for adapter in self.adapters(kind)))

    @cached_property
    def mtp_layers(self) -> int:
        """Layers of multi-token prediction that are trained: the job's, else the model's where the runtime has them."""
        usual = self.model.mtp_layers if self.runtime.plans.multi_token_prediction else 0
        return usual if self.job.mtp_layers is None else self.job.mtp_layers

    @cached_property
    def layers_per_kind(self) -> tuple[int, ...]:
        """Layers of each kind that are trained, those of multi-token prediction among them: they are of the last one's.

        Source: Megatron-LM, gpt_layer_specs.py, get_gpt_mtp_block_spec.
        """
        last = self.model.layer_pattern[-1]
        counts = enumerate(self.model.layers_per_kind)
        return tuple(count + (self.mtp_layers if kind == last else 0) for kind, count in counts)

    @property
    def expert_spread(self) -> float:
        """Standard deviation of the tokens of single experts over their mean: the job's, else what is usual; 0 with
        even routing or a capacity.
        """
        if self.expert_capacity is not None or self.job.expert_imbalance == 1:
            return 0.0
        return expert_spread().usual if self.job.expert_spread is None else self.job.expert_spread

    @property
    def routes_as_usual(self) -> bool:
        """Whether experts share tokens as is usual, because nothing else is given."""
        given = self.job.expert_imbalance, self.job.expert_spread, self.expert_capacity
        return self.model.is_moe and all(each is None for each in given)

    @cached_property
    def expert_capacity(self) -> float | None:
        """Rows of every expert over the mean of its tokens from each rank: the job's, else the runtime's where the job
        does not say how tokens are shared; None: all tokens are taken.
        """
        job, usual = self.job, self.runtime.communication.expert_capacity or None
        given = any(each is not None for each in (job.expert_imbalance, job.expert_spread, job.expert_capacity))
        return job.expert_capacity if given else usual

    def with_even_routing(self) -> Self:
        """The same question where all ranks' experts get the same tokens, as benchmarks have it."""
        return self.replace(job=self.job.replace(expert_imbalance=1.0)) if self.model.is_moe else self

    def with_expert_spread(self, spread: float) -> Self:
        """The same question where the tokens of single experts are so far from their mean, a share."""
        return self.replace(job=self.job.replace(expert_spread=spread))

    @property
    def stores_quantised(self) -> bool:
        """Whether ranks store the weights of quantised products in quantised form alone."""
        return self.recipe.quantises and self.job.precision in self.runtime.storage.quantised_weights

    @property
    def gathered_bytes(self) -> float:
        """Bytes per parameter of the layers' weights that data-parallel ranks gather."""
        before = self.stores_quantised or self.job.precision in self.runtime.sharding.quantised_weight_gathers
        return self.recipe.gathered_bytes if before else HALF_BYTES

    @cached_property
    def keeps_remainders(self) -> bool:
        """Whether a distributed optimizer keeps, of an fp32 weight, only what the stored one lacks."""
        return self.job.precision in self.runtime.storage.remainder_weights and not self.stores_quantised

    @property
    def optimizer_bytes(self) -> float:
        """Bytes per parameter of weights that a distributed optimizer updates, or keeps of them, and two moments."""
        stored = self.runtime.storage
        return stored.weight_bytes - HALF_BYTES * self.keeps_remainders + stored.moments_bytes

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        faults = [*question_faults(self.cluster.accelerator, self.model, self.job, self.runtime)]
        faults += [Fault(f"constraints.{name}", what) for name, what in lacking(self.constraints, self.runtime).items()]
        if faults:
            raise InvalidSpec(self.called, faults)
        return self
