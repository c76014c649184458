"""Metadata on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from worked import CLUSTER_METADATA, MODEL_METADATA


@pytest.fixture
def metadata(tmp_path: Path) -> list[str]:
    """The options that name the metadata and the output."""
    (tmp_path / "c.json").write_text(json.dumps(CLUSTER_METADATA), "utf-8")
    (tmp_path / "m.json").write_text(json.dumps(MODEL_METADATA), "utf-8")
    names = {"--cluster-metadata": "c.json", "--model-metadata": "m.json", "--output": "o.json"}
    return [text for flag, name in names.items() for text in (flag, str(tmp_path / name))]
