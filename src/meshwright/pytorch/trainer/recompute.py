"""Recomputation: whole layers, or every second product of a layer with all that is element-wise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch._functorch.partitioners import get_default_op_list
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from meshwright.layout.plan import Plan
from meshwright.pytorch.trainer.experts import Router
from meshwright.pytorch.trainer.kernels import ATTEND
from meshwright.pytorch.trainer.model import Decoder
from meshwright.specs.choices import Recompute
from meshwright.specs.model import Attention
from meshwright.specs.runtime import Runtime

PRODUCT = torch.ops.aten.mm.default
BIASED = torch.ops.aten.addmm.default
EXCHANGE = torch.ops._c10d_functional.all_to_all_single.default
SAVED = {operator.default for operator in get_default_op_list().compute_intensive_ops} | {
    ATTEND,
    torch.ops.aten.topk.default,
    torch.ops._c10d_functional.reduce_scatter_tensor.default,
    EXCHANGE,
}


def recompute(decoder: Decoder, plan: Plan, runtime: Runtime, attentions: Iterable[Attention]) -> None:
    """Wrap the layers that the plan computes again in backward. attentions: of the kinds of layers."""
    if plan.recompute == Recompute.NONE:
        return
    routers = [module for module in decoder.modules() if isinstance(module, Router)]
    gates = {torch.Size((router.gate.in_features, router.gate.out_features)) for router in routers}
    stops, selective = runtime.activations.checkpoint_stops_early, plan.recompute == Recompute.SELECTIVE
    kept = {
        ATTEND: runtime.activations.keeps_attention_output,
        BIASED: runtime.activations.keeps_biased_products,
        EXCHANGE: not any(map(runtime.activations.exchanges_again, attentions)),
    }
    saved = SAVED - {operator for operator, keeps in kept.items() if not keeps}
    for index, layer in enumerate(decoder.layers):
        if selective and not runtime.activations.recomputes_by_product:
            layer.attention.core = checkpoint_wrapper(layer.attention.core, early_stop=stops)
        elif selective:
            decoder.layers[index] = checkpoint_wrapper(
                layer, context_fn=lambda: _contexts(gates, saved), early_stop=False
            )
        elif not plan.recompute_layers or index < plan.recompute_layers:
            decoder.layers[index] = checkpoint_wrapper(layer, early_stop=stops)


def _contexts(gates: set[torch.Size], saved: set[Any]) -> Any:
    """Of a policy that saves what is expensive, but no routers' products, and of others every second one of each pass.

    gates: shapes of the routers' weights, as products take them; saved: operators whose outputs are.
    """
    products = {False: 0, True: 0}

    def policy(context: Any, function: Any, *arguments: Any, **_: Any) -> CheckpointPolicy:
        if function == PRODUCT and arguments[1].shape in gates:
            return CheckpointPolicy.PREFER_RECOMPUTE
        if function == PRODUCT:
            products[context.is_recompute] += 1
        second = function == PRODUCT and products[context.is_recompute] % 2 == 0
        return CheckpointPolicy.MUST_SAVE if function in saved and not second else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)
