"""Recorded sessions as files: any order of lines, gaps from the start, and what cannot be replayed said by its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lynxbench.errors import BadInput
from lynxbench.workload.session_files import parse_sessions, read_sessions


def lines(*rows: dict) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_calls_wait_for_those_they_name_else_for_the_one_before():
    text = lines(
        {"session": "a", "call": "plan", "at": 3.5, "input_tokens": 10, "output_tokens": 4},
        {"session": "b", "at": 1, "input_tokens": 5},
        {"session": "a", "call": "x", "after": "plan", "gap": 0.2, "input_tokens": 20, "hash_ids": [1, 2]},
        {"session": "a", "call": "y", "after": ["plan"], "gap": 0.1, "input_tokens": 30},
        {"session": "a", "call": "join", "after": ["x", "y"], "input_tokens": 40},
        {"session": "b", "gap": 2, "input_tokens": 6},
    )
    b, a = parse_sessions(text)
    assert (b.at_s, a.at_s) == (1, 3.5)
    assert [(call.after, call.gap_s) for call in b.calls] == [((), 0.0), ((0,), 2.0)]
    assert [call.after for call in a.calls] == [(), (0,), (0,), (1, 2)]
    assert [call.input_tokens for call in a.calls] == [10, 20, 30, 40]
    assert a.calls[1].hash_ids == (1, 2)
    assert a.calls[0].output_tokens == 4


def test_lines_come_in_any_order_and_the_first_to_start_starts():
    text = lines(
        {"session": 1, "call": 2, "after": [1], "gap": 0.5, "input_tokens": 3},
        {"session": 1, "call": 1, "after": [], "gap": 2.0, "input_tokens": 2},
        {"session": 1, "call": 0, "after": [], "gap": 1.5, "input_tokens": 1},
    )
    (session,) = parse_sessions(text)
    assert [call.input_tokens for call in session.calls] == [1, 2, 3]
    assert [(call.after, call.gap_s) for call in session.calls] == [((), 0.0), ((), 0.5), ((1,), 0.5)]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"input_tokens": 1}], ":1: has no `session`"),
        ([{"session": 1, "call": 1, "after": [2], "input_tokens": 1}], "does not have"),
        (
            [{"session": 1, "call": 1, "input_tokens": 1}, {"session": 1, "call": 1, "input_tokens": 1}],
            ":2: .* this name",
        ),
        (
            [{"session": 1, "call": 0, "input_tokens": 1}]
            + [{"session": 1, "call": one, "after": [3 - one], "input_tokens": 1} for one in (1, 2)],
            "in a circle",
        ),
        ([{"session": 1}], "one of them"),
        ([{"session": 1, "prompt": "x", "input_tokens": 3}], "one of them"),
        ([{"session": 1, "prompt": "x"}, {"session": 2, "input_tokens": 3}], "some calls have a text"),
        ([{"session": 1, "gap": -1, "input_tokens": 3}], "gap must be seconds"),
        ([{"session": 1, "gap": 1e9, "input_tokens": 3}], "gap must be seconds"),
        ([{"session": 1, "input_tokens": 3, "hash_ids": ["a"]}], "hash_ids"),
        ([], "holds no call"),
    ],
)
def test_what_cannot_be_replayed_is_said(rows, says):
    with pytest.raises(BadInput, match=says):
        parse_sessions(lines(*rows))


def test_a_replay_needs_the_moments_of_all(tmp_path: Path):
    (tmp_path / "s").write_text(
        lines({"session": 1, "at": 10, "prompt": "x"}, {"session": 2, "at": 12.5, "prompt": "y"})
    )
    recorded = read_sessions(str(tmp_path / "s"))
    assert recorded.arrivals().arrival_s.tolist() == [0, 2.5]
    assert (recorded.source.what, recorded.source.rows) == ("sessions", 2)
    (tmp_path / "s").write_text(lines({"session": 1, "at": 10, "prompt": "x"}, {"session": 2, "prompt": "y"}))
    with pytest.raises(BadInput, match="`at`"):
        read_sessions(str(tmp_path / "s")).arrivals()
