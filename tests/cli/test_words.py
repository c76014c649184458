"""Questions in a few words: model and cluster without an option, what nobody says, names as people write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import LLAMA, asked, refused

SHORT = ("llama-3.1-8b", "1x8:h100", "--seq-len", "8192", "--global-batch", "64")


@pytest.mark.parametrize("command", ["plan", "limits", "explain", "check"])
def test_words_are_the_model_and_the_cluster(command: str) -> None:
    told = [asked(command, *words, "--json").document for words in (SHORT, LLAMA)]
    assert told[0] == told[1]


def test_a_word_fills_what_no_option_names() -> None:
    told = [asked("check", *words, "--json").document for words in (("llama-3.1-8b", "--cluster", *SHORT[1:]), SHORT)]
    assert told[0] == told[1]
    assert refused(asked("check", "llama-3.1-8b")).startswith("meshwright: no plan file 'llama-3.1-8b'")
    assert "no plan file 'plan.json'" in refused(asked("check", "plan.json", "--cluster", "8x8:h100"))
    assert asked("plan", "1x8:h100", *LLAMA[:2], *LLAMA[4:]).out.startswith("llama-3.1-8b")


def test_one_word_more_is_refused() -> None:
    message = refused(asked("plan", *LLAMA, "8x8:h100"))
    assert "'8x8:h100' is one word too many" in message
    assert "meshwright plan llama-3.1-70b 8x8:h100" in message


def test_compare_takes_a_model_and_its_clusters_as_words() -> None:
    options = ("--seq-len", "8192", "--global-batch", "64")
    assert asked("compare", "llama-3.1-8b", "1x8:h100", "1x8:b200", *options).out.startswith("llama-3.1-8b")
    assert "name two clusters, as in" in refused(asked("compare", "llama-3.1-8b", "1x8:h100", *options))


def test_words_cannot_stand_beside_a_launch_file(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("torchrun pretrain_gpt.py")
    said = refused(asked("plan", "gpt2", "--from", str(script)))
    assert "[MODEL CLUSTER] cannot be combined with --from; name them as options: --model MODEL --cluster" in said


def test_what_nobody_says_is_assumed_and_said() -> None:
    answer = asked("plan", "gpt2", "1x8:h100", "--json").document
    job = answer["inputs"]["job"]
    assert (job["sequence_length"], job["global_batch"]) == (1024, 4096)
    assumed = " ".join(answer["assumptions"])
    assert "sequence length 1024 (set it with --seq-len)" in assumed
    assert "global batch 4096, near 4M tokens" in assumed


def test_a_network_replaces_that_of_the_cluster() -> None:
    def bandwidth(*more: str) -> float:
        levels = asked("plan", "gpt2", "2x8:h100", *more, "--json").document["inputs"]["cluster"]["levels"]
        return float(levels[-1]["bandwidth"])

    assert bandwidth("--network", "8x100Gb/s") == 12.5e9
    assert bandwidth() == 50e9


def test_a_network_is_of_a_cluster_that_is_named_beside_a_plan_file_too(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(asked("plan", *LLAMA, "--json").document))
    assert "as --cluster 8x8:h100 --network 10Gb/s" in refused(asked("explain", str(file), "--network", "10Gb/s"))
    changed = asked("explain", str(file), "--cluster", "2x8:h100", "--network", "8x10Gb/s", "--json").document
    assert changed["inputs"]["cluster"]["levels"][-1]["bandwidth"] == 1.25e9


def test_a_price_tells_what_the_best_plan_costs() -> None:
    document = asked("plan", *LLAMA, "--tokens", "1T", "--price", "h100=2.5", "--json").document
    training, best = document["training"], document["plans"][0]
    steps = 1e12 / (8192 * 64)
    assert training["days"] == pytest.approx(steps * best["step_time_s"] / 86400)
    assert training["cost"] == pytest.approx(2.5 * 8 * 24 * training["days"])
    assert "tokens take" in asked("plan", *LLAMA, "--price", "h100=2.5").out
    assert asked("plan", *LLAMA, "--price", "2.5").out == asked("plan", *LLAMA, "--price", "h100=2.5").out
    assert "is not compared" in refused(asked("plan", *LLAMA, "--price", "b200=2.5"))


def test_a_file_that_allows_fewer_positions_is_asked_about_as_many(tmp_path: Path) -> None:
    config = json.loads(
        (Path(__file__).parents[1] / "data" / "hf_configs" / "meta-llama--Meta-Llama-3.1-8B.json").read_text()
    )
    file = tmp_path / "config.json"
    for allowed, length in ((4096, 4096), (131072, 8192)):
        file.write_text(json.dumps(config | {"max_position_embeddings": allowed}))
        planned = asked("plan", str(file), "1x8:h100", "--json").document
        assert planned["inputs"]["job"]["sequence_length"] == length


@pytest.mark.parametrize(("cluster", "batch"), [("3x8:h100", 384), ("5x8:h100", 640), ("2x8:h100", 512)])
def test_replicas_on_every_accelerator_divide_the_batch_that_nobody_names(cluster: str, batch: int) -> None:
    answer = asked("check", "llama-3.1-8b", cluster, "--runtime", "accelerate")
    assert answer.code == 0
    assert f"{batch} sequences of 8192" in answer.out


def test_compared_clusters_share_the_batch_that_nobody_names() -> None:
    answer = asked("compare", "gpt2", "1x8:h100", "3x8:h100", "--runtime", "pytorch-ddp")
    assert answer.code == 0
    assert "3072 sequences of 1024" in answer.out
