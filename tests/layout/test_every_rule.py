"""Every rule by name: a plan that keeps it, one that breaks it, and the way back that its reason names."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from hints import leads_to_legal
from meshwright.layout.legality import RULES, rules_of
from meshwright.layout.legality.rule import Rule
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.specs import catalog
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.specs.runtime import read_runtime
from strategies import dense_model, gemma_like, llama_8b, question, with_biases, with_experts

RUNTIMES = catalog.names("runtimes")
RINGS = {"rank_order": ("tp", "cp", "ep", "pp", "dp")}


def on_host(name: str) -> Inputs:
    """With optimizer states in the host's memory."""
    runtime = with_behaviours(read_runtime(name), ["optimizer_states=offloaded"])
    return question(llama_8b(), "8x8:h100", global_batch=256, precision="bf16").replace(runtime=runtime)


def with_layers_on_host() -> Inputs:
    """With activations of eight layers in the host's memory."""
    inputs = question(llama_8b(), "8x8:h100", global_batch=256, precision="bf16")
    return inputs.replace(runtime=with_behaviours(inputs.runtime, ["offloaded_layers=8"]))


def with_experts_on_host() -> Inputs:
    """With what experts save in the host's memory."""
    inputs = with_experts(question(llama_8b(), "8x8:h100", global_batch=256, precision="bf16"), 64)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, ["offloaded_modules=expert_fc1+moe_act"]))


def looped_experts() -> Inputs:
    """With experts that run one after the other."""
    inputs = with_experts(question(llama_8b(), "8x8:h100", precision="bf16", global_batch=256), 64)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, ["grouped_experts=off"]))


def fused_experts() -> Inputs:
    """With one kernel for all experts of a rank."""
    inputs = with_experts(question(llama_8b(), "8x8:b200", precision="mxfp8", global_batch=256), 64)
    return inputs.replace(runtime=with_behaviours(inputs.runtime, ["fused_experts=on"]))


@cache
def asked(name: str) -> Inputs:
    """Questions under which a rule can be broken: 64 H100, 32 layers, 32 heads, 8 key-value heads, 256 sequences."""
    fields = {"global_batch": 256, "precision": "bf16"}
    llama = question(llama_8b(), "8x8:h100", **fields)
    return {
        "llama": lambda: llama,
        "fp16": lambda: llama.replace(job=llama.job.replace(precision="fp16")),
        "odd": lambda: llama.replace(job=llama.job.replace(sequence_length=4098)),
        "pieces": lambda: question(llama_8b(), "8x8:h100", "torchtitan", sequence_length=4112, **fields),
        "tied": lambda: llama.replace(model=gemma_like()),
        "uneven": lambda: llama.replace(model=dense_model(heads=24, kv_heads=12, ffn_size=9216, layers=24)),
        "experts": lambda: with_experts(llama, 64),
        "looped experts": looped_experts,
        "fused experts": fused_experts,
        "biased": lambda: with_biases(with_experts(llama, 64)),
        "pp before dp": lambda: with_experts(llama, 64).replace(runtime=llama.runtime.replace(**RINGS)),
        "heads of 100": lambda: question(dense_model(heads=32, head_dim=100), "8x8:h100", **fields),
        "narrow": lambda: question(dense_model(ffn_size=3 * 16 * 16), "8x8:h100", precision="fp8", global_batch=256),
        "delayed": lambda: with_experts(llama, 64).replace(job=llama.job.replace(precision="fp8-delayed")),
        "bf16 moments": lambda: llama.replace(runtime=llama.runtime.replace(moment_bytes=2)),
        "experts with bf16 moments": lambda: with_experts(
            llama.replace(runtime=llama.runtime.replace(moment_bytes=2)), 64
        ),
        "on the host": lambda: on_host("megatron-core"),
        "adapters": lambda: question(llama_8b(), "8x8:h100", "deepspeed", lora_rank=16, **fields),
        "adapters of megatron": lambda: question(llama_8b(), "8x8:h100", "megatron-bridge", lora_rank=12, **fields),
        "deepspeed on the host": lambda: on_host("deepspeed"),
        "torchtitan on the host": lambda: on_host("torchtitan"),
        "layers on the host": with_layers_on_host,
        "experts on the host": with_experts_on_host,
        "torchtitan of 2025": lambda: question(llama_8b(), "8x8:h100", "torchtitan@0.2.2", **fields),
        "windows": lambda: question(read_model("gemma-3-12b"), "8x8:h100", **fields),
        "documents": lambda: llama.replace(job=llama.job.replace(document_length=1024)),
        "capped": lambda: question(read_model("gemma-2-9b"), "8x8:h100", **fields),
        "sinks": lambda: question(read_model("gpt-oss-20b"), "8x8:h100", **fields),
        "no ends": lambda: llama.replace(runtime=llama.runtime.replace(ends_as_layers=(False,))),
        "even": lambda: llama.replace(runtime=llama.runtime.replace(stage_split="even")),
        **{name: partial(question, llama_8b(), "8x8:h100", name, **fields) for name in RUNTIMES},
    }[name]()


