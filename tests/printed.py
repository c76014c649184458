"""Logs of a few steps, as the print statements of frameworks write them; sources as in validation/logs/formats.toml."""

from __future__ import annotations

from collections.abc import Callable, Sequence

SECONDS = (
    40.0,
    6.0,
    *(5.0 + step % 5 / 50 for step in range(2, 30)),
    15.0,
    *(5.0 + step % 5 / 50 for step in range(31, 40)),
)
"""Of 40 steps: the first is slow, and one in the middle."""
BATCH, LENGTH, RANKS = 256, 8192, 64
COLOUR = ("\033[31m", "\033[32m", "\033[36m", "\033[34m", "\033[35m", "\033[0m")


def megatron(seconds: Sequence[float] = SECONDS, first: int = 1) -> list[str]:
    """Megatron-LM, with the memory report of one rank of each stage."""
    lines = ["------------------------ arguments ------------------------"]
    lines += [
        f"  {name} {'.' * (48 - len(name))} {value}" for name, value in (("seq_length", LENGTH), ("world_size", RANKS))
    ]
    for step, each in enumerate(seconds, first):
        text = f" [2026-08-22 10:00:{step:02d}.000000] iteration {step:8d}/{100:8d} |"
        text += f" consumed samples: {step * BATCH:12d} | elapsed time per iteration (ms): {each * 1000.0:.1f} |"
        text += f" throughput per GPU (TFLOP/s/GPU): {400.0:.1f} | learning rate: {1e-5:.6E} |"
        text += f" global batch size: {BATCH:5d} | lm loss: {10.0:.6E} | loss scale: {1.0:.1f} | grad norm: {1.0:.3f} |"
        lines.append(f"{text} number of skipped iterations: {0:3d} | number of nan iterations: {0:3d} |")
        if step == 2:
            lines += [
                f"[Rank {rank}] (after {step} iterations) memory (MB) | allocated: {20480.0:.2f} |"
                f" max allocated: {peak * 1024:.2f} | reserved: {65536.0:.2f} | max reserved: {66560.0:.2f}"
                for rank, peak in ((0, 60.0), (32, 50.0))
            ]
        if step == 30:
            lines.append(f"  successfully saved checkpoint from iteration {step:7d} to /checkpoints")
    return lines


def nemo(seconds: Sequence[float] = SECONDS) -> list[str]:
    """NeMo 2."""
    return [
        f"Training epoch 0, iteration {step}/99 | lr: 6.897e-06 | global_batch_size: {BATCH} | global_step: {step} | "
        f"max_memory_reserved: {65 * 2**30} | max_memory_allocated: {60 * 2**30} | reduced_train_loss: 11.96 | "
        f"train_step_timing in s: {each:.4} | TFLOPS_per_GPU: 1.249e+03 | consumed_samples: {step * BATCH}"
        for step, each in enumerate(seconds, 1)
    ]


def torchtitan(seconds: Sequence[float] = SECONDS) -> list[str]:
    """torchtitan, in colour, as its logger writes it."""
    red, green, cyan, blue, magenta, reset = COLOUR
    return [
        f"[rank0]:[titan] 2026-08-21 10:00:00,000 - root - INFO - {red}step: {step:2}  {green}loss: {8.0:8.5f}  "
        f"{green}grad_norm: {1.0:7.4f}  {cyan}memory: {61.2:5.2f}GiB({77.3:.2f}%)  "
        f"{blue}tps: {round(BATCH * LENGTH / RANKS / each):,}  {cyan}tflops: {400.0:,.2f}  "
        f"{magenta}mfu: {40.0:.2f}%{reset}"
        for step, each in enumerate(seconds, 1)
    ]


def deepspeed(seconds: Sequence[float] = SECONDS) -> list[str]:
    """DeepSpeed's throughput timer."""
    return [
        "[2026-08-22 10:00:00,000] [INFO] [timer.py:264:stop] "
        f"epoch=0/micro_step={8 * step}/global_step={step}, RunningAvgSamplesPerSec={BATCH / 5.0}, "
        f"CurrSamplesPerSec={BATCH / each}, MemAllocated={20.0}GB, MaxMemAllocated={60.0}GB"
        for step, each in enumerate(seconds, 1)
    ]


def deepspeed_average(seconds: Sequence[float] = SECONDS) -> list[str]:
    """DeepSpeed until 2022."""
    return [
        f"[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/{step}, SamplesPerSec={BATCH / each}, "
        "MemAllocated=20.0GB, MaxMemAllocated=60.0GB"
        for step, each in enumerate(seconds, 1)
    ]


def deepspeed_pipeline(seconds: Sequence[float] = SECONDS) -> list[str]:
    """DeepSpeed's pipelines."""
    return [
        f"steps: {step} loss: {2.0:0.4f} iter time (s): {each:0.3f} samples/sec: {BATCH / each:0.3f}"
        for step, each in enumerate(seconds, 1)
    ]


