"""Launch folder: launch files on the disk, all or none of them, and nothing outside."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from shutil import rmtree

from meshwright.errors import InvalidInput


def require_free(folder: Path, option: str, *, overwrite: bool = False) -> Path:
    """Where a folder would be written, links followed.

    option: what named it; overwrite: one that is there may stay. Raises `InvalidInput` if it is there and may not be,
    or if its directory is not.
    """
    target = Path(os.path.realpath(folder))
    if not str(folder).strip():
        raise InvalidInput(f"{option} is an empty name; it must be the path of a folder")
    if not target.parent.is_dir():
        raise InvalidInput(f"{option} {str(folder)!r}: the directory {str(target.parent)!r} does not exist")
    if target.exists() and not target.is_dir():
        raise InvalidInput(f"{option} {str(folder)!r} is a file; give a folder")
    if target.exists() and not overwrite:
        raise InvalidInput(f"{option} {str(folder)!r} is there; give another folder, or --overwrite")
    return target


def write_folder(files: dict[str, str], folder: Path, option: str = "--out", *, overwrite: bool = False) -> Path:
    """Write files into a folder, all or none of them; returns where they are.

    files: text by name; option: what named the folder; overwrite: one that is there is replaced file by file. Raises
    `InvalidInput` as `require_free` does, or if the disk refuses.
    """
    target = require_free(folder, option, overwrite=overwrite)
    made = None
    try:
        made = Path(tempfile.mkdtemp(prefix=f".{target.name[:80]}.", dir=target.parent))
        made.chmod(0o755)
        for name, text in files.items():
            (made / name).write_text(text, "utf-8")
            (made / name).chmod(0o755 if name.endswith((".sh", ".slurm")) else 0o644)
        if target.exists():
            for name in files:
                os.replace(made / name, target / name)
        else:
            os.rename(made, target)
    except OSError as error:
        raise InvalidInput(f"{option} {str(folder)!r} cannot be written: {error.strerror}") from None
    finally:
        if made is not None and made.exists():
            rmtree(made, ignore_errors=True)
    return target
