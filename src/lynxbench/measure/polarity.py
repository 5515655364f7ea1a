"""A small closed-form classifier on sentence vectors: the same recipe for every precision, with nothing to tune."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lynxbench.errors import BadResult
from lynxbench.model.interval import Interval

RIDGE = 1.0
"""Penalty on unit-length vectors: the usual default of ridge classifiers; fixed, so that no precision is tuned."""
Z_95 = 1.959964
"""Two-sided 95 % point of the normal distribution."""


def share_interval(right: int, asked: int) -> Interval:
    """A share with its 95 % Wilson score interval (Wilson 1927), which stays sound near 0 and 1."""
    share, square = right / asked, Z_95**2
    centre = (share + square / (2 * asked)) / (1 + square / asked)
    half = Z_95 * math.sqrt(share * (1 - share) / asked + square / (4 * asked**2)) / (1 + square / asked)
    return Interval(min(max(0.0, centre - half), share), share, max(min(1.0, centre + half), share))


def score_labelled_vectors(
    vectors: npt.NDArray[np.generic], labels: npt.NDArray[np.generic], split: npt.NDArray[np.generic]
) -> npt.NDArray[np.bool_]:
    """Train on the rows with split 0, answer for the rows with split 1, and say which answers are right.

    One-against-rest ridge regression on centred unit vectors (Hastie, Tibshirani, Friedman: ESL, 3.4.1), solved in the
    smaller of the two dimensions.
    """
    train, test = split == 0, split == 1
    classes = np.unique(labels[train])
    if not test.any() or len(classes) < 2:
        raise BadResult("labelled vectors need a training part with two labels (split 0) and a scored part (split 1)")
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    unit = wide / np.where(norms > 0, norms, 1.0)
    centre = unit[train].mean(axis=0)
    known, asked = unit[train] - centre, unit[test] - centre
    signs = np.where(labels[train][:, None] == classes[None, :], 1.0, -1.0)
    offset = signs.mean(axis=0)
    if len(known) <= known.shape[1]:
        dual = np.linalg.solve(known @ known.T + RIDGE * np.eye(len(known)), signs - offset)
        scores = asked @ (known.T @ dual)
    else:
        primal = np.linalg.solve(known.T @ known + RIDGE * np.eye(known.shape[1]), known.T @ (signs - offset))
        scores = asked @ primal
    return np.asarray(classes[np.argmax(scores + offset, axis=1)] == labels[test])
