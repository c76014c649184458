"""Start: the Slurm batch file that runs a start script on every node of a plan."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from meshwright.launch.export import Launch
from meshwright.launch.writers.comments import commented, slug

AXIS_NAMES = {"tp": "tensor", "cp": "context", "ep": "expert", "dp": "data", "pp": "pipeline"}
ADDRESS = ('"${{MASTER_ADDR:-127.0.0.1}}"', '"${{MASTER_PORT:-29500}}"')
"""Where the first rank listens."""
TORCHRUN = (
    "torchrun{binding} \\\n"
    '    --nnodes "${{NNODES:-{nodes}}}" --nproc-per-node {ranks} --node-rank "${{NODE_RANK:-0}}" \\\n'
    f"    --master-addr {ADDRESS[0]} --master-port {ADDRESS[1]} \\\n"
)
BOUND = """\
# The predicted time counts on ranks that run on the cores beside their accelerator; that takes PyTorch 2.9 and numactl.
# NUMA_BINDING= starts without.
command -v numactl > /dev/null || NUMA_BINDING=
"""
THREADS = """\
# The optimizer updates on the host, where torchrun gives every rank a single thread unless told otherwise.
export OMP_NUM_THREADS="${{OMP_NUM_THREADS:-$(( $(nproc) >= {ranks} ? $(nproc) / {ranks} : 1 ))}}"
"""
BATCH = """\
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
{segment}#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={ranks}
#SBATCH --exclusive
#SBATCH --output=%x-%j.out
"""
SRUN = """\
set -euo pipefail
MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
export MASTER_ADDR MASTER_PORT=29500 NNODES="$SLURM_NNODES"
cd "${SLURM_SUBMIT_DIR:?}"
srun --kill-on-bad-exit=1 bash -c 'NODE_RANK="$SLURM_NODEID" bash ./train.sh'
"""


def torchrun(launch: Launch) -> str:
    """The beginning of the command that starts the ranks of one node."""
    binds = launch.table.numa_binding and launch.inputs.runtime.host.binds_ranks
    binding = " ${NUMA_BINDING---numa-binding=node}" if binds else ""
    command = TORCHRUN.format(nodes=launch.nodes, ranks=launch.ranks_per_node, binding=binding)
    updates = launch.inputs.runtime.storage.offloads_states
    threads = THREADS.format(ranks=launch.ranks_per_node) if updates else ""
    return (BOUND if binds else "") + threads + command


def start_script(launch: Launch, notes: Sequence[str], command: str, filled: Mapping[str, str]) -> str:
    """A start script that stops at the first thing to fill in that is missing. command: what it runs, in `$HERE`;
    filled: the variables that are filled in, with what belongs there.
    """
    settings = launch.settings
    exports = [f"export {key}={shlex.quote(str(value))}" for key, value in settings.items() if key.isupper()]
    asked = [f': "${{{name}:?{what}}}"' for name, what in filled.items()]
    lines = [
        "#!/bin/bash",
        *commented(notes),
        "",
        "set -euo pipefail",
        'HERE="$(cd "$(dirname "$0")" && pwd)"',
        *exports,
    ]
    lines += ["", "# FILL IN what the plan does not know, as variables of the environment."]
    return "\n".join([*lines, *asked, f"export {' '.join(filled)}", "", command, ""])


def batch_file(launch: Launch, notes: Sequence[str]) -> str:
    """The Slurm batch file: one task a node, which starts a process for each of its accelerators."""
    said = [
        *notes,
        "",
        *_between_ranks(launch),
        *_between_nodes(launch),
        "Submit it from its own folder: sbatch job.slurm",
        "FILL IN: partition, account and time of your site, as #SBATCH lines below.",
    ]
    name, segment = slug(launch.inputs.model.name)[:40], _segment(launch)
    head = BATCH.format(
        name=name,
        nodes=launch.nodes,
        ranks=launch.ranks_per_node,
        segment=f"#SBATCH --segment={segment}\n" if segment > 1 else "",
    )
    return "\n".join(["#!/bin/bash", head.rstrip(), *commented(said), "", SRUN])


def _segment(launch: Launch) -> int:
    """Nodes that Slurm has to place in one scale-up domain, as groups of ranks are priced; 1 where each is a domain of
    its own, or the last domain has fewer.

    Source: NVIDIA-NeMo/Megatron-Bridge@067f987df03b scripts/performance/utils/executors.py L168-176.
    """
    cluster = launch.inputs.cluster
    segment = cluster.levels[0].size // launch.ranks_per_node if cluster.accelerator.domain_spans_nodes else 1
    return segment if segment and launch.nodes % segment == 0 else 1


def _between_ranks(launch: Launch) -> list[str]:
    """The order of ranks, where there are several."""
    if launch.plan.num_gpus == 1:
        return []
    order = " then ".join(AXIS_NAMES[axis] for axis in launch.inputs.runtime.plans.rank_order)
    return [
        f"Ranks: {order} parallelism, the first of them fastest. torchrun numbers the ranks of a node one after the "
        "other: keep that."
    ]


def _between_nodes(launch: Launch) -> list[str]:
    """The order of nodes and their network, where there are several."""
    if launch.nodes == 1:
        return []
    fabric = launch.inputs.cluster.levels[-1].name
    return [
        "Slurm numbers nodes in the order of SLURM_NODEID: keep that too.",
        f"Network between nodes ({fabric}): name your interfaces if NCCL does not find them by itself.",
        "  export NCCL_IB_HCA=mlx5_0,mlx5_1 NCCL_SOCKET_IFNAME=eth0 NCCL_DEBUG=WARN",
    ]