SELECTIVE = {"recompute": "selective"}
INTERLEAVED, ULYSSES = {"schedule": "interleaved"}, {"context_exchange": "all_to_all"}
KEPT_AND_BROKEN: tuple[tuple[str, str, dict[str, object], dict[str, object]], ...] = (
    ("world_size", "llama", {"tp": 8, "dp": 8}, {"tp": 8, "dp": 4}),
    ("global_batch", "llama", {"dp": 64, "num_microbatches": 4}, {"dp": 64, "num_microbatches": 3}),
    ("schedule_chunks", "llama", {"vpp": 2, **INTERLEAVED}, {"vpp": 2}),
    (
        "schedule_both_ways",
        "llama",
        {"pp": 4, "num_microbatches": 8, "schedule": "dualpipe"},
        {"pp": 4, "num_microbatches": 7, "schedule": "dualpipe"},
    ),
    (
        "split_backward_compiled",
        "torchtitan",
        {"pp": 4, "num_microbatches": 8},
        {"pp": 4, "num_microbatches": 8, "schedule": "zb-1p"},
    ),
    (
        "split_backward_keeps_norm",
        "torchtitan",
        {"pp": 4, "num_microbatches": 8},
        {"pp": 4, "num_microbatches": 8, "schedule": "interleaved-zb"},
    ),
    (
        "split_backward_keeps_weights",
        "llama",
        {"pp": 4, "num_microbatches": 8, "schedule": "zb-1p", "zero": 2},
        {"pp": 4, "num_microbatches": 8, "schedule": "zb-1p", "zero": 3},
    ),
    (
        "split_backward_recomputes_nothing",
        "llama",
        {"pp": 4, "num_microbatches": 8, "schedule": "zb-1p"},
        {"pp": 4, "num_microbatches": 8, "schedule": "zb-1p", "recompute": "full"},
    ),
    ("query_heads", "llama", {"tp": 32}, {"tp": 3}),
    ("kv_heads", "uneven", {"tp": 24}, {"tp": 8}),
    ("kv_heads", "torchtitan", {"tp": 8}, {"tp": 16}),
    ("ffn_size", "uneven", {"tp": 9}, {"tp": 5}),
    ("quantised_sizes", "narrow", {"tp": 16}, {"tp": 32}),
    ("sequence_parallel", "odd", {"tp": 2, "sp": True}, {"tp": 4, "sp": True}),
    ("sequence_parallel", "deepspeed", {"tp": 2}, {"tp": 2, "sp": True}),
    ("context_parallel_halves", "odd", {"cp": 3}, {"cp": 2}),
    ("context_parallel_slices", "odd", {"cp": 6}, {"cp": 4}),
    ("context_parallel_heads", "llama", {"tp": 4, "cp": 8, **ULYSSES}, {"tp": 8, "cp": 8, **ULYSSES}),
    ("context_parallel_kv_heads", "llama", {"tp": 2, "cp": 4, **ULYSSES}, {"tp": 4, "cp": 4, **ULYSSES}),
    ("context_parallel_attention", "windows", {"cp": 2, **ULYSSES}, {"cp": 2}),
    ("context_parallel_attention", "windows", {"cp": 2, "context_exchange": "all_gather"}, {"cp": 2}),
    ("context_parallel_attention", "sinks", {"cp": 2, **ULYSSES}, {"cp": 2, "context_exchange": "all_gather"}),
    ("context_parallel_fused", "heads of 100", {}, {"cp": 2}),
    ("context_parallel_uncapped", "capped", {}, {"cp": 2, "context_exchange": "all_gather"}),
    ("context_parallel_causal", "windows", {}, {"cp": 2}),
    ("context_parallel_documents", "documents", {}, {"cp": 2}),
    ("zero_with_experts", "experts", {"zero": 3, "ep": 8}, {"zero": 3, "ep": 8, "cp": 2}),
    ("adapters_without_other_axes", "adapters", {"zero": 3}, {"zero": 1, "tp": 2}),
    ("adapters_beside_whole_weights", "adapters of megatron", {"zero": 1}, {"zero": 3}),
    ("adapter_rank", "adapters of megatron", {"tp": 4}, {"tp": 8}),
    ("context_parallel_alone", "llama", {"cp": 8}, {"cp": 8, "tp": 2}),
    ("context_parallel_one_sequence", "llama", {"cp": 2}, {"cp": 2, "micro_batch": 2}),
    ("packed_attention_without_pipeline", "llama", {"pp": 2}, {"pp": 2, "cp": 2}),
    ("loss_pieces", "pieces", {"cp": 2}, {"cp": 4}),
    ("tokens_per_microbatch", "odd", {"tp": 4, "sp": True, "micro_batch": 4}, {"tp": 4, "sp": True}),
    ("ends_as_layers", "no ends", {"pp": 2}, {"pp": 2, "head_as_layer": True}),
    ("layers_per_stage", "even", {"pp": 4}, {"pp": 5}),
    ("layers_fill_chunks", "llama", {"pp": 5, "vpp": 2}, {"pp": 8, "vpp": 5}),
    ("layers_per_round", "internevo", {"pp": 3, "vpp": 4}, {"pp": 3, "vpp": 5}),
    (
        "end_stage_layers",
        "llama",
        {"pp": 4, "vpp": 2, "first_stage_layers": 6, "last_stage_layers": 2},
        {"pp": 4, "vpp": 2, "first_stage_layers": 5, "last_stage_layers": 2},
    ),
    ("end_stage_layers", "torchtitan", {"pp": 2}, {"pp": 2, "first_stage_layers": 14, "last_stage_layers": 18}),
    ("chunk_layers", "llama", {"pp": 3, "chunk_layers": (11, 12, 9)}, {"pp": 3, "chunk_layers": (11, 12, 10)}),
    ("chunk_layers", "deepspeed", {"pp": 2}, {"pp": 2, "chunk_layers": (15, 17)}),
    ("layers_per_chunk", "even", {"pp": 4, "vpp": 4}, {"pp": 4, "vpp": 3}),
    ("interleaving", "llama", {"pp": 2, "vpp": 2}, {"vpp": 2}),
    ("interleaving", "deepspeed", {"pp": 2}, {"pp": 2, "vpp": 2}),
    ("interleaving_beyond_two", "llama", {"pp": 3, "vpp": 2, **INTERLEAVED}, {"pp": 2, "vpp": 2, **INTERLEAVED}),
    (
        "microbatch_groups",
        "llama",
        {"pp": 4, "vpp": 2, "num_microbatches": 8, **INTERLEAVED},
        {"pp": 4, "vpp": 2, **INTERLEAVED},
    ),
    (
        "microbatch_groups",
        "torchtitan",
        {"pp": 4, "vpp": 2, "num_microbatches": 10, **INTERLEAVED},
        {"pp": 4, "vpp": 2, "num_microbatches": 13, **INTERLEAVED},
    ),
    ("microbatch_groups", "megatron-lm", {"pp": 2}, {"pp": 2, "vpp": 2, "microbatch_group": 4}),
    ("microbatches_fill_stages", "llama", {"pp": 4, "num_microbatches": 4}, {"pp": 4, "num_microbatches": 3}),
    ("untied_pipeline", "tied", {}, {"pp": 2}),
    ("experts_present", "llama", {}, {"ep": 8}),
    ("experts_per_rank", "experts", {"ep": 64}, {"ep": 48}),
    ("expert_world_size", "experts", {"ep": 16, "etp": 2, "pp": 2}, {"ep": 16, "etp": 2, "pp": 4}),
    ("expert_shard_group", "experts", {"dp": 32, "dp_replicate": 2, "ep": 16}, {"dp": 32, "dp_replicate": 2, "ep": 32}),
    ("expert_sequence_parallel", "experts", {"tp": 2, "sp": True}, {"tp": 2}),
    ("expert_rank_order", "pp before dp", {"tp": 2, "dp": 8, "pp": 4, "ep": 2}, {"tp": 2, "dp": 8, "pp": 4}),
    ("expert_tensor_parallel", "internevo", {"tp": 4, "etp": 4}, {"tp": 4, "etp": 2}),
    ("expert_tensor_parallel", "torchtitan", {}, {"etp": 2}),
    ("expert_biases_whole", "biased", {"ep": 4}, {"etp": 2}),
    ("fused_experts_whole", "fused experts", {"ep": 4}, {"etp": 2}),
    ("expert_ffn_size", "experts", {"etp": 4}, {"etp": 3}),
    ("expert_replicas", "experts", {"dp": 64, "ep": 8, "dp_replicate": 8}, {"dp": 64, "ep": 8, "dp_replicate": 16}),
    ("zero", "llama", {"zero": 3}, {"zero": 4}),
    ("zero", "nanotron", {"zero": 0}, {"zero": 2}),
    ("zero", "torchtitan", {"zero": 2}, {"zero": 1}),
    ("zero", "torchtitan", {"zero": 3, "tp": 2}, {"zero": 0, "tp": 2}),
    ("half_needs_shards", "torchtitan of 2025", {"tp": 2, "dp": 2, "zero": 3}, {"tp": 2}),
    ("half_needs_shards", "torchtitan of 2025", {}, {"pp": 2}),
    ("half_needs_shards", "torchtitan of 2025", {"tp": 2, "dp": 4, "dp_replicate": 2, "zero": 3}, {"tp": 8, "pp": 2}),
    ("narrow_moments", "bf16 moments", {"dp": 8, "zero": 1}, {"dp": 8}),
    ("narrow_moments", "experts with bf16 moments", {"tp": 8, "ep": 2, "zero": 1}, {"tp": 8, "ep": 2}),
    ("narrow_moments", "on the host", {"dp": 8, "zero": 1}, {"dp": 8, "zero": 2}),
    ("offloaded_states", "deepspeed on the host", {"dp": 8, "zero": 2}, {"dp": 8}),
    ("offloaded_weights", "torchtitan on the host", {"dp": 8, "zero": 3}, {"dp": 8, "pp": 2, "zero": 3}),
    ("offloaded_activations", "layers on the host", {"dp": 8}, {"dp": 8, "pp": 2}),
    ("recompute_offloaded", "layers on the host", {"dp": 8}, {"dp": 8, "recompute": "full"}),
    ("recompute_offloaded_modules", "experts on the host", {"dp": 8, **SELECTIVE}, {"dp": 8, "recompute": "full"}),
    (
        "recompute_offloaded_modules",
        "experts on the host",
        {"dp": 8, **SELECTIVE, "recompute_modules": ["layernorm"]},
        {"dp": 8, **SELECTIVE, "recompute_modules": ["layernorm", "moe"]},
    ),
    ("zero_without_pipeline", "llama", {"zero": 1, "pp": 2}, {"zero": 2, "pp": 2}),
    ("replicas_within_dp", "llama", {"dp": 8, "dp_replicate": 4}, {"dp": 8, "cp": 3, "dp_replicate": 3}),
    ("replicas", "llama", {"dp": 8, "cp": 3, "dp_replicate": 3}, {"dp": 8, "dp_replicate": 3}),
    ("replicas", "nanotron", {"dp": 2}, {"dp": 2, "dp_replicate": 2}),
    ("replicas_shard", "llama", {"dp": 8, "dp_replicate": 2, "zero": 1}, {"dp": 8, "dp_replicate": 2}),
    ("replicas_beside_tensor", "llama", {"tp": 8, "dp": 8, "dp_replicate": 4}, {"tp": 8, "dp": 8, "dp_replicate": 8}),
    (
        "recompute_modules",
        "llama",
        {**SELECTIVE, "recompute_modules": ["layernorm", "mlp"]},
        {**SELECTIVE, "recompute_modules": ["mla_up_proj", "moe", "mlp"]},
    ),
    (
        "recompute_modules_scaling",
        "delayed",
        {**SELECTIVE, "recompute_modules": ["moe"]},
        {**SELECTIVE, "recompute_modules": ["layernorm", "moe_act"]},
    ),
    (
        "recompute_modules_grouped",
        "looped experts",
        {**SELECTIVE, "recompute_modules": ["layernorm"]},
        {**SELECTIVE, "recompute_modules": ["layernorm", "moe_act"]},
    ),
    ("tensor_parallel", "pytorch-ddp", {}, {"tp": 2}),
    ("context_parallel", "internevo", {}, {"cp": 2}),
    ("pipeline_parallel", "pytorch-ddp", {}, {"pp": 2}),
    ("expert_parallel", "pytorch-ddp", {}, {"ep": 2}),
    (
        "recompute_layers",
        "llama",
        {"recompute": "full", "recompute_layers": 5},
        {"recompute": "full", "recompute_layers": 40},
    ),
    ("recompute_layers", "torchtitan", {"recompute": "full"}, {"recompute": "full", "recompute_layers": 5}),
    ("recompute_modules", "megatron-lm", SELECTIVE, {**SELECTIVE, "recompute_modules": ["mlp"]}),
    ("recompute", "deepspeed", {"recompute": "full"}, {"recompute": "selective"}),
    ("schedule", "torchtitan", {"pp": 2}, {"pp": 2, "schedule": "zb-1p"}),
)


