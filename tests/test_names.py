"""Names never steer: what is called otherwise costs the same, obeys the same rules and has the same error bars."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.answers.basis.uncertainty import uncertainty_entry
from meshwright.cost.step import estimate_each
from meshwright.launch.settings import launch_settings
from meshwright.layout.plan import Plan
from meshwright.specs import catalog
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.accelerator import read_accelerator
from meshwright.specs.reading.cluster import read_cluster
from strategies import latent, legal_plans, llama_8b, mixture, question

OTHER = "our-b200-nvlink"
"""A name that looks like another accelerator, link, model and runtime at once."""


def figures(inputs: Inputs) -> list[Any]:
    """What is said of the first, middle and last legal plan but for the names in it."""
    legal = legal_plans(inputs)
    plans = [legal[int(row)] for row in (0, len(legal) // 2, len(legal) - 1)]
    told = []
    for plan, estimate in zip(plans, estimate_each(plans, inputs), strict=True):
        launch = [setting.name for setting in launch_settings(plan, inputs)]
        told.append((plan, estimate.step_time_s, estimate.memory, launch, uncertainty_entry(estimate, inputs)))
    return [len(legal), *told]


def written_out(id_: str) -> dict[str, Any]:
    """A catalogued accelerator as a site would describe its own in full, under another name."""
    return catalog.load("accelerators", id_) | {"id": OTHER, "aliases": [], "scale_up_name": "links"}


@pytest.mark.parametrize("id_", catalog.names("accelerators"))
@pytest.mark.parametrize("model", [llama_8b(), mixture()], ids=["dense", "experts"])
def test_an_accelerator_of_ones_own_is_treated_like_the_catalogued_one(id_: str, model: Any) -> None:
    catalogued = question(model, f"4x{read_accelerator(id_).node_size}:{id_}")
    given = {"nodes": 4, "gpus_per_node": catalogued.cluster.gpus_per_node}
    for own in (written_out(id_), {"like": id_, "id": OTHER}):
        renamed = catalogued.replace(cluster=read_cluster({"accelerator": own, **given}))
        assert figures(renamed) == figures(catalogued)


@pytest.mark.parametrize("runtime", catalog.names("runtimes"))
def test_a_runtime_a_model_or_kernels_of_another_name_cost_the_same(runtime: str) -> None:
    inputs = question(llama_8b(), "2x8:h100", runtime)
    accelerator = inputs.cluster.accelerator
    renamed = inputs.replace(
        model=inputs.model.replace(name=OTHER, family=OTHER),
        runtime=inputs.runtime.replace(id=OTHER, aliases=(), version=OTHER),
        cluster=inputs.cluster.replace(
            name=OTHER,
            accelerator=accelerator.replace(id=OTHER, kernels=accelerator.kernels.replace(id=OTHER)),
            levels=tuple(level.replace(name=f"{OTHER}-{level.size}") for level in inputs.cluster.levels),
        ),
    )
    assert figures(renamed) == figures(inputs)


def test_the_kinds_of_layers_have_names_for_people_alone() -> None:
    inputs = question(latent(), "2x8:h100")
    kinds = tuple(kind.replace(name=f"{OTHER}-{index}") for index, kind in enumerate(inputs.model.layer_kinds))
    assert figures(inputs.replace(model=inputs.model.replace(layer_kinds=kinds))) == figures(inputs)


@pytest.mark.parametrize(("name", "asks"), [("h100", True), ("mi300x", True), ("b200", False), ("rtx-pro-6000", False)])
def test_blackwell_needs_no_single_connection_whatever_its_name(name: str, asks: bool) -> None:
    own = read_cluster({"accelerator": {"like": name, "id": OTHER}})
    inputs = question(llama_8b(), own, gradients="fp32")
    assert ("single_connection" in {each.name for each in launch_settings(Plan(tp=8), inputs)}) == asks
