"""trtexec's exports, written as its own reporting writes them, with known truth."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attributed import analyse, attribute, is_doubted, is_open, refusal, took
from lynxbench.model.attribution import Category

Layers = list[dict[str, Any]]

PLANTED = {
    "conv1 + relu1": 6.0,
    "Reformatting CopyNode for Input Tensor 0 to conv1 + relu1": 1.0,
    "{ForeignNode[/head/Reshape.../head/Softmax]}": 2.0,
    "(Unnamed Layer* 7) [Convolution]": 1.0,
}
"""Milliseconds an inference: one layer takes 60 % of it."""


def layer_text(layers: dict[str, float], count: int = 40) -> str:
    """As trtexec writes it: one entry a line, numbers with six digits, no escapes."""
    total = sum(layers.values()) * count or 1.0
    lines = [f'  {{ "count" : {count} }}']
    for name, ms in layers.items():
        figures = f'"timeMs" : {ms * count:.6g}, "averageMs" : {ms:.6g}, "medianMs" : {ms:.6g}'
        lines.append(f', {{ "name" : "{name}", {figures}, "percentage" : {100 * ms * count / total:.6g} }}')
    return "[\n" + "\n".join(lines) + "\n]\n"


def inference_text(starts: list[float], h2d: float, compute: float, d2h: float, *, pause: float = 0.0) -> str:
    """`pause` lies between the copy in and the computation."""
    lines = []
    for begin in starts:
        at = [begin, begin + h2d, begin + h2d + pause, begin + h2d + pause + compute]
        marks = {
            "startEnqMs": begin,
            "endEnqMs": begin + 0.05,
            "startH2dMs": at[0],
            "endH2dMs": at[1],
            "startComputeMs": at[2],
            "endComputeMs": at[3],
            "startD2hMs": at[3],
            "endD2hMs": at[3] + d2h,
            "h2dMs": h2d,
            "computeMs": compute,
            "d2hMs": d2h,
            "latencyMs": h2d + compute + d2h,
        }
        lines.append("{ " + ", ".join(f'"{key}" : {value:.6g}' for key, value in marks.items()) + " }")
    return "[\n  " + "\n, ".join(lines) + "\n]\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str | bytes], Path]:
    def write(text: str | bytes) -> Path:
        path = tmp_path / "export"  # a name that says nothing
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_the_layer_that_takes_most_is_named_with_its_share(write: Callable[..., Path]) -> None:
    said = attribute(write(layer_text(PLANTED)))
    is_open(said)
    assert said.wall_ms_per_step == pytest.approx(10.0)
    first = said.operators[0]
    assert (first.name, first.share) == ("conv1 + relu1", pytest.approx(0.6))
    assert took(said)["Unnamed Layer* 7 [Convolution]"] == pytest.approx(1.0)
    assert "layer profile holds layers alone" in said.sentence
    assert "exportTimes" in said.next_step
    assert any("40 inferences" in line for line in said.evidence)


def test_what_layers_are_follows_from_what_they_do_and_not_from_what_they_do_it_to(write: Callable[..., Path]) -> None:
    said = attribute(write(layer_text(PLANTED)))
    categories = {operator.name: operator.category for operator in said.operators}
    assert categories["conv1 + relu1"] is Category.COMPUTE
    assert categories["Unnamed Layer* 7 [Convolution]"] is Category.COMPUTE
    assert categories["Reformatting CopyNode (for Input Tensor 0 to conv1 + relu1)"] is Category.MEMORY_BANDWIDTH
    assert categories["{ForeignNode[/head/Reshape.../head/Softmax]}"] is Category.UNATTRIBUTED
    assert said.shares[Category.UNATTRIBUTED] == pytest.approx(0.2)


def test_a_profile_without_its_count_is_read_by_its_means(write: Callable[..., Path]) -> None:
    entries = json.loads(layer_text(PLANTED))[1:]
    said = attribute(write(json.dumps(entries)))
    assert said.wall_ms_per_step == pytest.approx(10.0)
    assert any("does not count" in line for line in said.evidence)


def test_record_separators_in_layer_names_and_gzip_are_read(write: Callable[..., Path]) -> None:
    text = layer_text({"conv\x1e[ONNX Layer: conv]": 3.0, "relu": 1.0})
    said = attribute(write(gzip.compress(text.encode())))
    assert said.operators[0].share == pytest.approx(0.75)


def test_changed_times_contradict_their_percentages(write: Callable[..., Path]) -> None:
    entries = json.loads(layer_text(PLANTED))
    entries[1]["timeMs"] /= 3
    assert "damaged" in is_doubted(write(json.dumps(entries)))


def edited(edit: Callable[[Layers], object]) -> str:
    entries = json.loads(layer_text(PLANTED))
    edit(entries)
    return json.dumps(entries)


DAMAGED: dict[str, str] = {
    "cut": layer_text(PLANTED)[:-60],
    "negative": edited(lambda entries: entries[2].update(timeMs=-1.0)),
    "beyond any clock": edited(lambda entries: entries[2].update(timeMs=1e300)),
    "beyond a double": layer_text(PLANTED).replace("240", "9" * 400, 1),
    "not a number": layer_text(PLANTED).replace("240", "nan", 1),
    "a count beyond any": layer_text(PLANTED).replace('count" : 40', 'count" : ' + "9" * 400),
    "words": edited(lambda entries: entries[2].update(timeMs="long")),
    "a name that is none": edited(lambda entries: entries[2].update(name=7)),
    "an entry that is none": edited(lambda entries: entries.insert(2, [])),  # type: ignore[arg-type]
    "nameless": edited(lambda entries: entries[2].pop("name")),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_profiles_blame_nobody(name: str, write: Callable[..., Path]) -> None:
    is_doubted(write(DAMAGED[name]))


@pytest.mark.parametrize(
    "text",
    [
        '[\n  { "count" : 12 }\n]\n',
        layer_text({"conv": 0.0, "relu": 0.0}),
        '[ { "count" : 1 }, { "name" : "conv", "timeMs" : 1e290, "percentage" : 100 } ]',
        '[ { "count" : 0 }, { "name" : "conv", "timeMs" : 12.0, "percentage" : 100 } ]',
    ],
)
def test_a_profile_without_time_is_refused(text: str, write: Callable[..., Path]) -> None:
    assert "--exportProfile" in refusal(write(text))


def test_steps_copies_and_gaps_of_the_times(write: Callable[..., Path]) -> None:
    """Ten inferences, 10 ms apart: 6 ms copy in, 2 ms engine, 1 ms copy out, 1 ms nothing."""
    analysis = analyse(write(inference_text([10.0 * i for i in range(10)], 6.0, 2.0, 1.0)))
    said = analysis.attribution
    is_open(said)
    assert said.wall_ms_per_step == pytest.approx(10.0)
    assert said.bottleneck is Category.TRANSFER
    assert said.shares[Category.TRANSFER] == pytest.approx(0.7, abs=0.001)
    assert said.shares[Category.UNATTRIBUTED] == pytest.approx(0.3, abs=0.001)
    assert took(said)["TensorRT engine"] == pytest.approx(2.0)
    assert [movement.name[:11] for movement in analysis.detail.movements] == ["Memcpy HtoD", "Memcpy DtoH"]
    assert any("enqueueing takes 0.05 ms" in line for line in said.evidence)
    assert "feeds the engine itself" in said.sentence


def test_copies_behind_the_engine_are_hidden(write: Callable[..., Path]) -> None:
    """Inferences overlap: each begins before the one before it ends."""
    said = attribute(write(inference_text([2.0 * i for i in range(12)], 1.0, 2.0, 1.0)))
    is_open(said)
    assert said.wall_ms_per_step == pytest.approx(2.0, rel=0.01)
    assert said.shares[Category.UNATTRIBUTED] > 0.95
    assert not any("begin before the one before" in line for line in said.evidence)


def test_stamps_written_too_roughly_are_said(write: Callable[..., Path]) -> None:
    said = attribute(write(inference_text([54_321.0 + 0.2 * i for i in range(12)], 0.02, 0.1, 0.02)))
    assert any("wrote its stamps to 100 µs" in line for line in said.evidence)


def times(edit: Callable[[Layers], object]) -> str:
    entries = json.loads(inference_text([10.0 * i for i in range(6)], 6.0, 2.0, 1.0))
    edit(entries)
    return json.dumps(entries)


@pytest.mark.parametrize(
    "text",
    [
        inference_text([10.0 * i for i in range(6)], 6.0, 2.0, 1.0)[:-80],
        times(lambda entries: entries[2].update(startComputeMs=-5.0)),
        times(lambda entries: entries[2].update(startH2dMs=1e300)),
        times(lambda entries: entries[2].update(computeMs=1e300)),
        times(lambda entries: entries[2].update(startH2dMs="soon")),
        times(lambda entries: entries[2].pop("startD2hMs")),
    ],
)
def test_damaged_times_blame_nobody(text: str, write: Callable[..., Path]) -> None:
    is_doubted(write(text))


def test_times_without_time_are_refused(write: Callable[..., Path]) -> None:
    assert "--exportTimes" in refusal(write('[ { "startComputeMs" : 1.0 } ]'))
    assert "--exportTimes" in refusal(write(inference_text([0.0, 0.0], 0.0, 0.0, 0.0)))