def as_listed(name: str, given: Inputs) -> Rule:
    """A rule with the parameters of the runtime's file, where that lists it."""
    return next((rule for rule in rules_of(given) if rule.name == name), RULES[name])


def test_every_rule_has_an_example() -> None:
    assert {name for name, *_ in KEPT_AND_BROKEN} == set(RULES)


@pytest.mark.parametrize(("name", "question_name", "kept", "broken"), KEPT_AND_BROKEN)
def test_a_rule_accepts_one_plan_and_refuses_another_with_a_way_back(
    name: str, question_name: str, kept: dict[str, object], broken: dict[str, object]
) -> None:
    given, plan = asked(question_name), Plan(**broken)
    rule = as_listed(name, given)
    assert rule.legal(Plan(**kept), given)
    assert not rule.legal(plan, given)
    assert leads_to_legal(rule, plan, given, steps=2), rule.reason(plan, given)


@pytest.mark.parametrize(("name", "question_name"), [each[:2] for each in KEPT_AND_BROKEN])
def test_a_rule_judges_the_examples_of_all_rules_alike_one_by_one_and_together(name: str, question_name: str) -> None:
    given = asked(question_name)
    rule = as_listed(name, given)
    rows = [Plan(**fields) for *_, kept, broken in KEPT_AND_BROKEN for fields in (kept, broken)]
    column = np.broadcast_to(rule.legal(Plans.of(rows), given), len(rows))
    assert column.tolist() == [bool(rule.legal(row, given)) for row in rows]


