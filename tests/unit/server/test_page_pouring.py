"""While results pour in, pages are as old as they may be; once they stop, the last of them shows."""

from __future__ import annotations

from itertools import groupby

from lynxbench.ledger.location import OpenLedger
from lynxbench.server.page_cache import (
    EVERYTHING,
    NOTED_S,
    OLDEST_S,
    OWN,
    POURING_MOMENTS,
    POURING_S,
    ChangeCounter,
    PageCache,
)
from page_clock import PageClock, making


def test_while_results_pour_in_a_page_is_made_again_every_ten_seconds(
    held: tuple[OpenLedger, object], clock: PageClock
) -> None:
    pulse = ChangeCounter(held[0].log)
    cache, make, topics = PageCache(pulse), making(clock, 0.0), (EVERYTHING, OWN)
    shown: list[str] = []
    for _ in range(160):  # forty seconds
        clock.now_s += NOTED_S
        pulse.bump(EVERYTHING)
        shown.append(cache.get("a", topics, make))
    poured = shown[POURING_MOMENTS:]
    assert len(set(poured)) <= len(poured) * NOTED_S / OLDEST_S + 2
    ages = [len(list(same)) * NOTED_S for _, same in groupby(poured)]
    assert max(ages) <= OLDEST_S + NOTED_S, "none is older than that"
    pulse.bump(OWN)
    assert cache.get("a", topics, make) != shown[-1], "what people change themselves shows at once all the same"


def test_once_results_stop_pouring_in_the_last_of_them_shows(held: tuple[OpenLedger, object], clock: PageClock) -> None:
    pulse = ChangeCounter(held[0].log)
    cache, make = PageCache(pulse), making(clock, 0.0)
    for _ in range(POURING_MOMENTS):
        clock.now_s += NOTED_S
        pulse.bump(EVERYTHING)
    assert pulse.pours
    first = cache.get("a", (EVERYTHING,), make)
    clock.now_s += NOTED_S
    pulse.bump(EVERYTHING)
    assert cache.get("a", (EVERYTHING,), make) == first
    clock.now_s += POURING_S
    assert not pulse.pours
    assert cache.get("a", (EVERYTHING,), make) != first


def test_a_result_now_and_then_is_no_flood(held: tuple[OpenLedger, object], clock: PageClock) -> None:
    pulse = ChangeCounter(held[0].log)
    cache, make = PageCache(pulse), making(clock, 0.0)
    assert not pulse.pours
    shown = []
    for _ in range(10):
        clock.now_s += POURING_S
        pulse.bump(EVERYTHING)
        pulse.bump(EVERYTHING)  # at the same moment: still one
        shown.append(cache.get("a", (EVERYTHING,), make))
    assert len(set(shown)) == len(shown)
