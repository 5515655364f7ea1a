"""Host: reading, explaining, pseudonyms, CPU lists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lynxbench.executor.host import Host, Probe, chosen, exact_json, explain, format_cpu_list, parse_cpu_list, run_probe
from lynxbench.model.executor import Status, Tier, measured
from lynxbench.model.layers import Layer


def test_field_states_why_it_could_not_be_read(tmp_path: Path) -> None:
    host = Host(root=tmp_path)
    (tmp_path / "bad").write_text("seven")
    assert host.field("/missing").source == "not present: /missing"
    wrong = host.field("/bad", int)
    assert wrong.status is Status.UNREADABLE
    assert wrong.source.startswith("/bad: ValueError")


def test_failing_probe_makes_its_promises_unreadable(tmp_path: Path) -> None:
    def explode(_: Host) -> dict[str, object]:
        raise RuntimeError("the bus\nis on fire")

    fields = run_probe(Probe(Layer.SYSTEM, explode, ("one", "two"), Tier.STATE), Host(root=tmp_path))  # type: ignore[arg-type]
    assert {name: field.source for name, field in fields.items()} == {
        "one": "RuntimeError: the bus is on fire",
        "two": "RuntimeError: the bus is on fire",
    }
    assert all(field.tier is Tier.STATE and field.status is Status.UNREADABLE for field in fields.values())


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (FileNotFoundError(2, "no", "/x"), "not present: /x"),
        (PermissionError(13, "no", "/y"), "not permitted: /y"),
        (ValueError("odd"), "ValueError: odd"),
    ],
)
def test_explain(problem: Exception, said: str) -> None:
    assert explain(problem) == said


def test_pseudonym_hides_the_identity_and_depends_on_kind_and_salt() -> None:
    plain, salted = Host(environ={}), Host(environ={"LYNXBENCH_SALT": "ours"})
    mark = plain.pseudonym("hostname", "node-17")
    assert len(mark) == 16
    assert "node" not in mark
    assert mark == plain.pseudonym("hostname", "node-17")
    assert len({mark, plain.pseudonym("machine-id", "node-17"), salted.pseudonym("hostname", "node-17")}) == 3


def test_cpu_lists() -> None:
    assert parse_cpu_list("0-3,8,10-11\n") == [0, 1, 2, 3, 8, 10, 11]
    assert parse_cpu_list("") == []
    assert format_cpu_list({11, 10, 8, 0, 1, 2, 3}) == "0-3,8,10-11"


def test_chosen_option() -> None:
    assert chosen("always [madvise] never") == "madvise"
    assert chosen("on") == "on"


def test_half_a_character_is_written_out_so_that_a_record_can_hold_it() -> None:
    """A server's /version spelled one, and the run ended in a traceback."""
    said = exact_json(json.loads('{"version": "1\\udc00", "\\ud800": ["\\ud83d\\ude00 whole", "é"]}'))
    assert said == {"version": "1\\udc00", "\\ud800": ["\U0001f600 whole", "é"]}
    assert measured(said, "GET /version").model_dump_json()


def test_exact_json_keeps_every_number_the_same_everywhere() -> None:
    assert exact_json({"a": 2**60, "b": (1, {3, 2}), "c": float("nan"), 5: Path("x")}) == {
        "a": str(2**60),
        "b": [1, [2, 3]],
        "c": None,
        "5": "x",
    }
