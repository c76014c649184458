"""Options: what a question says beside its model, cluster, length and batch, as commands take it."""

from __future__ import annotations

from meshwright.specs.behaviours import replaced_words
from meshwright.specs.inputs import Inputs
from meshwright.specs.job_options import JOB_OPTIONS

_BATCH = ("seq_len", "global_batch", "global_batch_tokens")
_FIRST = ("precision", "gradients")
_OF_STEP = [each.name for each in JOB_OPTIONS if each.of_step and not each.only_with and each.name not in _FIRST]
_OF_JOB = *_FIRST, *(name for name in _OF_STEP if name not in _BATCH)
"""Fields of a job that change what a step takes."""


def options_of(inputs: Inputs) -> tuple[str, ...]:
    """The options of a question, as commands take them: its runtime, what is not usual of its job, and replaced
    behaviours, by the switches that set them where there are some.

    >>> from meshwright.specs.reading.inputs import read_inputs
    >>> from meshwright.specs.job import Job
    >>> options_of(read_inputs("llama-3.1-8b", "2x8:h100", Job(sequence_length=4096, global_batch=64)))
    ('--runtime megatron-core', '--precision bf16')
    """
    job = ((name, getattr(inputs.job, name)) for name in _OF_JOB)
    return (
        f"--runtime {inputs.runtime.id}",
        *(f"--{name.replace('_', '-')} {_word(value)}" for name, value in job if value),
        *(f"--with {words.replace(' ', '=', 1)}" for words in replaced_words(inputs.runtime)),
    )


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
