"""What a script leaves to the environment and its framework needs is a warning, not a refusal."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_file_rules import SCRIPT

from commands import asked

CONNECTIONS = "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
UNSET = SCRIPT.replace(CONNECTIONS, "")


@pytest.mark.parametrize(
    ("text", "cluster", "warned"),
    [
        (UNSET, "8x8:h100", True),
        (SCRIPT, "8x8:h100", False),
        (UNSET, "8x8:b200", False),
        (UNSET.replace("--tensor-model-parallel-size 8", "").replace("--sequence-parallel", ""), "8x8:h100", False),
        (UNSET.replace("#!/bin/bash\n", "#!/bin/bash\nsource environment.sh\n"), "8x8:h100", False),
    ],
)
def test_one_connection_that_a_script_leaves_to_the_environment_is_warned_of(
    tmp_path: Path, text: str, cluster: str, warned: bool
) -> None:
    path = tmp_path / "run.sh"
    path.write_text(text)
    answer = asked("check", "--from", str(path), "--cluster", cluster)
    assert answer.code == 0
    assert ("Megatron-LM refuses this file unless" in answer.out) == warned
    warnings = asked("check", "--from", str(path), "--cluster", cluster, "--json").document["launch_file"]["warnings"]
    assert len(warnings) == warned
    assert all(each.startswith("CUDA_DEVICE_MAX_CONNECTIONS=1 comes from the environment") for each in warnings)
