"""Context length: sequences longer than the positions that a model's config.json names."""

from __future__ import annotations

from meshwright.specs.inputs import Inputs


def beyond_positions(inputs: Inputs) -> list[str]:
    """One line where the sequences are longer than the model's config.json allows; none where it says nothing of it."""
    allowed, length = inputs.model.config_values.get("max_position_embeddings"), inputs.job.sequence_length
    if not isinstance(allowed, int) or length <= allowed:
        return []
    positions = f"the {allowed:,} positions of {inputs.model.name}'s config.json"
    scaled = "its rotary positions have to be scaled before it learns from them"
    return [f"Sequences of {length:,} tokens are longer than {positions}: {scaled}."]
