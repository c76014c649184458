"""Launch files of every framework, written for these tests in the shape that real ones have."""

from __future__ import annotations

SIZES = "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size 32000"
MODEL = f"{SIZES} --swiglu --position-embedding-type rope"
BATCH = "--seq-length 4096 --micro-batch-size 2 --global-batch-size 64 --bf16"
NEOX = """{ "pipe_parallel_size": 2, "model_parallel_size": 2, "num_layers": 24, "hidden_size": 2048,  # pipelines
  "num_attention_heads": 16, "seq_length": 2048, "pos_emb": "rotary", "vocab_size": 50304,
  "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8, "checkpoint-activations": true,
  "zero_optimization": {"stage": 1, "contiguous_gradients": True,}, "fp16": {"enabled": true}, }
"""
NANOTRON = """
parallelism: {dp: 4, pp: 2, tp: 2, tp_mode: REDUCE_SCATTER, pp_engine: 1f1b, recompute_layer: true}
tokens: {sequence_length: 2048, micro_batch_size: 2, batch_accumulation_per_replica: 8}
optimizer: {zero_stage: 1, accumulate_grad_in_fp32: true}
model:
  dtype: bfloat16
  model_config: {hidden_size: 2048, num_hidden_layers: 24, num_attention_heads: 16, num_key_value_heads: 4,
    intermediate_size: 8192, vocab_size: 49152, tie_word_embeddings: true}
"""
FOUNDRY = """
max_seq_len: 2048
model: {name: mpt_causal_lm, d_model: 4096, n_heads: 32, n_layers: 32, expansion_ratio: 4, vocab_size: 50368}
global_train_batch_size: 512
device_train_microbatch_size: 4
precision: amp_bf16
fsdp_config: {sharding_strategy: FULL_SHARD, activation_checkpointing: true}
"""
TITAN = """
[model]
name = "llama3"
flavor = "8B"
converters = ["float8"]
[training]
local_batch_size = 2
seq_len = 8192
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
[activation_checkpoint]
mode = "full"
"""
INTERN = """
SEQ_LEN = 2048
data = dict(seq_len=SEQ_LEN, micro_num=4, micro_bsz=2)
model = dict(num_layers=32, hidden_size=4096, num_attention_heads=32, mlp_ratio=8 / 3, vocab_size=103168,
    checkpoint=False, num_chunks=1, dtype="torch.bfloat16")
parallel = dict(zero1=dict(size=-1), tensor=dict(size=2, mode="isp"), pipeline=dict(size=1), weight=dict(size=4))
"""
AXOLOTL = """
base_model: Qwen/Qwen3-8B
dp_shard_size: 2
context_parallel_size: 2
tensor_parallel_size: 2
fsdp_version: 2
fsdp_config: {reshard_after_forward: true}
sequence_len: 8192
micro_batch_size: 1
bf16: true
"""
NEMO = """
trainer: {num_nodes: 2, devices: 8, precision: bf16}
model:
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: 4
  sequence_parallel: true
  micro_batch_size: 1
  global_batch_size: 64
  encoder_seq_length: 4096
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 14336
  num_attention_heads: 32
  num_query_groups: 8
  activation: fast-swiglu
  normalization: rmsnorm
  bias: false
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  tokenizer: {type: meta-llama/Llama-3.1-8B}
  optim: {name: distributed_fused_adam}
"""
DEEPSPEED_SCRIPT = f"""
GPN=8
cat <<EOT > ds.json
{{ "train_batch_size": 64, "zero_optimization": {{ "stage": 3, "offload_optimizer": {{"device": "cpu"}} }} }}
EOT
deepspeed --num_nodes=2 --num_gpus $GPN pretrain_gpt.py {MODEL} {BATCH} --deepspeed --deepspeed_config ds.json \
  --checkpoint-activations
"""
BRIDGE = """
from megatron.bridge.recipes import base
def small_config():
    cfg = base()
    cfg.model.tensor_model_parallel_size = 1
    cfg.train.global_batch_size = 128
    cfg.train.micro_batch_size = 1
    return cfg
def large_config():
    cfg = base()
    cfg.mixed_precision = precision("fp8_cs")
    cfg.model.tensor_model_parallel_size = 4
    cfg.model.sequence_parallel = True
    cfg.model.pipeline_model_parallel_size = 2
    cfg.train.global_batch_size = 128
    cfg.train.micro_batch_size = 1
    return cfg
"""

