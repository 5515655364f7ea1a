"""Reading series that others measured, and judging them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lynxbench.errors import BadSeries
from lynxbench.measure.foreign_series import direction_of, judge_group, parse_series, read_series

DATA = Path(__file__).parents[2] / "data" / "sustained"


def values_of(text: str, **kw: object) -> list[float]:
    return parse_series(text, **kw).main.values.tolist()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "1\n2\n3\n",
        "value\n1\n2\n3\n",
        "\ufeffvalue\n1\n2\n3\n".lstrip("\ufeff"),
        "# made by x\nvalue\n1\n\n2\n3",
        "t;value\n0;1\n1;2\n2;3\n",
        "t\tvalue\n0\t1\n1\t2\n2\t3\n",
        "a, ms\nx, 1\nx, 2\nx, 3\n",
        "[1, 2, 3]",
        '{"values": [1, 2, 3]}',
        '{"name": "run 7", "values": [1, 2, 3]}',
        '{"t": [0, 1, 2], "latency": [1, 2, 3]}',
        '[{"value": 1}, {"value": 2}, {"value": 3}]',
        '{"value": 1}\n{"value": 2}\n{"value": 3}\n',
        '["1", "2", "3"]',
    ],
)
def test_accepted_forms(text: str) -> None:
    assert values_of(text) == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("  \n ", "is empty"),
        ("# only\n", "only comments"),
        ("value\n", "no rows"),
        ("value\n1\nx\n3\n", "row 2 holds 'x'"),
        ("a,b\nx,y\nz,w\n", "no numeric column among a, b"),
        ("value\n1\nnan\n3\n", "row 2 holds 'nan'"),
        ("value\n1\ninf\n3\n", "row 2 holds 'inf'"),
        ("value\n1\n1e999\n3\n", "row 2 holds '1e999'"),
        ("a,value\n1,1\n1,\n1,3\n", "row 2 holds nothing"),
        ("a,value\n1,1\n1\n1,3\n", "row 2 has 1 cells, the header has 2"),
        ("a,a\n1,1\n", "two columns are called 'a'"),
        ("p,q\n1,2\n3,4\n5,6\n", "choose one with --column"),
        ("value\n1\n2\n", "2 value.s.; a series needs at least 3"),
        ("[]", "the list is empty"),
        ("{}", "no list of numbers"),
        ('{"values": []}', "are empty"),
        ('{"a": [1, 2], "b": [1, 2, 3]}', "differ in length"),
        ("[1, [2], 3]", "mixes numbers"),
        ("[1, {}, 3]", "mixes numbers"),
        ('[{"a": 1}, {"b": 2}]', "object 1 has other keys"),
        ('[{"a": {}}, {"a": {}}]', "no plain values"),
        ("[1, NaN, 3]", "row 2 holds 'nan'"),
        ("[1, null, 3]", "row 2 holds nothing"),
        ("[1, true, 3]", "no numeric column"),
        ("[1, " + "9" * 400 + ", 3]", "row 2 holds 'inf'"),
        ("[1, 2", "is not JSON"),
        ("[" * 100_000, "not JSON|nested too deeply"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply|not JSON"),
    ],
)
def test_malformed_is_one_clear_line(text: str, said: str) -> None:
    with pytest.raises(BadSeries, match=said) as caught:
        parse_series(text, source="file.csv")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("file.csv: ")
    assert len(str(caught.value)) < 250


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(BadSeries, match="cannot be read"):
        read_series(tmp_path / "absent.csv")
    with pytest.raises(BadSeries, match="cannot be read"):
        read_series(tmp_path)
    (tmp_path / "binary").write_bytes(b"\x89PNG\0\0")
    with pytest.raises(BadSeries, match="is binary"):
        read_series(tmp_path / "binary")
    (tmp_path / "latin").write_bytes(b"value\n1\n\xff\n")
    with pytest.raises(BadSeries, match="not UTF-8"):
        read_series(tmp_path / "latin")


def test_columns_are_chosen_by_name() -> None:
    text = "unix_s,step_ms,tokens\n1,10,5\n2,11,6\n3,12,7\n"
    found = parse_series(text)
    assert (found.column, found.time_column) == ("step_ms", "unix_s")
    assert parse_series(text, column="tokens").main.values.tolist() == [5, 6, 7]
    assert parse_series(text, column="tokens", time="step_ms").main.time_s == pytest.approx([0.010, 0.011, 0.012])
    with pytest.raises(BadSeries, match="no column 'nope'; there are unix_s, step_ms, tokens"):
        parse_series(text, column="nope")


@pytest.mark.parametrize(
    ("cells", "seconds"),
    [
        (("1700000000", "1700000001", "1700000003"), 3),
        (("1700000000000", "1700000001000", "1700000003000"), 3),
        (("2026-11-14T23:59:46", "2026-11-14T23:59:47", "2026-11-14T23:59:49"), 3),
        (("2026/11/14 23:59:46.784", "2026/11/14 23:59:47", "2026/11/14 23:59:49.784"), 3),
    ],
)
def test_times_in_many_forms(cells: tuple[str, ...], seconds: float) -> None:
    found = parse_series("timestamp,value\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells)))
    assert found.main.time_s is not None
    assert found.main.time_s[-1] - found.main.time_s[0] == pytest.approx(seconds)


def test_times_that_do_not_serve() -> None:
    backwards = parse_series("t,value\n3,1\n2,2\n1,3\n")
    assert backwards.main.time_s is None
    with pytest.raises(BadSeries, match="time column day holds 'monday'"):
        parse_series("day,value\nmonday,1\nmonday,2\nmonday,3\n", time="day")


def test_where_and_groups() -> None:
    text = "phase,ms\n" + "a,1\n" * 5 + "b,2\n" * 9
    found = parse_series(text)
    assert [(g.label, g.values.size) for g in found.groups] == [("phase=a", 5), ("phase=b", 9)]
    assert found.main.label == "phase=b"
    only = parse_series(text, where=["phase=a"])
    assert [(g.label, g.values.size) for g in only.groups] == [("phase=a", 5)]
    assert parse_series("n,ms\n1,5\n1,6\n1,7\n2,8\n", where=["n=1.0"]).main.values.tolist() == [5, 6, 7]
    with pytest.raises(BadSeries, match="no row has phase=c; there are a, b"):
        parse_series(text, where=["phase=c"])
    with pytest.raises(BadSeries, match="is no condition"):
        parse_series(text, where=["phase"])
    with pytest.raises(BadSeries, match="no row satisfies phase=a and phase=b"):
        parse_series(text, where=["phase=a", "phase=b"])


def test_identifiers_and_codes_do_not_split() -> None:
    rows = "".join(f"c{i:04x},0x{i % 2:04x},{i}\n" for i in range(30))
    assert parse_series("commit,reason,ms\n" + rows).split_by == ""


@pytest.mark.parametrize(
    ("name", "better"),
    [("ms", False), ("latency", False), ("ttft_ms", False), ("throughput", True), ("tokens_per_s", True), ("x", None)],
)
def test_direction(name: str, better: bool | None) -> None:
    assert direction_of(name) is better


def test_the_power_capped_plateau() -> None:
    series = read_series(DATA / "iterations.csv")
    assert (series.column, series.time_column, series.split_by) == ("ms", "unix_s", "phase")
    found = judge_group(series.main, higher_is_better=direction_of(series.column))
    assert found.label == "phase=gemm_bf16_cold_start"
    assert found.judgement.verdict == "steady"
    assert found.judgement.level.estimate == pytest.approx(1.638, abs=0.005)
    assert found.under_burst == pytest.approx(0.14, abs=0.01)
    assert 0 < found.truncate_s < 20
    copies = judge_group(series.groups[1], higher_is_better=False)
    assert copies.judgement.verdict == "steady"
    assert copies.under_burst < 0.01


def test_telemetry_by_plain_name() -> None:
    found = read_series(DATA / "telemetry.csv", column="power.draw")
    assert found.column == "power.draw [W]"
    assert found.time_column == "timestamp"
    assert judge_group(found.main).judgement.verdict != "steady"  # idle, 700 W, then 408 W


def test_windows_only_where_rows_are_finer() -> None:
    rng = np.random.default_rng(0)
    coarse = parse_series(json.dumps({"t": list(range(100)), "value": (1 + 0.001 * rng.random(100)).tolist()}))
    assert judge_group(coarse.main).window_s == 0
    fine = parse_series(json.dumps({"t": [i / 10 for i in range(600)], "value": rng.random(600).tolist()}))
    assert judge_group(fine.main).window_s == 1
    assert judge_group(fine.main, window_s=2.0).window_s == 2
    with pytest.raises(BadSeries, match="needs times"):
        judge_group(parse_series("[1, 2, 3]").main, window_s=1.0)


def test_burst_needs_a_direction() -> None:
    found = judge_group(parse_series("[1, 2, 3]").main)
    assert found.burst is None
    assert np.isnan(found.under_burst)


@pytest.mark.parametrize("cell", ["50,5", "50.5 ms", "50.5%"])
def test_times_are_no_values_where_the_values_are_no_numbers(cell: str) -> None:
    """Found: decimal commas and units, and the times were judged in their place."""
    text = "t;latency\n" + "".join(f"{i};{cell}\n" for i in range(40))
    with pytest.raises(BadSeries, match=f"column latency, row 1 holds '{cell}'"):
        parse_series(text)
    assert parse_series("t\n" + "".join(f"{i}\n" for i in range(40))).column == "t", "alone it is what was given"
