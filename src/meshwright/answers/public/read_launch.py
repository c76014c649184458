"""Read launch: the question of a launch file, from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from meshwright.arguments import checked
from meshwright.launch.imports import question
from meshwright.launch.imports.question import LaunchQuestion


@checked
def read_launch(
    launch_file: str | Path,
    cluster: str | None = None,
    *,
    model: str | None = None,
    runtime: str | None = None,
    framework: str | None = None,
    values: Mapping[str, str] | None = None,
) -> LaunchQuestion:
    """The plan of a launch file and its question, to be priced, checked and compared; nothing in the file is run.

    launch_file: a framework's script or configuration, or a folder with one; cluster, model: what it does not say;
    runtime: priced as another one; framework: whose file it is; values: of what it leaves open, as `--set` names them.
    Raises `InvalidInput` where it cannot be read or leaves open what is needed.
    """
    return question.read_launch(launch_file, cluster, model=model, runtime=runtime, framework=framework, values=values)
