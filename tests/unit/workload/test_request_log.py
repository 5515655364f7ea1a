"""Request logs in the shapes people have, and the one line each wrong one gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from lynxbench.errors import BadInput
from lynxbench.workload.request_log import parse_log, read_log

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319569,3180,8
2023-11-16 18:17:06.0,110,27
"""
MOONCAKE = """{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}
{"timestamp": 3000, "input_length": 7322, "output_length": 490, "hash_ids": [0, 2]}
"""
GENERIC = """{"arrival": 10.5, "prompt_tokens": 7, "completion_tokens": 3, "latency": 1.5, "session_id": "b"}

{"arrival": 9.0, "prompt_tokens": 8, "completion_tokens": 0, "latency": null, "session_id": "a"}
{"arrival": 12.0, "prompt_tokens": 9, "completion_tokens": 2, "latency": 0.5, "session_id": "b"}
"""


def test_azure_columns() -> None:
    log = parse_log(AZURE)
    assert log.input_tokens.tolist() == [4808, 3180, 110]
    assert log.output_tokens is not None
    assert log.output_tokens.tolist() == [10, 8, 27]
    assert log.arrival_s.tolist() == pytest.approx([0, 0.0519969, 2.02004], abs=1e-6)
    assert log.duration_s is None
    assert log.session is None


def test_mooncake_times_are_milliseconds() -> None:
    assert parse_log(MOONCAKE).arrival_s.tolist() == [0.0, 3.0]


def test_generic_columns_sorted_by_arrival() -> None:
    log = parse_log(GENERIC)
    assert log.input_tokens.tolist() == [8, 7, 9]
    assert log.arrival_s.tolist() == [0.0, 1.5, 3.0]
    assert log.reordered == 1
    assert log.duration_s is not None
    assert str(log.duration_s.tolist()) == "[nan, 1.5, 0.5]"
    assert log.session is not None
    assert log.session[1] == log.session[2] != log.session[0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1700000000", "1700000002"),
        ("1700000000000", "1700000002000"),
        ("1700000000000000", "1700000002000000"),
        ("1700000000000000000", "1700000002000000000"),
        ("2024-05-10T00:00:00Z", "2024-05-10T02:00:02+02:00"),
        ("2024-05-10 00:00:00.500", "2024-05-10 00:00:02.500"),
    ],
)
def test_moments_in_every_usual_unit(first: str, second: str) -> None:
    log = parse_log(f"time,input_tokens\n{first},5\n{second},6\n")
    assert log.span_s == pytest.approx(2.0, abs=1e-3)
    assert log.output_tokens is None


def test_duration_in_milliseconds() -> None:
    log = parse_log("arrival,input_tokens,latency_ms\n0,5,250\n1,5,\n")
    assert log.duration_s is not None
    assert log.duration_s[0] == 0.25


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "log: holds 0 requests; a workload needs at least 2"),
        ("arrival,input_tokens\n1,2\n", "log: holds 1 request;"),
        ("arrival,input_tokens\n1,2\n1,3\n", "log: every request has the same arrival time"),
        ("when,input_tokens\n1,2\n", "log:2: has no arrival time; name that column one of arrival,"),
        ("arrival,size\n1,2\n", "log:2: has no prompt length; name that column one of prompt_tokens,"),
        ("arrival,input_tokens\n1,2\n2\n", "log:3: has 1 cells where the header has 2"),
        ("arrival,arrival\n1,2\n", "log:1: the header names a column twice"),
        ('arrival,input_tokens\n1,"2\n', "log:2: is not CSV"),
        ("arrival,input_tokens\n1,2\n2,many\n", "log:3: input_tokens is 'many', not a number"),
        (
            "arrival,input_tokens\n1,2\n2,0\n",
            "log:3: input_tokens is '0'; tokens are whole numbers from 1 to 1,000,000",
        ),
        ("arrival,input_tokens\n1,2\n2,1.5\n", "log:3: input_tokens is '1.5'; tokens are whole numbers"),
        ("arrival,input_tokens\n1,2\nyesterday,2\n", "log:3: arrival is 'yesterday'; write seconds or a date"),
        ("arrival,input_tokens\n-1,2\n", "log:2: arrival is '-1': an arrival before time began"),
        ("arrival,input_tokens\nnan,2\n", "log:2: arrival is 'nan', not a number"),
        ("arrival,input_tokens,latency\n1,2,-3\n", "log:2: latency is '-3': a duration is not negative"),
        ('{"arrival": 1, "input_tokens": 2}\n{"arrival": 2}\n', "log:2: input_tokens is missing, not a number"),
        ('{"arrival": 1, "input_tokens": true}\n', "log:1: input_tokens is True, not a number"),
        ('{"arrival": 1, \n', "log:1: is not JSON"),
        ('{"arrival": 1, "input_tokens": 2}\n[1]\n', "log:2: is no JSON object"),
        ('{"arrival": 1, "input_tokens": 1e400}\n', "log:1: input_tokens is inf, not a number"),
    ],
)
def test_what_cannot_be_used_says_where_in_one_line(text: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_log(text, "log")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        read_log(tmp_path / "nothing.csv")
    broken = tmp_path / "broken.csv"
    broken.write_bytes(b"arrival,\xff\xfe\n")
    with pytest.raises(BadInput, match="is not UTF-8 text"):
        read_log(broken)
    with pytest.raises(BadInput, match="cannot be read"):
        read_log(tmp_path)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("\ufeff" + AZURE, encoding="utf-8")
    assert len(read_log(file)) == 3
