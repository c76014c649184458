"""Bad models, clusters and jobs: one clear error that names the value and the nearest thing that works, exit code 2."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

from commands import asked, question, refused

CONFIGS = Path(__file__).parent / "data" / "hf_configs"
LLAMA = json.loads((CONFIGS / "meta-llama--Meta-Llama-3.1-8B.json").read_text("utf-8"))
LEVELS = '\n[[levels]]\nname = "nvlink"\nsize = 8\nbandwidth = "450GB/s"\n[[levels]]\nname = "spine"\n'
KIND = "[kinds.dense]\nattention = { heads = 32, kv_heads = 8 }\nmlp = { ffn_size = 14336 }\n"
NEAREST = "nearest: 999424 or 1007616"


def llama(**changes: Any) -> bytes:
    """The config.json of Llama 3.1 8B with some keys changed; None takes a key away."""
    return json.dumps({key: value for key, value in (LLAMA | changes).items() if value is not None}).encode()


FILES = {
    "run.sh": b"torchrun pretrain_gpt.py --num-layers 2\n",
    "malformed.json": b'{"model_type": "llama",}',
    "binary.json": bytes(range(128, 256)) * 4,
    "empty.json": b"",
    "blank.json": b" \n\t\n",
    "array.json": b"[1, 2]",
    "number.json": b"7",
    "huge.json": b'{"a": "' + b"x" * 4_000_000 + b'"}',
    "deep.json": b"[" * 200_000,
    "digits.json": b'{"model_type": "llama", "hidden_size": ' + b"9" * 5000 + b"}",
    "lamma.json": llama(model_type="lamma"),
    "typeless.json": llama(model_type=None),
    "typelist.json": llama(model_type=["llama"]),
    "nan.json": llama(hidden_size=float("nan")),
    "infinite.json": b'{"model_type": "llama", "hidden_size": 1e309}',
    "text.json": llama(num_attention_heads="32"),
    "true.json": llama(intermediate_size=True),
    "linear.json": llama(model_type="qwen3_moe", linear_attn=True),
    "shared.json": llama(model_type="qwen3_moe", num_shared_experts=2),
    "half.json": llama(num_hidden_layers=31.5),
    "negative.json": llama(num_hidden_layers=-3),
    "many.json": llama(num_hidden_layers=10**9),
    "kv7.json": llama(num_key_value_heads=7),
    "three.json": llama(hidden_size=None, vocab_size=0, num_attention_heads=0),
    "wide.json": llama(hidden_size=10**18),
    "wider.json": llama(hidden_size=10**400),
    "wordy.json": llama(vocab_size=10**30),
    "folder/readme.txt": b"no model here",
    "digits.toml": b"hidden_size = " + b"9" * 5000,
    "deep.toml": b"layers = " + b"[" * 100_000,
    "broken.toml": b'name = "x"\nname = "y"\n',
    "kindless.toml": b'name = "x"\nhidden_size = 8\nvocab_size = 8\nlayers = 3\n',
    "unknown-kind.toml": f'name = "x"\nhidden_size = 4096\nvocab_size = 8\nlayers = ["3 moe"]\n{KIND}'.encode(),
    "site/contradiction.toml": f'accelerator = "h100"\nnodes = 16{LEVELS}size = 64\nbandwidth = "50GB/s"'.encode(),
    "site/nesting.toml": f'accelerator = "h100"\nnodes = 2{LEVELS}size = 20\nbandwidth = "50GB/s"'.encode(),
    "site/binary.toml": bytes(range(128, 256)),
    "site/empty.toml": b"",
    "site/digits.toml": b"nodes = " + b"9" * 5000,
    "site/deep.toml": b"nodes = " + b"[" * 100_000,
    "site/self.toml": b'accelerator = "h100"\nself = 1\n',
    "site/size-true.toml": f'accelerator = "h100"{LEVELS}size = true\nbandwidth = "50GB/s"'.encode(),
    "site/twice.toml": b'accelerator = "h100"\naccelerator = "a100"\n',
    "site/typo.toml": b'accelerator = "h100"\nnods = 2\n',
    "site/nodes0.toml": b'accelerator = "h100"\nnodes = 0\n',
    "site/nodes-half.toml": b'accelerator = "h100"\nnodes = 2.5\n',
    "site/nodes-true.toml": b'accelerator = "h100"\nnodes = true\n',
    "site/bandwidth.toml": b'accelerator = "h100"\nnodes = 2\nnics_per_node = 8\nnic_bandwidth = "fast"\n',
    "site/no-bandwidth.toml": b'accelerator = "h100"\nnodes = 2\nnics_per_node = 8\n',
    "site/nan.toml": b'accelerator = "h100"\nnodes = 2\nnics_per_node = 8\nnic_bandwidth = nan\n',
    "site/infinite.toml": b'accelerator = "h100"\nnodes = 2\nnics_per_node = 8\nnic_bandwidth = inf\n',
    "site/still.toml": b'accelerator = "h100"\nnodes = 2\nnics_per_node = 8\nnic_bandwidth = 1e-300\n',
    "site/derate.toml": b'accelerator = "h100"\nsite_derate = 0.4\n',
    "site/slow.toml": b'accelerator = "h100"\nsite_derate = 1e308\n',
    "site/memory.toml": b'accelerator = "h100"\nvisible_memory = "1TB"\n',
    "site/unknown.toml": b'accelerator = "h1000"\nnodes = 2\n',
    "site/crowded.toml": b'accelerator = "h100"\ngpus_per_node = 64\n',
    "site/many-faults.toml": b'accelerator = "h1000"\nnods = 2\nnodes = 0\nsite_derate = 0.4\n',
}


@dataclass(frozen=True)
class Case:
    """One bad question: what is changed in a good one, and what the answer must and must not say."""

    name: str
    says: list[str]
    options: dict[str, str | None]
    flags: list[str] = field(default_factory=list)
    never: list[str] = field(default_factory=list)
    code: int = 2


def model(source: str, *says: str) -> Case:
    """A plan for this model; `@` stands for the folder of `FILES`."""
    return Case(f"model {source[:40]!r}", list(says), {"model": source})


def cluster(source: str, *says: str, never: tuple[str, ...] = ()) -> Case:
    """A plan on this cluster."""
    return Case(f"cluster {source[:40]!r}", list(says), {"cluster": source}, never=list(never))


def job(*says: str, code: int = 2, **options: str | None) -> Case:
    """A plan for this job."""
    name = ", ".join(f"{option} {str(value)[:30]!r}" for option, value in options.items())
    return Case(name, list(says), options, code=code)


MODELS = [
    model("@/nope.json", "nope.json does not exist", "config.json or a folder"),
    model("@/malformed.json", "is not JSON", "line 1, column 24"),
    model("@/run.sh", "is not JSON", "; a launch file is read with --from", "/run.sh"),
    model("@/binary.json", "binary.json' is not UTF-8 text (line 1, byte 0)"),
    model("@/empty.json", "empty.json is empty"),
    model("@/blank.json", "blank.json is empty"),
    model("@/array.json", "array.json holds a JSON list", "{...}"),
    model("@/number.json", "number.json holds a JSON int"),
    model("@/huge.json", "huge.json", "model_type", "is missing"),
    model("@/deep.json", "deep.json is not a config.json"),
    model("@/digits.json", "digits.json", "more than 4,300 digits"),
    model("@/folder", "folder is a folder without a config.json"),
    model("/", "/ is a folder without a config.json"),
    model("@/loop.json", "loop.json"),
    model("@/lamma.json", "unknown model_type 'lamma'", "nearest: llama", "native TOML"),
    model("@/typeless.json", "model_type: is missing", "such as llama"),
    model("@/typelist.json", "model_type", "['llama']", "such as llama"),
    model("@/nan.json", "hidden_size: must be a whole number (given: nan)"),
    model("@/infinite.json", "hidden_size: must be a whole number (given: inf)"),
    model("@/text.json", "num_attention_heads", "not a string (given: '32')"),
    model("@/true.json", "intermediate_size", "not a boolean (given: True)"),
    model("@/linear.json", "qwen3_moe is not modelled: linear attention layers (linear_attn)"),
    model("@/shared.json", "shared experts, which this family does not have (num_shared_experts)"),
    model("@/half.json", "num_hidden_layers", "whole number", "31.5"),
    model("@/negative.json", "num_hidden_layers", "greater than 0", "-3"),
    model("@/many.json", "num_hidden_layers", "10000", "1000000000"),
    model("@/kv7.json", "num_key_value_heads: must divide num_attention_heads 32 (given: 7)"),
    model("@/three.json", "hidden_size: is missing", "vocab_size", "num_attention_heads"),
    model("@/wide.json", "hidden_size"),
    model("@/wider.json", "hidden_size"),
    model("@/wordy.json", "vocab_size"),
    model(f"{CONFIGS}/Qwen--Qwen3-VL-8B-Instruct.json", "qwen3_vl wraps", "--text-only"),
    model(f"{CONFIGS}/Qwen--Qwen3.5-27B.json", "qwen3_5", "linear attention"),
    model(f"{CONFIGS}/deepseek-ai--DeepSeek-V3.2.json", "deepseek_v32", "sparse attention"),
    model(f"{CONFIGS}/nvidia--Nemotron-H-56B-Base-8K.json", "nemotron_h", "Mamba"),
    model("llama-3.1-7b", "unknown model 'llama-3.1-7b'", "nearest:", "llama-3.1-70b", "llama-3.1-8b"),
    model(
        "mamba",
        "unknown model 'mamba'; known: deepseek-v2,",
        "more, which meshwright catalog lists",
        "config.json of a",
    ),
    model("LAMA 3.1 8b", "unknown model 'LAMA 3.1 8b'", "nearest: llama-3.1-8b"),
    model("", "empty name", "config.json"),
    model("  ", "empty name", "catalogue name"),
    model("a\0b", "unknown model", "a\\x00b"),
    model("\u202elläma", "unknown model"),
    model("/dev/null", "/dev/null is empty"),
    model("x" * 300 + ".json", "x" * 40),
    model("x" * 300 + ".toml", "x" * 40),
    model("@/broken.toml", "broken.toml is not TOML", "line 2"),
    model("@/digits.toml", "digits.toml is not TOML", "more than 4,300 digits"),
    model("@/deep.toml", "deep.toml is not TOML", "it nests too deep"),
    model("@/kindless.toml", "kindless.toml", "kinds"),
    model("@/unknown-kind.toml", "unknown-kind.toml", "moe", "dense"),
    Case("gpt2 beyond its positions", ["8192", "1024"], {"model": "gpt2", "seq_len": "8192"}),
]

CLUSTERS = [
    cluster("0x8:h100", "'0x8:h100' is an empty cluster", "nearest: 1x8:h100"),
    cluster("8x0:h100", "'8x0:h100' is an empty cluster", "nearest: 8x8:h100"),
    cluster("0xdgx-h100", "empty cluster", "nearest: 1xdgx-h100"),
    cluster("8x8", "'8x8' names no accelerator", "nearest: 8x8:h100"),
    cluster("8x8:", "'8x8:' names no accelerator", "nearest: 8x8:h100"),
    cluster("8x8:h1000", "unknown accelerator 'h1000'", "h100-sxm-80gb"),
    cluster("8x8:zzz", "unknown accelerator 'zzz'", "h100-sxm-80gb", "a100-sxm-80gb"),
    cluster("h100", "nodes and GPUs are missing", "nearest: 1x8:h100"),
    cluster("-1x8:h100", "-1x8:h100", "NODESxGPUS:ACCELERATOR", never=("are missing",)),
    cluster("1.5x8:h100", "1.5x8:h100", "NODESxGPUS:ACCELERATOR", never=("are missing",)),
    cluster("8x8h100", "'8x8h100' has no colon before its accelerator", "nearest: 8x8:h100"),
    cluster("0x8 H100-SXM-80GB", "no colon", "nearest: 1x8:H100-SXM-80GB"),
    cluster("8x8h9", "unknown cluster '8h9'", never=("no colon",)),
    cluster("8:h100", "nodes and GPUs are missing", "nearest: 1x8:h100"),
    cluster("8*8:h100", "8*8:h100", "NODESxGPUS:ACCELERATOR", never=("nearest: 1x8:h100",)),
    cluster("99999999999x8:h100", "99999999999", "10000000"),
    cluster("9" * 40 + "x8:h100", "999999999", "more than any cluster holds"),
    cluster("1x64:h100", "64 accelerators do not share a node", "nearest: 16"),
    cluster("selen", "unknown cluster 'selen'", "nearest: selene", "NODESxGPUS:ACCELERATOR"),
    cluster("2xselen", "unknown cluster 'selen'", "nearest: selene"),
    cluster("", "unknown cluster ''", "NODESxGPUS:ACCELERATOR"),
    cluster("@/site/nope.toml", "no cluster file", "nope.toml"),
    cluster("@/site/typ.toml", "no cluster file", "nearest: typo.toml"),
    cluster("@/site", "cannot read the cluster file", "directory"),
    cluster("@/loop.toml", "cannot read the cluster file", "symbolic links"),
    cluster("x" * 300 + ".toml", "cannot read the cluster file"),
    cluster("a\0b/c", "cannot read the cluster file", "null byte"),
    cluster("@/site/binary.toml", "is not UTF-8 text (line 1, byte 0)"),
    cluster("@/site/empty.toml", "empty.toml", "accelerator"),
    cluster("@/site/twice.toml", "twice.toml", "is not a TOML file", "line 2"),
    cluster("@/site/digits.toml", "digits.toml' is not a TOML file", "more than 4,300 digits"),
    cluster("@/site/deep.toml", "deep.toml' is not a TOML file", "it nests too deep"),
    cluster("@/site/typo.toml", "nods: is not a field; nearest: nodes"),
    cluster("@/site/self.toml", "self: is not a field"),
    cluster("@/site/size-true.toml", "levels[1].size", "True"),
    cluster("@/site/contradiction.toml", "levels[1].size", "'spine' holds 64 ranks", "16 x 8 = 128"),
    cluster("@/site/nesting.toml", "levels[1].size", "'spine' of 20 ranks", "'nvlink' blocks of 8"),
    cluster("@/site/nodes0.toml", "nodes", "greater than 0", "0"),
    cluster("@/site/nodes-half.toml", "nodes", "2.5"),
    cluster("@/site/nodes-true.toml", "nodes", "True"),
    cluster("@/site/bandwidth.toml", "nic_bandwidth: 'fast' is not a bandwidth", "400Gb/s"),
    cluster("@/site/no-bandwidth.toml", "nic_bandwidth: is missing"),
    cluster("@/site/nan.toml", "nic_bandwidth", "nan"),
    cluster("@/site/infinite.toml", "nic_bandwidth", "finite", "inf"),
    cluster("@/site/still.toml", "nic_bandwidth", "1e-300"),
    cluster("@/site/derate.toml", "site_derate", "0.4", "0.5"),
    cluster("@/site/slow.toml", "site_derate", "1e+308"),
    cluster("@/site/memory.toml", "visible_memory", "1e+12", "8e+10"),
    cluster("@/site/unknown.toml", "accelerator: unknown accelerator 'h1000'", "h100-sxm-80gb"),
    cluster("@/site/crowded.toml", "gpus_per_node: 64", "nearest: 16"),
    cluster("@/site/many-faults.toml", "nods", "nodes: ", "site_derate", "'h1000'"),
]

JOBS = [
    job("the sequence length is 0", "1 token or more", seq_len="0"),
    job("the sequence length is -1", "1 token or more", seq_len="-1"),
    job("sequence", "9" * 25, seq_len="9" * 25),
    job("global_batch", "0", global_batch="0"),
    job("global_batch", "-4", global_batch="-4"),
    job("batch", "9" * 25, global_batch="9" * 25),
    job("tokens in a step", "at most 1000000000000", seq_len="100M", global_batch="1M"),
    job("batch", "1000000000000000003", global_batch="1000000000000000003"),
    job("--global-batch", "--global-batch-tokens", "both", global_batch_tokens="4M"),
    job("1000000 tokens", "sequences of 8192", NEAREST, global_batch=None, global_batch_tokens="1000000"),
    job("4G tokens", "nearest: 3999997952", global_batch=None, global_batch_tokens="4G"),
    job("8191 tokens", "nearest: 8192", global_batch=None, global_batch_tokens="8191"),
    job("0 tokens", "nearest: 8192", global_batch=None, global_batch_tokens="0"),
    job("'4m' is not a whole count", "4M", global_batch=None, global_batch_tokens="4m"),
    job("'-4M' is not a whole count", global_batch=None, global_batch_tokens="-4M"),
    job("'4MM' is not a whole count", "256, 4M or 15T", global_batch=None, global_batch_tokens="4MM"),
    job("'1e309' is not a whole count", global_batch=None, global_batch_tokens="1e309"),
    job("'NaN' is not a whole count", global_batch=None, global_batch_tokens="NaN"),
    job("'４M' is not a whole count", global_batch=None, global_batch_tokens="４M"),
    job("'' is not a whole count", global_batch=None, global_batch_tokens=""),
    job("1e99M", global_batch=None, global_batch_tokens="1e99M"),
    job("'x' is not a whole count", tokens="x"),
    job("'1.5' is not a whole count", "15T", tokens="1.5"),
    job("tokens", "0", tokens="0"),
    job("unknown precision 'int4'", "nearest: nvfp4", precision="int4"),
    job("h100-sxm-80gb has no mxfp8", "bf16, fp16, fp8, fp8-delayed or fp8-blockwise", precision="MXFP8"),
    job("v100-sxm-32gb has no bf16", "fp16", cluster="1x8:v100"),
    job("unknown runtime 'megatron-cor'", "nearest: megatron-core", runtime="megatron-cor"),
    job("unknown runtime 'fsdp'", "pytorch-fsdp1", runtime="fsdp"),
    job("59 accelerators", "global_batch 64", "nearest global_batch: 59 or 118", cluster="59x1:h100"),
    job("'--top'", "1", top="0"),
    Case("behaviour without a value", ["'dispatcher' is not KEY=VALUE"], {}, ["--with", "dispatcher"]),
    Case(
        "unknown behaviour",
        ["dispacher: unknown behaviour 'dispacher'; nearest: dispatcher"],
        {},
        ["--with", "dispacher=fused"],
    ),
    Case("nested behaviour", ["overlap.exprt", "nearest: expert"], {}, ["--with", "overlap.exprt=1"]),
    Case("behaviour out of range", ["overlap.expert", "1.5"], {}, ["--with", "overlap.expert=1.5"]),
    Case("identity", ["version: is no behaviour"], {}, ["--with", "version=2"]),
    Case(
        "behaviour that no runtime has",
        ["the question for every runtime is not valid: - dispacher: unknown behaviour"],
        {"runtime": "all"},
        ["--with", "dispacher=fused"],
        ["nanotron"],
    ),
    Case(
        "behaviour twice",
        ["dropout: is replaced twice, by true and false; keep one"],
        {},
        ["--with", "dropout=true", "--with", "dropout=false"],
    ),
    job("job.expert_imbalance: is 1.3, but llama-3.1-8b has no experts; leave it out", expert_imbalance="1.3"),
    job("job.expert_capacity: is 1, but llama-3.1-8b has no experts; leave it out", expert_capacity="1"),
    job(
        "job.expert_capacity: is 1, but torchtitan drops no tokens",
        model="mixtral-8x7b",
        runtime="torchtitan",
        expert_capacity="1",
    ),
    job("expert_imbalance", "greater than or equal to 1", "0.5", model="mixtral-8x7b", expert_imbalance="0.5"),
    job("expert_imbalance", "nan", model="mixtral-8x7b", expert_imbalance="nan"),
    job("expert_capacity", "greater than 0", model="mixtral-8x7b", expert_capacity="0"),
    job("capacity of 1.5", "imbalance of 1.3", "one of the two", expert_capacity="1.5", expert_imbalance="1.3"),
    job("'--expert-imbalance'", "'much'", expert_imbalance="much"),
    job("a model must be given, as in meshwright plan", "or a launch file", model=None),
    job("a cluster must be given, as in meshwright plan", "or a launch file", cluster=None),
    job("'lots' is not a bandwidth", network="lots"),
    job("nics_per_node", "greater than 0", network="0x400Gb/s"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds `FILES` and two links that lead nowhere."""
    root = tmp_path_factory.mktemp("bad")
    for name, content in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(content)
    for name in ("loop.json", "loop.toml"):
        os.symlink(root / name, root / name)
    return root


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in (*MODELS, *CLUSTERS, *JOBS)])
def test_bad_input_is_refused_with_a_hint(case: Case, folder: Path) -> None:
    options = {name: value and value.replace("@", str(folder)) for name, value in case.options.items()}
    message = refused(asked("plan", *question(**options), *case.flags), case.code)
    assert [text for text in case.says if text not in message] == []
    assert [text for text in case.never if text in message] == []


