"""What explain says of experts and of shared sequences: its figures are those of the step, and add up."""

from __future__ import annotations

import io
import json
from functools import cache
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from meshwright.answers.document.terminal import terminal
from meshwright.answers.explain.table import explain_document, explain_screen
from meshwright.answers.memo.exchanges import exchanges, tensor_seconds_apart
from meshwright.answers.plan_file import json_schema
from meshwright.cost.comms.collectives import reached_bandwidths
from meshwright.cost.comms.expert_counts import count_messages
from meshwright.cost.estimate import Estimate
from meshwright.cost.step import estimate_each
from meshwright.layout.named import plan_of
from meshwright.specs.behaviours import with_behaviours
from meshwright.specs.constraints import Constraints
from meshwright.specs.inputs import Inputs
from meshwright.units import format_seconds
from strategies import latent, llama_8b, mixture, question

_BUFFER = 2 * 2048 * 16384
"""Bytes of the rows that one rank's 8,192 tokens become for two experts each."""
_SCORES = 4 * 16384
"""Bytes of their scores in fp32."""
_COUNTS = 8 * 8 * 8
"""Bytes of the counts of all 8 ranks for 8 experts in int64."""
DISPATCHERS = ("all_to_all", "all_gather", "fused")
EXCHANGES = ("ring", "all_gather", "all_to_all", "hierarchical")


@cache
def asked(*behaviours: str, cluster: str = "2x8:h100", **job: Any) -> Inputs:
    """A small mixture of experts under megatron-core with some behaviours replaced."""
    inputs = question(mixture(), cluster, **{"global_batch": 32, "sequence_length": 8192, **job})
    return inputs.replace(runtime=with_behaviours(inputs.runtime, behaviours))


def priced(inputs: Inputs, **degrees: Any) -> Estimate:
    """One plan, priced."""
    return estimate_each([plan_of(inputs, **degrees)], inputs)[0]


def entry(inputs: Inputs, **degrees: Any) -> dict[str, Any]:
    """The explained plan as it stands in a valid plan file."""
    document = json.loads(json.dumps(explain_document(priced(inputs, **degrees), inputs), allow_nan=False))
    jsonschema.Draft202012Validator(json_schema()).validate(document)
    (plan,) = document["plans"]
    return dict(plan)


def told(inputs: Inputs, **degrees: Any) -> str:
    """The explain screen at 80 columns as running text."""
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(terminal(explain_screen(priced(inputs, **degrees), inputs)))
    assert max(map(len, map(str.rstrip, out.getvalue().splitlines()))) <= 80
    return " ".join(out.getvalue().split())


@pytest.mark.parametrize("degrees", [{"ep": 8}, {"ep": 8, "pp": 2, "recompute": "full"}, {"tp": 2, "ep": 4, "etp": 2}])
def test_parts_of_expert_layers_add_up_to_the_step(degrees: dict[str, Any]) -> None:
    """All layers of a small mixture are of experts: what is left of a micro-batch are the ends."""
    inputs = asked()
    estimate = priced(inputs, **degrees)
    (layers,) = entry(inputs, **degrees)["expert_parts"]
    by_name = {part["part"]: part for part in layers["parts"]}
    exchanged = by_name["dispatch"]["step_s"] + by_name["combine"]["step_s"]
    assert exchanged == pytest.approx(estimate.time.exposed_ep_s)
    both = sum(part["forward_s"] + part["backward_s"] for part in layers["parts"])
    step_s = sum(part["step_s"] for part in layers["parts"])
    assert step_s == pytest.approx(layers["layers"] * layers["micro_batches"] * both)
    stage = estimate.stages[layers["stage"]]
    assert 0 < both * layers["layers"] < stage.forward_s + stage.backward_s + estimate.time.host_s


def test_a_note_says_what_hides_the_exchange() -> None:
    assert "Nothing hides the exchange" in told(asked(), ep=8)
    inputs = asked("overlap.expert=0.7")
    (layers,) = entry(inputs, ep=8)["expert_parts"]
    exchanged = [part for part in layers["parts"] if part["part"] in ("dispatch", "combine")]
    hidden = sum(part[f"{side}_alone_s"] - part[f"{side}_s"] for part in exchanged for side in ("forward", "backward"))
    assert f"the opposite pass of another micro-batch hides {format_seconds(hidden)} of it" in told(inputs, ep=8)


def test_layers_that_are_not_recomputed_take_less_of_a_step() -> None:
    inputs = asked()
    some, every = (entry(inputs, ep=8, recompute="full", recompute_layers=count)["expert_parts"] for count in (2, 0))
    (fewer,), (all_,) = some, every
    assert fewer["parts"]
    for one, other in zip(fewer["parts"], all_["parts"], strict=True):
        assert one["forward_s"] == other["forward_s"]
        assert one["step_s"] <= other["step_s"]


