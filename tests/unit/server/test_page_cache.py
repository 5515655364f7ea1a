"""Pages are kept until what they speak of changes, and made a few at a time, each once for all who wait."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from compared import make_contract, make_executor, make_result
from hosted import TEAM, make_team, record
from lynxbench.ledger.location import OpenLedger, locate, open_ledger
from lynxbench.server import page_cache
from lynxbench.server.page_cache import (
    CLOCK,
    EVERYTHING,
    MAKING,
    OLDEST_S,
    OWN,
    SHARE,
    WORK,
    ChangeCounter,
    PageCache,
    PageMaker,
)


class Clock:
    """Stands still until it is moved; making a page takes what is set."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.spent_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def thread_time(self) -> float:
        return self.spent_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(page_cache, "time", made)
    return made


@pytest.fixture
def held(tmp_path: Path):
    team = make_team(TEAM, tmp_path)
    location = locate(None, team.environment)
    assert location is not None
    with open_ledger(location, team.environment, create=True) as ledger:
        yield ledger, team.key


def making(clock: Clock, took_s: float):
    """Makes `page 1`, `page 2`, …, each in that time."""
    made: list[str] = []

    def make() -> str:
        clock.spent_s += took_s
        made.append(f"page {len(made) + 1}")
        return made[-1]

    return make


def result_of(name: str, contract=None, number: int = 0):
    made = make_result(contract=contract or make_contract(name=name), executor=make_executor())
    return made.model_copy(update={"run_id": f"{name}-{number}"}).sealed()


def test_a_new_result_changes_the_pages_about_it_and_no_others(held: tuple[OpenLedger, object], clock: Clock) -> None:
    ledger, key = held
    first = record(ledger, result_of("first"), key)
    pulse = ChangeCounter(ledger.log)
    before = {name: pulse.generation(name) for name in (EVERYTHING, first.contract_id, "elsewhere", OWN, WORK)}
    assert not pulse.refresh()
    second = record(ledger, result_of("first", first.contract, 2), key)
    assert pulse.refresh()
    moved = {name for name, was in before.items() if pulse.generation(name) != was}
    assert moved == {EVERYTHING, first.contract_id}
    assert pulse.generation(second.result_id) == 1
    clock.now_s += 1
    assert pulse.generation(CLOCK) == 1001


def test_a_page_is_made_once_and_again_when_its_topic_moved(held: tuple[OpenLedger, object], clock: Clock) -> None:
    pulse = ChangeCounter(held[0].log)
    cache, make = PageCache(pulse), making(clock, 0.1)
    assert [cache.get("a", ("topic",), make) for _ in range(3)] == ["page 1"] * 3
    pulse.bump("another")
    clock.now_s += 60
    assert cache.get("a", ("topic",), make) == "page 1"
    pulse.bump("topic")
    assert cache.get("a", ("topic",), make) == "page 2"
    assert (cache.hits, cache.misses) == (3, 2)


def test_a_page_takes_a_twentieth_of_the_time_at_most(held: tuple[OpenLedger, object], clock: Clock) -> None:
    pulse = ChangeCounter(held[0].log)
    cache, make = PageCache(pulse), making(clock, 0.1)
    cache.get("a", (EVERYTHING,), make)
    pulse.bump(EVERYTHING)
    clock.now_s += SHARE * 0.1 - 0.01
    assert cache.get("a", (EVERYTHING,), make) == "page 1"
    clock.now_s += 0.02
    assert cache.get("a", (EVERYTHING,), make) == "page 2"
    slow = making(clock, 100.0)
    cache.get("slow", (EVERYTHING,), slow)
    pulse.bump(EVERYTHING)
    clock.now_s += OLDEST_S + 0.01
    assert cache.get("slow", (EVERYTHING,), slow) == "page 2"


def test_what_people_change_themselves_shows_at_once(held: tuple[OpenLedger, object], clock: Clock) -> None:
    pulse = ChangeCounter(held[0].log)
    cache, make = PageCache(pulse), making(clock, 0.1)
    topics = (EVERYTHING, OWN, WORK)
    cache.get("a", topics, make)
    pulse.bump(WORK)
    assert cache.peek("a", topics) == "page 1"
    pulse.bump(OWN)
    assert cache.peek("a", topics) is None
    assert cache.aged("a", topics) is None
    assert cache.get("a", topics, make) == "page 2"


def test_an_aged_page_is_there_for_ten_seconds(held: tuple[OpenLedger, object], clock: Clock) -> None:
    pulse = ChangeCounter(held[0].log)
    cache = PageCache(pulse)
    assert cache.aged("a", (WORK,)) is None
    cache.get("a", (WORK,), making(clock, 0.1))
    pulse.bump(WORK)
    clock.now_s += SHARE * 0.1 + 0.01
    assert cache.peek("a", (WORK,)) is None
    assert cache.aged("a", (WORK,)) == "page 1"
    clock.now_s += OLDEST_S
    assert cache.aged("a", (WORK,)) is None


