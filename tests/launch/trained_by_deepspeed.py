"""Train folders of DeepSpeed one after the other, each in a child that has imported what their scripts do, which takes
longer than the training. argv: the folders; run by torchrun. What the scripts print goes to `printed` in each.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path


def main(folders: list[str]) -> None:
    import deepspeed  # noqa: F401
    import peft  # noqa: F401
    import transformers  # noqa: F401

    del os.environ["TORCHELASTIC_USE_AGENT_STORE"]  # it is for one world alone
    for number, folder in enumerate(map(Path, folders), start=1):
        child = os.fork()
        if not child:
            os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + number)
            os.environ |= {"MODEL": str(folder), "DATA": str(folder / "tokens"), "CHECKPOINTS": str(folder / "saved")}
            if os.environ["RANK"] == "0":
                os.dup2(os.open(folder / "printed", os.O_WRONLY | os.O_CREAT), 1)
            runpy.run_path(str(folder / "train.py"), run_name="__main__")
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{folder} does not train")


if __name__ == "__main__":
    main(sys.argv[1:])
