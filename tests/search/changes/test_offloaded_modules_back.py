"""What modules save on the host, offered back on the device."""

from __future__ import annotations

from meshwright.layout.plan import Plan
from meshwright.search.changes.question_knobs import question_knobs
from meshwright.specs.behaviours import with_behaviours
from strategies import llama_8b, question


def test_modules_on_the_host_are_offered_back() -> None:
    plain = question(llama_8b(), "1x8:h100")
    away = plain.replace(runtime=with_behaviours(plain.runtime, ["offloaded_modules=core_attn+attn_proj"]))
    assert "offloaded_modules" not in dict(question_knobs(Plan(dp=8, zero=1), plain))
    (change,) = dict(question_knobs(Plan(dp=8, zero=1), away))["offloaded_modules"]
    assert str(change.change) == "offloaded_modules core_attn+attn_proj -> []"
    assert change.inputs.runtime.activations.offloaded_modules == ()
