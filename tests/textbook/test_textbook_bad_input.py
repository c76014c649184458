"""Wrong questions to the calculators: a `ValueError` that names key, value and rule, and all faults at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meshwright.errors import InvalidInput, InvalidSpec
from meshwright.textbook import (
    Searcher,
    analyze_4d_parallelism,
    bubble_ratio,
    estimate_4d_memory,
    llama_parameters,
    memory_of_every_configuration,
    model_metadata_of,
    parameter_estimate,
    tensor_parallel_allreduce_cost,
)
from worked import ANALYZED, CLUSTER_METADATA, DEGREES, HARDWARE, JOB, MODEL_METADATA, ONE, SEVEN

WRONG = [
    (0, "is 0"),
    (-3, "is -3"),
    (True, r"is True \(bool\)"),
    (2.0, r"is 2.0 \(float\)"),
    ("8", r"is '8' \(str\)"),
    (None, r"is None \(NoneType\)"),
    (float("nan"), "is nan"),
    pytest.param(-(10**5000), "is an integer of 16610 bits", id="huge"),
]
NOT_POSITIVE = [0, -1.5, float("inf"), float("nan"), True, "80", None, pytest.param(10**400, id="huge")]


@pytest.mark.parametrize(("value", "told"), WRONG)
@pytest.mark.parametrize("key", [*ANALYZED, *DEGREES, "num_gpus"])
def test_the_analyzers_whole_numbers(key: str, value: Any, told: str) -> None:
    configs = [given | ({key: value} if key in given else {}) for given in (ANALYZED, DEGREES, HARDWARE)]
    with pytest.raises(ValueError, match=rf"config\.{key}: .*{told}.*must be a whole number of 1 or more"):
        analyze_4d_parallelism(*configs)


@pytest.mark.parametrize("value", NOT_POSITIVE)
def test_memories_and_bandwidths_are_finite_numbers_above_0(value: Any) -> None:
    rule = "must be a finite number above 0"
    with pytest.raises(ValueError, match=f"memory_per_gpu_gb: is .*{rule}"):
        analyze_4d_parallelism(ANALYZED, DEGREES, HARDWARE | {"memory_per_gpu_gb": value})
    with pytest.raises(ValueError, match=f"bandwidth_gb_per_sec: is .*{rule}"):
        tensor_parallel_allreduce_cost(1, 1, 1, 1, 1, bandwidth_gb_per_sec=value)
    with pytest.raises(ValueError, match=f"gpu_memory_gb: is .*{rule}"):
        estimate_4d_memory(**SEVEN | JOB | ONE | {"gpu_memory_gb": value})
    with pytest.raises(ValueError, match=f"bw_gpu_to_gpu: is .*{rule}"):
        Searcher().estimate_tp_time(1, 1, value)


def test_every_fault_of_three_dictionaries_at_once() -> None:
    model = {key: value for key, value in ANALYZED.items() if key != "seq_len"} | {"hiden_size": 1, "vocab_size": 0}
    with pytest.raises(InvalidSpec) as caught:
        analyze_4d_parallelism(model, DEGREES | {"tp": 1.5}, [])
    told = {fault.where: fault.what for fault in caught.value.faults}
    assert set(told) == {
        "model_config.hiden_size",
        "model_config.seq_len",
        "model_config.vocab_size",
        "parallel_config.tp",
        "hardware_config",
    }
    assert "did you mean hidden_size?" in told["model_config.hiden_size"]
    assert "missing" in told["model_config.seq_len"]
    assert "must be a dictionary" in told["hardware_config"]


@pytest.mark.parametrize(
    "name", ["hidden_size", "sequence_length", "batch_size", "num_gpus", "num_layers", "bytes_per_element"]
)
@pytest.mark.parametrize(("value", "told"), WRONG)
def test_the_sizes_of_an_all_reduce(name: str, value: Any, told: str) -> None:
    sizes = {"hidden_size": 8, "sequence_length": 8, "batch_size": 1, "num_gpus": 2, "num_layers": 1}
    with pytest.raises(ValueError, match=f"{name}: {told}"):
        tensor_parallel_allreduce_cost(**(sizes | {name: value}))


@pytest.mark.parametrize("name", [*SEVEN, *JOB, "tp", "pp", "cp", "dp"])
@pytest.mark.parametrize(("value", "told"), WRONG)
def test_the_sizes_of_the_memory_estimator(name: str, value: Any, told: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: {told}"):
        estimate_4d_memory(**SEVEN | JOB | ONE | {name: value})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"form": "exact"}, "form: is 'exact'; it must be one of decided, literal"),
        ({"form": None}, "form: is None"),
        ({"form": []}, r"form: is \[\]"),
        ({"distributed_optimizer": 1}, r"distributed_optimizer: is 1 \(int\); it must be True or False"),
        ({"num_key_value_heads": 64}, "num_key_value_heads: is 64; it must not exceed num_attention_heads 32"),
    ],
)
def test_the_choices_of_the_memory_estimator(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        estimate_4d_memory(**SEVEN | JOB | ONE | changes)
    question: dict[str, Any] = SEVEN | JOB | {"gpu_memory_gb": 80} | changes
    with pytest.raises(ValueError, match=told):
        memory_of_every_configuration(num_gpus=8, **question)


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: parameter_estimate(0, 1, 1), "num_layers: is 0"),
        (lambda: bubble_ratio(1, False), "num_micro_batches: is False"),
        (lambda: llama_parameters(**SEVEN | {"vocab_size": 0}), "vocab_size: is 0"),
        (lambda: memory_of_every_configuration(num_gpus=10**8, **SEVEN | JOB, gpu_memory_gb=80), "at most 10000000"),
        (lambda: model_metadata_of("llama", 0, True), "sequence_length: is 0(.|\n)*global_batch: is True"),
        (lambda: Searcher().estimate_compute_time(0, 1, 1, 1, 1), "dp: is 0"),
        (lambda: Searcher().estimate_compute_time(1, 1, 1, -1, 1), "total_tflops: is -1; .*of 0 or more"),
        (lambda: Searcher().estimate_compute_time(10**8, 1, 1, 1, 1), "dp: is 100000000; .*at most 10000000"),
        (lambda: Searcher().estimate_compute_time(1, 1, 1, 1e308, 1), "beyond the largest float"),
        (lambda: Searcher().estimate_pp_time([], 1, 1), r"layer_activation_MB: is \[\]; .*at least one"),
        (lambda: Searcher().estimate_pp_time([1, -1], 1, 1), r"layer_activation_MB\[1\]: is -1"),
    ],
)
def test_single_arguments(ask: Callable[[], Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        ask()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"n_node": 0}, r"cluster_metadata\.n_node: is 0"),
        ({"n_node": 10**7}, "makes 80000000 GPUs"),
        ({"gpu_gflops": "fast"}, r"cluster_metadata\.gpu_gflops: is 'fast'"),
        ({"bw_cpu_to_cpu": -1}, r"bw_cpu_to_cpu: is -1"),
        ({"num_layers": 23}, "layer_tflops: holds 24 numbers; it must hold one for each of the 23 layers"),
        ({"layer_tflops": 1.5}, "layer_tflops: is 1.5; it must be a list"),
        ({"layer_activation_MB": "16"}, "layer_activation_MB: is '16'"),
        ({"dp_sum_gradient_MB": None}, "dp_sum_gradient_MB: is None"),
        ({"tp_comm": "all"}, "tp_comm: is 'all'"),
        ({"global_batch_size": 1.5}, "global_batch_size: is 1.5"),
    ],
)
def test_the_searchers_metadata(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    cluster = CLUSTER_METADATA | {key: value for key, value in changes.items() if key in CLUSTER_METADATA}
    model = MODEL_METADATA | {key: value for key, value in changes.items() if key in MODEL_METADATA}
    with pytest.raises(ValueError, match=told):
        Searcher().search(cluster, model, tmp_path / "o.json")
    assert not list(tmp_path.iterdir())


def test_missing_and_unknown_keys_of_both_metadata_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec) as caught:
        Searcher().search({"n_nodes": 1}, {}, tmp_path / "o.json")
    told = "\n".join(map(str, caught.value.faults))
    assert "cluster_metadata.n_nodes: is not a known key (value 1); did you mean n_node?" in told
    assert "cluster_metadata.bw_inter_node: is missing" in told
    assert "model_metadata.layer_tflops: is missing" in told


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, ""),
        (b"\xff", "not UTF-8"),
        (b"", "is not JSON"),
        (b"[1]", "holds a JSON list"),
        (b'{"n_node": 1, "n_node": 2}', "the key 'n_node' stands there twice"),
        (b"[" * 100000, "is not JSON"),
        (b'{"n_node": ' + b"9" * 5000 + b"}", "is not JSON"),
    ],
)
def test_metadata_files_that_hold_none(tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "c.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match=f"{'no ' * (content is None)}cluster metadata .*c.json.*{told}"):
        Searcher().search(path, MODEL_METADATA, tmp_path / "o.json")
