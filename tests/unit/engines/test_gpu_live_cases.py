"""Planted cases that were written for a GPU, at sizes for any machine: each step and its fix do the same work."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

FOLDER = Path(__file__).parents[3] / "benchmarks"
CASES = [
    "topped", "polled", "convolved", "rotary", "recurrent", "sampled", "padded", "loaded", "replayed",
    "dequantised", "hogged", "experts", "offloaded", "entropy", "updated", "activated", "routed", "touched",
    "answered", "lastly", "crumbs", "expanded", "converged", "flashed", "unfolded", "averaged", "reordered",
    "saved", "normed", "spectral", "adapters", "cumulated", "alerted", "batched",
]  # fmt: skip
FURTHER = [
    "tables", "warped", "filtered", "stacked", "tokenised", "normalised", "judged", "outer", "looked", "measured",
    "plain", "inverted", "logged", "deepcopied", "bucketed",
]  # fmt: skip
LATER = [
    "permuted", "lengths", "feedforward", "relations", "augmented", "contrasted", "hooked", "smoothed", "linearised",
    "gaussian", "ngrams", "integrated", "biased", "trimmed", "learned", "shadowed", "regularised", "diagonal",
]  # fmt: skip
FIFTH = [
    "dispatched", "speculated", "encoded", "promoted", "recalled", "frozen", "forest", "clipped", "particles",
    "excluded", "accumulated", "solved", "upscaled", "voxelised", "rolled", "checkpointed", "transformed", "adjacent",
]  # fmt: skip
SIXTH = [
    "lectured", "conditioned", "contextual", "packed", "kronecker", "piped", "ledger", "headed", "swept",
    "predicted", "marched", "scored", "lifted", "frames", "grouped", "composited",
]  # fmt: skip
SEVENTH = [
    "delayed", "accepted", "twinned", "guided", "grounded", "circular", "volatile", "crossed", "peaks",
    "transported", "bonded", "cellular", "hebbian", "lensless",
]  # fmt: skip
NINTH = [
    "denoised", "stencilled", "paged", "terminal", "handed", "shards", "triplets", "critics", "parsed", "columnar",
    "waypoints", "beamed", "tiled", "coalesced", "overlapped", "reweighted", "advantages", "blended", "dissected",
    "filmed", "exposed", "coasts", "shares", "ensemble",
]  # fmt: skip
DRAWN = ["careless"]
"""Its cause draws at random: results agree only on average."""


@pytest.fixture(scope="module", autouse=True)
def small_cases() -> Iterator[None]:
    """The benchmarks beside each other, as a script sees them, small and without a device."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LYNXBENCH_SMALL_CASES", "1")
        patch.setattr(torch.cuda, "is_available", lambda: False)
        patch.syspath_prepend(str(FOLDER))
        yield
    for name in set(sys.modules) - before:
        if name.startswith("gpu_"):
            del sys.modules[name]


def results(case: str) -> tuple[list[Any], list[Any]]:
    module = importlib.import_module(importlib.import_module("gpu_live").CASES[case].module)
    step, found = getattr(module, case), []
    for call in (step, step.fixed):
        torch.manual_seed(0)
        step.setup()
        call()
        parts = step.y if isinstance(step.y, list) else [step.y]
        found.append([part.detach().clone().double() for part in parts])
        step.__dict__.clear()
    return found[0], found[1]


@pytest.mark.parametrize("case", CASES + FURTHER + LATER + FIFTH + SIXTH + SEVENTH + NINTH)
def test_a_fix_does_the_same_work(case: str) -> None:
    planted, fixed = results(case)
    assert len(planted) == len(fixed) > 0
    for one, other in zip(planted, fixed, strict=True):
        assert one.shape == other.shape
        assert other.abs().max() > 0
        assert (one - other).abs().max() <= 0.03 * other.abs().max()  # a few roundings of bf16


@pytest.mark.parametrize("case", DRAWN)
def test_a_fix_of_what_is_drawn_has_the_same_shape_and_finite_numbers(case: str) -> None:
    (planted,), (fixed,) = results(case)
    assert planted.shape == fixed.shape
    assert planted.isfinite().all()
    assert not torch.equal(planted, fixed)


def test_every_unseen_case_is_tried_here_and_none_is_known_already() -> None:
    live = importlib.import_module("gpu_live")
    assert sorted(live.UNSEEN) == sorted(CASES + DRAWN)
    assert sorted(live.FURTHER) == sorted(FURTHER)
    assert sorted(live.LATER) == sorted(LATER)
    assert sorted(live.FIFTH) == sorted(FIFTH)
    assert sorted(live.SIXTH) == sorted(SIXTH)
    assert sorted(live.SEVENTH) == sorted(SEVENTH)
    assert sorted(live.NINTH) == sorted(NINTH)
    assert not set(live.UNSEEN) & set(live.KNOWN)
    assert not set(live.FURTHER) & set(live.KNOWN | live.UNSEEN)
    assert not set(live.LATER) & set(live.KNOWN | live.UNSEEN | live.FURTHER)
    assert not set(live.FIFTH) & set(live.KNOWN | live.UNSEEN | live.FURTHER | live.LATER)
    assert not set(live.SIXTH) & set(live.KNOWN | live.UNSEEN | live.FURTHER | live.LATER | live.FIFTH)
    before = live.KNOWN | live.UNSEEN | live.FURTHER | live.LATER | live.FIFTH | live.SIXTH
    assert not set(live.SEVENTH) & set(before)
    assert not set(live.NINTH) & set(before | live.SEVENTH | live.EIGHTH)
