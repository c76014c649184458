"""Runtimes: every catalogued one loads, names rules that exist, and contradictions are refused."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.errors import InvalidInput, InvalidSpec, UnknownName, any_of
from meshwright.layout.legality import RULES, rules_of
from meshwright.specs import catalog
from meshwright.specs.base import Spec
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.runtime import SECTION_OF, Runtime, read_runtime
from strategies import llama_8b, mixture, question


@pytest.mark.parametrize("name", catalog.names("runtimes"))
def test_every_runtime_loads_with_its_sources_and_known_rules(name: str) -> None:
    runtime = read_runtime(name)
    assert runtime.id == name
    assert runtime.sources
    assert rules_of(question(llama_8b(), "1x8:h100", name))
    assert all(reference.source for reference in (*runtime.rules, *runtime.checks.values()))


def test_every_restriction_is_some_runtimes() -> None:
    runtimes = [read_runtime(name) for name in catalog.names("runtimes")]
    listed = {reference.name for runtime in runtimes for reference in runtime.rules}
    assert listed == {rule.name for rule in RULES.values() if rule.kind == "restriction"}


def test_no_alias_means_two_runtimes() -> None:
    names = [alias for name in catalog.names("runtimes") for alias in (name, *read_runtime(name).aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", ["runtimes", "families"])
def test_nothing_starts_from_another_framework(kind: catalog.Kind) -> None:
    for name in catalog.names(kind):
        entry = catalog.load(kind, name)
        like = entry.get("like", name)
        root = catalog.load("families", like) if like in catalog.names("families") else catalog.load("runtimes", like)
        assert entry["family"] == root["family"]


def test_a_file_that_is_like_another_framework_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"mine": {"family": "mine", "like": "torchtitan"}, "torchtitan": {"family": "pytorch"}}
    monkeypatch.setattr(catalog, "load", lambda _, name: entries[name])
    monkeypatch.setattr(catalog, "resolve", lambda _, name: name)
    with pytest.raises(
        InvalidSpec, match="runtime mine is not valid:\n  - like: 'torchtitan' is of the family pytorch"
    ):
        read_runtime("mine")


def test_a_root_of_a_family_is_no_runtime() -> None:
    assert not set(catalog.names("families")) & set(catalog.names("runtimes"))
    with pytest.raises(UnknownName, match="unknown runtime 'pytorch'; "):
        read_runtime("pytorch")


def test_a_field_of_a_section_is_named_once() -> None:
    sections = [getattr(read_runtime("megatron-core"), name) for name in Runtime.model_fields if name != "overlap"]
    fields = [field for section in sections if isinstance(section, Spec) for field in type(section).model_fields]
    assert len(fields) == len(set(fields)) == len(SECTION_OF)
    assert not set(fields) & set(Runtime.model_fields)


@pytest.mark.parametrize("name", catalog.names("elementwise"))
def test_element_wise_kernels_say_where_their_bytes_were_counted(name: str) -> None:
    assert catalog.load("elementwise", name)["sources"]


def test_a_runtime_like_another_keeps_what_it_does_not_say() -> None:
    early, core = read_runtime("megatron-lm"), read_runtime("megatron-core")
    assert early.kernels.attention_kernel == "eager"
    assert early.memory.context_bytes == core.memory.context_bytes


@pytest.mark.parametrize(
    ("runtime", "precision", "said"),
    [
        ("nanotron", "fp8", "job.precision: nanotron has no fp8; use bf16 or fp16"),
        (
            "torchtitan",
            "fp16",
            "job.precision: torchtitan has no fp16; use bf16, fp8-rowwise, mxfp8 or nvfp4",
        ),
        ("llm-foundry", "fp8", "job.precision: llm-foundry has no fp8; use bf16, fp16 or fp8-delayed"),
    ],
)
def test_a_recipe_that_the_runtime_lacks_is_refused_with_those_it_has(runtime: str, precision: str, said: str) -> None:
    with pytest.raises(InvalidSpec, match=said):
        question(llama_8b(), "1x8:b200", runtime, precision=precision)


@pytest.mark.parametrize(
    ("cluster", "precision", "said"),
    [
        ("1x8:h100", "fp16", "torchtitan has no fp16; use bf16 or fp8-rowwise$"),
        ("1x8:h100", "mxfp8", "h100-sxm-80gb has no mxfp8 matrix units; use bf16 or fp8-rowwise$"),
        ("1x8:v100", "bf16", "has no bf16 matrix units; torchtitan has no recipe that v100[-a-z0-9]* can run"),
    ],
)
def test_a_refused_recipe_is_answered_with_those_of_runtime_and_accelerator(
    cluster: str, precision: str, said: str
) -> None:
    with pytest.raises(InvalidSpec, match=said):
        question(llama_8b(), cluster, "torchtitan", precision=precision)


def test_an_optimizer_that_updates_weights_of_two_bytes_does_not_take_fp16() -> None:
    runtime = with_behaviours(read_runtime("pytorch-ddp"), ["training_dtype=bf16"])
    usual = question(llama_8b(), "1x8:h100", "pytorch-ddp", precision="fp16")
    assert usual.replace(runtime=runtime, job=usual.job.replace(precision="bf16")).runtime == runtime
    with pytest.raises(InvalidSpec, match=r"storage.weight_bytes: is 2, where fp16 needs 4: .* or job.precision bf16"):
        usual.replace(runtime=runtime)


@pytest.mark.parametrize("name", catalog.names("runtimes"))
def test_experts_are_planned_for_where_the_runtime_has_them(name: str) -> None:
    if read_runtime(name).plans.experts:
        assert question(mixture(), "1x8:h100", name).model.is_moe
        return
    told = f"model: mixtral has experts, and {name} has no such models; use accelerate, .* or torchtitan"
    with pytest.raises(InvalidSpec, match=told):
        question(mixture(), "1x8:h100", name)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cross_entropy": "nope"}, "'nope' is not among cross_entropies: unfused, native, fused"),
        ({"rank_order": ("tp", "tp")}, "must hold each of tp, cp, ep, dp, pp once"),
        ({"zero_stages": ()}, "zero_stages"),
        ({"weights": "full"}, r"\[0, 1, 2, 3\] must be of \[0, 2, 3\] where weights is full"),
        (
            {"elementwise": "nope"},
            "'nope' is not among elementwise_kernels: eager, fused, liger, liger-autocast",
        ),
        ({"host_s_per_step": float("inf")}, "host_s_per_step"),
        ({"weight_gradient_slowdown": 0.5}, "weight_gradient_slowdown"),
        ({"gradient_bytes": 3}, "gradient_bytes"),
        ({"precisions": ()}, "precisions"),
        ({"precisions": ("int4",)}, "precisions"),
        ({"precisions": ("bf16",), "remainder_weights": ("bf16", "fp8")}, "fp8 is not among plans.precisions: bf16"),
        ({"tensor_parallel": False}, "plans.sequence_parallel: needs tensor_parallel, which is false"),
        ({"pipeline_parallel": False}, "plans.schedules: needs pipeline_parallel, which is false"),
        ({"experts": False}, "plans.expert_parallel: needs experts, which is false"),
        ({"attention_constant": "nope"}, "kernels.attention_constant: 'nope' is not among the fitted constants: "),
        ({"rules": 2 * read_runtime("megatron-core").rules[:1]}, "rules: '[a-z_]*' stands 2 times"),
    ],
)
def test_a_contradictory_runtime_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidSpec, match=said):
        read_runtime("megatron-core").replace(**changes)


def test_all_contradictions_are_told_at_once() -> None:
    with pytest.raises(InvalidSpec) as refusal:
        read_runtime("nanotron").replace(cross_entropy="nope", zero_stages=(), tensor_parallel=False)
    told = [fault.where for fault in refusal.value.faults]
    assert told == ["kernels.cross_entropy", "plans.zero_stages", "plans.sequence_parallel"]
    assert refusal.value.subject == "the runtime"


def test_a_ring_is_offered_for_the_release_of_torchtitan_that_has_a_setting_for_it() -> None:
    """context_parallel_rotate_method of 0.1.0; the trainer of 0.2.2 and of 0.3.0 leaves torch at its all-gather."""
    offered = {name: read_runtime(name).plans.context_exchanges for name in ("torchtitan", "torchtitan@0.2.2")}
    assert offered == dict.fromkeys(offered, ("all_gather",))
    assert read_runtime("torchtitan@0.1.0").plans.context_exchanges == ("all_gather", "ring")


@pytest.mark.parametrize("library", catalog.table("frontends")["libraries"], ids=lambda each: each["names"][0])
def test_a_library_that_starts_other_frameworks_is_refused_with_their_names(library: dict[str, list[str]]) -> None:
    runtimes = library["runtimes"]
    assert all(catalog.resolve("runtimes", each) == each for each in runtimes)
    for name in library["names"]:
        with pytest.raises(
            InvalidInput, match=f"'{name}' hands training to another.*{runtimes[0]}.* or {runtimes[-1]}$"
        ):
            read_runtime(name)


@pytest.mark.parametrize("entry", catalog.table("stand_ins")["stand_ins"], ids=lambda each: each["names"][0])
def test_what_is_no_runtime_is_refused_with_those_that_stand_for_it(entry: dict[str, Any]) -> None:
    assert [read_runtime(each).id for each in entry["runtimes"]] == entry["runtimes"]
    for name in entry["names"]:
        with pytest.raises(InvalidInput) as refusal:
            read_runtime(name)
        assert str(refusal.value) == f"{name!r} {entry['what']}: {any_of(entry['runtimes'])}"


@pytest.mark.parametrize("name", ["pytorch-fsdp2", "fully_shard", "FSDP_2", "automodel", "nemo_automodel"])
def test_names_of_pytorchs_sharding_and_of_automodel_lead_to_runtimes_that_shard_so(name: str) -> None:
    """As stand_ins of validation/rows/frameworks.toml have AutoModel."""
    with pytest.raises(InvalidInput, match=r"[Nn]ame (that one|one of them) with --runtime: .*torchtitan"):
        read_runtime(name)
