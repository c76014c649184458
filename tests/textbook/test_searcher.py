"""The 3D searcher: its worked values, the search, its file and its laws."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.answers import files as answer_files
from meshwright.errors import InvalidInput
from meshwright.textbook import Searcher
from meshwright.textbook.pool import evaluate_all
from meshwright.textbook.searcher_times import Configuration
from worked import CLUSTER_METADATA, MODEL_METADATA

WORKED = {(4, 2, 1): 311.1369, (8, 1, 1): 519.7765, (1, 8, 1): 578.5002, (1, 1, 8): 1649.0808}
degrees = st.integers(min_value=1, max_value=4096)
sizes = st.floats(min_value=0, max_value=1e9)


class Inline(ThreadPoolExecutor):
    """One thread: quicker than processes where the pool is not what is tested."""

    def __init__(self) -> None:
        super().__init__(max_workers=1)


class Same(Searcher):
    """Every configuration takes as long."""

    def evaluate_config(self, config: Configuration) -> float:  # noqa: ARG002
        return 1.0


class Never(Searcher):
    """No configuration can be evaluated."""

    def evaluate_config(self, config: Configuration) -> float:  # noqa: ARG002
        return math.inf


def searched(path: Path, searcher: Searcher | None = None, **changes: Any) -> tuple[int, int, int]:
    cluster = {key: changes.get(key, value) for key, value in CLUSTER_METADATA.items()}
    model = {key: changes.get(key, value) for key, value in MODEL_METADATA.items()}
    with Inline() as executor:
        return (searcher or Searcher()).search(cluster, model, path, executor=executor)


@pytest.mark.parametrize(("config", "expected"), list(WORKED.items()))
def test_the_worked_times(config: Sequence[int], expected: float) -> None:
    dp, tp, pp = config
    assert round(Searcher().evaluate_config((dp, tp, pp, CLUSTER_METADATA, MODEL_METADATA)), 4) == expected


def test_the_worked_parts_of_the_best() -> None:
    searcher = Searcher()
    assert round(searcher.estimate_compute_time(4, 2, 1, 3 * 24 * 1.5, 312000), 4) == 296.7033
    assert round(searcher.estimate_dp_time(2700, 4, 8, 300, 25), 4) == 13.1836
    assert searcher.estimate_tp_time(768, 2, 300) == 1.25
    assert searcher.estimate_pp_time([16] * 24, 1, 300) == 0.0
    parts = searcher.time_parts((4, 2, 1, CLUSTER_METADATA, MODEL_METADATA))
    assert [round(part, 4) for part in parts] == [296.7033, 13.1836, 1.25, 0.0]


def test_the_constants_are_class_attributes_that_a_subclass_changes() -> None:
    constants = (Searcher.BASE_EFF, Searcher.DP_EFF_PENALTY_FACTOR, Searcher.TP_EFF_PENALTY_FACTOR)
    assert (*constants, Searcher.OVERLAP_RATIO_PP, Searcher.IMBALANCE_PENALTY_FACTOR) == (0.35, 0.20, 0.25, 0.60, 0.1)
    better = type("Better", (Searcher,), {"BASE_EFF": 0.7})()
    time = Searcher().estimate_compute_time(2, 2, 1, 10, 1000)
    assert better.estimate_compute_time(2, 2, 1, 10, 1000) == pytest.approx(time / 2)


def test_a_search_in_processes_writes_every_configuration_in_order(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    path = tmp_path / "output.json"
    assert Searcher().search(CLUSTER_METADATA, MODEL_METADATA, path, progress=lambda *each: told.append(each)) == (
        4,
        2,
        1,
    )
    assert told == [(done, 10) for done in range(1, 11)]
    text = path.read_text("utf-8")
    answer = json.loads(text)
    keys = [tuple(map(int, key.split(", "))) for key in answer]
    assert keys == sorted(keys)
    assert set(keys) == {(d, t, 8 // d // t) for d in (1, 2, 4, 8) for t in (1, 2, 4, 8) if 8 % (d * t) == 0}
    assert text == json.dumps(answer, indent=4)
    assert {key: answer[", ".join(map(str, key))] for key in WORKED} == {
        key: f"{time:.4f}ms/iter" for key, time in WORKED.items()
    }
    assert list(tmp_path.iterdir()) == [path]


def test_metadata_may_be_files(tmp_path: Path) -> None:
    cluster, model = tmp_path / "c.json", tmp_path / "m.json"
    cluster.write_text(json.dumps(CLUSTER_METADATA), "utf-8")
    model.write_text(json.dumps(MODEL_METADATA), "utf-8")
    with Inline() as executor:
        assert Searcher().search(str(cluster), model, tmp_path / "o.json", executor=executor) == (4, 2, 1)


def test_the_output_file_is_output_json_here_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Searcher().search(CLUSTER_METADATA, MODEL_METADATA) == (4, 2, 1)
    assert (tmp_path / "output.json").is_file()


def test_no_more_stages_than_layers(tmp_path: Path) -> None:
    short = {"num_layers": 3, "layer_tflops": [1.5] * 3, "layer_activation_MB": [16] * 3}
    searched(tmp_path / "o.json", **short)
    assert {int(key.split(", ")[2]) for key in json.loads((tmp_path / "o.json").read_text("utf-8"))} == {1, 2}


def test_the_first_of_equals_wins(tmp_path: Path) -> None:
    assert searched(tmp_path / "o.json", Same()) == (1, 1, 8)
    one = {"num_layers": 1, "layer_tflops": [1.5], "layer_activation_MB": [16]}
    assert searched(tmp_path / "o.json", Same(), **one) == (1, 8, 1)


def test_without_any_time_everything_is_a_stage(tmp_path: Path) -> None:
    assert searched(tmp_path / "o.json", Never(), n_node=2) == (1, 1, 16)


def test_beyond_a_node_gradients_take_the_slow_link() -> None:
    near = Searcher().estimate_dp_time(2700, 8, 8, 300, 25)
    assert Searcher().estimate_dp_time(2700, 8, 4, 300, 25) == pytest.approx(12 * near)


@given(size=sizes, bandwidth=st.floats(min_value=1e-3, max_value=1e6))
def test_a_degree_of_1_takes_no_time(size: float, bandwidth: float) -> None:
    searcher = Searcher()
    assert searcher.estimate_dp_time(size, 1, 8, bandwidth, bandwidth) == 0.0
    assert searcher.estimate_tp_time(size, 1, bandwidth) == 0.0
    assert searcher.estimate_pp_time([size], 1, bandwidth) == 0.0


@given(dp=degrees, tp=degrees, pp=degrees, size=sizes, more=sizes)
def test_more_to_do_never_takes_less(dp: int, tp: int, pp: int, size: float, more: float) -> None:
    searcher = Searcher()
    small, large = (
        (
            searcher.estimate_compute_time(dp, tp, pp, each, 312000),
            searcher.estimate_dp_time(each, dp, 8, 300, 25),
            searcher.estimate_tp_time(each, tp, 300),
            searcher.estimate_pp_time([1, each], pp, 300),
        )
        for each in (size, size + more)
    )
    assert all(0 <= a <= b for a, b in zip(small, large, strict=True))


def test_the_pool_keeps_the_order_of_its_arguments() -> None:
    assert evaluate_all(math.sqrt, [each * each for each in range(100)]) == list(range(100))


def test_a_directory_that_is_not_there_is_said_before_the_search(tmp_path: Path) -> None:
    class Untouched(Searcher):
        def evaluate_config(self, config: Configuration) -> float:  # noqa: ARG002
            raise AssertionError("the search has started")

    for output in (tmp_path / "no" / "o.json", tmp_path):
        with pytest.raises(InvalidInput, match="output_file"):
            searched(output, Untouched())


def test_the_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "o.json"
    path.write_text("before", "utf-8")

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(answer_files.os, "replace", broken)
    with pytest.raises(InvalidInput, match="No space left"):
        searched(path)
    assert path.read_text("utf-8") == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed_and_a_device_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target.json"
    target.write_text("before", "utf-8")
    (tmp_path / "link.json").symlink_to(target)
    searched(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads(target.read_text("utf-8"))
    with pytest.raises(InvalidInput, match="not a plain file"):
        searched(Path("/dev/null"))
