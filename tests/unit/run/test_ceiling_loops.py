"""Closed loops of a client: which numbers in flight there is time for, and what is refused before more are asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.engines.asking import TokenCalibration
from lynxbench.engines.served import build_exchange
from lynxbench.errors import CannotRun
from lynxbench.load.completion_ceiling import CompletionCeiling
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.truth_process import running_server
from lynxbench.model.workload import SaturatingArrival
from lynxbench.run import ceiling_loops
from lynxbench.run.ceiling_loops import measure_ceiling
from lynxbench.run.client_job import ClientJob
from served import served_contract

FIRST = 16


@dataclass
class Simulated:
    """Loops of a server that works on so many at once, on a clock of its own: a loop takes its span and one answer."""

    slots: int
    answer_s: float
    now_s: float = 0.0
    asked: list[tuple[int, float]] = field(default_factory=list)

    def run(self, in_flight: int, span_s: float) -> tuple[object, float, float]:
        answer_s = self.answer_s * max(1.0, in_flight / self.slots)
        self.asked.append((in_flight, span_s))
        self.now_s += span_s + answer_s
        return SimpleNamespace(notes=("nothing came",)), min(in_flight, self.slots) / self.answer_s, 3 * answer_s

    def ceiling(self, monkeypatch: pytest.MonkeyPatch, budget_s: float, first: int = FIRST) -> CompletionCeiling:
        monkeypatch.setattr(ceiling_loops, "_Loops", lambda job, exchange: self)
        monkeypatch.setattr(ceiling_loops, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(ceiling_loops, "write_record", lambda record, path: None)
        arrival = SaturatingArrival.model_validate(
            {"process": "saturating", "budget": f"{budget_s} s", "concurrency": first}
        )
        said: list[int] = []
        found = measure_ceiling(None, None, arrival, Path(), said.append, lambda record: None)  # type: ignore[arg-type]
        assert said == list(dict.fromkeys(number for number, _ in self.asked)), "every loop is announced, once"
        return found


def test_twice_as_many_are_asked_for_long_enough_to_hold_their_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Simulated(slots=16, answer_s=1.0)
    found = server.ceiling(monkeypatch, 90.0)
    assert [number for number, _ in server.asked] == [16, 16, 32], "the first loop was too short for its answers"
    assert server.asked[-1][1] == pytest.approx(6.0)
    assert found.is_highest
    assert found.rate_per_s == 16


def test_where_more_would_take_too_long_half_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Simulated(slots=2, answer_s=0.5)  # 16 in flight wait four seconds each, 32 would wait eight
    found = server.ceiling(monkeypatch, 60.0)
    assert [number for number, _ in server.asked] == [16, 16, 8]
    assert found.is_highest
    assert found.rate_per_s == 4


def test_loops_beside_the_first_keep_to_their_part_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Simulated(slots=4096, answer_s=0.1)
    found = server.ceiling(monkeypatch, 20.0)
    later = [span_s for number, span_s in server.asked if number != FIRST]
    assert sum(later) <= 0.3 * 20.0
    assert later
    assert not found.is_highest, "each did more than the one before, and there was no time for the next"


def test_a_short_budget_has_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Simulated(slots=16, answer_s=0.1)
    found = server.ceiling(monkeypatch, 5.0)
    assert [loop.in_flight for loop in found.loops] == [FIRST]
    assert not found.is_highest


def test_no_more_connections_are_opened_than_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Simulated(slots=10**6, answer_s=0.01)
    server.ceiling(monkeypatch, 600.0, first=128)
    assert max(number for number, _ in server.asked) == ceiling_loops.MOST_IN_FLIGHT


def test_what_the_first_loop_refuses_ends_the_search_before_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceiling_loops, "SPAN_S", (0.3, 0.6))
    with running_server(Behaviour(ttft_ms=5, itl_ms=0, slots=4)) as server:
        search = f"{{process: saturating, tolerance: 40 %, concurrency: {FIRST}, budget: 60 s}}"
        contract = parse_contract(served_contract(server.url, arrival=search, tokens=1))
        job = ClientJob(index=0, restart=0, contract=contract, clients=1, search=True)
        exchange = build_exchange(contract, run=0, calibration=TokenCalibration(True, 1.0, 0.0))
        arrival, said = contract.workload.arrival, list[int]()
        assert isinstance(arrival, SaturatingArrival)

        def refuse(record: object) -> None:
            raise CannotRun("not this one")

        with pytest.raises(CannotRun, match="not this one"):
            measure_ceiling(job, exchange, arrival, tmp_path, said.append, refuse)
        assert said == [FIRST]
        found = measure_ceiling(job, exchange, arrival, tmp_path, said.append, lambda record: None)
    assert found.loops[0].in_flight == FIRST
    assert len(found.loops) > 1
    assert 0 < found.rate_per_s <= 1.1 * 4 / 0.005