def test_every_legal_pair_of_expert_axes_is_priced_as_its_plan() -> None:
    inputs = asked()
    degrees = entry(inputs, ep=8, etp=1)["expert_degrees"]
    assert len(degrees) > 6
    for each in degrees:
        same = priced(inputs, ep=each["ep"], etp=each["etp"])
        assert each["step_time_s"] == pytest.approx(same.step_time_s)
        assert each["exposed_s"] == same.time.exposed_ep_s
        assert each["verdict"] == str(same.verdict)
    assert "The same plan with other values of ep and etp" in told(inputs, ep=8)


def test_pairs_of_expert_axes_keep_the_constraints_of_their_question() -> None:
    """And the plan's own pair stands there all the same."""
    inputs = asked()
    narrow = inputs.replace(constraints=Constraints(ep="4,8", etp=1))
    degrees = entry(narrow, ep=2, etp=2)["expert_degrees"]
    assert {(each["ep"], each["etp"]) for each in degrees} == {(4, 1), (8, 1), (2, 2)}


def test_a_dense_plan_without_context_parallelism_exchanges_nothing() -> None:
    inputs = question(llama_8b(), "1x8:h100", global_batch=64)
    assert not entry(inputs, tp=2).keys() & {"experts", "context"}
    assert "Experts" not in told(inputs, tp=2)
    assert "Context exchange" not in told(inputs, tp=2)


def test_an_all_to_all_inside_a_node_sends_what_leaves_the_rank() -> None:
    (layers,) = entry(asked(), ep=8)["experts"]["layers"]
    assert (layers["layers"], layers["experts_per_rank"], layers["tokens"], layers["rows"]) == (8, 1, 8192, 16384)
    assert layers["busiest_rows"] == layers["rows"]
    assert layers["sent_bytes"] == {"nvlink": (_BUFFER + _SCORES + _COUNTS) * 7 / 8, "fabric": 0}


def test_an_all_to_all_across_nodes_sends_half_of_it_over_the_network() -> None:
    experts = entry(asked(cluster="2x4:h100"), ep=8)["experts"]
    assert (experts["domains"], experts["ranks_per_domain"], experts["link"]) == (2, 4, "fabric")
    tokens, sent = _BUFFER + _SCORES, experts["layers"][0]["sent_bytes"]
    assert sum(sent.values()) == (tokens + _COUNTS) * 7 / 8
    assert tokens * 4 / 8 < sent["fabric"] < tokens * 4 / 8 + _COUNTS


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_an_exchange_that_nothing_hides_is_exposed_whole(dispatcher: str) -> None:
    inputs = asked(f"dispatcher={dispatcher}")
    experts = entry(inputs, ep=8, pp=2)["experts"]
    assert experts["dispatcher"] == dispatcher
    assert experts["exposed_s"] == pytest.approx(experts["exchanged_s"], rel=1e-12)
    (layers,) = experts["layers"]
    (kind,), plan = inputs.model.layer_kinds, plan_of(inputs, ep=8, pp=2)
    counts = sum(float(each.seconds) for each in count_messages(plan, inputs, kind))
    assert experts["exchanged_s"] == pytest.approx(
        4 * 4 * (2 * layers["dispatch_s"] + 2 * layers["combine_s"] - counts)
    ), "two passes of four layers and four micro-batches, of which one tells the counts of tokens"


def test_overlap_hides_a_part_and_changes_nothing_of_the_exchange() -> None:
    questions = (asked(*behaviours, global_batch=256) for behaviours in ((), ("overlap.expert=0.7",)))
    alone, hidden = (entry(each, ep=8)["experts"] for each in questions)
    assert hidden["exchanged_s"] == alone["exchanged_s"]
    assert 0 < hidden["exposed_s"] < 0.5 * hidden["exchanged_s"]
    assert hidden["layers"] == alone["layers"]


def test_full_recomputation_exchanges_a_third_time() -> None:
    plain, full = (entry(asked(), ep=8, recompute=kind)["experts"] for kind in ("none", "full"))
    (layers,) = plain["layers"]
    forward = 8 * 2 * (layers["dispatch_s"] + layers["combine_s"])
    assert full["exchanged_s"] == pytest.approx(plain["exchanged_s"] + forward), "of eight layers and two micro-batches"


