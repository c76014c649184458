"""Model faults: what a job or a runtime asks of a model that the model cannot give."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.errors import Fault
from meshwright.specs.job import Job
from meshwright.specs.model import Model
from meshwright.specs.runtime import Runtime
from meshwright.specs.weights import parameter_count
from meshwright.units import format_count

MAX_PARAMETERS = 10**15
"""More than any model has; a larger count is taken for a slip."""
LIGER = "liger"
"""Of its element-wise kernels."""
IN_PLACE = "in_place"
"""Its loss that keeps logits."""
OWN_FORM = "native"
"""Of a model in Meshwright's own form, whose class in transformers is not known."""


def model_faults(model: Model, job: Job, runtime: Runtime) -> Iterator[Fault]:
    """Every fault."""
    positions, length = model.learned_positions, job.sequence_length
    if 0 < positions < length:
        what = f"{length} exceeds the {positions} learned positions of {model.name}; use {positions} or less"
        yield Fault("job.sequence_length", what)
    count = parameter_count(model)
    if count > MAX_PARAMETERS:
        most = format_count(MAX_PARAMETERS)
        yield Fault("model", f"has {format_count(count)} parameters; at most {most} are planned for")
    yield from _without_kernels(model, runtime)


def _without_kernels(model: Model, runtime: Runtime) -> Iterator[Fault]:
    """Source: linkedin/Liger-Kernel@ead96b61 src/liger_kernel/transformers/monkey_patch.py L3534-3585 and L3607: any
    other class is left as it is, with a line in the log.
    """
    liger = runtime.elementwise_kernels.get(LIGER)
    kernels = runtime.kernels
    runs = kernels.elementwise == LIGER or runtime.entropy.fuses_head or kernels.cross_entropy == IN_PLACE
    if runs and liger and model.family not in (*liger.model_types, OWN_FORM):
        what = f"has no kernels for models of type {model.family} ({model.name}), and would leave them as they are"
        yield Fault("runtime.liger", f"{what}; use --with liger=off")
    elif kernels.cross_entropy == IN_PLACE and liger and model.family in liger.kept_loss_types:
        what = f"does not replace the loss of models of type {model.family} ({model.name}) by one that keeps logits"
        yield Fault("runtime.liger", f"{what}, and runs that of PyTorch; leave it out (--with cross_entropy=eager)")
