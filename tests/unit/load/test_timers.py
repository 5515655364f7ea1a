"""Timers wake on time and the wheel misses no deadline."""

import asyncio
from time import perf_counter_ns

from lynxbench.load.event_loop import new_event_loop
from lynxbench.load.timers import PreciseTimer, TimerWheel


def test_the_timer_is_finer_than_a_millisecond_and_can_be_moved():
    async def run():
        loop = asyncio.get_running_loop()
        woke = []
        timer = PreciseTimer(loop, lambda: woke.append(perf_counter_ns()))
        late = []
        for _ in range(30):
            due = perf_counter_ns() + 1_300_000
            timer.arm(due + 50_000_000)
            timer.arm(due)
            await asyncio.sleep(0.01)
            if woke:
                late.append(woke.pop() - due)
        timer.arm(1)  # long past: at once
        for _ in range(1000):
            await asyncio.sleep(0.005)
            if woke:
                break
        assert woke
        timer.close()
        return late

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        late = runner.run(run())
    assert len(late) >= 20
    assert min(late) >= 0
    assert sorted(late)[2] < 700_000  # the best few show the resolution; the rest is whatever else this machine does


class Thing:
    def __init__(self, deadline):
        self.deadline = deadline
        self.expired_at = None
        self.now = 0

    def deadline_ns(self):
        return self.deadline

    def expire(self):
        self.expired_at = self.now


def test_the_wheel_expires_within_a_tick_even_when_deadlines_move():
    tick, shortest = 10, 100
    wheel = TimerWheel(tick, shortest)
    fixed, moving, gone = Thing(1_250), Thing(1_300), Thing(1_400)
    for thing in (fixed, moving, gone):
        wheel.watch(thing, 1_000)
    released = []
    for now in range(1_000, 3_000, 7):
        for thing in (fixed, moving, gone):
            thing.now = now
        if now < 2_000 and now % 50 < 7:
            moving.deadline = now + 300
        if now > 1_100:
            gone.deadline = 0
        released += wheel.look(now)
    assert 1_250 <= fixed.expired_at <= 1_250 + 2 * tick
    assert moving.deadline <= moving.expired_at <= moving.deadline + 2 * tick
    assert gone.expired_at is None
    assert sorted(map(id, released)) == sorted(map(id, (fixed, moving, gone)))


def test_a_deadline_that_comes_nearer_than_the_first_look_is_not_missed():
    wheel = TimerWheel(10, 50)
    thing = Thing(10_000)  # first-byte timeout, far away
    wheel.watch(thing, 1_000)
    for now in range(1_000, 2_000, 10):
        thing.now = now
        if now == 1_100:
            thing.deadline = 1_150  # the first byte came: the idle timeout counts now
        wheel.look(now)
    assert 1_150 <= thing.expired_at <= 1_170
