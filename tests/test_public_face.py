"""The public face: exactly these names, each loaded on first use, and a help that needs no engine."""

from __future__ import annotations

import ast
import pydoc
import subprocess
import sys

import pytest

import meshwright
from commands import HANG_S

FACE = {
    "__version__",
    "Accelerator",
    "Cluster",
    "Constraints",
    "Estimate",
    "SearchResult",
    "IllegalPlan",
    "InvalidInput",
    "InvalidSpec",
    "Job",
    "Level",
    "MeshwrightError",
    "Model",
    "NotModelled",
    "NothingFits",
    "Plan",
    "Recompute",
    "RecomputeModules",
    "Runtime",
    "Schedule",
    "SweepResult",
    "UnknownName",
    "Verdict",
    "estimate",
    "plan",
    "read_cluster",
    "read_model",
    "read_runtime",
    "read_launch",
    "runs",
    "sweep",
    "vary",
    "MemoAnswer",
    "memo",
    "compare",
    "ClustersAnswer",
    "PlansAnswer",
    "validate",
    "RunsAnswer",
    "ValidateAnswer",
    "Answer",
    "PlanAnswer",
    "ExplainAnswer",
    "CheckAnswer",
    "LimitsAnswer",
    "check",
    "explain",
    "limits",
}
HEAVY = ("numpy", "pydantic", "pydantic_core", "jsonschema", "torch")
OTHER_COMMANDS = ("meshwright.cli.compare", "meshwright.cli.textbook")


def loaded_after(code: str, modules: tuple[str, ...] = HEAVY) -> list[str]:
    """Which of these modules a fresh process has loaded once the code has run."""
    program = f"import sys\n{code}\nprint([name for name in {modules!r} if name in sys.modules], file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_S)
    assert ran.returncode == 0, ran.stderr
    names: list[str] = ast.literal_eval(ran.stderr.splitlines()[-1])
    return names


def test_the_face_is_exactly_this() -> None:
    assert len(meshwright.__all__) == len(set(meshwright.__all__))
    assert set(meshwright.__all__) == FACE


@pytest.mark.parametrize("name", sorted(FACE))
def test_every_name_resolves(name: str) -> None:
    assert getattr(meshwright, name) is not None


def test_the_names_are_listed() -> None:
    assert set(dir(meshwright)) == FACE
    assert "Verdict" in pydoc.plain(pydoc.render_doc(meshwright))


def test_a_verdict_says_whether_it_fits() -> None:
    assert [verdict.fits for verdict in meshwright.Verdict] == [True, True, False]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="plam"):
        _ = meshwright.plam


def test_the_package_loads_without_its_engine() -> None:
    assert loaded_after("import meshwright; meshwright.__version__") == []


def help_of(*command: str) -> str:
    """Code that prints the help of a command."""
    return f"""from meshwright.cli import main
sys.argv = {["meshwright", *command, "--help"]!r}
try:
    main()
except SystemExit as end:
    assert not end.code"""


def test_help_needs_no_engine() -> None:
    assert loaded_after(help_of()) == []


def test_help_of_a_command_needs_no_arrays() -> None:
    assert "numpy" not in loaded_after(help_of("plan"))


def test_a_command_imports_no_other() -> None:
    assert loaded_after(help_of("limits"), OTHER_COMMANDS) == []


def test_a_plan_from_python() -> None:
    job = meshwright.Job(sequence_length=8192, global_batch=64)
    found = meshwright.plan("llama-3.1-8b", "1x8:h100", job, top=2)
    best, second = found.best
    assert best.verdict <= second.verdict
    again = meshwright.estimate("llama-3.1-8b", "1x8:h100", job, best.plan)
    assert again.step_time_s == best.step_time_s
    assert again.memory == best.memory


def test_errors_from_python_are_the_documented_ones() -> None:
    job = meshwright.Job(sequence_length=8192, global_batch=8)
    with pytest.raises(meshwright.NothingFits, match="What would fit"):
        meshwright.plan("llama-3.1-70b", "1x8:h100", job)
    with pytest.raises(meshwright.IllegalPlan, match="tp 2 or 4"):
        meshwright.estimate("llama-3.1-8b", "1x8:h100", job, meshwright.Plan(tp=3, num_microbatches=8))
    with pytest.raises(meshwright.UnknownName, match="nearest: llama"):
        meshwright.read_model("llama-3.1-8")
    with pytest.raises(meshwright.IllegalPlan, match="ZeRO 3"):
        meshwright.estimate("llama-3.1-8b", "1x8:h100", job, meshwright.Plan(dp=8, zero=3), runtime="nanotron")
    with pytest.raises(ValueError, match="global_batch"):
        meshwright.Job(sequence_length=8192, global_batch=0)
