"""Groups: the axis of a plan that each process group of a world belongs to, by the ranks in it."""

from __future__ import annotations

from torch.distributed import get_process_group_ranks, get_rank
from torch.distributed.distributed_c10d import _world

from meshwright.layout.plan import Plan
from meshwright.pytorch.planned.spans import names_of_groups, ranks_of_axes


def axes_of_groups(plan: Plan) -> dict[str, str]:
    """The axis, or axes, of every group by its name.

    PyTorch makes one group of all that span the world, and DTensor goes on with the groups of an earlier plan that has
    the same mesh: names tell no axis apart, ranks do as far as they differ.
    """
    names, spans = names_of_groups(plan, get_rank()), ranks_of_axes(plan, get_rank())
    axes = {span: names[axis] for axis, span in spans.items()}
    groups = {name: tuple(get_process_group_ranks(group)) for group, name in _world.pg_names.items()}
    return {name: axes[span] for name, span in groups.items() if span in axes}
