"""Traffic: every collective and message that a rank issues, by axis, kind, size and number format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from meshwright.pytorch.processes.records import Collective

KINDS = {
    "all_gather_into_tensor": "all_gather",
    "_allgather_base_": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "_reduce_scatter_base_": "reduce_scatter",
    "all_reduce": "all_reduce",
    "allreduce_": "all_reduce",
    "all_to_all_single": "all_to_all",
    "send": "send",
    "recv_": "receive",
}
FORMATS = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32", torch.int64: "int64"}
FUNCTIONAL, DIRECT = "_c10d_functional", "c10d"


class TrafficWatch(TorchDispatchMode):
    """Counts what passes while a phase is on; bytes are those of the whole buffer: gathered, or before it is scattered.

    axes: the axis that each process group belongs to, by the group's name.
    """

    def __init__(self, axes: Mapping[str, str]) -> None:
        super().__init__()
        self._axes, self._phase = axes, ""
        self.counts: Counter[Collective] = Counter()

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """What passes inside is of that phase."""
        before, self._phase = self._phase, phase
        try:
            yield
        finally:
            self._phase = before

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note the operator and run it."""
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        self.note(func, args)
        return func(*args, **(kwargs or {}))

    def note(self, func: Any, args: Any) -> None:
        """Count the operator if it is a collective of a phase."""
        if func.namespace not in (FUNCTIONAL, DIRECT) or not self._phase:
            return
        name = func._schema.name.split("::")[1]
        if name in ("wait_tensor", "_wrap_tensor_autograd", "monitored_barrier_", "barrier"):
            return
        kind = KINDS.get(name, name)
        tensor, group = _buffer(args), _group(func.namespace, args)
        ranks = dist.get_world_size(group)
        whole = ranks if func.namespace == FUNCTIONAL and kind == "all_gather" else 1
        if ranks > 1:
            collective = Collective(
                axis=self._axes.get(group.group_name, group.group_name),
                kind=kind,
                number_format=FORMATS.get(tensor.dtype, str(tensor.dtype)),
                bytes=whole * tensor.numel() * tensor.element_size(),
                phase=self._phase,
            )
            self.counts[collective] += 1


def _buffer(args: Any) -> torch.Tensor:
    """The largest of the tensors that a collective was given: what is gathered, or what is scattered."""
    return max((each for each in tree_leaves(args) if isinstance(each, torch.Tensor)), key=torch.Tensor.numel)


def _group(namespace: str, args: Any) -> dist.ProcessGroup:
    if namespace == FUNCTIONAL:
        name = next(each for each in reversed(args) if isinstance(each, str))
        return dist.distributed_c10d._resolve_process_group(name)
    return next(dist.ProcessGroup.unbox(each) for each in args if isinstance(each, torch.ScriptObject))
