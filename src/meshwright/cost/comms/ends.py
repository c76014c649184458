"""Tensor parallelism at both ends of the model: embedding, head with cross-entropy, what predicts further tokens."""

from __future__ import annotations

from meshwright.arrays import where
from meshwright.cost.comms.exchange import Exchange
from meshwright.cost.comms.tensor import Region, whole_gather
from meshwright.cost.compute.ends import EndTime
from meshwright.cost.shard import tokens, vocabulary_rows
from meshwright.layout.plans import Layout
from meshwright.specs.inputs import Inputs
from meshwright.specs.precision import FP32_BYTES, HALF_BYTES

ENTROPY_SUMS = "sums of the cross-entropy"
ENTROPY_REDUCTIONS = 3
LOGITS = "logits"


def embedding_exchanges(region: Region, inputs: Inputs) -> tuple[Exchange, ...]:
    """Exchanges at the vocabulary-parallel embedding: its output reduced forward, gathered backward; none at one that
    is whole on every rank.

    region: of `tensor_region`. Returns bytes and seconds for one micro-batch. Source: Megatron-LM,
    tensor_parallel/layers.py, VocabParallelEmbedding.

    >>> from meshwright.cost.comms.tensor import tensor_region
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> forward, _ = embedding_exchanges(tensor_region(Plan(tp=8, sp=True), LLAMA), LLAMA)
    >>> [(each.operation, float(each.times)) for each in forward.messages]
    [('reduce_scatter', 1.0), ('all_reduce', 0.0)]
    """
    if inputs.runtime.sharding.keeps_embedding_whole(inputs.model):
        return ()
    return Exchange("tp", "forward", region.leave), Exchange("tp", "backward", region.enter)


def head_exchanges(region: Region, plan: Layout, inputs: Inputs, head: EndTime) -> tuple[Exchange, ...]:
    """Exchanges at the output head; none at one that is whole on every rank.

    X gathered forward and again backward, its gradient reduced beside the weight gradient, and three all-reduces of 4
    bytes per token for the vocabulary-parallel cross-entropy, of each piece of the sequence that it works on. Where
    logits are gathered, one all-gather of 2 V bytes per token forward, V rows of the vocabulary, stands in their place.
    region: of `tensor_region`; plan: scalar or array (n,); head: its compute, for the windows, seconds. Returns bytes
    and seconds for one micro-batch. Source: Megatron-LM, tensor_parallel/cross_entropy.py (maximum, target logit, sum
    of exponentials); DeepSpeed 0.19.8, module_inject/layers.py, GatherFromTensorParallelRegion.

    >>> from meshwright.cost.comms.tensor import tensor_region
    >>> from meshwright.cost.compute.ends import head_time
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> plan = Plan(tp=8)
    >>> exchanges = head_exchanges(tensor_region(plan, LLAMA), plan, LLAMA, head_time(plan, LLAMA))
    >>> [float(message.bytes) for message in exchanges[1].messages]  # 4 bytes of 8192 tokens
    [32768.0]
    """
    sharding = inputs.runtime.sharding
    if sharding.keeps_ends_whole(inputs.model):
        return ()
    (ranks, enter, leave), share = region, inputs.runtime.overlap.tensor_parallel_backward
    pieces, rows = inputs.runtime.entropy.sequence_pieces, tokens(plan, inputs)
    entropy, times = ranks.message("all_reduce", ENTROPY_SUMS, FP32_BYTES * rows / pieces), ENTROPY_REDUCTIONS
    if sharding.joins_logits(inputs.model):
        whole = HALF_BYTES * rows / pieces * vocabulary_rows(plan, inputs).logits
        entropy, times = ranks.message("all_gather", LOGITS, whole), 1
    again = int(inputs.runtime.activations.regathers_inputs)
    return (
        Exchange("tp", "forward", enter),
        Exchange("tp", "forward", (entropy,), times=times * pieces),
        Exchange("tp", "backward", enter, times=again, window=head.input_gradient, share=share),
        Exchange("tp", "backward", leave, window=head.weight_gradient, share=share),
    )


def prediction_exchanges(region: Region, plan: Layout, inputs: Inputs) -> tuple[Exchange, ...]:
    """Exchanges of a layer of multi-token prediction, ahead of its transformer layer: at the embedding and around the
    projection from 2 h to h, which is column-parallel.

    Its input of 2 X = 4 s b h / c bytes enters as any other, its output of X is gathered whole, and with sequence
    parallelism the gradient of that is gathered once more; nothing hides them.
    region: of `tensor_region`; plan: scalar or array (n,). Returns bytes and seconds for one micro-batch.
    Source: Megatron-LM, core/transformer/multi_token_prediction.py, _concat_embeddings.

    >>> from meshwright.cost.comms.tensor import tensor_region
    >>> from meshwright.layout.plan import Plan
    >>> from meshwright.specs.reading.examples import LLAMA
    >>> plan = Plan(tp=8, sp=True)
    >>> exchanges = prediction_exchanges(tensor_region(plan, LLAMA), plan, LLAMA)
    >>> [float(each.times) for each in exchanges if each.phase == "forward"]
    [1.0, 2.0, 1.0]
    """
    (_, enter, leave), again = region, int(inputs.runtime.activations.regathers_inputs)
    whole = whole_gather(region, plan, inputs)
    return (
        *embedding_exchanges(region, inputs),
        Exchange("tp", "forward", enter, times=2),
        Exchange("tp", "forward", whole),
        Exchange("tp", "backward", enter, times=2 * again),
        Exchange("tp", "backward", leave, times=2),
        Exchange("tp", "backward", whole, times=where(plan.sp, 1, 0)),
    )
