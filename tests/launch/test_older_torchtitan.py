"""Configurations of torchtitan between its TOML and release 0.3: classes in Python with the settings of 0.2."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch_examples import TITAN
from meshwright.launch.imports.question import Given, LaunchQuestion, question_of_file

RECIPE = """from torchtitan.components.quantization.float8 import Float8LinearConverter
from torchtitan.config import ActivationCheckpointConfig, CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.models.llama3 import model_registry
from torchtitan.protocols.model_converter import ModelConvertersContainer
from torchtitan.trainer import Trainer


def llama3_8b() -> Trainer.Config:
    return Trainer.Config(
        model_spec=model_registry("8B"),
        CONVERTERS
        training=TrainingConfig(local_batch_size=2, seq_len=8192),
        parallelism=ParallelismConfig(tensor_parallel_degree=2, enable_fsdp_symm_mem=False),
        activation_checkpoint=ActivationCheckpointConfig(MODE),
        compile=CompileConfig(enable=COMPILED),
    )
"""
OF_MARCH = "model_converters=ModelConvertersContainer.Config(converters=[Float8LinearConverter.Config(RECIPE)]),"


def read(folder: Path, *, mode: str = "", converters: str = "", compiled: str = "True") -> LaunchQuestion:
    path = folder / "config_registry.py"
    path.write_text(
        RECIPE.replace("MODE", mode)
        .replace("CONVERTERS", converters or "dump_folder='out',")
        .replace("COMPILED", compiled)
    )
    return question_of_file(path, Given(cluster="1x8:h100"))


@pytest.mark.parametrize(
    ("mode", "recompute"),
    [
        ("", "selective"),
        ('mode="full"', "full"),
        ('mode="selective", selective_ac_option="op"', "selective"),
        ('mode="none"', "none"),
    ],
)
def test_recomputation_is_read(mode: str, recompute: str, tmp_path: Path) -> None:
    question = read(tmp_path, mode=mode)
    assert question.inputs.runtime.id == "torchtitan@0.2.2"
    assert (question.inputs.model.name, question.plan.tp, question.plan.micro_batch) == ("llama-3.1-8b", 2, 2)
    assert question.plan.recompute.name.lower() == recompute
    assert all(each.kept for each in question.rules)
    assert not question.notes


def test_every_other_layer_is_told(tmp_path: Path) -> None:
    question = read(tmp_path, mode='mode="selective", selective_ac_option="2"')
    assert "selective recomputation of every n-th layer is priced as that of operators" in question.notes


@pytest.mark.parametrize(
    ("converters", "precision"),
    [
        (OF_MARCH.replace("RECIPE", "enable_fsdp_float8_all_gather=True"), "fp8"),
        (OF_MARCH.replace("RECIPE", 'recipe_name="rowwise"'), "fp8-rowwise"),
    ],
)
def test_fp8_of_march_has_one_scale_for_a_tensor_unless_it_says_otherwise(
    converters: str, precision: str, tmp_path: Path
) -> None:
    assert read(tmp_path, converters=converters).inputs.job.precision == precision


@pytest.mark.parametrize(
    ("converters", "precision"),
    [
        ("Float8LinearConverter.Config(), Float8GroupedMMConverter.Config()", "fp8"),
        ("Float8LinearConverter.Config()", "bf16"),
        ("MXLinearConverter.Config(), MXGroupedMMConverter.Config()", "mxfp8"),
        ("MXGroupedMMConverter.Config()", "mxfp8"),
    ],
)
def test_experts_of_march_had_a_converter_of_another_name(converters: str, precision: str, tmp_path: Path) -> None:
    path = tmp_path / "config_registry.py"
    mixed = RECIPE.replace("llama3", "deepseek_v3").replace("8B", "16B").replace("8b", "16b").replace("MODE", "")
    mixed = mixed.replace("tensor_parallel_degree=2", "expert_parallel_degree=8").replace("COMPILED", "True")
    made = f"model_converters=ModelConvertersContainer.Config(converters=[{converters}]),"
    path.write_text(mixed.replace("CONVERTERS", made))
    assert question_of_file(path, Given(cluster="1x8:b200")).inputs.job.precision == precision


@pytest.mark.parametrize(
    ("converters", "more", "precision"),
    [
        ('["quantize.linear.float8", "quantize.grouped_mm.float8"]', "", "fp8"),
        ('["quantize.linear.float8"]', "", "bf16"),
        ('["quantize.grouped_mm.mx"]', "", "mxfp8"),
        ('["float8"]', "", "bf16"),
        ('["float8"]', '[float8]\nmoe_fqns_prototype = ["experts"]', "fp8"),
    ],
)
def test_the_toml_quantises_experts_by_names_of_their_own(
    converters: str, more: str, precision: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.toml"
    text = TITAN.replace('"llama3"', '"deepseek_v3"').replace('"8B"', '"16B"').replace('["float8"]', converters)
    path.write_text(f"{text}\n{more}\n")
    assert question_of_file(path, Given(cluster="1x8:b200")).inputs.job.precision == precision


@pytest.mark.parametrize(("compiled", "loss"), [("True", "chunked_compiled"), ("False", "chunked")])
def test_the_chunked_loss_of_may_is_priced(compiled: str, loss: str, tmp_path: Path) -> None:
    question = read(tmp_path, converters="loss=ChunkedCELoss.Config(),", compiled=compiled)
    assert question.inputs.runtime.kernels.cross_entropy == loss
    assert not [each for each in question.understood.unpriced if each.startswith("compile")]