def test_a_runtime_may_spare_micro_batches_that_others_need() -> None:
    rule = replace(RULES["microbatches_fill_stages"], parameters={"spare": 1})
    assert rule.legal(Plan(pp=4, num_microbatches=3), asked("llama"))
    assert not rule.legal(Plan(pp=4, num_microbatches=2), asked("llama"))
    assert leads_to_legal(rule, Plan(pp=4, num_microbatches=2), asked("llama"))


@pytest.mark.parametrize(
    ("name", "question_name", "plan", "said"),
    [
        ("context_parallel_halves", "odd", Plan(cp=4), "4098 is not divisible by 2 x cp 4"),
        ("expert_world_size", "experts", Plan(etp=3, ep=5, pp=2), "nearest etp: 2 or 4"),
        ("expert_world_size", "experts", Plan(etp=3, ep=5, pp=7), "nearest pp: 4 or 8"),
        (
            "expert_ffn_size",
            "experts",
            Plan(etp=3),
            "FFN size 1024 of an expert is not divisible by etp 3; nearest etp: 2",
        ),
        ("replicas_shard", "llama", Plan(dp=8, dp_replicate=2), "zero 0 shards nothing; nearest zero: 1"),
        (
            "microbatch_groups",
            "torchtitan",
            Plan(pp=4, vpp=2, num_microbatches=13, schedule="interleaved"),
            "nearest num_microbatches: 12 or 15",
        ),
        ("layers_fill_chunks", "llama", Plan(pp=40), "nearest pp: 20"),
        ("recompute", "deepspeed", Plan(recompute="selective"), "set recompute to none or full"),
        (
            "recompute_modules",
            "llama",
            Plan(recompute="selective", recompute_modules=["mlp", "moe_act", "shared_experts"]),
            "recompute_modules moe_act,shared_experts, but llama has 0 layers with experts and 0 with a shared expert; "
            "nearest recompute_modules: mlp",
        ),
        (
            "recompute_modules_scaling",
            "delayed",
            Plan(recompute="selective", recompute_modules=["layernorm"]),
            "layernorm does not go with fp8-delayed, which must quantise a tensor once; nearest recompute_modules: ",
        ),
        (
            "recompute_modules_grouped",
            "looped experts",
            Plan(recompute="selective", recompute_modules=["layernorm", "moe_act"]),
            "moe_act needs grouped experts (--with grouped_experts=on), and these run one after the other; nearest "
            "recompute_modules: layernorm",
        ),
        ("half_needs_shards", "torchtitan of 2025", Plan(tp=8), "nearest dp: 2, with tp 4, or"),
        ("half_needs_shards", "torchtitan of 2025", Plan(pp=9), "nearest dp: 3, with pp 3, or"),
        ("half_needs_shards", "torchtitan of 2025", Plan(tp=2, dp=4, dp_replicate=4), "nearest dp_replicate: 2, or"),
    ],
)
def test_reasons_speak_of_the_plan(name: str, question_name: str, plan: Plan, said: str) -> None:
    assert said in RULES[name].reason(plan, asked(question_name))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_page_of_runtimes_says_what_every_rule_asks(rule: Rule) -> None:
    page = Path(__file__).parents[2] / "docs" / "runtimes.md"
    assert f"| `{rule.name}` | {rule.summary} |\n" in page.read_text("utf-8")


