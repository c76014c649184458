"""Recipes that rows of Megatron-Bridge do not print: those that an earlier release prints for the same layout, or that
its configurations name."""

from __future__ import annotations

from collections.abc import Iterable

from meshwright.validation.rows.table import Row

LAYOUT = ("model", "gpu", "num_gpus", "precision_detail", "tp", "pp", "vpp", "cp", "ep", "micro_batch_size")
"""Columns that are alike in two rows with one recipe."""
NAMED: dict[tuple[str, ...], tuple[str, str]] = {
    ("DeepSeek-V3", "B200-SXM-180GB", "256", "mxfp8", "1", "8", "2", "1", "32", "1"): (
        "moe_flex_dispatcher_backend=deepep;moe_a2a_overlap=True",
        "mla_up_proj+mlp",
    ),
    ("DeepSeek-V3", "H100-SXM-80GB", "1024", "fp8(current-scaling)", "2", "8", "4", "1", "64", "1"): (
        "moe_flex_dispatcher_backend=deepep;moe_a2a_overlap=True",
        "mla_up_proj+mlp",
    ),
}
"""What a recipe sets and recomputes, by `LAYOUT` (Megatron-Bridge scripts/performance/configs/deepseek:
deepseek_workload_base_configs.py@04264182, DEEPSEEK_V3_PRETRAIN_CONFIG_B200_FP8_MX_V2; and
deepseek_llm_pretrain.py@01328424, deepseek_v3_h100_1024gpus_fp8_config)."""


def with_recipes(rows: Iterable[Row]) -> list[Row]:
    """The rows, with the words of their recipe among the notes where only another row or a configuration prints it."""
    given = list(rows)
    printed = sorted((row for row in given if _prints(row)), key=lambda row: row["software_release"])
    return [_filled(row, printed) if "Megatron-Bridge" in row["runtime_detail"] else row for row in given]


def _prints(row: Row) -> bool:
    return "Megatron-Bridge" in row["runtime_detail"] and "recipe " in row["notes"]


def _filled(row: Row, printed: list[Row]) -> Row:
    """The row itself where it prints its recipe, or where nothing earlier of its layout does."""
    earlier = [each for each in printed if _like(each, row) and each["software_release"] < row["software_release"]]
    if _prints(row) or not row["moe_experts"]:
        return row
    if earlier:
        said, again = earlier[-1]["notes"].split("recipe ", 1)[1].split("; recompute")[0], earlier[-1]
        recompute = {name: row[name] or again[name] for name in ("recompute", "recompute_modules")}
        return {**row, **recompute, "notes": f"{row['notes']}; as release {again['software_release']}: {said}"}
    said, modules = NAMED.get(tuple(row[name] for name in LAYOUT), ("", ""))
    if not said:
        return row
    return {**row, "recompute": "selective", "recompute_modules": modules, "notes": f"{row['notes']}; recipe: {said}"}


def _like(one: Row, other: Row) -> bool:
    return all(one[name] == other[name] for name in LAYOUT)
