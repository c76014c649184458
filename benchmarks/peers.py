"""The same plans priced by the planner and by a peer, in turns in one process: `python benchmarks/peers.py`.

A peer that is not installed is left out. llm-analysis (`pip install llm-analysis`) prices one plan a call, of less: no
overlap of data parallelism, no optimizer, schedules or communicators. Calculon (a checkout of calculon-ai/calculon on
`PYTHONPATH`) prices one plan a call too; its log of every step is switched off, which makes it faster than it is as
shipped. Figures are plans a second of processor time.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from meshwright.cost.step import estimate_each, estimate_plans
from meshwright.layout.legality import check
from meshwright.layout.plan import Plan
from meshwright.layout.plans import Plans
from meshwright.search.plan_space.space import space
from meshwright.specs.choices import Recompute
from meshwright.specs.inputs import Inputs
from meshwright.specs.job import job_of
from meshwright.specs.reading.inputs import read_inputs

ROUNDS = 5
MODEL, PEERS_MODEL, SEQUENCE, BATCH = "gpt-3-175b", "megatron-lm-175b", 2048, 1536
CLUSTERS = ("8x8", "128x8", "512x8")
FEW = 40
"""Plans that are priced one by one."""


class Refused(Exception):
    """A peer does not price a plan."""


def main() -> None:
    for nodes in CLUSTERS:
        inputs = read_inputs(MODEL, f"{nodes}:a100-80gb", job_of(SEQUENCE, global_batch=BATCH), "megatron-core")
        plans = shared_plans(inputs)
        peers = {name: peer() for name, peer in PEERS.items() if find_spec(name)}
        every = map(plans.__getitem__, range(len(plans)))
        accepted = [plan for plan in every if all(_accepts(price, plan) for price in peers.values())]
        few = accepted[:: max(len(accepted) // FEW, 1)]
        tools: dict[str, Callable[[Plan], Any]] = {**peers, "Meshwright, one by one": partial(_alone, inputs)}
        work: dict[str, tuple[int, Callable[[], Any]]] = {
            name: (len(few), partial(_each, price, few)) for name, price in tools.items()
        }
        work["Meshwright, one table"] = len(plans), partial(estimate_plans, plans, inputs)
        _in_turns(f"GPT-3 175B on {inputs.cluster.num_gpus:,} A100", work)


def _in_turns(title: str, work: dict[str, tuple[int, Callable[[], Any]]]) -> None:
    print(f"{title}:")
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(ROUNDS):
        for name, (_, price) in work.items():
            started = time.process_time()
            price()
            seconds[name].append(time.process_time() - started)
    for name, (count, _) in work.items():
        fastest, slowest = count / min(seconds[name]), count / max(seconds[name])
        print(f"  {name:24} {fastest:10,.0f} plans/s (slowest round {slowest:,.0f}; {count:,} plans)")


def shared_plans(inputs: Inputs) -> Plans:
    """The legal plans that a peer knows, too: no context parallelism, several chunks a rank, sharded gradients or
    uneven ends; all layers recomputed, or none.
    """
    kept = []
    for table in space(inputs):
        legal = table.take(check(table, inputs).legal)
        plain = (legal.cp == 1) & (legal.vpp == 1) & (legal.zero < 2) & (legal.recompute != Recompute.SELECTIVE)
        kept.append(legal.take(plain & (legal.embedding_as_layer == 0) & (legal.head_as_layer == 0)))
    return Plans.join(kept)


def llm_analysis() -> Callable[[Plan], Any]:
    """What prices one plan with llm-analysis."""
    analysis, config = import_module("llm_analysis.analysis"), import_module("llm_analysis.config")
    logging.disable(logging.WARNING)
    model, gpu = config.get_model_config_by_name(PEERS_MODEL), config.get_gpu_config_by_name("a100-sxm-80gb")
    kinds = {
        Recompute.NONE: analysis.ActivationRecomputation.NONE,
        Recompute.FULL: analysis.ActivationRecomputation.FULL,
    }

    def price(plan: Plan) -> Any:
        degrees = config.ParallelismConfig(
            tp_size=plan.tp, pp_size=plan.pp, dp_size=plan.dp, sp_size=plan.tp if plan.sp else 1
        )
        return analysis.LLMAnalysis(model, gpu, parallelism_config=degrees, flops_efficiency=0.5).training(
            batch_size_per_gpu=plan.micro_batch,
            gradient_accumulation_steps=plan.num_microbatches,
            seq_len=SEQUENCE,
            total_num_tokens=10**12,
            activation_recomputation=kinds[plan.recompute],
            ds_zero=analysis.DSZeRO(int(plan.zero)),
        )

    return price


def calculon() -> Callable[[Plan], Any]:
    """What prices one plan with Calculon."""
    llm, system = import_module("calculon.llm.llm").Llm, import_module("calculon.system").System
    checkout = Path(import_module("calculon").__file__ or "").parents[1]
    logging.disable(logging.WARNING)
    application = llm.Application(json.loads((checkout / "models" / "gpt3-175B.json").read_text("utf-8")))
    machine = system(json.loads((checkout / "systems" / "a100_80g.json").read_text("utf-8")))

    def price(plan: Plan) -> Any:
        execution = {
            "num_procs": plan.tp * plan.pp * plan.dp,
            "tensor_par": plan.tp,
            "pipeline_par": plan.pp,
            "data_par": plan.dp,
            "tensor_par_net": 0,
            "pipeline_par_net": 1,
            "data_par_net": 1,
            "batch_size": BATCH,
            "microbatch_size": plan.micro_batch,
            "datatype": "float16",
            "fused_activation": True,
            "attention_type": "multihead",
            "activation_recompute": "full" if plan.recompute == Recompute.FULL else "none",
            "pipeline_interleaving": 1,
            "optimizer_sharding": plan.zero == 1,
            "tensor_par_comm_type": "rs_ag" if plan.sp else "ar",
            "tensor_par_overlap": "none",
            "seq_par_ag_redo": False,
            "data_par_overlap": plan.dp > 1,
            "weight_offload": False,
            "activations_offload": False,
            "optimizer_offload": False,
            "training": True,
        }
        estimate = llm(application, logging.getLogger("calculon"))
        try:
            estimate.compile(machine, llm.Execution.from_json(execution))
            estimate.run(machine)
        except llm.Error as error:
            raise Refused from error
        return estimate.get_total_time()

    return price


PEERS = {"llm_analysis": llm_analysis, "calculon": calculon}


def _accepts(price: Callable[[Plan], Any], plan: Plan) -> bool:
    """Whether a peer prices a plan at all: it refuses those that do not fit by its own count."""
    try:
        price(plan)
    except (AssertionError, Refused):
        return False
    return True


def _alone(inputs: Inputs, plan: Plan) -> Any:
    return estimate_each([plan], inputs)


def _each(price: Callable[[Plan], Any], plans: list[Plan]) -> None:
    for plan in plans:
        price(plan)


if __name__ == "__main__":
    main()