def test_whoever_comes_while_a_page_is_made_again_gets_the_old_one(held: tuple[OpenLedger, object]) -> None:
    pulse = ChangeCounter(held[0].log)
    cache = PageCache(pulse)
    cache.get("a", (OWN,), lambda: "old")
    pulse.bump(OWN)
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert go_on.wait(10)
        return "new"

    worker = threading.Thread(target=lambda: cache.get("a", (OWN,), slow))
    worker.start()
    assert begun.wait(10)
    assert cache.get("a", (OWN,), lambda: pytest.fail("made twice")) == "old"
    go_on.set()
    worker.join(10)
    assert cache.get("a", (OWN,), lambda: pytest.fail("made twice")) == "new"


def test_the_oldest_go_when_there_are_too_many(held: tuple[OpenLedger, object]) -> None:
    cache = PageCache(ChangeCounter(held[0].log), most_bytes=100)
    for name in "abc":
        cache.get(name, (), lambda: "x" * 40)
    assert [cache.peek(name, ()) is not None for name in "abc"] == [False, True, True]


def test_all_who_wait_for_a_page_share_one_making(held: tuple[OpenLedger, object]) -> None:
    pulse = ChangeCounter(held[0].log)
    cache = PageCache(pulse)
    made: list[str] = []
    go_on = threading.Event()

    def make() -> str:
        assert go_on.wait(10)
        made.append("made")
        return "page"

    async def main() -> None:
        maker = PageMaker(cache)
        cache.get("aged", (WORK,), lambda: "old")
        pulse.bump(WORK)
        waiting = [asyncio.create_task(maker.page("a", (), make)) for _ in range(5)]
        waiting += [asyncio.create_task(maker.page(number, (), make)) for number in range(MAKING - 1)]
        await asyncio.sleep(0)
        assert len(maker._tasks) == MAKING
        cache._cached["aged"].until = cache._cached["aged"].at  # no longer true, and not ten seconds older than that
        assert await maker.page("aged", (WORK,), make) == "old", "shown as it was while others are being made"
        go_on.set()
        assert await asyncio.gather(*waiting) == ["page"] * len(waiting)
        while maker._tasks:
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert len(made) == MAKING + 1


@pytest.mark.parametrize("quick", [True, False])
def test_nobody_waits_long_for_a_page_that_is_there(held: tuple[OpenLedger, object], quick: bool) -> None:
    """The new one where making it is a matter of a moment, else the old one now and the new one next time."""
    pulse = ChangeCounter(held[0].log)
    cache = PageCache(pulse)
    go_on = threading.Event()

    def make() -> str:
        assert go_on.wait(10)
        return "new"

    async def main() -> list[str]:
        maker = PageMaker(cache)
        cache.get("a", (WORK,), lambda: "old")
        pulse.bump(WORK)
        cache._cached["a"].until = cache._cached["a"].at
        if quick:
            go_on.set()
            page_cache.PATIENCE_S = 10.0
        shown = [await maker.page("a", (WORK,), make)]
        go_on.set()
        while maker._tasks:
            await asyncio.sleep(0.01)
        return [*shown, await maker.page("a", (WORK,), lambda: pytest.fail("made twice"))]

    patience = page_cache.PATIENCE_S
    try:
        assert asyncio.run(main()) == ["new" if quick else "old", "new"]
    finally:
        page_cache.PATIENCE_S = patience


def test_what_people_changed_is_waited_for(held: tuple[OpenLedger, object]) -> None:
    pulse = ChangeCounter(held[0].log)
    cache = PageCache(pulse)
    cache.get("a", (OWN,), lambda: "old")
    pulse.bump(OWN)

    def make() -> str:
        time.sleep(3 * page_cache.PATIENCE_S)
        return "new"

    assert asyncio.run(PageMaker(cache).page("a", (OWN,), make)) == "new"


def test_a_page_that_nobody_waits_for_may_fail_unheard(held: tuple[OpenLedger, object]) -> None:
    cache = PageCache(ChangeCounter(held[0].log))

    def make() -> str:
        raise ValueError("no such page")

    async def main() -> None:
        maker = PageMaker(cache)
        waiting = asyncio.create_task(maker.page("a", (), make))
        await asyncio.sleep(0)
        waiting.cancel()
        for _ in range(100):
            await asyncio.sleep(0.01)
            if not maker._tasks:
                return
        raise AssertionError("it never ended")

    asyncio.run(main())
