"""Behaviours that a question replaces: read as TOML, held to the runtime's own form, and told."""

from __future__ import annotations

import pytest

from meshwright.errors import InvalidSpec
from meshwright.specs import catalog
from meshwright.specs.behaviours import position_of, with_behaviours
from meshwright.specs.runtime import read_runtime


def test_nested_keys_words_numbers_and_flags_are_replaced() -> None:
    before = read_runtime("megatron-core")
    changes = ["dispatcher=fused", "overlap.expert=0.7", "cross_entropy = fused", "host_s_per_step=0", "dropout=true"]
    after = with_behaviours(before, changes)
    assert (after.communication.dispatcher, after.kernels.cross_entropy) == ("fused", "fused")
    assert (after.overlap.expert, after.host.host_s_per_step, after.activations.dropout) == (0.7, 0, True)
    assert before == read_runtime("megatron-core")
    sections = ("activations", "communication", "host", "kernels", "overlap")
    assert after.replace(**{name: getattr(before, name) for name in sections}, replaced=()) == before


def test_every_change_is_told_with_what_it_stands_in_place_of() -> None:
    after = with_behaviours(read_runtime("megatron-core"), ["overlap.expert=0.7", "elementwise=eager"])
    told = [str(each) for each in after.replaced]
    assert told == ["overlap.expert 0.7 in place of 0", "elementwise eager in place of megatron"]
    again = with_behaviours(after, ["dropout=true"])
    assert [str(each) for each in again.replaced] == [*told, "dropout true in place of false"]


def test_without_changes_a_runtime_stays_as_it_is() -> None:
    for name in catalog.names("runtimes"):
        assert with_behaviours(read_runtime(name), []) == read_runtime(name)


def test_a_table_of_named_entries_takes_a_new_one() -> None:
    mine = [
        f"cross_entropies.mine.{name}_bytes={size}" for name, size in (("alive", 3), ("forward", 8), ("backward", 6))
    ]
    after = with_behaviours(read_runtime("torchtitan"), [*mine, "cross_entropy=mine"])
    assert after.cross_entropies["mine"].alive_bytes == 3
    assert str(after.replaced[0]) == "cross_entropies.mine.alive_bytes 3"


