"""Words: figures as the memo writes them."""

from __future__ import annotations

from meshwright.errors import listed
from meshwright.layout.groups import sharding_ranks
from meshwright.layout.plan import Plan
from meshwright.specs.adapters import adapter_parameters
from meshwright.specs.choices import Recompute
from meshwright.specs.cluster import Cluster
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.topology import scale_up_block
from meshwright.units import format_count

PRETRAINED, TUNED = 10**12, 10**9
"""Tokens that days are told for where the question names none: of all weights, and of adapters."""
SIGNATURE = f"Approved, yes or no: {'.' * 20} Name: {'.' * 40} Date: {'.' * 20}"
SHARDED = {1: "optimizer states", 2: "optimizer states and gradients", 3: "weights, gradients and optimizer states"}
"""By ZeRO stage."""
RECOMPUTED = {
    Recompute.NONE: "keeps every activation",
    Recompute.SELECTIVE: "recomputes some of its activations",
    Recompute.FULL: "recomputes its activations",
}


def told_tokens(job: Job) -> int:
    """Tokens of a whole training: those of the question, else a trillion, and with adapters a billion.

    >>> told_tokens(Job(sequence_length=2048, global_batch=32, lora_rank=16))
    1000000000
    """
    return job.tokens or (TUNED if job.lora_rank else PRETRAINED)


def percent(share: float) -> str:
    """A share with as many digits as it needs.

    >>> percent(0.157), percent(0.0042), percent(0.00001)
    ('15.7%', '0.42%', '0%')
    """
    if abs(share) < 5e-5:
        return "0%"
    return f"{share:.1%}" if abs(share) >= 0.01 else f"{share:.2%}"


def capitalised(text: str) -> str:
    """A text whose first letter is a capital.

    >>> capitalised("it fits, as GB300 has more memory")
    'It fits, as GB300 has more memory'
    """
    return text[0].upper() + text[1:]


def times(ratio: float) -> str:
    """A ratio.

    >>> times(3.528), times(18.05)
    ('3.53 times', '18 times')
    """
    return f"{ratio:.3g} times" if ratio < 10 else f"{ratio:.0f} times"


def plural(count: int, one: str, many: str = "") -> str:
    """A count with its noun.

    >>> plural(1, "stage"), plural(4, "stage"), plural(2, "batch", "batches")
    ('1 stage', '4 stages', '2 batches')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def rack_words(cluster: Cluster) -> str:
    """In how many racks the nodes of a cluster stand, behind a space, where a scale-up domain spans nodes (NVL72); of
    any other nothing.

    >>> from meshwright.specs.reading.cluster import read_cluster
    >>> rack_words(read_cluster("8xgb200-nvl72")), rack_words(read_cluster("64x4:gb200"))
    (' (8 trays in 1 rack of 18)', ' (64 trays in 4 racks of 18, 16 in each)')
    """
    accelerator, nodes, each = cluster.accelerator, cluster.num_nodes, cluster.gpus_per_node
    trays, block = accelerator.scale_up_domain // each, scale_up_block(accelerator, nodes, each)
    if trays <= 1 or not accelerator.domain_spans_nodes or cluster.levels[0].size != min(block, cluster.num_gpus):
        return ""
    racks, used = -(-cluster.num_gpus // block), block // each
    filled = f", {used} in each" if racks > 1 and used < trays else ""
    return f" ({plural(nodes, 'tray')} in {plural(racks, 'rack')} of {trays}{filled})"


def job_details(inputs: Inputs) -> str:
    """The documents that are packed and the adapters that are trained, each behind a comma; nothing of whole sequences
    and all weights.

    >>> from meshwright.specs.reading.examples import LLAMA, LLAMA_LORA
    >>> job_details(LLAMA.replace(job=LLAMA.job.replace(document_length=512))), job_details(LLAMA_LORA)
    (', documents of 512 tokens', ', LoRA of rank 16 on all-linear (41.94M parameters trained)')
    """
    job, words = inputs.job, ""
    if job.attended_length < job.sequence_length:
        words = f", documents of {job.attended_length} tokens"
    if inputs.freezes_weights:
        count = format_count(adapter_parameters(inputs.model, job, inputs.runtime))
        words += f", LoRA of rank {job.lora_rank} on {job.modules_text} ({count} parameters trained)"
    return words


def sequences(count: int) -> str:
    """A count of sequences.

    >>> sequences(1), sequences(2048)
    ('1 sequence', '2048 sequences')
    """
    return f"{count} sequence{'s' * (count != 1)}"


def accelerators(count: int) -> str:
    """A count of accelerators.

    >>> accelerators(1), accelerators(1024)
    ('1 accelerator', '1,024 accelerators')
    """
    return plural(count, "accelerator")


def in_words(plan: Plan, inputs: Inputs) -> str:
    """A plan in sentences: what is split over how many accelerators, and what a replica does in one step."""
    split = [
        f"each layer's matrices over {plan.tp} accelerators (tensor parallelism)" if plan.tp > 1 else "",
        f"each sequence over {plan.cp} accelerators (context parallelism)" if plan.cp > 1 else "",
        f"the {inputs.model.num_layers} layers over {plan.pp} pipeline stages" if plan.pp > 1 else "",
        f"the experts of each layer over {plan.ep} ranks" if plan.ep > 1 else "",
    ]
    parts = [part for part in split if part]
    splits = f"Split {listed(parts)}." if parts else "Every accelerator works on whole layers and sequences."
    replicas = f"The {plan.dp} replicas share the batch" if plan.dp > 1 else "One replica takes the whole batch"
    whose = "their" if plan.dp > 1 else "its"
    divides = plan.zero and sharding_ranks(plan) > 1
    sharded = f", with {SHARDED[plan.zero]} sharded over {whose} ranks (ZeRO {plan.zero})" if divides else ""
    batch = plural(plan.num_microbatches, "micro-batch", "micro-batches")
    return (
        f"{splits} {replicas}{sharded}; {'each' if plan.dp > 1 else 'it'} works through {batch} of "
        f"{plural(plan.micro_batch, 'sequence')} a step and {RECOMPUTED[plan.recompute]}."
    )