def test_windows_as_long_as_the_sequence_are_none_whatever_the_question_was_before() -> None:
    long = asked("windows")
    short = long.replace(job=long.job.replace(sequence_length=1024))
    for name in ("context_parallel_attention", "context_parallel_causal"):
        for inputs, kept in ((short, True), (long, False)):
            assert RULES[name].legal(Plan(cp=2), inputs) is kept


def test_flash_attention_2_keeps_within_documents_of_a_split_sequence() -> None:
    masks = asked("documents")
    told = masks.replace(runtime=with_behaviours(masks.runtime, ["attention_kernel=flash-2"]))
    for inputs, kept in ((masks, False), (told, True)):
        assert RULES["context_parallel_documents"].legal(Plan(cp=2), inputs) is kept


def test_heads_are_exchanged_for_sequence_in_an_all_to_all_alone() -> None:
    assert RULES["context_parallel_heads"].legal(Plan(tp=8, cp=8, context_exchange="ring"), asked("llama"))


def test_modules_that_nothing_recomputes_keep_every_rule() -> None:
    for name in ("recompute_modules", "recompute_modules_scaling"):
        for recompute in ("none", "full"):
            plan = Plan(recompute=recompute, recompute_modules=["layernorm", "moe_act", "mla_up_proj"])
            assert RULES[name].legal(plan, asked("delayed"))


