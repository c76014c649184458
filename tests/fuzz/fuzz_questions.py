"""Random questions to every command: a good one, with options added, changed and left out, and files mutated."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from fuzz_files import HOSTILE, mutated, seeds

from launch_examples import FILES as LAUNCH_FILES
from launch_examples import SAID
from meshwright.cli import COMMANDS, command
from printed import PRINTED

JOB = {"--seq-len": "4096", "--global-batch": "64"}
SMALL = {"--model": "config.json", "--cluster": "1x8:h100", **JOB}
FEW = SMALL | {"--cluster": "1x2:h100", "--global-batch": "6"}
"""A question that is searched in a few hundredths of a second."""
HERE = {"--workers": "1"}
"""In this process: to fork one takes longer than most questions."""
FROM = {"": "megatron.log", "--from": "slurm.sh", "--cluster": "2x8:h100"}
BASES: dict[str, tuple[dict[str, str], ...]] = {
    "plan": (
        FEW,
        FEW | {"--model": "mixture.json"},
        FEW | {"--model": "native.toml"},
        FEW | {"--tp": "1,2"},
    ),
    "explain": (FEW, FEW | {"--model": "mixture.json"}, {"": "plan.json"}, {"": "plan.json"}),
    "check": (SMALL, SMALL | {"--model": "mixture.json"}, {"": "plan.json"}, {"": "plan.json"}),
    "verify": ({"": "plan.json"}, SMALL | {"--tp": "2"}),
    "limits": (FEW | HERE,),
    "memo": (FEW,),
    "launch": ({"": "plan.json", "--out": "made"}, SMALL | {"--tp": "2", "--out": "made"}),
    "compare": (
        SMALL | {"--plan": "tp=2", " --plan": "tp=4"},
        {"--plan-file": "plan.json", "--plan": "tp=2"},
        FEW | HERE | {" --cluster": "1x2:a100"},
    ),
    "sweep": ({"": "sweep.toml", "--out": "swept", **HERE},),
    "validate": ({"--runs": "runs.csv", **HERE},),
    "runs": ({"": "megatron.log"}, {"": "megatron.log"}, {"": "trace.json"}, FROM),
    "model": ({"": "config.json"}, {"": "mixture.json"}, {"": "native.toml"}),
    "legend": ({"": "tp4 sp cp2 ring pp2 vpp2 dp32 zero1 mbs1 m64 recompute-full"}, {"": "tp8 x=1"}),
    "catalog": ({"": "models"}, {"": "clusters"}, {"": "accelerators"}, {"": "runtimes"}),
    "textbook analyze": ({"": "analysis.json"}, {"": "analysis.json", "--model": "config.json"}),
    "textbook allreduce": ({"--hidden-size": "4096", "--seq-len": "2048", "--num-gpus": "8", "--num-layers": "32"},),
    "textbook memory": ({"--model": "config.json", "--seq-len": "4096"},),
    "textbook search": (
        {"--cluster-metadata": "machines.json", "--model-metadata": "layers.json", "--output": "o.json"},
    ),
}
SHARES = {
    "plan": 1,
    "explain": 1,
    "check": 18,
    "verify": 6,
    "limits": 0.6,
    "memo": 0.4,
    "launch": 12,
    "compare": 3,
    "sweep": 0.8,
    "validate": 8,
    "runs": 14,
    "model": 20,
    "legend": 4,
    "catalog": 5,
    "textbook analyze": 12,
    "textbook allreduce": 6,
    "textbook memory": 12,
    "textbook search": 4,
}
"""In proportion, the questions of each command: fewer of those that search, which take twenty times as long."""
POOL: dict[str, tuple[str, ...]] = {
    "--model": ("config.json", "mixture.json", "native.toml", "llama-3.1-8b", "qwen3-30b-a3b", "gpt2", "."),
    "--cluster": ("1x8:h100", "2x8:h100", "1x1:a100", "2x4:gb200", "1x8:l40s", "cluster.toml", "adapters.toml"),
    "--runtime": ("megatron-core", "torchtitan", "deepspeed", "accelerate", "nanotron", "pytorch-ddp", "megatron-lm"),
    "--seq-len": ("128", "2048", "8k", "1M", "4097"),
    "--global-batch": ("1", "7", "8", "64", "1024"),
    "--global-batch-tokens": ("4M", "262144", "1"),
    "--precision": ("bf16", "fp16", "fp8", "mxfp8", "nvfp4"),
    "--gradients": ("fp32", "half"),
    "--tokens": ("1T", "15B", "1"),
    "--risk": ("1%", "0.5", "50%"),
    "--with": ("dispatcher=fused", "overlap.expert=0.7", "elementwise=eager", "cross_entropy=chunked", "x=1"),
    "--recompute": ("none", "selective", "full", "none,full"),
    "--recompute-modules": ("core_attn", "layernorm,mlp", "moe_act"),
    "--schedule": ("1f1b", "interleaved", "zb-1p", "zb-v", "dualpipe-v", "gpipe", "interleaved-zb"),
    "--context-exchange": ("ring", "all_gather", "all_to_all"),
    "--dispatcher": ("all_to_all", "all_gather", "fused"),
    "--pipeline-layout": ("Et*4|t*4L", "4,4", "Et*9|(t*10|)*6t*11L"),
    "--plan": ("tp=4", "A:tp=2,pp=2", "tp=1,zero=3,precision=fp8", "x=1", "tp"),
    "--plan-file": ("plan.json", "plan.json:1", "plan.json:9"),
    "--price": ("h100=2.9", "1x8:h100=3", "2.9", "x"),
    "--from": tuple(LAUNCH_FILES),
    "--framework": ("megatron-lm", "torchtitan", "deepspeed", "axolotl"),
    "--set": ("plan.tp=2", "job.global_batch=64", "function=large_config"),
    "--to": ("megatron-lm", "torchtitan", "deepspeed", "accelerate", "nanotron", "llm-foundry", "megatron-bridge"),
    "--out": ("made", "o.md", "o.html", "none/o.md", "."),
    "--launch": ("made", "."),
    "--trace": ("trace.json", "o.json", "none/o.json"),
    "--runs": ("runs.csv",),
    "--measured": ("runs.csv",),
    "--rows": ("o.csv",),
    "--plot": ("o.svg",),
    "--where": ("dataset == 'x'", "tp > 1", "1 +", "__import__('os')"),
    "--cluster-metadata": ("machines.json",),
    "--model-metadata": ("layers.json",),
    "--output": ("o.json",),
    "--form": ("exact", "rounded", "published"),
}
NEVER = {"--dask", "--left-out", "--real", "--full", "--help", "--top", "--deadline-days"}
"""They start processes or take minutes; `--deadline-days` searches many sizes of clusters."""
INTEGERS = ("1", "1", "1", "2", "2", "2", "3", "4", "4", "8", "16", "0", "-1", "1000000000000")


@dataclass
class Question:
    """The words of a command, and the files that they name."""

    command: str
    words: list[str]
    files: dict[str, bytes] = field(default_factory=dict)


@cache
def _options(name: str) -> dict[str, tuple[bool, bool]]:
    """Of a command its options: whether it is a switch, and whether it is a choice of files or names."""
    parts = name.split()
    found = command(parts[0])
    for part in parts[1:]:
        found = found.commands[part]
    options: dict[str, tuple[bool, bool]] = {}
    for each in found.params:
        if each.param_type_name == "option":
            for word in (*each.opts, *each.secondary_opts):
                options[word] = (bool(getattr(each, "is_flag", False)), word in POOL)
    return {word: kind for word, kind in options.items() if word not in NEVER}


def question(chance: random.Random, only: str | None = None) -> Question:
    """A random question; only: of this command."""
    name = only or chance.choices(list(SHARES), list(SHARES.values()))[0]
    given: dict[str, str | None] = dict(chance.choice(BASES[name]))
    if chance.random() < 0.2 and name in ("explain", "check", "plan", "launch", "verify"):
        given = _of_launch_file(name, chance)
    if name == "runs" and given[""] != "trace.json" and chance.random() < 0.7:
        given[""] = f"{chance.choice([*PRINTED])}.log"
    if name == "legend":
        given[""] = mutated("legend.txt", (given[""] or "").encode(), chance).decode("utf-8", "surrogateescape")
    options = _options(name)
    for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 4))):
        option = chance.choice([*options])
        given[option] = None if options[option][0] else _value(option, chance)
    if chance.random() < 0.08 and name != "validate":
        given.pop(chance.choice([*given]))
    if chance.random() < 0.5 and "--json" in options:
        given["--json"] = None
    if name == "catalog" and chance.random() < 0.5:
        given[" "] = chance.choice(("llama-3.1-8b", "h100", "selene", "torchtitan", _value("", chance)))
    words = name.split()
    for option, value in given.items():
        words += ([option.strip()] if option.strip() else []) + ([value] if value is not None else [])
    if chance.random() < 0.01:
        words.insert(chance.randrange(len(words)), chance.choice(HOSTILE))
    words = [word.replace("\0", "") if chance.random() < 0.9 else word for word in words]
    return Question(name, words, _files(words, chance))


def _of_launch_file(name: str, chance: random.Random) -> dict[str, str | None]:
    file = chance.choice([*LAUNCH_FILES])
    given: dict[str, str | None] = {"--from": file, "--cluster": "2x8:h100"}
    if file in ("deepspeed.json", "accelerate.yaml", "bridge.py"):
        given["--model"] = "llama-3.1-8b"
        setting, value = chance.choice([*SAID.items()])
        given["--set"] = f"{setting}={value}"
    if name == "plan":
        given["--cluster"] = "1x2:h100"
    if name == "launch":
        given["--out"] = "made"
    return given


def _value(option: str, chance: random.Random) -> str:
    if chance.random() < 0.15:
        return chance.choice(HOSTILE)
    if option in POOL:
        return chance.choice(POOL[option])
    return chance.choice(INTEGERS)


def _files(words: list[str], chance: random.Random) -> dict[str, bytes]:
    """The files that words name; most often one of them mutated."""
    named = {word.partition(":")[0] for word in words} & {*seeds()}
    files = {name: seeds()[name] for name in sorted(named)}
    if files and chance.random() < 0.8:
        name = chance.choice([*files])
        files[name] = mutated(name, files[name], chance)
    return files


def all_commands() -> set[str]:
    """Every command by its words, but `serve`, which listens until it is stopped; its tests are in tests/web."""
    names: set[str] = set()
    for name in COMMANDS:
        found: Any = command(name)
        names |= {f"{name} {each}" for each in found.commands} if getattr(found, "commands", None) else {name}
    return names - {"serve"}
