"""What configurations of torchtitan quantise: linear layers and experts, by converters of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.launch.imports.question import Given, question_of_file

EXPERTS = """from torchtitan.components.quantization.float8 import Float8GroupedExpertsConverter, Float8LinearConverter
from torchtitan.models.deepseek_v3 import model_registry

def deepseek_v3_16b():
    return Trainer.Config(
        model_spec=model_registry("16B", converters=[{converters}]),
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=4 * 4096, max_context_length=4096),
        parallelism=ParallelismConfig(expert_parallel_degree=8, data_parallel_shard_degree=-1),
        activation_checkpoint=FullAC.Config(),
    )
"""
LINEAR, GROUPED = "Float8LinearConverter.Config()", "Float8GroupedExpertsConverter.Config()"


MXFP8 = "MXFP8GroupedExpertsConverter.Config()"
DENSE = EXPERTS.replace("deepseek_v3", "llama3").replace("16B", "8B").replace("expert_parallel_degree=8, ", "")
BF16_EXPERTS, BF16_LINEAR = "experts stay in bf16", "linear layers stay in bf16"


@pytest.mark.parametrize(
    ("text", "precision", "told"),
    [
        (EXPERTS.format(converters=LINEAR), "bf16", BF16_EXPERTS),
        (EXPERTS.format(converters=GROUPED), "fp8-rowwise", BF16_LINEAR),
        (EXPERTS.format(converters=MXFP8), "mxfp8", BF16_LINEAR),
        (EXPERTS.format(converters=f"{LINEAR}, {GROUPED}"), "fp8-rowwise", ""),
        (EXPERTS.format(converters=f"{GROUPED}, {LINEAR}"), "fp8-rowwise", ""),
        (EXPERTS.format(converters=""), "bf16", ""),
        (DENSE.format(converters=LINEAR), "fp8-rowwise", ""),
        (DENSE.format(converters=GROUPED), "bf16", ""),
    ],
)
def test_experts_and_linear_layers_are_quantised_by_converters_of_their_own(
    tmp_path: Path, text: str, precision: str, told: str
) -> None:
    """The price follows the experts, which compute most; without them their converter quantises nothing."""
    path = tmp_path / "config_registry.py"
    path.write_text(text)
    question = question_of_file(path, Given(cluster="2x8:b200"))
    assert question.inputs.job.precision == precision
    assert [each for each in (BF16_EXPERTS, BF16_LINEAR) if each in " ".join(question.notes)] == [told] * bool(told)