def test_every_imbalance_is_the_plan_priced_again() -> None:
    inputs = asked()
    rows = entry(inputs, ep=8)["experts"]["imbalance"]
    assert [row["expert_imbalance"] for row in rows] == [1.0, 1.2, 1.5, 2.0]
    for row in rows:
        job = inputs.job.replace(expert_imbalance=row["expert_imbalance"])
        again = priced(inputs.replace(job=job), ep=8)
        assert row["step_time_s"] == again.step_time_s
        assert row["device_bytes"] == again.memory.device
        assert row["verdict"] == str(again.verdict)
    for key in ("step_time_s", "device_bytes"):
        values = [row[key] for row in rows]
        assert values == sorted(values)
        assert len(set(values)) == 4


def test_the_imbalances_are_told_without_the_capacity() -> None:
    inputs = asked(expert_capacity=1.25)
    rows = entry(inputs, ep=8)["experts"]["imbalance"]
    assert rows == entry(asked(), ep=8)["experts"]["imbalance"]
    assert "without the capacity of 1.25" in told(inputs, ep=8)


def test_the_screen_tells_of_experts() -> None:
    text, inputs = told(asked(), ep=8), asked()
    for fact in (
        "Experts ep 8 inside one node, over nvlink (450 GB/s); etp 1; 2 replicas of every expert",
        "8 layers (dense): a rank holds 1 of 8 experts; in a micro-batch it takes in 8,192 tokens and computes",
        "One dispatch (all-to-all) sends 56.1 MiB over nvlink per rank in",
        "exposed (100%)",
        "out-of-memory" if priced(inputs, ep=8).verdict.name == "OUT_OF_MEMORY" else str(priced(inputs, ep=8).verdict),
    ):
        assert fact in text
    assert "ep 1; etp 1; 16 replicas of every expert" in told(inputs)
    assert "One dispatch" not in told(inputs)
    assert "on the busiest rank" in told(asked(expert_imbalance=1.5), ep=8)


def test_dense_layers_of_a_mixture_are_left_out() -> None:
    inputs = question(latent(), "1x8:h100", global_batch=16)
    (layers,) = entry(inputs, ep=8)["experts"]["layers"]
    assert (layers["kind"], layers["layers"], layers["experts_per_rank"], layers["active"]) == ("experts", 7, 8, 6)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_the_context_exchange_of_all_layers_is_that_of_the_step(exchange: str) -> None:
    inputs = question(llama_8b(), "2x4:h100", global_batch=8, sequence_length=65536)
    context = entry(inputs, cp=8, context_exchange=exchange, recompute="full")["context"]
    (layers,) = context["layers"]
    assert (context["exchange"], context["link"], layers["layers"]) == (exchange, "fabric", 32)
    step = 8 * 32 * (layers["exposed_forward_s"] + layers["exposed_backward_s"])
    assert step == pytest.approx(context["exposed_s"])
    assert layers["exposed_forward_s"] <= layers["forward_s"]
    assert layers["exposed_backward_s"] <= layers["backward_s"]
    assert sum(layers["forward_bytes"].values()) <= sum(layers["backward_bytes"].values())


def test_a_ring_and_an_all_gather_send_the_keys_and_values_of_the_others() -> None:
    inputs = question(llama_8b(), "1x8:h100", global_batch=8, sequence_length=65536)
    others = 2 * (65536 // 8) * 2 * 8 * 128 * 7
    for exchange in ("ring", "all_gather"):
        (layers,) = entry(inputs, cp=8, context_exchange=exchange)["context"]["layers"]
        assert layers["forward_bytes"] == {"nvlink": others}


def test_the_screen_tells_of_the_context_exchange() -> None:
    inputs = question(llama_8b(), "2x8:h100", global_batch=8, sequence_length=65536)
    text, estimate = told(inputs, cp=16), priced(inputs, cp=16)
    exposed = format_seconds(estimate.time.exposed_cp_s)
    assert f"cp 16 across 2 nodes, 8 ranks in each, over fabric (50 GB/s); {exposed} exposed per step" in text
    assert "32 layers (dense), sent by a rank per layer and micro-batch: forward " in text


def test_tensor_parallel_messages_between_nodes_take_as_long_as_the_links_between_them() -> None:
    """Large messages of a group with a rank in each node go at the bandwidth that collectives reach there."""
    inputs = question(llama_8b(), "2x8:h100", global_batch=16, sequence_length=8192)
    estimate = priced(inputs, tp=2)
    tensor = [each for each in exchanges(estimate, inputs) if each.axis == "tp"]
    sent = sum(each.sent_bytes * each.times for each in tensor)
    apart = tensor_seconds_apart(estimate, inputs)
    assert apart == pytest.approx(sent / reached_bandwidths(inputs.cluster)[-1], rel=0.15)
    assert apart > sum(each.seconds for each in tensor)
