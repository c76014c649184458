"""Memory: what a rank has allocated at every moment of a step, by what it is for, counted by storages."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial, wraps
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from meshwright.pytorch.processes.records import ObservedMoment, ObservedPeak
from meshwright.pytorch.trainer.mesh import local

Note = Callable[[Any, Any], None]


class MemoryWatch(TorchDispatchMode):
    """Counts the bytes of every storage that an operator makes, until it is gone.

    Sharding propagation of DTensor runs operators on global shapes, which are no part of the rank's memory: the watch
    is paused around it, and a fake mode is switched off. FSDP allocates and frees by resizing storages.
    """

    def __init__(self, note: Note) -> None:
        """note: shown every operator with its arguments, since another mode beside this one makes each one slower."""
        super().__init__()
        self._note = note
        self._storages: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self._labels, self._paused = ["other"], False
        self.now: Counter[str] = Counter()
        self.moment = ObservedMoment("forward", "")
        """Of the step: what is allocated counts for its peak."""
        self.peaks: dict[ObservedMoment, ObservedPeak] = {}
        self._restore = ExitStack()

    @property
    def total(self) -> int:
        """Bytes allocated now."""
        return sum(self.now.values())

    @contextmanager
    def labelled(self, label: str) -> Iterator[None]:
        """What is allocated inside is for that."""
        self._labels.append(label)
        try:
            yield
        finally:
            self._labels.pop()

    def relabel(self, tensors: Any, label: str) -> None:
        """What these tensors hold is for that, whoever made it; storages that were not seen are counted from now on."""
        for tensor in tree_leaves(tensors):
            if isinstance(tensor, torch.Tensor):
                self._add(local(tensor).untyped_storage(), label, "")

    def _add(self, storage: Any, label: str, what: str) -> None:
        known = self._storages.get(storage)
        if known is None:
            known = [0, label]
            self._storages[storage] = known
            weakref.finalize(storage, self._resize, known, 0, what).atexit = False
        elif label != known[1] and not what:
            self.now[known[1]] -= known[0]
            self.now[label] += known[0]
            known[1] = label
        self._resize(known, storage.nbytes(), what)

    def _resize(self, known: list[Any], size: int, what: str) -> None:
        self.now[known[1]] += size - known[0]
        known[0] = size
        highest = self.peaks.get(self.moment)
        if what and (highest is None or self.total > highest.total):
            self.peaks[self.moment] = ObservedPeak(dict(self.now), f"{self._labels[-1]}, {what}")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and count what it made."""
        if func is torch.ops.prim.device.default:
            return func(*args)  # what fake tensors are asked more often than all else, and makes nothing
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        self._note(func, args)
        if func is torch.ops._c10d_functional.wait_tensor.default:
            return args[0]  # as on a device; a fake one would be another storage
        out = func(*args, **(kwargs or {}))
        if not self._paused:
            for leaf in tree_leaves(out):
                if isinstance(leaf, torch.Tensor):
                    self._add(leaf.untyped_storage(), self._labels[-1], str(func))
        return out

    def __enter__(self) -> MemoryWatch:
        self._wrap(ShardingPropagator, "_propagate_tensor_meta_non_cached", self._apart)
        self._wrap(torch.UntypedStorage, "resize_", self._resized)
        for name, label in (("unshard", "gathered"), ("wait_for_unshard", "gathered"), ("post_backward", "reduced")):
            self._wrap(FSDPParamGroup, name, partial(self._call_labelled, label))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._restore.close()

    def _wrap(self, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        original = getattr(owner, name)
        self._restore.callback(setattr, owner, name, original)

        @wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        setattr(owner, name, wrapped)

    def _apart(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before, self._paused = self._paused, True
        try:
            with unset_fake_temporarily() or nullcontext():
                return original(*args, **kwargs)
        finally:
            self._paused = before

    def _resized(self, original: Callable[..., Any], storage: Any, size: int) -> Any:
        result = original(storage, size)
        if (known := self._storages.get(storage)) is not None:
            self._resize(known, size, "resize_")
        return result

    def _call_labelled(self, label: str, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self.labelled(label):
            return original(*args, **kwargs)
