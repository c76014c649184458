"""Trainer: the progress bar and the summary that Hugging Face's Trainer prints, which has no step times.

Source: transformers 5.23.0, trainer.py L1625 (the batch), trainer_callback.py (ProgressCallback, PrinterCallback) and
trainer_utils.py (speed_metrics); tqdm 4.67, std.py (format_meter, format_interval).
"""

from __future__ import annotations

import re

from meshwright.validation.logs.formats import NUMBER, number
from meshwright.validation.logs.lines import Line
from meshwright.validation.logs.steps import WARM_UP, Readings

LOOKED_FOR = "20/1000 [01:42<1:23:20, 5.12s/it] and {'train_runtime': '5120.4', 'train_samples_per_second': ...}"
WINDOW_S = 50
"""Bars count whole seconds: over this many, a step time is right within 2 %."""
LEAST_S = 10
MOST_BARS, MOST_STEPS = 64, 100_000
_BAR = re.compile(r"^\s*\d{1,3}%\|[^|]*\| (\d{1,12})/(\d{1,12}) \[(?:(\d{1,5}):)?(\d{1,2}):(\d{2})<")
"""A bar without a name: those of downloads and of evaluation inside have one, or end sooner."""
_RUNTIME = re.compile(rf"'train_runtime': '?({NUMBER})")
_BATCH = re.compile(r"Total train batch size [^=]{0,80}= ([\d,]{1,12})\s*$")
_SAMPLES = re.compile(rf"'train_samples_per_second': '?({NUMBER})")


class TrainerLines:
    """Reads the batch, the bars and the summary of a Trainer."""

    def __init__(self) -> None:
        self._bars: dict[int, dict[int, int]] = {}
        """Seconds since the start by step, of every bar by its length."""
        self._runtime, self._samples = 0.0, 0.0
        self._batch = 0
        """Sequences of a step, 0 where none are printed."""

    def read(self, line: Line) -> None:
        """Take what a line says."""
        text = line.text
        if "%|" in text and (match := _BAR.match(text)):
            step, length = int(match[1]), int(match[2])
            seconds = int(match[3] or 0) * 3600 + int(match[4]) * 60 + int(match[5])
            if length in self._bars or len(self._bars) < MOST_BARS:
                bar = self._bars.setdefault(length, {})
                if step in bar or len(bar) < MOST_STEPS:
                    bar[step] = min(seconds, bar.get(step, seconds))
        if "Total train batch" in text and (match := _BATCH.search(text)):
            self._batch = int(match[1].replace(",", "") or 0)
        if "'train_runtime'" in text and (match := _RUNTIME.search(text)):
            self._runtime = max(self._runtime, number(match[1]) or 0.0)
            if match := _SAMPLES.search(text):
                self._samples = max(self._samples, number(match[1]) or 0.0)

    @property
    def readings(self) -> Readings:
        """Step times over windows of the longest bar, else of the whole training, else its samples a second."""
        bar = max(self._bars.values(), key=lambda each: max(each.values()), default={})
        length = max((each for each in self._bars if self._bars[each] is bar), default=0)
        steps = Readings("steps")
        for step, seconds in _windows(bar):
            steps.add(step, seconds, self._batch)
        if steps.lines:
            steps.first = 0
            return steps
        if self._runtime and length and length in bar:
            steps.add(length, self._runtime / length, self._batch)
        elif self._samples:
            steps = Readings("samples")
            steps.add(1, 1 / self._samples, self._batch)
        return steps


def _windows(bar: dict[int, int]) -> list[tuple[int, float]]:
    """Mean step times over windows after the first steps."""
    points = sorted((step, seconds) for step, seconds in bar.items() if step >= WARM_UP)
    if len(points) < 2:
        return []
    windows, (start, since) = [], points[0]
    for step, seconds in points[1:]:
        if seconds - since >= WINDOW_S:
            windows.append((step, (seconds - since) / (step - start)))
            start, since = step, seconds
    (start, since), (step, seconds) = points[0], points[-1]
    if not windows and seconds - since >= LEAST_S:
        return [(step, (seconds - since) / (step - start))]
    return windows
