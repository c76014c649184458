"""Job options: every field of a job that users give has one record, from which all others have it."""

from __future__ import annotations

from meshwright.answers.sweep.columns import LABELS
from meshwright.cli.groups import JobOptions, RuntimeOptions, option_names
from meshwright.specs.job import Job
from meshwright.specs.job_options import JOB_OPTIONS, OF_RUNS, READERS
from meshwright.validation.rows.table import COLUMNS
from meshwright.web.fields import FIELDS

NOT_ASKED = {"optimizer", "expert_spread", "assumptions"}
"""Fields of a job that no option gives."""


def test_every_field_that_is_asked_has_a_record() -> None:
    fields = [each.field for each in JOB_OPTIONS if not each.in_place_of]
    assert sorted(fields) == sorted(Job.model_fields.keys() - NOT_ASKED)
    assert {each.in_place_of or each.field for each in JOB_OPTIONS} == set(fields)


def test_all_that_ask_have_every_option() -> None:
    names = {each.name for each in JOB_OPTIONS}
    assert names <= {*option_names(JobOptions), *option_names(RuntimeOptions)}
    assert {*READERS} == names - {"precision"}
    assert {each.field for each in JOB_OPTIONS} <= {*LABELS}
    assert {each.name for each in JOB_OPTIONS if each.form} <= {*FIELDS}
    assert {each.name for each in OF_RUNS} <= {*COLUMNS}


def test_a_default_is_that_of_a_job() -> None:
    job = Job(sequence_length=1, global_batch=1)
    told = {each.name: each.of(job) for each in JOB_OPTIONS if each.default is not None}
    assert told == {each.name: each.default for each in JOB_OPTIONS if each.default is not None}


def test_values_have_words() -> None:
    words = {each.name: each.said(value) for each in JOB_OPTIONS for value in VALUES.get(each.name, ())}
    assert words == {"tokens": "15T tokens", "risk": "risk 5%", "lora_rank": "all weights", "precision": "fp8"}


VALUES = {"tokens": [15 * 10**12], "risk": [0.05], "lora_rank": [0], "precision": ["fp8"]}


def test_what_is_not_given_is_said_in_words_of_its_own() -> None:
    said = {each.name: each.said for each in JOB_OPTIONS}
    assert (said["document_length"](None), said["document_length"](2048)) == ("whole sequences", "documents of 2048")
    assert (said["lora_rank"](0), said["lora_rank"](16)) == ("all weights", "LoRA of rank 16")