@pytest.mark.parametrize(
    ("change", "where", "what"),
    [
        ("dispacher=fused", "dispacher", "nearest: dispatcher"),
        ("overlap.exprt=0.7", "overlap.exprt", "nearest: expert"),
        ("storage.moment_byte=2", "storage.moment_byte", "nearest: moment_bytes"),
        ("dispatcher=deep", "communication.dispatcher", "'all_to_all', 'all_gather' or 'fused'"),
        ("overlap.expert=1.5", "overlap.expert", "less than or equal to 1 (given: 1.5)"),
        ("overlap.expert=fast", "overlap.expert", "must be a number (given: 'fast')"),
        ("overlap.expert=nan", "overlap.expert", "nan"),
        ("overlap=0.7", "overlap", "must be a table"),
        ("overlap={expert=0.5}", "overlap.context", "is missing"),
        ("dispatcher.kind=fused", "communication.dispatcher.kind", "dispatcher is all_to_all, which holds no 'kind'"),
        ("cross_entropy=chunked", "kernels.cross_entropy", "is not among cross_entropies: unfused, native, fused"),
        ("plans.zero_stages=[7]", "plans.zero_stages[0]", "given: 7"),
        ("rules=[]", "rules", "is no behaviour"),
        ("version=2", "version", "is no behaviour"),
        ("replaced=[]", "replaced", "is no behaviour"),
        ("dropout", "", "'dropout' is not KEY=VALUE"),
        ("dropout=", "", "is not KEY=VALUE"),
        ("=true", "", "is not KEY=VALUE"),
        ("overlap..expert=1", "", "is not KEY=VALUE"),
        ("dropout=[", "dropout", "'[' is not a value"),
        ("quantised_weights=[fp8]", "quantised_weights", 'or a list, as ["fp8"]'),
        ("dropout=true\nweights=full", "dropout", "is not a value"),
        ("host_s_per_step=" + "9" * 5000, "host_s_per_step", "is not a value"),
        ("host_s_per_step=" + "[" * 5000, "host_s_per_step", "is not a value"),
    ],
)
def test_what_the_runtime_does_not_take_is_refused_with_its_path(change: str, where: str, what: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        with_behaviours(read_runtime("megatron-core"), [change])
    assert any(fault.where == where and what in fault.what for fault in refusal.value.faults), refusal.value.faults
    assert len(str(refusal.value)) < 2000


def test_a_switch_sets_what_goes_together() -> None:
    """torch.compile: kernels, what a layer keeps, and the loss, as `compile.components` of torchtitan has them."""
    titan = read_runtime("torchtitan")
    on, off = (with_behaviours(titan, [f"compiled={position}"]) for position in ("true", "false"))
    for runtime, position in (
        (on, ("fused", "chunked_compiled", True, False)),
        (off, ("eager", "chunked", False, True)),
    ):
        activations = runtime.activations
        set_by_it = (activations.fused_activation, activations.keeps_unread_products)
        assert (runtime.kernels.elementwise, runtime.kernels.cross_entropy, *set_by_it) == position
    assert with_behaviours(titan, ["dispatcher=fused"]).communication.dispatcher == "fused"  # a switch and a field
    mixed = with_behaviours(titan, ["kernels.cross_entropy=eager", "compiled=true"]).kernels
    assert (mixed.elementwise, mixed.cross_entropy) == ("fused", "eager")
    assert with_behaviours(read_runtime("accelerate"), ["compiled=false"]).kernels.elementwise == "transformers"
    for runtime, change, message in (
        (titan, "compiled=perhaps", "it must be true or false"),
        (read_runtime("megatron-core"), "compiled=true", "is no switch of megatron-core; it is one of .*torchtitan"),
    ):
        with pytest.raises(InvalidSpec, match=message):
            with_behaviours(runtime, [change])


def test_all_faults_are_told_at_once() -> None:
    changes = ["x", "overlap.expert=2", "dispatcher=deep", "dropout=true", "dropout=false", "id=mine"]
    with pytest.raises(InvalidSpec) as refusal:
        with_behaviours(read_runtime("nanotron"), changes)
    assert {fault.where for fault in refusal.value.faults} == {
        "",
        "overlap.expert",
        "communication.dispatcher",
        "activations.dropout",
        "id",
    }
    assert refusal.value.subject == "runtime nanotron with --with"


def test_a_cross_entropy_in_pieces_keeps_the_logits_of_one_until_the_next() -> None:
    for name in ("torchtitan", "accelerate", "pytorch-fsdp1", "pytorch-ddp", "llm-foundry"):
        kept = read_runtime(name).cross_entropies
        for chunked, whole in (("chunked", "eager"), ("chunked_compiled", "compiled")):
            assert kept[chunked].sequence_pieces == 8
            assert kept[whole].sequence_pieces == 1
            assert kept[chunked].forward_bytes == kept[whole].forward_bytes
            assert kept[chunked].backward_bytes == kept[whole].backward_bytes
        assert kept["chunked"].alive_bytes == kept["eager"].alive_bytes + 2


def test_the_loss_is_that_of_the_release() -> None:
    losses = {"torchtitan": "chunked_compiled", "torchtitan@0.2.2": "compiled", "torchtitan@0.1.0": "compiled"}
    assert {name: read_runtime(name).kernels.cross_entropy for name in losses} == losses
    old = with_behaviours(read_runtime("torchtitan@0.2.2"), ["compiled=false"])
    assert old.kernels.cross_entropy == "eager"


def test_a_release_changes_single_values_of_a_switch() -> None:
    """What torch.compile changes stands once in the family; runtimes and releases say what they do otherwise."""
    family, own, old = (
        read_runtime(name).switches["compiled"]["false"] for name in ("pytorch-fsdp1", "torchtitan", "torchtitan@0.1.0")
    )
    assert family.items() <= own.items()
    differ = {"cross_entropy", "rotary_copies", "checkpoint_stops_early", "indexed_rows", "weighed_rows"}
    assert {key for key in own if own[key] != old[key]} == differ


def test_runtimes_stand_at_a_position_of_their_compiler() -> None:
    for name in catalog.names("runtimes"):
        runtime = read_runtime(name)
        assert "compiled" not in runtime.switches or position_of(runtime, "compiled")
