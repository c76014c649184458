"""Filled: one YAML file that a framework's own script trains by, with marks that the start script replaces."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.launch.export import Launch
from meshwright.launch.writers.start import batch_file, start_script, torchrun
from meshwright.launch.writers.trees import yaml_text

MARK = "FILL_IN_"
NUMBERS = ("LEARNING_RATE", "NORM_EPSILON", "ROPE_THETA")
"""Places for numbers, which YAML 1.1 takes for text where they are written as 3e-4."""


def filled_files(launch: Launch, notes: Sequence[str]) -> dict[str, str]:
    """The configuration, the start script and the Slurm batch file, by name. notes: what all say first."""
    name, start = launch.table.configuration, launch.table.start
    own = {key: value for key, value in launch.settings.items() if not key.isupper()}
    text = yaml_text(own, [*notes, f"FILL IN: train.sh replaces {MARK}NAME by the variable NAME of its environment."])
    asked = {each: what for each, what in launch.to_fill.items() if f"${each}" in start}
    marks = {each: what for each, what in launch.to_fill.items() if MARK + each in text}
    numbers = [each for each in NUMBERS if each in marks]
    replaced = " ".join(f'-e "s|{MARK}{each}|${each}|g"' for each in marks)
    fill = f'for each in {" ".join(numbers)}; do LC_ALL=C printf -v "$each" \'%.12f\' "${{!each}}"; done\n'
    fill += f'CONFIG="$(mktemp --suffix=.yaml)"\nsed {replaced} "$HERE/{name}" > "$CONFIG"\n'
    script = start_script(launch, notes, f"{fill}{torchrun(launch)}    {start}", asked | marks)
    return {name: text, "train.sh": script, "job.slurm": batch_file(launch, notes)}
