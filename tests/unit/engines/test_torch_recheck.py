"""Known ceilings held against brief measurements: kept with a note, raised, or all measured anew."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from lynxbench.engines.torch import ceilings as room  # noqa: E402
from lynxbench.model.attribution import Ceiling  # noqa: E402
from lynxbench.model.precision import Precision  # noqa: E402


def ceiling(name: str, per_s: float, how: str = "8192³") -> Ceiling:
    precision = Precision.BF16 if name == "matmul" else None
    return Ceiling(name=name, precision=precision, per_s=per_s, unit="x/s", how=how)


class Measured:
    """Answers to measuring, the brief one first; how long each was is remembered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: tuple[Ceiling, ...]) -> None:
        self.answers, self.shares = list(answers), list[float]()
        monkeypatch.setattr(room, "measure_ceilings", self._measure)

    def _measure(self, precision: Precision, device: object, share: float = 1.0) -> tuple[Ceiling, ...]:
        self.shares.append(share)
        return self.answers.pop(0)


def recheck(*known: Ceiling) -> dict[str, Ceiling]:
    return {one.name: one for one in room.recheck_ceilings(known, Precision.BF16, torch.device("cpu"))}


def test_ceilings_that_hold_are_kept_with_how_near_the_check_came(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Measured(monkeypatch, (ceiling("matmul", 98.0), ceiling("copy", 103.0), ceiling("launch", 90.0)))
    found = recheck(
        ceiling("matmul", 100.0, "8192³; re-checked now at 99.0%"), ceiling("copy", 100.0), ceiling("launch", 100.0)
    )
    assert measured.shares == [room.RECHECK_SHARE]
    assert (found["matmul"].per_s, found["matmul"].how) == (100.0, "8192³; re-checked now at 98.0%")
    assert found["copy"].per_s == 103.0
    assert found["launch"].per_s == 100.0, "links go through the host: 10 % is within what they vary by"


def test_one_that_does_not_hold_has_all_measured_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    brief = (ceiling("matmul", 90.0), ceiling("copy", 99.0))
    measured = Measured(monkeypatch, brief, (ceiling("matmul", 91.0), ceiling("copy", 98.0)))
    found = recheck(ceiling("matmul", 100.0), ceiling("copy", 100.0))
    assert measured.shares == [room.RECHECK_SHARE, 1.0]
    assert (found["matmul"].per_s, found["copy"].per_s) == (91.0, 98.0)
    assert found["matmul"].how.endswith("an earlier run here reached 100 x/s")
    assert "earlier" not in found["copy"].how


def test_a_ceiling_that_was_not_known_is_measured_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    both = (ceiling("matmul", 100.0), ceiling("copy", 100.0))
    measured = Measured(monkeypatch, both, both)
    found = recheck(ceiling("matmul", 100.0))
    assert measured.shares == [room.RECHECK_SHARE, 1.0]
    assert set(found) == {"matmul", "copy"}


def test_a_real_measurement_of_a_processor_holds_against_itself() -> None:
    known = room.measure_ceilings(Precision.FP32, torch.device("cpu"))
    low = tuple(ceiling.model_copy(update={"per_s": ceiling.per_s / 1000}) for ceiling in known)
    again = {ceiling.name: ceiling for ceiling in room.recheck_ceilings(low, Precision.FP32, torch.device("cpu"))}
    assert all(again[ceiling.name].per_s > ceiling.per_s for ceiling in low), "the better of the two is the ceiling"


@pytest.mark.parametrize(("copy_now", "measured_anew"), [(99.0, False), (50.0, True)])
def test_what_a_function_used_is_known_while_product_and_streams_hold(
    monkeypatch: pytest.MonkeyPatch, copy_now: float, measured_anew: bool
) -> None:
    """Formats that no earlier run measured are measured; a device that came down is measured whole."""
    asked: list[tuple[str, float]] = []

    def product(precision: Precision, device: object, share: float) -> Ceiling:
        asked.append((precision.value, share))
        return Ceiling(name="matmul", precision=precision, per_s=100.0, unit="x/s", how="now")

    monkeypatch.setattr(room, "_product", product)
    monkeypatch.setattr(room, "_streams", lambda device, share: (ceiling("copy", copy_now), ceiling("read", 100.0)))
    fp16 = ceiling("matmul", 100.0).model_copy(update={"precision": Precision.FP16})
    known = (ceiling("matmul", 100.0), fp16, ceiling("copy", 100.0), ceiling("read", 100.0), ceiling("launch", 7.0))
    used = {"c10::Half", "float"}
    found = room.measure_used_ceilings(Precision.BF16, used, torch.device("cpu"), known)
    whole = [("bf16", 1.0), ("fp16", 1.0), ("fp32", 1.0)] if measured_anew else [("fp32", 1.0)]
    assert asked[0] == ("bf16", room.RECHECK_SHARE)
    assert [pair for pair in asked[1:] if pair[0] != "tf32"] == whole
    assert ({one.name for one in found} >= {"launch"}) is not measured_anew
    assert len({(one.name, one.precision) for one in found}) == len(found)


def test_a_device_without_room_gives_the_ceilings_that_fit_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model or a neighbour fills the device: what was measured before is not lost for want of a ceiling."""

    def full(*_: object) -> Ceiling:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(room, "_streams", full)
    device = torch.device("cpu")
    assert [one.name for one in room.measure_ceilings(Precision.FP32, device, 0.01)] == ["matmul"]
    assert [one.name for one in room.measure_used_ceilings(Precision.FP32, ["double"], device)] == ["matmul", "matmul"]
    monkeypatch.setattr(room, "_product", full)
    monkeypatch.setattr(room, "_wide_product", full)
    known = (ceiling("matmul", 1.0).model_copy(update={"precision": Precision.FP32}),)
    assert room.measure_used_ceilings(Precision.FP32, ["double"], device, known) == ()


def test_streams_shrink_with_the_memory_that_is_free_but_never_into_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    on_cpu = {name: getattr(torch, name) for name in ("rand", "ones")}

    def rand(rows: int, width: int, **_: object) -> torch.Tensor:
        sizes.append(rows * width * 4 // 2)
        return on_cpu["rand"](4, width)

    monkeypatch.setattr(torch, "rand", rand)
    monkeypatch.setattr(torch, "ones", lambda count, **_: on_cpu["ones"](count))
    monkeypatch.setattr(room, "measure_best_s", lambda *_: 1.0)
    monkeypatch.setattr(room, "last_level_cache_bytes", lambda _: 50 << 20)
    for free in (100 << 30, 4 << 30, 500 << 20):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _, free=free: (free, 141 << 30))
        room._streams(torch.device("cuda", 0), 1.0)
    assert sizes == [room.CUDA_STREAM_BYTES, 1 << 30], "125 MiB would lie in four caches of 50 MiB"