def test_rules_of_experts_leave_dense_models_alone() -> None:
    given = asked("llama").replace(runtime=asked("pp before dp").runtime)
    plan = Plan(tp=8, dp=4, pp=2, dp_replicate=4, zero=1)
    named = ("experts_present", "experts_per_rank", "expert_sequence_parallel", "expert_rank_order", "expert_ffn_size")
    for name in named:
        assert RULES[name].legal(plan, given), name
    assert RULES["expert_replicas"].legal(replace(plan, dp_replicate=3), given)


def test_sizes_of_quantised_products_are_multiples_of_16_as_their_rank_sees_them() -> None:
    """`quantised_sizes` names the size that is not, and what would do; products in bf16 keep it whatever they have."""
    narrow = asked("narrow")
    rule = as_listed("quantised_sizes", narrow)
    assert rule.reason(Plan(tp=32), narrow) == (
        "FFN size 768 over tp 32 is no multiple of 16 on a rank, as products in fp8 need it; nearest tp: 16, "
        "or precision bf16"
    )
    odd = narrow.replace(model=dense_model(hidden_size=2056))
    assert rule.reason(Plan(), odd).startswith("hidden size 2056 is no multiple of 16 on a rank")
    assert "pad it, or precision bf16" in rule.reason(Plan(), odd)
    assert rule.legal(Plan(tp=32), asked("uneven"))
    experts = with_experts(narrow, 64)
    (kind, *_) = experts.model.layer_kinds
    assert rule.legal(Plan(), experts) == (kind.feed_forward.ffn_size % 16 == 0)


def test_what_lacks_position_ids_is_said_of_the_runtime() -> None:
    inputs = question(read_model("qwen2.5-7b"), "1x8:h100", "nanotron", global_batch=64)
    (rule,) = (each for each in rules_of(inputs) if each.name == "packed_attention_without_pipeline")
    said = (
        "values needs position ids, which nanotron does not pass to later pipeline stages, but pp is 2; nearest pp: 1"
    )
    assert said in rule.reason(Plan(pp=2, dp=4, num_microbatches=16), inputs)
