"""Parameters that one rank holds, after tensor parallelism."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from meshwright.arrays import Bools, Floats, Ints, larger, where
from meshwright.cost.routing import routed_experts
from meshwright.cost.shard import layer_shard, vocabulary_rows
from meshwright.layout.groups import expert_sharding_ranks, sharding_ranks
from meshwright.layout.plans import Layout
from meshwright.layout.stages import ends_apart
from meshwright.specs.inputs import Inputs
from meshwright.specs.model import LayerKind
from meshwright.specs.weights import Weight, embedding_weights, head_weights, layer_weights, mtp_weights


class EndParameters(NamedTuple):
    """Parameters of the two ends of the model on one rank."""

    embedding: Floats
    head: Floats


class GatheredEnds(NamedTuple):
    """Parameters of the two ends of the model that are gathered together, and of what is left to the root unit."""

    root: Floats
    embedding: Floats
    head: Floats


def layer_parameters(plan: Layout, inputs: Inputs, kind: LayerKind) -> Ints:
    """Parameters of one layer of a kind on one rank, without those of routed experts, with those of adapters.

    Column- and row-parallel weights are divided by t, also keys and values where t exceeds their heads; norms and the
    biases behind a row-parallel weight stand on every rank. plan: scalar or array (n,). Returns a count.
    Source: Megatron-LM, tensor_parallel/layers.py. Megatron-core's own GPTModel holds exactly as many.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> [int(layer_parameters(Plan(tp=tp), LLAMA, LLAMA.model.layer_kinds[0])) for tp in (1, 8)]
    [218112000, 27271168]
    """
    weights = (weight for weight in inputs.layer_weights(kind) if weight.part != "experts")
    return _on_rank(weights, plan, inputs)


def expert_parameters(plan: Layout, inputs: Inputs, kind: LayerKind) -> Ints:
    """Parameters of the routed experts of one layer of a kind on one rank: E / ep of them, each divided by etp.

    plan: scalar or array (n,). Returns a count; 0 for a dense layer.
    Source: Megatron-LM, core/transformer/moe/experts.py.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> int(expert_parameters(Plan(dp=8, ep=8), MIXTRAL, MIXTRAL.model.layer_kinds[0]))  # 3 x 4096 x 14336
    176160768
    """
    if not kind.is_moe:
        return 0
    whole = sum(weight.elements for weight in layer_weights(inputs.model, kind) if weight.part == "experts")
    return whole // (plan.ep * plan.etp)


def product_parameters(plan: Layout, inputs: Inputs, kind: LayerKind) -> Ints:
    """Parameters of the last product of one layer on one rank, of all experts where there are some: h f / t, or
    E h f / (ep etp).

    plan: scalar or array (n,). Returns a count. Source: Megatron-LM, core/transformer/mlp.py (linear_fc2) and
    moe/experts.py.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> int(product_parameters(Plan(tp=8), LLAMA, LLAMA.model.layer_kinds[0]))  # 4096 x 14336 / 8
    7340032
    """
    if not kind.is_moe:
        return inputs.model.hidden_size * layer_shard(plan, inputs, kind).ffn
    return expert_parameters(plan, inputs, kind) // (2 + routed_experts(kind).gated)


def end_parameters(plan: Layout, inputs: Inputs) -> EndParameters:
    """Parameters in front of the first and behind the last layer on one rank, with the padded vocabulary.

    A tied head stands on the last stage as a copy of the embedding where that is another stage, and multi-token
    prediction has a copy of its own there. plan: scalar or array (n,). Returns counts.
    Source: Megatron-LM, language_module.py, setup_embeddings_and_output_layer.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> tuple(map(int, end_parameters(Plan(tp=8), LLAMA)))
    (66060288, 66064384)
    """
    model = inputs.model
    head = _on_rank(head_weights(model), plan, inputs)
    if model.tied_embeddings:
        head = head + where(ends_apart(plan), vocabulary_rows(plan, inputs).head * model.hidden_size, 0)
    embedding = 1.0 * _on_rank(embedding_weights(model), plan, inputs)
    return EndParameters(embedding, 1.0 * head + where(ends_apart(plan) & (inputs.mtp_layers > 0), embedding, 0))


def prediction_parameters(plan: Layout, inputs: Inputs) -> Ints:
    """Parameters of multi-token prediction on one rank beside those of its transformer layers: `mtp_weights`.

    plan: scalar or array (n,). Returns a count. Source: `mtp_weights`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> int(prediction_parameters(Plan(tp=8), LLAMA))  # predicts one token
    0
    """
    return inputs.mtp_layers * _on_rank(mtp_weights(inputs.model), plan, inputs) if inputs.mtp_layers else 0


def sharded_layer_parameters(plan: Layout, inputs: Inputs, kind: LayerKind, ranks: Ints) -> Floats:
    """Parameters of one layer of a kind on the fullest of the ranks that divide it, without routed experts.

    Each weight is divided along its first dimension, and the first ranks hold the part that is rounded up:
    sum of ceil(rows / n) x columns; or, where the runtime lays them flat, their sum over n. Fused projections of
    queries, keys and values are one weight.
    plan: scalar or array (n,); ranks: n, a count. Returns a count.
    Source: torch.distributed.fsdp 2.13, _fully_shard/_fsdp_param.py (_init_sharded_param: chunks of dim 0, padded).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> int(sharded_layer_parameters(Plan(dp=8, zero=3), LLAMA, LLAMA.model.layer_kinds[0], 8))
    27264000
    """
    weights = inputs.layer_weights(kind, fused=inputs.runtime.kernels.fused_projections)
    return sharded_parameters((weight for weight in weights if weight.part != "experts"), plan, inputs, ranks)


def gathered_layer_parameters(plan: Layout, inputs: Inputs, kind: LayerKind) -> tuple[Floats, Floats]:
    """Parameters of one layer of a kind as data-parallel ranks gather and reduce them, padded to as many on every rank:
    all but routed experts, and these. n ranks gather n times what the fullest stores.

    plan: scalar or array (n,). Returns two counts. Source: torch 2.13, distributed/fsdp/_fully_shard/_fsdp_param.py
    (padded_sharded_param_size) and _fsdp_collectives.py (foreach_all_gather, foreach_reduce).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> tuple(map(int, gathered_layer_parameters(Plan(dp=8, zero=3), LLAMA, LLAMA.model.layer_kinds[0])))
    (218112000, 0)
    """
    ranks, holders = sharding_ranks(plan), expert_sharding_ranks(plan)
    dense = ranks * sharded_layer_parameters(plan, inputs, kind, ranks)
    return dense, holders * sharded_expert_parameters(plan, inputs, kind, holders)


def gathered_end_parameters(plan: Layout, inputs: Inputs) -> GatheredEnds:
    """Parameters of both ends as they are gathered and reduced, padded as `gathered_layer_parameters` says.

    Learned positions are left to the root unit where embedding, final norm and head are units of their own.

    plan: scalar or array (n,). Returns counts. Source: `gathered_layer_parameters`; huggingface/accelerate@16cb6eb80dd9
    utils/fsdp_utils.py L857-885 (fsdp2_prepare_model); transformers 5.23 models/gpt2/modeling_gpt2.py (wpe).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> tuple(map(int, gathered_end_parameters(Plan(dp=8, zero=3), LLAMA)))
    (0, 525336576, 525340672)
    """
    ranks, weights = sharding_ranks(plan), embedding_weights(inputs.model)
    apart = weights if inputs.runtime.sharding.ends_apart else ()
    root = sharded_parameters((weight for weight in apart if weight.part == "positions"), plan, inputs, ranks)
    embedding, head = sharded_end_parameters(plan, inputs, ranks)
    return GatheredEnds(root=ranks * root, embedding=ranks * (embedding - root), head=ranks * head)


def sharded_expert_parameters(plan: Layout, inputs: Inputs, kind: LayerKind, ranks: Ints) -> Floats:
    """Parameters of the routed experts of one layer on the fullest of the ranks that divide those of one ep rank.

    Whole experts are dealt out; where ep times the ranks exceed their number, rows of every expert are if the runtime
    does so.
    plan: scalar or array (n,); ranks: that hold the same experts, a count. Returns a count; 0 for a dense layer.
    Source: torchtitan 0.3.0, distributed/fsdp.py L209-308.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> kind = MIXTRAL.model.layer_kinds[0]
    >>> whole = expert_parameters(Plan(dp=8), MIXTRAL, kind)
    >>> float(sharded_expert_parameters(Plan(dp=8, zero=3), MIXTRAL, kind, ranks=8) / whole)
    0.125
    """
    count = expert_parameters(plan, inputs, kind)
    if not kind.is_moe or not inputs.runtime.sharding.shards_rows:
        return count / ranks
    block, hidden = routed_experts(kind), inputs.model.hidden_size
    here = larger(block.count // plan.ep, 1)
    dealt = -(-here // ranks) * (count // here)
    per_expert = (1 + block.gated) * -(-(block.ffn_size // plan.etp) // ranks) * hidden
    rows = here * (per_expert + -(-hidden // ranks) * (block.ffn_size // plan.etp))
    return 1.0 * where(splits_experts(plan, inputs, kind, ranks), rows, dealt)


def splits_experts(plan: Layout, inputs: Inputs, kind: LayerKind, ranks: Ints) -> Bools:
    """Whether the ranks that hold the same experts divide each by rows, as there are fewer experts than ranks and the
    runtime does so then.

    plan: scalar or array (n,); ranks: that hold the same experts, a count. Returns truth. Source: torchtitan 0.3.0,
    distributed/fsdp.py L209-308.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import MIXTRAL
    >>> kind = MIXTRAL.model.layer_kinds[0]
    >>> bool(splits_experts(Plan(dp=8, zero=3), MIXTRAL, kind, ranks=8))  # Megatron divides flat buffers
    False
    """
    sharding = inputs.runtime.sharding
    if not (kind.is_moe and sharding.shards_rows and sharding.divides_few_experts):
        return plan.ep == 0
    return (plan.ep * ranks > routed_experts(kind).count) & (ranks > 1)


def sharded_end_parameters(plan: Layout, inputs: Inputs, ranks: Ints) -> EndParameters:
    """Parameters of both ends on the fullest of the ranks that divide them, as `sharded_layer_parameters` says.

    plan: scalar or array (n,); ranks: n, a count. Returns counts. Source: `sharded_layer_parameters`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> tuple(map(float, sharded_end_parameters(Plan(dp=8, zero=3), LLAMA, ranks=8)))  # an eighth
    (65667072.0, 65667584.0)
    """
    head = sharded_parameters(head_weights(inputs.model), plan, inputs, ranks)
    embedding = sharded_parameters(embedding_weights(inputs.model), plan, inputs, ranks)
    copies = where(ends_apart(plan) & inputs.model.tied_embeddings, embedding, 0)
    return EndParameters(embedding, head + copies + where(ends_apart(plan) & (inputs.mtp_layers > 0), embedding, 0))


def parted_embedding_parameters(plan: Layout, inputs: Inputs, ranks: Ints) -> Floats:
    """Parameters of a tied embedding on the fullest of the ranks that divide it, where tensor parallelism parts it from
    the head: both are gathered and reduced, and one is stored.

    plan: scalar or array (n,); ranks: n, a count. Returns a count; 0 where nothing is parted.
    Source: torchtitan 0.3.0, models/common/decoder.py L215 (`parallelize` distributes either weight, `init_states` ties
    them again); torch 2.13, distributed/fsdp/_fully_shard/_fsdp_param_group.py (both stay parameters of its unit).

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> float(parted_embedding_parameters(Plan(tp=8), LLAMA, 1))
    0.0
    """
    parted = inputs.runtime.sharding.parts_tied_embedding and inputs.model.tied_embeddings
    weights = embedding_weights(inputs.model) if parted else ()
    return where(plan.tp > 1, sharded_parameters(weights, plan, inputs, ranks), 0.0)


def sharded_parameters(weights: Iterable[Weight], plan: Layout, inputs: Inputs, ranks: Ints) -> Floats:
    """Parameters of some weights on the fullest of the ranks that divide them, as `sharded_layer_parameters` says.

    plan: scalar or array (n,); ranks: n, a count. Returns a count. Source: `sharded_layer_parameters`.

    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> float(sharded_parameters(head_weights(LLAMA.model), Plan(), LLAMA, 8))
    65667584.0
    """
    if not inputs.runtime.sharding.shards_rows:
        return _on_rank(weights, plan, inputs) / ranks
    count: Ints = 0 * plan.tp
    for weight in weights:
        rows: Ints = weight.elements // weight.tensors if weight.rows is None else weight.rows
        columns: Ints = weight.elements // (weight.tensors * rows)
        if weight.split == "vocab":
            rows = _rows(weight, plan, inputs)
        elif weight.split != "none" and weight.split_rows:
            rows = rows // plan.tp
        elif weight.split != "none":
            columns = columns // plan.tp
        count = count + weight.tensors * -(-rows // ranks) * columns
    return 1.0 * count


def _on_rank(weights: Iterable[Weight], plan: Layout, inputs: Inputs) -> Ints:
    count: Ints = 0 * plan.tp
    for weight in weights:
        if weight.split == "vocab":
            count = count + weight.elements // inputs.model.vocab_size * _rows(weight, plan, inputs)
        else:
            count = count + weight.elements // (1 if weight.split == "none" else plan.tp)
    return count


def _rows(weight: Weight, plan: Layout, inputs: Inputs) -> Ints:
    rows = vocabulary_rows(plan, inputs)
    return rows.embedding if weight.part == "embedding" else rows.head