SLURM = f"""#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
export CUDA_DEVICE_MAX_CONNECTIONS=1
TP=${{TP:-4}}; PP=2
MODEL_ARGS=(
    {MODEL} --group-query-attention --num-query-groups 8 # widths
)
if [ "$PP" -gt 1 ]; then MODEL_ARGS+=(--num-layers-per-virtual-pipeline-stage $((16 / PP))); fi
LAUNCHER="torchrun --nnodes $SLURM_NNODES --nproc_per_node 8"
srun bash -c "$LAUNCHER pretrain_gpt.py ${{MODEL_ARGS[*]}} {BATCH} --tensor-model-parallel-size $TP \
  --pipeline-model-parallel-size $PP --sequence-parallel --use-distributed-optimizer --lr 1e-4"
"""
FLAGS = """ENV_VARS: {CUDA_DEVICE_MAX_CONNECTIONS: 1}
MODEL_ARGS:
  --num-layers: 12
  --hidden-size: 512
  --num-attention-heads: 8
  --micro-batch-size: 4
  --seq-length: 1024
  --max-position-embeddings: 1024
  --vocab-size: 50257
  --pipeline-model-parallel-size: 2
  --pipeline-model-parallel-layout: "Et*6|t*6L"
  --recompute-granularity: selective
  --recompute-modules: [core_attn mlp]
  --bf16: true
"""
RECIPE = """from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer

def small(tp: int = 2):
    return Trainer.Config(
        model_spec=model_registry("8B"),
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * 8192, max_context_length=8192),
        parallelism=ParallelismConfig(tensor_parallel_degree=tp, data_parallel_shard_degree=-1),
        activation_checkpoint=FullAC.Config(),
    )

def pipelined():
    config = small()
    config.parallelism.pipeline_parallel_degree = 2
    config.parallelism.module_fqns_per_model_part = [["tok_embeddings", "layers.0"], ["layers.1", "norm", "lm_head"]]
    return config
"""
DEEPSPEED = """{
  "train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
  "zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": 5e8},
  "bf16": {"enabled": true}, "gradient_clipping": 1.0
}
"""
ACCELERATE = """distributed_type: FSDP
num_machines: 1
num_processes: 8
mixed_precision: bf16
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
parallelism_config:
  parallelism_config_dp_shard_size: 4
  parallelism_config_tp_size: 2
"""
TASK = f"""resources:
  accelerators: H100:8
num_nodes: 2
envs: {{TP: 2}}
run: |
  NP=$(($SKYPILOT_NUM_GPUS_PER_NODE * $SKYPILOT_NUM_NODES))
  torchrun --nnodes $SKYPILOT_NUM_NODES --nproc_per_node 8 pretrain_gpt.py {MODEL} {BATCH} \\
    --tensor-model-parallel-size $TP --enable-zero-bubble --pipeline-model-parallel-size 2 \\
    --untie-embeddings-and-output-weights
"""
FILES = {
    "slurm.sh": SLURM,
    "deepspeed.sh": DEEPSPEED_SCRIPT,
    "flags.yaml": FLAGS,
    "task.yaml": TASK,
    "neox.yml": NEOX,
    "nanotron.yaml": NANOTRON,
    "foundry.yaml": FOUNDRY,
    "titan.toml": TITAN,
    "recipe.py": RECIPE,
    "intern.py": INTERN,
    "axolotl.yaml": AXOLOTL,
    "nemo.yaml": NEMO,
    "bridge.py": BRIDGE,
    "deepspeed.json": DEEPSPEED,
    "accelerate.yaml": ACCELERATE,
}
"""By the names of files."""
SAID = {
    "job.sequence_length": "4096",
    "job.global_batch": "64",
    "plan.micro_batch": "1",
    "plan.zero": "3",
    "function": "large_config",
}
"""What some of them leave open."""