@pytest.mark.parametrize(
    ("option", "value"), [("seq_len", "abc"), ("seq_len", "1.5"), ("global_batch", "many"), ("top", "all")]
)
def test_an_option_that_is_no_number_is_quoted(option: str, value: str) -> None:
    message = refused(asked("plan", *question(**{option: value})))
    assert f"--{option.replace('_', '-')}" in message
    assert value in message


def test_precision_that_the_accelerator_lacks_is_answered_with_one_that_can_be_asked_for() -> None:
    message = refused(asked("plan", *question(cluster="1x8:v100")))
    assert "fp16" in message
    assert "fp32" not in message


def test_a_message_is_short_however_long_the_name() -> None:
    assert len(refused(asked("plan", *question(model="x" * 4000)))) < 2500


def test_an_unreadable_file_is_named(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    opened = Path.open

    def deny(path: Path, *mode: str, **more: str) -> IO[Any]:
        if folder in path.parents:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *mode, **more)

    monkeypatch.setattr(Path, "open", deny)
    for options in ({"model": f"{folder}/lamma.json"}, {"cluster": f"{folder}/site/typo.toml"}):
        message = refused(asked("plan", *question(**options)))
        assert "Permission denied" in message
        assert next(iter(options.values())) in message


def test_nothing_fits_and_what_would() -> None:
    message = refused(asked("plan", *question(model="llama-3.1-70b")), code=3)
    assert "llama-3.1-70b" in message
    assert "79.1 GiB" in message
    found = re.search(r"What would fit:.*? - (\d+) nodes \((\d+) accelerators\)", message)
    assert found
    nodes, accelerators = map(int, found.groups())
    assert accelerators == 8 * nodes
    assert asked("plan", *question(model="llama-3.1-70b", cluster=f"{nodes}x8:h100")).code == 0


