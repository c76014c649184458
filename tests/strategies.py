"""What the tests are about: a few named models, clusters and questions, and strategies for random ones.

Random models are small, random clusters hold at most 64 accelerators, so that every space of plans is searched at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from meshwright.layout.legality import check
from meshwright.layout.microbatches import filling
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.layout.stages import Stages, signature_stages
from meshwright.schedules.records import Schedule
from meshwright.search.plan_space.space import space
from meshwright.specs.cluster import Cluster, Level
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import Job
from meshwright.specs.model import Attention, Experts, LatentAttention, LayerKind, Mlp, Model
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.reading.cluster import read_cluster
from meshwright.specs.runtime import Runtime, read_runtime

SHARDING = ("torchtitan", "deepspeed", "pytorch-fsdp1", "nanotron", "internevo")
MEASURED, UNMEASURED = ("h100", "a100", "b200"), ("v100", "mi300x")


def dense_model(**changes: Any) -> Model:
    """A model of one layer kind; the defaults are a small Llama with grouped queries.

    changes: fields of `Model`, `Attention`, `Mlp` and `LayerKind`, and `layers`; the hidden size is heads x head_dim.
    """
    heads, head_dim = changes.pop("heads", 16), changes.pop("head_dim", 128)
    kv_heads = changes.pop("kv_heads", 4)
    attention = {"heads": heads, "head_dim": head_dim, "value_head_dim": head_dim, "kv_heads": kv_heads}
    attention |= _taken(changes, "qkv_bias", "output_bias", "qk_norm", "window", "sinks")
    feed_forward = {"ffn_size": changes.pop("ffn_size", 5632)} | _taken(changes, "gated", "bias", "activation")
    kind = LayerKind(
        name="dense",
        attention=Attention(**attention),
        feed_forward=Mlp(**feed_forward),
        **_taken(changes, "norms", "parallel_residual"),
    )
    fields = {"name": "dense", "family": "native", "hidden_size": heads * head_dim, "vocab_size": 32000}
    pattern = (0,) * changes.pop("layers", 24)
    return Model(**fields | {"layer_kinds": (kind,), "layer_pattern": pattern} | changes)


def _taken(changes: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: changes.pop(name) for name in names if name in changes}


def alternating(model: Model, window: int, every: int = 2) -> Model:
    """The same model, of which only every n-th layer attends beyond a sliding window."""
    (whole,) = model.layer_kinds
    near = whole.replace(name="windowed", attention=whole.attention.replace(window=window))
    pattern = tuple(int(index % every < every - 1) for index in range(model.num_layers))
    return model.replace(layer_kinds=(whole, near), layer_pattern=pattern)


@cache
def llama_70b() -> Model:
    """Llama 3.1 70B."""
    return dense_model(name="llama", heads=64, kv_heads=8, ffn_size=28672, layers=80, vocab_size=128256)


@cache
def llama_8b() -> Model:
    """Llama 3.1 8B."""
    return dense_model(name="llama", heads=32, kv_heads=8, ffn_size=14336, layers=32, vocab_size=128256)


@cache
def gemma_like() -> Model:
    """Tied embeddings, a large vocabulary, four norms, query-key norms and five windowed layers to one."""
    shape = {"heads": 16, "kv_heads": 8, "ffn_size": 8192, "layers": 24, "vocab_size": 262144, "norms": 4}
    return alternating(dense_model(name="gemma", tied_embeddings=True, qk_norm="head", **shape), window=1024, every=6)


@cache
def gpt_like() -> Model:
    """Learned positions, layer norms, biases everywhere and a plain GELU block of four times the hidden size."""
    shape = {"heads": 16, "kv_heads": 16, "head_dim": 64, "ffn_size": 4096, "layers": 24, "vocab_size": 50257}
    flags = {"qkv_bias": True, "output_bias": True, "bias": True, "gated": False, "activation": "gelu"}
    return dense_model(name="gpt", norm="layer", learned_positions=8192, tied_embeddings=True, **shape, **flags)


@cache
def mixture() -> Model:
    """A Mixtral in small: every layer routes to 2 of 8 experts."""
    experts = Experts(count=8, active=2, ffn_size=4096)
    return _with_blocks(dense_model(name="mixtral", heads=16, kv_heads=8, layers=8, vocab_size=32000), experts)


@cache
def latent() -> Model:
    """A DeepSeek in small: latent attention, one dense layer, then 6 of 64 experts beside a shared one."""
    attention = Attention(
        heads=16,
        kv_heads=16,
        head_dim=192,
        value_head_dim=128,
        latent=LatentAttention(query_rank=768, kv_rank=512, rope_head_dim=64),
    )
    dense = LayerKind(name="dense", attention=attention, feed_forward=Mlp(ffn_size=8192))
    experts = Experts(count=64, active=6, ffn_size=1408, shared_ffn_size=2816)
    routed = LayerKind(name="experts", attention=attention, feed_forward=experts)
    fields = {"name": "deepseek", "family": "native", "hidden_size": 2048, "vocab_size": 102400}
    return Model(**fields, layer_kinds=(dense, routed), layer_pattern=(0, *(1,) * 7))


def _with_blocks(model: Model, block: Mlp | Experts) -> Model:
    kinds = tuple(kind.replace(feed_forward=block) for kind in model.layer_kinds)
    return model.replace(layer_kinds=kinds)


def question(model: Model, cluster: str | Cluster, runtime: str = "megatron-core", **job: Any) -> Inputs:
    """A model on a cluster under a catalogued runtime; one sequence of 4096 tokens per accelerator and step.

    Experts are routed evenly; with `expert_imbalance=None` as is usual.
    """
    where = read_cluster(cluster) if isinstance(cluster, str) else cluster
    framework = read_runtime(runtime)
    fields = {"sequence_length": 4096, "global_batch": where.num_gpus, "precision": half_precision(framework)} | job
    if model.is_moe:
        fields.setdefault("expert_imbalance", 1.0)
    return Inputs(model=model, cluster=where, job=Job(**fields), runtime=framework)


TORCHTITAN_0_1 = {
    "ends_apart": False,
    "keeps_pipelined_ends_gathered": True,
    "fused_projections": False,
    "fused_activation": False,
    "keeps_unread_products": True,
    "cross_entropy": "eager",
    "rotary_copies": "none",
    "wide_rotary_tables": (),
    "sums_shared_input_once": False,
    "parts_tied_embedding": False,
    "receives_dtensors": False,
}
"""How torchtitan wrapped and wrote its layers in 2024, with an eager loss: most counts of fully_shard are of that."""


def of_torchtitan_0_1(inputs: Inputs, **changes: Any) -> Inputs:
    """The question with torchtitan as it was in 2024, and further changes."""
    return inputs.replace(runtime=inputs.runtime.replace(**TORCHTITAN_0_1 | changes))


def half_precision(runtime: Runtime) -> str:
    """fp16, which every accelerator has, where the runtime has it too."""
    return "fp16" if "fp16" in runtime.plans.precisions else "bf16"


@cache
def questions() -> dict[str, Inputs]:
    """Questions that differ in everything that a formula branches on."""
    return {
        "llama on h100": question(llama_8b(), "4x8:h100", global_batch=64, sequence_length=8192),
        "gemma on b200": question(gemma_like(), "3x8:b200", global_batch=48),
        "gpt on v100, megatron-lm": question(
            gpt_like(), "4x8:v100", "megatron-lm", global_batch=64, sequence_length=1024
        ),
        "falcon-like on gb200": question(
            dense_model(name="falcon", parallel_residual=True, norms=1, kv_heads=1, gated=False, head_bias=True),
            "20x4:gb200",
            global_batch=160,
        ),
        "three levels": question(dense_model(heads=24, kv_heads=6, layers=12), three_levels(), global_batch=96),
        "llama on h100, torchtitan": question(llama_8b(), "2x8:h100", "torchtitan", global_batch=64),
        "gpt on a100, deepspeed": question(gpt_like(), "2x8:a100", "deepspeed", global_batch=32, sequence_length=1024),
        "mixtral-like on h100": question(mixture(), "2x8:h100", global_batch=64, expert_imbalance=None),
        "deepseek-like on b200, fp8": question(latent(), "2x8:b200", global_batch=64, precision="mxfp8"),
        "mixtral-like on h100, torchtitan": question(mixture(), "2x8:h100", "torchtitan", global_batch=64),
        "qwen-like on a100, ddp": question(
            dense_model(qk_norm="head", layers=8), "1x8:a100", "pytorch-ddp", global_batch=32, sequence_length=512
        ),
        "llama with adapters on h100, accelerate": question(
            llama_8b(), "1x8:h100", "accelerate", global_batch=32, precision="bf16", lora_rank=16
        ),
        "llama with adapters on h100, megatron-bridge": question(
            llama_8b(), "2x8:h100", "megatron-bridge", global_batch=32, precision="fp8", lora_rank=16
        ),
    }


def three_levels(nodes: int = 12) -> Cluster:
    """H100 nodes, four of which share a leaf; the spine above is half as fast."""
    levels = (
        Level(name="nvlink", size=8, bandwidth=450e9, latency_s=3.4e-6),
        Level(name="leaf", size=32, bandwidth=50e9, latency_s=10e-6),
        Level(name="spine", size=32 * max(-(-nodes // 4), 2), bandwidth=50e9, latency_s=14e-6, oversubscription=2.0),
    )
    accelerator = read_accelerator("h100")
    return Cluster(name="leaves", accelerator=accelerator, num_nodes=nodes, gpus_per_node=8, levels=levels)


def legal_plans(inputs: Inputs) -> Plans:
    """Every legal plan of a question."""
    plans = Plans.join(space(inputs))
    return plans.take(check(plans, inputs).legal)


@cache
def some_legal_plans(name: str, count: int) -> Plans:
    """A random choice, the same in every run, of the legal plans of one of `questions`."""
    plans = legal_plans(questions()[name])
    assert len(plans) > 0
    return plans.take(np.random.default_rng(0).permutation(len(plans))[:count])


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Small dense models of one or two layer kinds."""
    kv_heads = draw(st.sampled_from([1, 2, 4, 6, 8]))
    model = dense_model(
        heads=kv_heads * draw(st.sampled_from([1, 2, 4])),
        kv_heads=kv_heads,
        head_dim=draw(st.sampled_from([64, 128])),
        ffn_size=draw(st.sampled_from([1536, 2816, 4096, 11008])),
        layers=draw(st.sampled_from([2, 4, 6, 8, 12, 24])),
        vocab_size=draw(st.integers(1000, 300_000)),
        gated=draw(st.booleans()),
        bias=draw(st.booleans()),
        qkv_bias=draw(st.booleans()),
        qk_norm=draw(st.sampled_from(["none", "head", "width"])),
        norms=draw(st.sampled_from([2, 4])),
        norm=draw(st.sampled_from(["rms", "layer"])),
        tied_embeddings=draw(st.booleans()),
        learned_positions=draw(st.sampled_from([0, 4096])),
    )
    window = draw(st.none() | st.integers(64, 4096))
    return alternating(model, window, draw(st.integers(2, 4))) if window else model


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Up to eight nodes of catalogued accelerators; nodes of 6 or 5 where degrees do not divide them."""
    accelerator = draw(st.sampled_from(MEASURED + UNMEASURED))
    cluster = read_cluster(f"{draw(st.integers(1, 8))}x{draw(st.sampled_from([8, 8, 6, 4, 5, 1]))}:{accelerator}")
    return cluster.replace(site_derate=draw(st.sampled_from([1.0, 1.1, 1.5])))


class Shown(Inputs):
    """A question that prints in short when a law fails."""

    def __repr__(self) -> str:
        model, job = self.model, self.job
        kinds = ", ".join(str(kind.attention.kv_heads) for kind in model.layer_kinds)
        shape = f"{model.num_layers} layers of {model.hidden_size} with {kinds} key-value heads"
        job_ = f"{job.global_batch} x {job.sequence_length} tokens"
        return f"<{shape}, {job_}, on {self.cluster.name} with {self.runtime.id}>"


@st.composite
def inputs(draw: st.DrawFn) -> Inputs:
    """A random question that has a legal plan: the batch is a multiple of the ranks."""
    cluster = draw(clusters())
    runtimes = map(read_runtime, ("megatron-core", "megatron-core", "megatron-lm", *SHARDING))
    peaks = cluster.accelerator.peak_flops
    runtime = draw(st.sampled_from([each for each in runtimes if half_precision(each) in peaks]))
    job = Job(
        sequence_length=draw(st.sampled_from([512, 1000, 2048, 4096])),
        global_batch=cluster.num_gpus * draw(st.sampled_from([1, 2, 3, 8])),
        precision=half_precision(runtime),
    )
    return Shown(model=draw(models()), cluster=cluster, job=job, runtime=runtime)


@dataclass(frozen=True, repr=False)
class Planned:
    """A question and some of its legal plans; printed in short when a law fails."""

    inputs: Inputs
    plans: Plans

    def __repr__(self) -> str:
        return f"<{len(self.plans)} plans for {self.inputs!r}>"


@st.composite
def planned(draw: st.DrawFn, most: int = 100) -> Planned:
    """A random question with some of its legal plans."""
    given = draw(inputs())
    plans = legal_plans(given)
    seed = draw(st.integers(0, 2**32 - 1))
    return Planned(given, plans.take(np.random.default_rng(seed).permutation(len(plans))[:most]))


def broken(holds: np.ndarray, plans: Plans) -> list[str]:
    """The plans for which a law does not hold."""
    return [str(plans[int(row)]) for row in np.flatnonzero(~np.asarray(holds))]


@st.composite
def any_plans(draw: st.DrawFn) -> Plan:
    """A plan with positive degrees, legal or not."""
    small, rare = st.sampled_from([1, 1, 2, 3, 4, 5, 8, 12]), st.sampled_from([1, 1, 1, 2, 3, 4])
    return Plan(
        tp=draw(st.integers(1, 40)),
        sp=draw(st.booleans()),
        cp=draw(rare),
        context_exchange=draw(st.integers(0, 3)),
        pp=draw(small),
        vpp=draw(small),
        dp=draw(small),
        ep=draw(small),
        etp=draw(rare),
        zero=draw(st.integers(0, 4)),
        dp_replicate=draw(rare),
        micro_batch=draw(small),
        num_microbatches=draw(st.integers(1, 40)),
        embedding_as_layer=draw(st.sampled_from([False, False, True])),
        head_as_layer=draw(st.sampled_from([False, False, True])),
        first_stage_layers=draw(st.sampled_from([0, 0, 0, 1, 2, 5])),
        last_stage_layers=draw(st.sampled_from([0, 0, 0, 1, 2, 5])),
        chunk_layers=draw(st.sampled_from([(), (), (), (2, 3), (1, 0, 1, 4)])),
        microbatch_group=draw(st.sampled_from([0, 0, 0, 1, 4, 6])),
        recompute=draw(st.sampled_from([0, 1, 2])),
        recompute_modules=draw(st.integers(1, 127)),
        recompute_layers=draw(st.sampled_from([0, 0, 0, 1, 3])),
        schedule=draw(st.sampled_from(Schedule)),
    )


def with_experts(given: Inputs, count: int = 12) -> Inputs:
    """The same question about a mixture of experts, under a runtime that has such models."""
    runtime = given.runtime.replace(experts=True)
    block = Experts(count=count, active=2, ffn_size=1024)
    return given.replace(runtime=runtime, model=_with_blocks(given.model, block))


def with_biases(given: Inputs) -> Inputs:
    """The same question about experts that have biases."""
    kind = given.model.layer_kinds[0]
    return given.replace(model=_with_blocks(given.model, kind.feed_forward.replace(bias=True)))


@st.composite
def ruled(draw: st.DrawFn) -> Inputs:
    """A random question for rules alone: with experts or without, in either order of the slow axes."""
    given = draw(inputs())
    order = draw(st.sampled_from([("tp", "cp", "ep", "dp", "pp"), ("tp", "cp", "ep", "pp", "dp")]))
    given = given.replace(runtime=given.runtime.replace(rank_order=order))
    return with_experts(given) if draw(st.booleans()) else given


def split_stages(inputs: Inputs, plans: Plans, *, keep_all: bool) -> Stages:
    """The stages of plans; keep_all: as for `signature_stages`."""
    return signature_stages(inputs, filling(plans), keep_all=keep_all)[0]
