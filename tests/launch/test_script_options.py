"""The options of Megatron-LM's script hold every flag that its launch table writes or reads."""

from __future__ import annotations

from meshwright.launch.imports.rules.options import options_of
from meshwright.launch.table import launch_table

TABLE = launch_table("megatron-lm")
LISTED = options_of("megatron-lm")


def test_every_flag_that_is_written_is_an_option_of_the_release() -> None:
    assert LISTED is not None
    cases = [case for choice in TABLE.choices for case in choice.cases if not case.read_only]
    written = {row.key for row in TABLE.rows.values()} | TABLE.to_fill.keys()
    written |= {key for case in cases for key in (*case.settings, *case.also)}
    carried = [each for each in TABLE.carried if each.is_said(recipe=False)]
    written |= {key for each in carried for key in each.settings}
    written |= {key for each in TABLE.settings for key in each.every_value}
    assert {key for key in written if key.startswith("--")} <= {*LISTED.switches, *LISTED.valued}


def test_every_flag_that_is_read_is_an_option_of_some_release_or_fork() -> None:
    assert LISTED is not None
    names = LISTED.known | {key for keys in LISTED.forks.values() for key in keys}
    read = {*TABLE.keys, *TABLE.unpriced, *TABLE.refused, *TABLE.ignored}
    unknown = [
        key
        for key in read
        if not any(each.startswith(key[:-1]) if key.endswith("*") else each == key for each in names)
    ]
    assert not unknown


def test_no_option_is_listed_twice_where_that_would_contradict() -> None:
    assert LISTED is not None
    now = {*LISTED.switches, *LISTED.valued}
    assert not {*LISTED.switches} & {*LISTED.valued}
    assert not now & {*LISTED.older}
    assert not LISTED.known & {key for keys in LISTED.forks.values() for key in keys}
    assert LISTED.values.keys() <= {*LISTED.valued}