def test_nothing_fits_at_any_size() -> None:
    message = refused(asked("plan", *question(seq_len="1000000000")), code=3)
    assert "No plan fits safely even with 32 times the nodes or a sixteenth of the sequence length" in message


def test_the_hint_for_a_batch_that_no_plan_divides_works() -> None:
    message = refused(asked("plan", *question(cluster="59x1:h100")))
    found = re.search(r"nearest global_batch: (\d+) or (\d+)", message)
    assert found
    assert [asked("plan", *question(cluster="59x1:h100", global_batch=batch)).code for batch in found.groups()] == [
        0,
        0,
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"seq_len": "0"}, "the sequence length is 0"),
        ({"runtime": "all"}, "unknown runtime 'all'"),
        ({"model": "llama-3.1-7b"}, "unknown model 'llama-3.1-7b'"),
        ({"expert_imbalance": "1.5"}, "has no experts"),
    ],
)
def test_a_question_of_limits_is_refused_like_any_other(options: dict[str, str | None], says: str) -> None:
    assert says in refused(asked("limits", *question(**options)))


def test_limits_of_what_fits_on_no_number_of_nodes() -> None:
    message = refused(asked("limits", *question(runtime="pytorch-ddp", model="llama-3.1-405b")), code=3)
    assert "none of the" in message
    assert "every rank; meshwright plan --runtime all looks at the other runtimes. " in message
    assert "No plan fits safely even with 32 times the nodes" in message
