"""Lines that frameworks printed in runs of other people, who put them into public issues, are read as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.validation.logs.log import read_log

GIGABYTE = 1e9 / 2**30
MEGATRON = "| learning rate: 9.150E-06 | global batch size:  1024 | lm loss: 2.504220E+00 |"
LINES: list[tuple[str, str, str, float, dict[str, float]]] = [
    (
        "epfLLM/Megatron-LLM, issue 11 (2023)",
        "megatron",
        f" iteration      122/  250000 | consumed samples:       124928 | elapsed time per iteration (ms): "
        f"86545.2 {MEGATRON}",
        86.5452,
        {},
    ),
    (
        "NVIDIA/Megatron-LM, issue 756 (2024)",
        "megatron",
        f" [2024-04-06 03:02:12] iteration       71/     100 | elapsed time per iteration (ms): 5361.6 | "
        f"throughput per GPU "
        f"(TFLOP/s/GPU): 243.6 {MEGATRON}",
        5.3616,
        {},
    ),
    (
        "NVIDIA/Megatron-LM, issue 60 (2020)",
        "megatron",
        " iteration       10/  120000 | elapsed time per iteration (ms): 1993.9 | learning rate: 0.000E+00 |\n"
        "after 5 iterations memory (MB) | allocated: 10250.5693359375 | max allocated: 12606.06201171875 | "
        "reserved: 17482.0"
        " | max reserved: 17482.0",
        1.9939,
        {"allocated": 12606.06201171875 / 1024, "reserved": 17482 / 1024},
    ),
    (
        "deepspeedai/DeepSpeed, issue 3742 (2023): GPT-NeoX",
        "megatron",
        "[2023-07-25 21:03:17,269] [INFO] [timer.py:215:stop] epoch=0/micro_step=34/global_step=34, "
        "RunningAvgSamplesPerSec="
        "7.864669709950182, CurrSamplesPerSec=8.00912418308922, MemAllocated=59.65GB, MaxMemAllocated=63.31GB\n"
        " samples/sec: 7.799 | iteration       34/   10000 | elapsed time per iteration (ms): 4103.1 |",
        4.1031,
        {},
    ),
    (
        "deepspeedai/DeepSpeed, issue 849 (2021)",
        "deepspeed-average",
        "[2021-03-11 18:22:31,608] [INFO] [timer.py:154:stop] 0/25, SamplesPerSec=6.302019280317165",
        1 / 6.302019280317165,
        {},
    ),
    (
        "deepspeedai/DeepSpeed, issue 1825 (2022)",
        "deepspeed-average",
        "[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/40, SamplesPerSec=83.48609168106144, "
        "MemAllocated=0.26GB, "
        "MaxMemAllocated=9.02GB",
        1 / 83.48609168106144,
        {"allocated": 9.02},
    ),
    (
        "deepspeedai/DeepSpeed, issue 2629 (2022)",
        "deepspeed",
        "stdout: [2022-12-20 08:26:23,435] [INFO] [timer.py:197:stop] 0/4, "
        "RunningAvgSamplesPerSec=157.58969861135083, "
        "CurrSamplesPerSec=158.53267739554113, MemAllocated=1.75GB, MaxMemAllocated=2.52GB",
        1 / 158.53267739554113,
        {"allocated": 2.52},
    ),
    (
        "NVIDIA-NeMo/Speech, issue 7957 (2023): NeMo 1",
        "nemo",
        "Epoch 0: :   3%|▎         | 9000/301500 [1:42:42<55:37:46, v_num=0-56, reduced_train_loss=nan.0, "
        "global_step=9e+3, "
        "consumed_samples=6.3e+5, train_step_timing in s=0.615, val_loss=7.040]",
        0.615,
        {},
    ),
    (
        "a README of a NeMo 2 benchmark on B200 (2025)",
        "nemo",
        "Training epoch 0, iteration 45/99 | lr: 6.897e-06 | global_batch_size: 128 | global_step: 45 | "
        "max_memory_reserved: "
        "127785762816 | max_memory_allocated: 115792977920 | reduced_train_loss: 11.96 | train_step_timing "
        "in s: 6.08 | "
        "TFLOPS_per_GPU: 1.249e+03",
        6.08,
        {"reserved": 127785762816 / 2**30, "allocated": 115792977920 / 2**30},
    ),
    (
        "huggingface/nanotron, issue 390 (2025)",
        "nanotron",
        "10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: 327281 / 378950 | consumed_tokens: 85.8G | "
        "elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: 22.8K | global_batch_size: 64 | lm_loss: 2.38",
        11.5,
        {},
    ),
    (
        "huggingface/nanotron, issue 233 (2024)",
        "nanotron",
        "[0434:0]:11/01/2024 11:05:18 [INFO|DP=0|PP=0|TP=0|lrdn0434]: iteration: 12001 / 17500 | "
        "consumed_tokens: 25.2G | "
        "elapsed_time_per_iteration_ms: 28.2K | cuda_memory_allocated: 8.86G | cuda_max_memory_reserved: 34.1G | "
        "hd_total_memory_tb: 9.25G",
        28.2,
        {"reserved": 34.1 * GIGABYTE},
    ),
    (
        "pytorch/torchtitan, pull request 1287 (2025)",
        "torchtitan",
        "[rank0]:[titan] 2025-06-16 22:30:50,322 - root - INFO - step: 200  loss:  6.1384  memory: 49.66GiB(52.28%)  "
        "tps: 5,856  tflops: 339.16  mfu: 34.29%",
        1 / 5856,
        {"reserved": 49.66},
    ),
    (
        "mosaicml/examples, pull request 118 (2023)",
        "composer",
        "[batch=12/4800]:\n         Train memory/allocated_mem: 9095214455296\n"
        "         Train throughput/batches_per_sec: 0.3258\n         Train throughput/device/batches_per_sec: 0.1629",
        1 / 0.3258,
        {},
    ),
    (
        "InternLM/InternLM, its documentation (2023)",
        "internevo",
        "2023-07-07 12:28:57,802\tINFO train.py:323 in record_current_batch_training_metrics -- "
        "tflops=63.27010355651958,"
        "step=0,loss=11.634403228759766,tgs (tokens/gpu/second)=1424.64,lr=4.0000000000000003e-07",
        1 / 1424.64,
        {},
    ),
    (
        "bigscience-workshop/bigscience, experiments/gpt2-hf-ds (2021): the Trainer with DeepSpeed",
        "trainer",
        "{'train_runtime': 273.0148, 'train_samples_per_second': 3.663, 'train_steps_per_second': 0.007, 'epoch': 1.0}",
        1 / 3.663,
        {},
    ),
]
"""Where it was printed, the format, what was printed, the seconds of what the format counts, and GiB of memory."""


@pytest.mark.parametrize(("source", "name", "text", "seconds", "memory"), LINES)
def test_lines_of_real_runs_are_read(
    source: str, name: str, text: str, seconds: float, memory: dict[str, float], tmp_path: Path
) -> None:
    (tmp_path / "run.log").write_text(text + "\n")
    log = read_log(tmp_path / "run.log")
    assert (log.name, log.typical.median) == (name, pytest.approx(seconds, rel=1e-6)), source
    assert log.gib == pytest.approx(memory), source
