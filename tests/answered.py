"""A few questions with their answers, each asked once in a run of the suite."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from meshwright.answers.explain.table import explain_document
from meshwright.answers.plans.table import plan_document
from meshwright.search.find import SearchResult, find
from meshwright.specs.inputs import Inputs
from strategies import gemma_like, gpt_like, llama_8b, llama_70b, question, three_levels

QUESTIONS = ("llama on h100", "gemma on b200", "gpt on v100", "llama 70b", "three levels")


@cache
def asked(name: str) -> Inputs:
    """One of `QUESTIONS`: between them several families, accelerators, runtimes and levels of links."""
    return {
        "llama on h100": lambda: question(llama_8b(), "1x8:h100", global_batch=64, sequence_length=8192),
        "gemma on b200": lambda: question(gemma_like(), "3x8:b200", global_batch=48, precision="bf16", tokens=10**12),
        "gpt on v100": lambda: question(gpt_like(), "2x8:v100", "megatron-lm", global_batch=64, sequence_length=1024),
        "llama 70b": lambda: question(llama_70b(), "8x8:h100", global_batch=256, sequence_length=8192),
        "three levels": lambda: question(llama_8b(), three_levels(4), global_batch=64),
    }[name]()


@cache
def found(name: str) -> SearchResult:
    """The four best plans of a question."""
    return find(asked(name), top=4)


@cache
def written(name: str, kind: str = "plan") -> str:
    """The text of a plan file: of the search (`plan`), or of its last plan alone (`explain`)."""
    answer = found(name)
    explained = explain_document(answer.best[-1], asked(name))
    return json.dumps(plan_document(answer) if kind == "plan" else explained, allow_nan=False)


def document(name: str, kind: str = "plan") -> dict[str, Any]:
    """A plan file, read."""
    parsed: dict[str, Any] = json.loads(written(name, kind))
    return parsed


def priced(document: dict[str, Any]) -> list[dict[str, Any]]:
    """All plans of a document, of which there must be one."""
    assert document["plans"]
    return [*document["plans"], *document.get("other_splits", [])]
