"""A function of one's own: its name as a fresh process finds it, and a contract that is the same on every machine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from lynxbench.engines.callable import resolve
from lynxbench.errors import BadInput, OwnCodeFailed
from lynxbench.run.own_function import function_contract, importable, target_of
from lynxbench.workload import examples


class _Called:
    def __call__(self) -> None:
        """Nothing."""


called = _Called()


@pytest.mark.parametrize("thing", [json.dumps, examples.solve_dense, json.JSONDecoder.decode])
def test_a_name_leads_back_to_the_function(thing: object) -> None:
    assert resolve(target_of(thing)) is thing  # type: ignore[arg-type]


def test_an_object_that_does_not_know_its_name_is_found_in_its_module() -> None:
    assert target_of(called) == f"{__name__}:called"


@pytest.mark.parametrize("thing", [lambda: None, _Called(), "text".upper])
def test_what_no_fresh_process_can_import_is_refused(thing: object) -> None:
    with pytest.raises(OwnCodeFailed, match="no fresh process can import it; put it at the top of a module"):
        target_of(thing)  # type: ignore[arg-type]


def test_what_a_script_or_notebook_defines_is_refused() -> None:
    def work() -> None: ...

    work.__module__, work.__qualname__ = "__main__", "work"
    with pytest.raises(OwnCodeFailed, match="__main__:work: no fresh process can import what a script or notebook"):
        target_of(work)


def test_a_function_that_its_module_hides_behind_another_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    real = json.dumps
    monkeypatch.setattr(json, "dumps", lambda value: value)
    with pytest.raises(OwnCodeFailed, match="json:dumps"):
        target_of(real)


def test_the_same_terms_give_the_same_contract_and_other_ones_another() -> None:
    protocol = {"restarts": 5, "min_duration": "2 s", "limit": "4 s", "drift": "5 %", "window": "100 ms"}
    terms: dict[str, object] = {**protocol, "budget": "3 %", "threads": 1, "session_noise": "2 %"}
    first, again = (function_contract("own.module:work", terms) for _ in range(2))
    assert first.contract_id == again.contract_id
    assert first.protocol.steady.drift == 0.05
    assert first.policy.regression == 0.03
    assert first.engine.threads == 1  # type: ignore[union-attr]
    assert function_contract("own.module:work", terms | {"budget": "4 %"}).contract_id != first.contract_id
    assert function_contract("own.module:work", {}).protocol.restarts == 5


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"restart": 3}, "own:work: no term restart; there are restarts, min_duration"),
        ({"restarts": 0}, "own:work: protocol.restarts"),
        ({"limit": "1 s"}, "shorter than min_duration"),
        ({"budget": "much"}, "policy.regression"),
    ],
)
def test_terms_that_are_none_are_one_line(terms: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says) as raised:
        function_contract("own:work", terms)
    assert "\n" not in str(raised.value)


def test_fresh_processes_look_where_this_program_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "as-it-was")
    monkeypatch.setattr(sys, "path", [str(tmp_path), "", *sys.path, str(tmp_path / "not-there")])
    with importable():
        places = os.environ["PYTHONPATH"].split(os.pathsep)
        assert places[0] == str(tmp_path)
        assert str(tmp_path / "not-there") not in places
        assert not [place for place in places if "site-packages" in place]
    assert os.environ["PYTHONPATH"] == "as-it-was"
    monkeypatch.delenv("PYTHONPATH")
    with pytest.raises(RuntimeError, match="planted"), importable():
        raise RuntimeError("planted")
    assert "PYTHONPATH" not in os.environ
