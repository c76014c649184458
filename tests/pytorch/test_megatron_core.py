"""Parameters per rank equal those of the GPTModel that megatron-core builds on the same mesh, to the last one."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from commands import HANG_S
from meshwright.cost.memory.stage_parameters import stage_parameters
from meshwright.cost.shapes import pipelines_of
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.schedules.records import Schedule
from meshwright.specs.model import Experts, Mlp, Model
from meshwright.specs.reading.model import read_model
from strategies import question

if not (find_spec("megatron") and find_spec("megatron.core")):
    pytest.skip("needs megatron-core: pip install megatron-core==0.16.1 torch==2.13.0", allow_module_level=True)

pytestmark = pytest.mark.clients("megatron.core")
SCRIPT = Path(__file__).with_name("megatron_core_parameters.py")
MODELS = (
    "gpt2",
    "llama-3.1-8b",
    "llama-3.1-70b",
    "qwen2.5-0.5b",
    "qwen2.5-7b",
    "qwen3-0.6b",
    "qwen3-32b",
    "mixtral-8x7b",
    "mixtral-8x22b",
    "qwen1.5-moe-a2.7b",
    "qwen3-30b-a3b",
    "qwen3-235b-a22b",
)
MESHES_PER_MODEL = 8
LAYERS = 24
"""Of each model on a drawn mesh: as many pipelines split them evenly."""
POSITIONS = 1024
Counts: TypeAlias = list[list[int]]
"""Of every pipeline stage, the parameters outside and inside of routed experts on one rank."""


@dataclass(frozen=True)
class Case:
    """A model on a mesh, its vocabulary padded as by Megatron-LM's launcher or not at all."""

    model: Model
    plan: Plan
    padded: bool = True

    def __str__(self) -> str:
        degrees = "-".join(f"{name}{getattr(self.plan, name)}" for name in ("tp", "pp", "vpp", "ep", "etp", "dp"))
        return f"{self.model.name}-{degrees}{'' if self.padded else '-unpadded'}"


def _drawn(name: str, rng: random.Random) -> Case:
    whole = read_model(name)
    model = whole.replace(layer_pattern=whole.layer_pattern[:1] * LAYERS)
    tp, ep, etp = map(rng.choice, _tensor_and_expert_degrees(model))
    pp, vpp = rng.choice([(1, 1), *((pp, vpp) for pp in range(2, 9) for vpp in (1, 2) if LAYERS % (pp * vpp) == 0)])
    dp = math.lcm(tp, ep * etp) // tp * rng.choice([1, 2])
    schedule = Schedule.INTERLEAVED if vpp > 1 else Schedule.ONE_F_ONE_B
    return Case(model, Plan(tp=tp, pp=pp, vpp=vpp, dp=dp, ep=ep, etp=etp, num_microbatches=pp, schedule=schedule))


def _tensor_and_expert_degrees(model: Model) -> tuple[list[int], list[int], list[int]]:
    """Degrees of tp, ep and etp, up to 8, that divide what they split; tp may be a multiple of the key-value heads."""
    (kind,) = model.layer_kinds
    heads, kv_heads, block = kind.attention.heads, kind.attention.kv_heads, kind.feed_forward
    ffn = block.ffn_size if isinstance(block, Mlp) else block.shared_ffn_size
    tensor = [tp for tp in _divisors(math.gcd(heads, ffn)) if not (kv_heads % tp and tp % kv_heads)]
    if isinstance(block, Mlp):
        return tensor, [1], [1]
    return tensor, _divisors(block.count), _divisors(block.ffn_size)


def _divisors(count: int) -> list[int]:
    return [degree for degree in range(1, 9) if count % degree == 0]


def _cases() -> list[Case]:
    rng = random.Random(0)
    return list(dict.fromkeys(_drawn(name, rng) for name in MODELS for _ in range(MESHES_PER_MODEL)))


CASES = _cases()
SPLIT_70B = Plan(tp=8, pp=4, num_microbatches=4)
PUBLISHED = {
    Case(read_model("llama-3.1-70b"), SPLIT_70B, padded=False): [2270756864, 2139422720, 2139422720, 2270765056],
    Case(read_model("llama-3.1-70b"), SPLIT_70B): [2271543296, 2139422720, 2139422720, 2271551488],
}


@pytest.fixture(scope="module")
def built() -> dict[Case, Counts]:
    """What megatron-core builds of every case."""
    cases = [*CASES, *PUBLISHED]
    asked = json.dumps([_asked(case) for case in cases])
    ran = subprocess.run([sys.executable, SCRIPT], input=asked, capture_output=True, text=True, timeout=10 * HANG_S)
    assert ran.returncode == 0, ran.stderr
    return dict(zip(cases, json.loads(ran.stdout), strict=True))


def _asked(case: Case) -> dict[str, Any]:
    """A case as the script takes it."""
    model, plan = case.model, case.plan
    multiple = 128 * plan.tp if case.padded else 1
    return {
        "config": _transformer_config(model),
        "model": {
            "vocab_size": -(-model.vocab_size // multiple) * multiple,
            "max_sequence_length": POSITIONS,
            "position_embedding_type": "learned_absolute" if model.learned_positions else "rope",
            "share_embeddings_and_output_weights": model.tied_embeddings,
        },
        "mesh": {
            "tensor_model_parallel_size": plan.tp,
            "pipeline_model_parallel_size": plan.pp,
            "virtual_pipeline_model_parallel_size": plan.vpp if plan.vpp > 1 else None,
            "expert_model_parallel_size": plan.ep,
            "expert_tensor_parallel_size": plan.etp,
        },
        "world_size": plan.num_gpus,
    }


def _transformer_config(model: Model) -> dict[str, Any]:
    (kind,) = model.layer_kinds
    attention, block = kind.attention, kind.feed_forward
    config = {
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "ffn_hidden_size": block.ffn_size,
        "num_attention_heads": attention.heads,
        "num_query_groups": attention.kv_heads,
        "kv_channels": attention.head_dim,
        "qk_layernorm": attention.qk_norm == "head",
        "add_qkv_bias": attention.qkv_bias,
        "add_bias_linear": attention.output_bias,
        "gated_linear_unit": block.gated,
        "normalization": {"rms": "RMSNorm", "layer": "LayerNorm"}[model.norm],
    }
    return config | (_mixture_config(block) if isinstance(block, Experts) else {})


def _mixture_config(block: Experts) -> dict[str, Any]:
    return {
        "num_moe_experts": block.count,
        "moe_router_topk": block.active,
        "moe_ffn_hidden_size": block.ffn_size,
        "moe_shared_expert_intermediate_size": block.shared_ffn_size or None,
        "moe_shared_expert_gate": block.shared_gate,
    }


def _planned(case: Case) -> Counts:
    inputs = question(case.model, "8x8:h100", sequence_length=POSITIONS)
    if not case.padded:
        inputs = inputs.replace(runtime=inputs.runtime.replace(vocabulary_multiple=1))
    pipelines, _ = pipelines_of(Plans.of([case.plan]), inputs, keep_all_stages=True)
    held = stage_parameters(pipelines.plans, pipelines.stages, inputs)
    return np.stack([held.dense, held.experts], axis=1).tolist()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_stage_holds_what_megatron_core_builds(case: Case, built: dict[Case, Counts]) -> None:
    assert _planned(case) == built[case]


@pytest.mark.parametrize("case", PUBLISHED, ids=str)
def test_stages_of_a_70b_model_hold_the_published_counts(case: Case, built: dict[Case, Counts]) -> None:
    assert _planned(case) == built[case] == [[count, 0] for count in PUBLISHED[case]]
