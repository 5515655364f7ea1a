"""Every kind of record with bytes flipped, cut and doubled: an answer that adds up, or one line, and never a crash."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from attributed import analyse
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Bound

ROUNDS = 60


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"written_{name}", Path(__file__).parent / f"test_{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tensorrt, triton, compute, rocprof, xla = map(
    _module, ("tensorrt", "triton_requests", "nsight_compute", "rocprof", "xla")
)
RECORDS: dict[str, tuple[str, bool]] = {
    "layers": (tensorrt.layer_text(tensorrt.PLANTED), True),
    "inferences": (tensorrt.inference_text([10.0 * i for i in range(6)], 6.0, 2.0, 1.0), True),
    "requests": (json.dumps(triton.many()), False),
    "raw page": (compute.raw_text(compute.PLANTED * 3), True),
    "details page": (compute.details_text(compute.PLANTED), True),
    "kernel table": (rocprof.table(rocprof.kernel_rows()), True),
    "rocprofv3 document": (json.dumps(rocprof.document()), False),
    "XLA on a GPU": (json.dumps(xla.document(xla.gpu())), True),
    "XLA on a TPU": (json.dumps(xla.document(xla.tpu())), True),
}
"""Each with whether such a record can never blame anybody."""


def flip(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.randrange(1, 4)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def double(data: bytearray, chance: random.Random) -> None:
    first, last = sorted(chance.randrange(len(data)) for _ in range(2))
    data[last:last] = data[first:last]


def drop(data: bytearray, chance: random.Random) -> None:
    first = chance.randrange(len(data))
    del data[first : first + chance.randrange(1, 60)]


def enlarge(data: bytearray, chance: random.Random) -> None:
    """Digits put into a number, wherever one stands."""
    digits = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    at = chance.choice(digits)
    data[at:at] = b"9" * chance.choice((1, 12, 30, 400))


@pytest.mark.parametrize("damage", [flip, cut, double, drop, enlarge])
@pytest.mark.parametrize("name", RECORDS)
def test_no_damage_crashes_or_lies_about_the_whole(
    name: str, damage: Callable[[bytearray, random.Random], None], tmp_path: Path
) -> None:
    text, never_blames = RECORDS[name]
    chance = random.Random(f"{name} {damage.__name__}")
    path = tmp_path / "record"
    for _ in range(ROUNDS):
        data = bytearray(text.encode())
        damage(data, chance)
        path.write_bytes(data)
        said, problem = None, ""
        try:
            said = analyse(path).attribution
        except BadInput as error:
            problem = str(error)
        if said is None:
            assert len(problem.splitlines()) == 1
            continue
        assert sum(said.shares.values()) == pytest.approx(1.0)
        assert said.wall_ms_per_step > 0
        assert said.sentence.isprintable()
        if never_blames:
            assert (said.bound, said.layer, said.owner) == (Bound.UNDETERMINED, None, None)
