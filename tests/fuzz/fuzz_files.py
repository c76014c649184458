"""One good file of every kind that a command reads, and mutations that know what they are made of."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import launch_examples
from commands import asked
from printed import PRINTED, megatron
from traced import steps, written
from worked import ANALYZED, CLUSTER_METADATA, DEGREES, HARDWARE, MODEL_METADATA

HOSTILE = (
    *("", " ", "0", "-1", "1e999", "-0.0", "1e-320", "nan", "inf", "9" * 5000, "18446744073709551616", "0x10", "1_0"),
    *("a\x1b[2Jb", "\x9b31m", "\x07\r\x00", "\u202eabc\u2066", "\ud7ff", "[/bold]", "[red]", "<script>x</script>", "`"),
    *("=1+1", "@SUM(A1)", "../../etc/passwd", "/dev/null", "~", "x" * 300, "\u00b2", "\u0663", "null", "true", "[]"),
    *("$(touch MARK)", "`touch MARK`", "__import__('os').system('touch MARK')", "!!python/object/apply:os.system"),
    *(
        "e\u0301\u0302\u0303" * 9,
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\u05d0\u0628",
        "\ufeffx",
        "\xad",
        "\U000e0041",
        "\ufffe",
    ),
    *(
        "\x85",
        "\u2028",
        "\u3000",
        "\u4e2d\u6587" * 60,
        "con",
        "a\\b",
        "a/b",
        "-",
        "--",
        "-x",
        "%s%n",
        "{0}",
        "\u0130",
        "\ufb01",
    ),
    *("{}", "[[1, [2]], 3]", "100%", "8k", "1T", "80GB", "400Gb/s", "5us", "1,2,4", "4-1", "llama", "**x**", "|", "\t"),
)
"""Words that no file should hold, and some that belong elsewhere."""
NUMBERS = (0, 1, -1, 3, 7, 64, 0.5, -0.0, 1e-320, 1e308, 2**31, 2**53 + 1, 2**63, 2**64, 10**30, 10**400)
ODD: tuple[Any, ...] = (None, True, False, "", [], {}, [[]], {"a": 1}, *NUMBERS, float("nan"), float("inf"))
PIECES = (b'"', b"'", b"$(", b"}", b"]", b"\n", b"\\", b",", b"\t", b"\xff", b"\0", b"\r", b"\xe2\x80\xae", b"\x1b[2J")
CONFIG = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 2816,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
MIXTURE = CONFIG | {
    "model_type": "mixtral",
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": None,
}
NATIVE = """\
name = "own"
hidden_size = 1024
vocab_size = 32000
layers = ["1 dense", "3 moe"]

[kinds.dense]
attention = { heads = 8, kv_heads = 4 }
mlp = { ffn_size = 2816 }

[kinds.moe]
attention = { heads = 8, kv_heads = 4 }
experts = { count = 8, active = 2, ffn_size = 768 }
"""
CLUSTER = """\
name = "two-tier"
accelerator = "h100"
nodes = 2
visible_memory = "79.1GiB"

[[levels]]
name = "nvlink"
size = 8
bandwidth = "450GB/s"

[[levels]]
name = "leaf"
size = 16
bandwidth = "400Gb/s"
latency = "5us"
oversubscription = 2.0
"""
ADAPTERS = """\
nodes = 1
gpus_per_node = 8
nics_per_node = 4
nic_bandwidth = "200Gb/s"
site_derate = 1.1

[accelerator]
like = "h100"
id = "h100-capped"
memory_bandwidth = "3000GB/s"
"""
SWEEP = """\
models = ["gpt2"]
clusters = ["1x2:h100"]

[jobs]
seq_len = ["1k", 512]
global_batch = 4
tokens = "1T"

[knobs]
precision = ["bf16"]

[limits.few]
tp = "1"
cp = "1"

