"""Ways to fit: where every plan that fits is at risk, the answer says so and what would be safe."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import jsonschema

from meshwright.answers.brief import plan_briefs
from meshwright.answers.plan_file import json_schema
from meshwright.answers.plans.beyond import Beyond
from meshwright.answers.plans.table import plan_document
from meshwright.answers.public.plans import PlanAnswer
from meshwright.answers.unfit.nothing_fits import HOPELESS, remedy_words, shortfall_words
from meshwright.answers.unfit.ways_to_fit import first_of_each_kind, ways_entry, ways_lines, ways_to_fit
from meshwright.cost.memory.fit import Verdict
from meshwright.search.find import SearchResult, find
from meshwright.search.many_searches.remedies import remedies
from meshwright.specs.behaviours import with_behaviours
from strategies import llama_8b, llama_70b, question


@cache
def found(cluster: str) -> SearchResult:
    """The answer for Llama 3.1 8B on a cluster."""
    return find(question(llama_8b(), cluster, global_batch=4, sequence_length=4096))


def test_the_count_says_that_plans_which_fit_are_at_risk() -> None:
    risky, safe = found("1x2:h100"), found("1x8:h100")
    assert {each.verdict for each in risky.best} == {Verdict.AT_RISK}
    assert risky.counts.endswith(f"legal, none fits safely, {risky.fitting:,} at risk")
    assert safe.counts.endswith(f"legal, {safe.fitting:,} fit")
    assert f"none fits safely, {risky.fitting:,} at risk;" in " ".join(repr(risky).split())


def test_what_would_fit_is_listed_as_where_nothing_fits() -> None:
    risky = found("1x2:h100")
    ways = ways_to_fit(risky)
    assert ways == remedies(risky)
    assert ways
    (listed,) = ways_lines(ways)
    assert listed.lines == ("**What would fit safely:**", *(f"- {remedy_words(each)}" for each in ways))
    *briefs, by_kind, two, one = plan_briefs(risky, Beyond(ways=ways))
    assert all(listed in brief for brief in briefs)
    shorter = first_of_each_kind(ways)
    assert [each.kind for each in shorter] == list(dict.fromkeys(each.kind for each in ways))
    for brief, most in ((by_kind, len(shorter)), (two, 2), (one, 1)):
        assert ways_lines(shorter[:most])[0] in brief


def test_a_safe_answer_looks_for_no_way() -> None:
    assert ways_to_fit(found("1x8:h100")) is None
    assert (ways_lines(None), ways_entry(None)) == ([], {})
    assert "what_would_fit" not in plan_document(found("1x8:h100"))


def test_where_nothing_would_be_safe_it_says_so() -> None:
    assert [line for block in ways_lines([]) for line in block.lines] == [HOPELESS]


def test_the_plan_file_holds_the_ways() -> None:
    document = PlanAnswer(**vars(found("1x2:h100"))).to_dict()
    assert [each["verdict"] for each in document["what_would_fit"]] == ["safe"] * len(document["what_would_fit"])
    assert list(jsonschema.Draft202012Validator(json_schema()).iter_errors(json.loads(json.dumps(document)))) == []


def test_the_error_says_what_of_the_job_was_assumed_and_writes_counts_as_screens_do() -> None:
    given = question(llama_70b(), "1x8:h100", global_batch=32, sequence_length=8192)
    assumed = given.replace(job=given.job.replace(assumptions=("sequence length 8192 (set it with --seq-len)",)))
    result = replace(find(assumed), legal=1234)
    assert "none of the 1,234 legal plans" in shortfall_words(result)
    assert shortfall_words(result).endswith("Assumed: sequence length 8192 (set it with --seq-len).")
    assert "Assumed" not in shortfall_words(replace(result, inputs=given))


def test_the_error_says_that_no_such_node_is_known() -> None:
    """As the answer does where a plan fits."""
    asked = question(llama_70b(), "1x10:a100-40gb", global_batch=10, sequence_length=32768)
    words = shortfall_words(find(asked))
    assert "No node of 10 a100-sxm-40gb is in the catalogue; the largest has 8. Nearest: 2x8:a100-sxm-40gb." in words
    beside = question(llama_70b(), "1x8:a100-40gb", global_batch=8, sequence_length=32768)
    assert "in the catalogue" not in shortfall_words(find(beside))


def test_ways_that_no_launch_can_go_are_told() -> None:
    asked = question(llama_8b(), "1x2:h100", "accelerate", global_batch=16, sequence_length=131072)
    asked = asked.replace(runtime=with_behaviours(asked.runtime, ["attention_kernel=flash-2"]))
    ways = [remedy_words(each) for each in remedies(find(asked))]
    marked = ["accelerate cannot launch it as it stands" in each for each in ways]
    assert marked == [" cp" in each for each in ways]
    assert {*marked} == {True, False}
