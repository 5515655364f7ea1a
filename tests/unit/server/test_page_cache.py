"""Pages are kept until what they speak of changes, and made a few at a time, each once for all who wait."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compared import make_contract, make_executor, make_result
from lynxbench.ledger.location import OpenLedger
from lynxbench.server import page_cache
from lynxbench.server.page_cache import (
    CLOCK,
    EVERY_TOPIC,
    EVERYTHING,
    MAKING,
    NOTED,
    NOTED_S,
    OLDEST_S,
    OWN,
    SHARE,
    STALE_S,
    STEP,
    WORK,
    ChangeCounter,
    PageCache,
    PageMaker,
)
from page_clock import PageClock, making
from recording_teams import record


def result_of(name: str, contract=None, number: int = 0):
    made = make_result(contract=contract or make_contract(name=name), executor=make_executor())
    return made.model_copy(update={"run_id": f"{name}-{number}"}).sealed()


def test_a_new_result_changes_the_pages_about_it_and_no_others(
    held: tuple[OpenLedger, object], clock: PageClock
) -> None:
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


def test_a_page_is_made_once_and_again_when_its_topic_moved(held: tuple[OpenLedger, object], clock: PageClock) -> None:
    pulse = ChangeCounter(held[0].log)
    cache, make = PageCache(pulse), making(clock, 0.1)
    assert [cache.get("a", ("topic",), make) for _ in range(3)] == ["page 1"] * 3
    pulse.bump("another")
    clock.now_s += 60
    assert cache.get("a", ("topic",), make) == "page 1"
    pulse.bump("topic")
    assert cache.get("a", ("topic",), make) == "page 2"
    assert (cache.hits, cache.misses) == (3, 2)


def test_a_page_takes_a_twentieth_of_the_time_at_most(held: tuple[OpenLedger, object], clock: PageClock) -> None:
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


def test_what_people_change_themselves_shows_at_once(held: tuple[OpenLedger, object], clock: PageClock) -> None:
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


def test_a_page_is_shown_as_long_as_it_was_true_a_minute_ago(held: tuple[OpenLedger, object], clock: PageClock) -> None:
    """However old it is: a page that nobody asked for all day is as good as one that was made when the day began."""
    pulse = ChangeCounter(held[0].log)
    cache, topics = PageCache(pulse), (EVERYTHING, WORK)
    assert cache.aged("a", topics) is None
    cache.get("a", topics, making(clock, 0.1))
    clock.now_s += 86400
    assert cache.peek("a", topics) == "page 1"
    pulse.bump(WORK)
    clock.now_s += STALE_S / 2
    pulse.bump(WORK)
    pulse.bump(EVERYTHING)
    assert cache.peek("a", topics) is None
    assert cache.aged("a", topics) == "page 1"
    clock.now_s += STALE_S / 2
    assert cache.aged("a", topics) == "page 1"
    clock.now_s += 0.01
    assert cache.aged("a", topics) is None


def test_a_page_that_was_made_of_something_wrong_is_made_again(
    held: tuple[OpenLedger, object], clock: PageClock
) -> None:
    """A part may be kept for a while though it is no longer true: the page of it may not be kept for ever."""
    pulse = ChangeCounter(held[0].log)
    cache, part = PageCache(pulse), making(clock, 0.3)
    topics = (EVERYTHING, OWN)

    def make() -> str:
        clock.now_s += 0.01
        return f"made of {cache.get('part', (EVERYTHING,), part)}"

    assert cache.get("a", topics, make) == "made of page 1"
    pulse.bump(EVERYTHING)
    wrong_at = clock.now_s
    assert cache.get("b", topics, make) == "made of page 1", "the part is kept a while"
    assert cache.get("outer", (), lambda: cache.get("b", topics, make)) == "made of page 1"
    assert cache.peek("b", topics) is not None
    clock.now_s += SHARE * 0.3
    assert cache.peek("b", topics) is None, "nothing changed since, and it is wrong"
    assert cache.peek("outer", ()) is None
    assert cache.aged("b", topics) == "made of page 1"
    clock.now_s = wrong_at + STALE_S + 0.01
    assert cache.aged("b", topics) is None
    assert cache.get("b", topics, make) == "made of page 2"
    clock.now_s += 86400
    assert cache.peek("b", topics) == "made of page 2", "now it is true"
    assert cache.get("outer", (), lambda: cache.get("b", topics, make)) == "made of page 2"
    assert cache.peek("outer", ()) is not None


def test_a_page_of_the_time_is_as_old_as_it_is(held: tuple[OpenLedger, object], clock: PageClock) -> None:
    cache = PageCache(ChangeCounter(held[0].log))
    cache.get("a", (CLOCK,), making(clock, 0.1))
    clock.now_s += STALE_S
    assert cache.aged("a", (CLOCK,)) == "page 1"
    clock.now_s += 0.01
    assert cache.aged("a", (CLOCK,)) is None


@given(st.lists(st.tuples(st.floats(0.01, 3.0), st.integers(1, 4)), min_size=1, max_size=2 * NOTED), st.data())
def test_when_a_topic_first_changed_is_never_said_too_late(bumps: list[tuple[float, int]], data: st.DataObject) -> None:
    """Moments are kept in part: what is said lies before the change by so much at most, or nobody knows any more."""
    clock = PageClock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_cache, "time", clock)
        pulse = WithoutLog()
        truth = []
        for waited_s, times in bumps:
            clock.now_s += waited_s
            truth += [clock.now_s] * times
            for _ in range(times):
                pulse.bump("a")
        since = data.draw(st.integers(0, len(truth) - 1))
        said = pulse.changed_at("a", since)
        assert said <= truth[since]
        assert said >= truth[since] - NOTED_S or clock.now_s - truth[since] > STALE_S


class WithoutLog(ChangeCounter):
    """Counts what it is told alone."""

    def __init__(self) -> None:
        super().__init__(None)  # type: ignore[arg-type]

    def _newest(self) -> int:
        return 0


@pytest.mark.parametrize("topic", [WORK, OWN])
def test_whoever_comes_while_a_page_is_made_again_gets_the_old_one_or_waits(
    held: tuple[OpenLedger, object], topic: str
) -> None:
    """What agents did may lag; what somebody changed here is waited for, and made anew where the new one lacks it."""
    pulse = ChangeCounter(held[0].log)
    cache, topics = PageCache(pulse), (WORK, OWN)
    cache.get("a", topics, lambda: "old")
    cache._cached["a"].until = cache._cached["a"].at
    pulse.bump(WORK)
    begun, go_on, seen = threading.Event(), threading.Event(), []

    def slow() -> str:
        begun.set()
        assert go_on.wait(120)
        return "new"

    worker = threading.Thread(target=lambda: cache.get("a", topics, slow))
    worker.start()
    assert begun.wait(120)
    pulse.bump(topic)
    reader = threading.Thread(target=lambda: seen.append(cache.get("a", topics, lambda: "newer")))
    reader.start()
    if topic == WORK:
        reader.join(120)
        assert seen == ["old"]
    else:
        reader.join(0.2)
        assert not seen, "it waits"
    go_on.set()
    worker.join(120)
    reader.join(120)
    assert seen == (["old"] if topic == WORK else ["newer"])


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
        assert go_on.wait(120)
        made.append("made")
        return "page"

    async def main() -> None:
        maker = PageMaker(cache)
        cache.get("aged", (WORK,), lambda: "old")
        pulse.bump(WORK)
        waiting = [asyncio.create_task(maker.page("a", (), make)) for _ in range(5)]
        waiting += [asyncio.create_task(maker.page(number, (), make)) for number in range(MAKING - 1)]
        await asyncio.sleep(0)
        assert len(maker._awaited) == MAKING
        cache._cached["aged"].until = cache._cached["aged"].at  # no longer true, and not for a minute
        assert await maker.page("aged", (WORK,), make) == "old", "shown as it was while others are being made"
        go_on.set()
        assert await asyncio.gather(*waiting) == ["page"] * len(waiting)
        while not maker.idle:
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
        assert go_on.wait(120)
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
        while not maker.idle:
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
            if maker.idle:
                return
        raise AssertionError("it never ended")

    asyncio.run(main())


def test_who_waits_for_a_page_does_not_wait_for_those_that_are_made_again(held: tuple[OpenLedger, object]) -> None:
    """Older pages are made again one after the other, elsewhere; what nobody ever made is made here, and at once."""
    pulse = ChangeCounter(held[0].log)
    cache = PageCache(pulse)
    go_on = threading.Event()
    at_a_time: list[int] = []
    working = threading.Semaphore(0)

    def elsewhere() -> str:
        working.release()
        at_a_time.append(working._value)
        assert go_on.wait(120)
        working.acquire()
        return "made elsewhere"

    async def main() -> None:
        maker = PageMaker(cache)
        for name in ("a", "b", "c"):
            cache.get(name, (WORK,), lambda: "old")
            cache._cached[name].until = cache._cached[name].at
        pulse.bump(WORK)
        here = partial(pytest.fail, "made here")
        for name in ("a", "b", "c", "a"):
            assert await maker.page(name, (WORK,), here, elsewhere) == "old"
        assert len(maker._remade) == 3
        answer = maker.page("new", (WORK,), lambda: "made here", partial(pytest.fail, "made elsewhere"))
        assert await asyncio.wait_for(answer, 120) == "made here"
        go_on.set()
        while not maker.idle:
            await asyncio.sleep(0.01)
        for name in ("a", "b", "c"):
            assert await maker.page(name, (WORK,), here) == "made elsewhere"

    asyncio.run(main())
    assert at_a_time == [1, 1, 1]


def test_what_the_log_does_not_say_is_told_once_to_who_keeps_pages_elsewhere(held: tuple[OpenLedger, object]) -> None:
    pulse = ChangeCounter(held[0].log)
    pulse.bump(WORK, "a")
    pulse.bump(WORK)
    assert pulse.take_bumped() == ["a", WORK]
    assert pulse.take_bumped() == []
    pulse.bump(*map(str, range(STEP + 1)))
    assert pulse.take_bumped() == [EVERY_TOPIC]


def test_where_much_came_at_once_nothing_that_is_kept_holds(
    held: tuple[OpenLedger, object], monkeypatch: pytest.MonkeyPatch, clock: PageClock
) -> None:
    """Also of what was never seen to change before."""
    ledger, key = held
    pulse = ChangeCounter(ledger.log)
    cache, make = PageCache(pulse), making(clock, 0.0)
    cache.get("a", ("never changed",), make)
    monkeypatch.setattr(page_cache, "STEP", 0)
    record(ledger, result_of("first"), key)
    assert pulse.refresh()
    assert cache.get("a", ("never changed",), make) == "page 2"
    pulse.bump(EVERY_TOPIC)
    assert cache.get("a", ("never changed",), make) == "page 3"