def deepspeed_breakdown(seconds: Sequence[float] = SECONDS) -> list[str]:
    """DeepSpeed with wall_clock_breakdown and no report of throughput."""
    lines = []
    for each in seconds:
        parts = {"fwd": 0.3, "bwd": 0.65, "bwd_inner": 0.5, "bwd_allreduce": 0.15, "step": 0.05}
        lines.append("[Rank 0] time (ms) | fwd_microstep: 100.00 | bwd_microstep: 200.00 | step_microstep: 0.10")
        lines.append(
            "[Rank 0] time (ms)" + "".join(f" | {name}: {share * each * 1000:.2f}" for name, share in parts.items())
        )
    return lines


def human(value: float) -> str:
    """nanotron's human_format: three digits."""
    short, sizes, size = float(f"{value:.3g}"), ("", "K", "M", "B", "T"), 0
    while abs(short) >= 1000 and size < len(sizes) - 1:
        short, size = short / 1000.0, size + 1
    return f"{f'{short:f}'.rstrip('0').rstrip('.')}{sizes[size]}"


def nanotron(seconds: Sequence[float] = SECONDS) -> list[str]:
    """nanotron, with its memory report."""
    head = "\033[2;3m08/22 10:00:00 [INFO|DP=0|PP=1|TP=0]\033[0m: "
    lines = [f"{head} Memory usage: {20480.0:.2f}MiB. Peak allocated {61440.0:.2f}MiB. Peak reserved: {66560.0:.2f}MiB"]
    for step, each in enumerate(seconds, 1):
        figures = {"consumed_tokens": step * BATCH * LENGTH, "time_per_iteration_ms": each * 1000}
        figures |= {"tokens_per_sec": BATCH * LENGTH / each, "tokens_per_sec_per_gpu": BATCH * LENGTH / RANKS / each}
        written = " | ".join(f"{name}: {human(value)}" for name, value in figures.items())
        lines.append(f"{head}iteration: {step} / 100 | {written} | lm_loss: 10.1 | eta: 0:20:00")
    return lines


def composer(seconds: Sequence[float] = SECONDS) -> list[str]:
    """Composer, as llm-foundry runs it."""
    lines = []
    for step, each in enumerate(seconds, 1):
        lines.append(f"[batch={step}/4800]:")
        figures = {
            "time/batch": step - 1,
            "loss/train/total": f"{10.0:.4f}",
            "memory/peak_allocated_mem": f"{64.4245:.4f}",
        }
        figures |= {"throughput/batches_per_sec": f"{1 / each:.4f}", "throughput/tokens_per_sec": f"{1e5:.4f}"}
        lines += [f"\t Train {name}: {value}" for name, value in figures.items()]
    return lines


def internevo(seconds: Sequence[float] = SECONDS) -> list[str]:
    """InternEvo."""
    return [
        "2026-08-22 10:00:00,000\tINFO pipeline.py:640 in record_current_batch_training_metrics -- "
        f"tflops=180.5 step={step} loss=10.1 tgs (tokens/gpu/second)={round(BATCH * LENGTH / RANKS / each, 2)} "
        "tgs/last_tgs_1=4100.5 lr=1e-05"
        for step, each in enumerate(seconds, 1)
    ]


def trainer(seconds: Sequence[float] = SECONDS) -> list[str]:
    """Hugging Face's Trainer with its bar, and a bar of shards before it."""
    lines, since = ["Loading checkpoint shards: 100%|██████████| 4/4 [00:02<00:00,  1.50it/s]"], 0.0
    for step, each in enumerate(seconds, 1):
        since += each
        clock = f"{int(since) // 60:02d}:{int(since) % 60:02d}"
        lines.append(
            f"{step * 100 // len(seconds):3d}%|████      | {step}/{len(seconds)} [{clock}<10:00,  {each:5.2f}s/it]"
        )
        if step % 10 == 0:
            lines.append(str({"loss": "2.1", "grad_norm": "1.2", "learning_rate": "1e-05", "epoch": "0.1"}))
    rate = f"{BATCH * len(seconds) / since:.4g}"
    lines.append(str({"train_runtime": f"{since:.4g}", "train_samples_per_second": rate, "epoch": "1"}))
    return lines


PRINTED: dict[str, Callable[[], list[str]]] = {
    "megatron": megatron,
    "nemo": nemo,
    "torchtitan": torchtitan,
    "deepspeed": deepspeed,
    "deepspeed-pipeline": deepspeed_pipeline,
    "deepspeed-average": deepspeed_average,
    "deepspeed-breakdown": deepspeed_breakdown,
    "nanotron": nanotron,
    "composer": composer,
    "internevo": internevo,
    "trainer": trainer,
}
"""By the name of the format."""
