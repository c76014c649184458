"""Write requirements-dev.txt: everything that the tests run with, each at one version with the hash of its file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = """\
# Everything that `make test` runs with, for CPython {python} on {platform}: pip install --require-hashes -r {name}
# Written by `make lock` from pyproject.toml.
"""
NAME = "requirements-dev.txt"


def locked() -> str:
    """The lines of the file, from what pip would install into an empty environment."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    report = json.loads(subprocess.run([*command, f"{ROOT}[dev]"], check=True, capture_output=True, text=True).stdout)
    where = report["environment"]
    pins = [_pin(each) for each in report["install"] if each["metadata"]["name"] != "meshwright"]
    head = HEAD.format(
        python=where["python_version"], platform=f"{sys.platform} {where['platform_machine']}", name=NAME
    )
    return head + "".join(sorted(pins))


def _pin(entry: dict[str, dict[str, dict[str, dict[str, str]]]]) -> str:
    about, digest = entry["metadata"], entry["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{str(about['name']).lower().replace('_', '-')}=={about['version']} --hash=sha256:{digest}\n"


if __name__ == "__main__":
    (ROOT / NAME).write_text(locked(), "utf-8")