[prices]
h100 = 2.9
"""
RUNS = """\
model,cluster,seq_len,global_batch_size,micro_batch_size,tp,pp,dp,precision,runtime,step_time_s,memory_gib,memory_kind,fits
llama-3.1-8b,1x8:h100,4096,64,1,2,1,4,bf16,megatron-core,5.1,60.0,allocated,yes
llama-3.1-8b,1x8:h100,8192,64,1,4,1,2,bf16,megatron-core,10.5,70.0,reserved,yes
"""
ANALYSIS = {"model_config": ANALYZED, "parallel_config": DEGREES, "hardware_config": HARDWARE}
MACHINES = CLUSTER_METADATA | {"n_gpu_per_node": 4}
LAYERS = MODEL_METADATA | {
    "global_batch_size": 4,
    "num_layers": 4,
    "layer_tflops": [1.5] * 4,
    "layer_activation_MB": [16] * 4,
}
PLANNED = ("--model", "llama-3.1-8b", "--cluster", "1x4:h100", "--seq-len", "4096", "--global-batch", "8", "--tp", "4")


@cache
def seeds() -> dict[str, bytes]:
    """A good file of every kind, by its name."""
    texts = {
        "config.json": json.dumps(CONFIG),
        "mixture.json": json.dumps(MIXTURE),
        "native.toml": NATIVE,
        "cluster.toml": CLUSTER,
        "adapters.toml": ADAPTERS,
        "sweep.toml": SWEEP,
        "plan.json": asked("explain", *PLANNED, "--json").out,
        "runs.csv": RUNS,
        "analysis.json": json.dumps(ANALYSIS),
        "machines.json": json.dumps(MACHINES),
        "layers.json": json.dumps(LAYERS),
        "trace.json": written(steps()),
        "megatron.log": "\n".join(megatron()) + "\n",
        **{f"{name}.log": "\n".join(lines()) + "\n" for name, lines in PRINTED.items()},
        **launch_examples.FILES,
    }
    return {name: text.encode() for name, text in texts.items()}


WHOLE: tuple[Callable[[bytes], bytes], ...] = (
    lambda data: b"\xef\xbb\xbf" + data,
    lambda data: data.replace(b"\n", b"\r\n"),
    lambda data: data.replace(b"\n", b"\r"),
    lambda data: data.decode("utf-8", "replace").encode("utf-16"),
    lambda data: data + data,
    lambda data: data[: len(data) // 2],
    lambda data: data + b"\0",
    lambda _: b"",
    lambda _: b"\n",
)
"""A file as other systems and interrupted copies leave it."""


def mutated(name: str, data: bytes, chance: random.Random) -> bytes:
    """A file with one to six things of it changed: values and keys of its structure, its bytes, or all of it."""
    if chance.random() < 0.05:
        return chance.choice(WHOLE)(data)
    of_structure = {".json": _json, ".csv": _csv, ".toml": _lines}.get(name[name.rfind(".") :], _lines)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        change = of_structure if chance.random() < 0.75 else chance.choice((_bytes, _words, _lines))
        data = change(data, chance)
    return data


def _json(data: bytes, chance: random.Random) -> bytes:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return _bytes(data, chance)
    places = [*_places(tree)]
    if not places:
        return json.dumps(chance.choice(ODD)).encode()
    holder, key = chance.choice(places)
    kind = chance.randrange(6)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[chance.choice((*HOSTILE, f"{key}s", key.upper()))] = holder.pop(key)
    elif kind == 2:
        holder[key] = chance.choice(HOSTILE)
    elif kind == 3:
        holder[key] = _near(holder[key], chance)
    elif kind == 4:
        other, place = chance.choice(places)
        with_other = other[place] if place in other or (isinstance(other, list) and place < len(other)) else None
        holder[key] = json.loads(json.dumps(with_other))
    else:
        holder[key] = chance.choice(ODD)
    return json.dumps(tree).encode()


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (holder, key or index) of a JSON value; of long lists the first items."""
    if isinstance(tree, dict):
        keys: list[Any] = list(tree)
    elif isinstance(tree, list):
        keys = list(range(min(len(tree), 20)))
    else:
        return []
    return [(tree, key) for key in keys] + [place for key in keys for place in _places(tree[key])]


def _near(value: Any, chance: random.Random) -> Any:
    """A number changed by a little or by far; of anything else a list of it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return [value]
    changes: tuple[Callable[[Any], Any], ...] = (
        *(lambda x: x + 1, lambda x: x - 1, lambda x: -x, lambda x: x / 3, lambda x: 2 * x, lambda x: 1000 * x),
        *(lambda _: chance.choice(NUMBERS), lambda x: x * 1.0, lambda x: [x, x], str),
    )
    try:
        return chance.choice(changes)(value)
    except OverflowError:
        return 1e308


def _csv(data: bytes, chance: random.Random) -> bytes:
    try:
        rows = [*csv.reader(io.StringIO(data.decode("utf-8", "replace")))]
    except csv.Error:
        return _bytes(data, chance)
    if not any(rows):
        return _bytes(data, chance)
    row = chance.choice([row for row in rows if row])
    at, kind = chance.randrange(len(row)), chance.randrange(6)
    if kind == 0:
        row.pop(at)
    elif kind == 1:
        row.insert(at, chance.choice(HOSTILE))
    elif kind == 2:
        rows.insert(chance.randrange(len(rows)), list(row))
    elif kind == 3:
        row[at] = row[chance.randrange(len(row))]
    elif kind == 4:
        row[at] = str(chance.choice(ODD if chance.random() < 0.5 else NUMBERS[:-1]))
    else:
        row[at] = chance.choice(HOSTILE)
    written_rows = io.StringIO()
    csv.writer(written_rows, lineterminator="\n").writerows(rows)
    return written_rows.getvalue().encode("utf-8", "surrogatepass")


def _lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    at, other, kind = chance.randrange(len(lines)), chance.randrange(len(lines)), chance.randrange(6)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[other])
    elif kind == 2:
        lines = lines[: max(at, 1)]
    elif kind == 3 and b"=" in lines[at]:
        key = lines[at].partition(b"=")[0]
        value = chance.choice((*map(repr, ODD), *(json.dumps(word) for word in HOSTILE)))
        lines[at] = key + b"= " + value.encode("utf-8", "surrogatepass")
    elif kind == 4 and b"=" in lines[at]:
        lines[at] = lines[at].partition(b"=")[0].strip() + b"s = 1"
    else:
        return _words(data, chance)
    return b"\n".join(lines)


def _words(data: bytes, chance: random.Random) -> bytes:
    words = [*re.finditer(rb"[^\s:=,(){}\[\]\"']+", data)]
    if not words:
        return _bytes(data, chance)
    word = chance.choice(words)
    new = chance.choice((*HOSTILE, *map(str, NUMBERS[:-1]))).encode("utf-8", "surrogatepass")
    return data[: word.start()] + new + data[word.end() :]


def _bytes(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(PIECES) + data[at + chance.choice((0, 0, 1, 9)) :]
