"""GPT-OSS of release 25.11 on B200, whose table prints the expert parallelism of H100."""

from __future__ import annotations

from meshwright.validation.rows.reading import read_case
from tables import shipped


def test_experts_stand_on_as_many_ranks_as_in_the_recipe_of_the_release() -> None:
    rows = {row["id"]: row for row in shipped()}
    degrees = {name: read_case(rows[name]).plan.ep for name in ("BRIDGE-239", "BRIDGE-204", "BRIDGE-167")}
    assert degrees == {"BRIDGE-239": 64, "BRIDGE-204": 64, "BRIDGE-167": 8}
    # A token takes as long as where the next release prints 64, not as where its patch prints 8.
    speed = {name: float(rows[name]["tokens_per_s_per_gpu"]) for name in degrees}
    assert speed["BRIDGE-239"] / speed["BRIDGE-204"] < 1.05 < 1.5 < speed["BRIDGE-167"] / speed["BRIDGE-239"]
