"""What is installed, held against requirements-dev.txt without a network: `make audit`.

Every package must be within the bounds of pyproject.toml, every pin must carry a hash, and every installed file must be
what its wheel said. Whether an advisory names a version is not known here: `pip-audit -r requirements-dev.txt` asks.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PIN = re.compile(r"([a-z0-9-]+)==(\S+) --hash=sha256:[0-9a-f]{64}")
REWRITTEN = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
"""Files of a package that pip writes itself."""


def pins() -> dict[str, str]:
    """The version of every pinned package, by its name; raises `ValueError` for a pin without a hash."""
    lines = (ROOT / "requirements-dev.txt").read_text("utf-8").splitlines()
    found = {line: PIN.fullmatch(line) for line in lines if not line.startswith("#")}
    if bare := [line for line, pin in found.items() if pin is None]:
        raise ValueError(f"requirements-dev.txt: no pin with a hash: {', '.join(bare)}")
    return {canonicalize_name(pin[1]): pin[2] for pin in found.values() if pin}


def bounds(*extras: str) -> list[Requirement]:
    """What pyproject.toml asks for; extras: whose packages are added, all where none is given."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    optional = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for extra in extras or optional for line in optional[extra])]
    return [each for each in map(Requirement, lines) if each.name != "meshwright"]


def installed(name: str) -> Distribution | None:
    """A package as it is installed here."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def changed_files(package: Distribution) -> Iterator[str]:
    """Files of a package that are not what its wheel said, by the hashes of its RECORD."""
    for file in package.files or ():
        if file.hash is None or file.name in REWRITTEN or file.suffix == ".pyc":
            continue
        path = Path(str(file.locate()))
        digest = hashlib.new(file.hash.mode, path.read_bytes()).digest() if path.is_file() else b""
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            yield str(file)


def faults() -> Iterator[str]:
    """What must not be: a version outside of its bounds, and files that are not those of the wheel."""
    for asked in bounds():
        package = installed(asked.name)
        if package and not asked.specifier.contains(package.version, prereleases=True):
            yield f"{asked.name} {package.version} is outside of {asked.specifier}"
    for name in pins():
        if package := installed(name):
            yield from (
                f"{name} {package.version}: {file} is not what the wheel said" for file in changed_files(package)
            )


def main() -> int:
    """Print what was looked at and what is wrong; exit with 1 where anything is."""
    versions = {name: package.version for name in pins() if (package := installed(name))}
    moved = [
        f"{name} {version} (pinned: {pins()[name]})" for name, version in versions.items() if version != pins()[name]
    ]
    wrong = [*faults()]
    print(f"{len(pins())} packages pinned by hash, {len(versions)} installed, {len(versions) - len(moved)} as pinned")
    print("\n".join([*(f"another version: {each}" for each in moved), *(f"wrong: {each}" for each in wrong)]))
    print("Advisories were not looked up; that needs the network: pip-audit -r requirements-dev.txt")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
