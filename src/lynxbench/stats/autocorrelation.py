"""How many independent values a correlated series is worth."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lynxbench.stats.arrays import Floats, Numbers, as_series

ROUNDING = float(8 * np.finfo(np.float64).eps)
SURELY = 1e-9
"""A correlation further from 0 than this is not there by rounding: transforms of a billion values are off by less."""
AT_ONCE = 1 << 16
"""Values of one process that are transformed together: half a megabyte, however long series are."""
Mask = npt.NDArray[np.bool_]


def autocorrelation(values: Numbers) -> Floats:
    """Autocorrelation at lags 0…n-1 by FFT (biased, hence positive definite); zeros beyond lag 0 for a constant."""
    return autocorrelation_of(as_series(values))


def autocorrelation_of(series: Floats) -> Floats:
    """The same of what is known to be a series."""
    if series.size == 0:
        return np.empty(0, dtype=np.float64)
    centred = series - series.sum() / series.size
    peak = float(np.abs(centred).max())
    acf = np.zeros(series.size)
    acf[0] = 1.0
    # Departures at the level of rounding are a constant that float arithmetic could not centre.
    if peak <= ROUNDING * float(np.abs(series).max()):
        return acf
    centred = centred / peak
    size = transform_size(series.size)
    spectrum = np.fft.rfft(centred, size)
    covariance = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, size)[: series.size]
    return np.asarray(covariance / covariance[0], dtype=np.float64)


def integrated_time(values: Numbers) -> float:
    """Integrated autocorrelation time 1 + 2·Σρ by Geyer's initial monotone positive sequence (1992), at least 1.

    Pair sums ρ(2m) + ρ(2m+1) of a reversible process are positive and fall; the sum stops where noise breaks that.
    A floor of 1 means that negative correlation never earns more values than were taken.
    """
    return _integrated_time(as_series(values))


def exceedance_time(beyond: Mask) -> float:
    """The same of a series that is 1 where something is exceeded and 0 elsewhere, and is neither everywhere.

    Where the first correlation and the second pair of them are negative beyond rounding, the sum stops below 1 and the
    floor of 1 is the answer, without a transform.
    """
    count = beyond.size
    if count < 4:
        return 1.0
    hits = int(np.count_nonzero(beyond))
    mean = hits / count
    first: list[bool] = beyond[:3].tolist()
    last: list[bool] = beyond[-3:].tolist()

    def covariance(lag: int) -> float:
        together = int(np.count_nonzero(beyond[lag:] & beyond[:-lag]))
        ends = 2 * hits - sum(first[:lag]) - sum(last[-lag:])
        return together - mean * ends + (count - lag) * mean * mean

    negative = -SURELY * hits * (1 - mean)
    if covariance(1) < negative and covariance(2) + covariance(3) < negative:
        return 1.0
    return _integrated_time(beyond.astype(np.float64))


def exceedance_times(masks: Sequence[Mask]) -> list[list[float]]:
    """The same of several series, each with a row for every place that is looked at.

    Those of about one length are transformed together: to the same bits, and quicker.
    """
    times: list[list[float]] = [[] for _ in masks]
    by_size: dict[int, list[int]] = {}
    for number, beyond in enumerate(masks):
        rows, count = beyond.shape
        size = transform_size(count)
        if count < 4:
            times[number] = [1.0] * rows
        elif rows * size > AT_ONCE:  # then it is the transform that takes long: whether it is needed is seen first
            times[number] = [exceedance_time(row) for row in beyond]
        else:
            by_size.setdefault(size, []).append(number)
    for size, numbers in by_size.items():
        for number, found in zip(numbers, _times_together([masks[number] for number in numbers], size), strict=True):
            times[number] = found
    return times


def _times_together(masks: Sequence[Mask], size: int) -> list[list[float]]:
    """Each row is computed as `_integrated_time` computes it alone, so that not a bit differs."""
    rows = [len(beyond) for beyond in masks]
    ends = np.cumsum(rows).tolist()
    counts = np.repeat([beyond.shape[1] for beyond in masks], rows)
    longest = int(counts.max())
    series = np.zeros((ends[-1], longest), dtype=bool)
    for end, beyond in zip(ends, masks, strict=True):
        series[end - len(beyond) : end, : beyond.shape[1]] = beyond
    mean = np.add.reduce(series, axis=1, dtype=np.intp) / counts
    peak = np.maximum(1.0 - mean, mean)
    centred = np.where(series, ((1.0 - mean) / peak)[:, None], ((0.0 - mean) / peak)[:, None])
    if counts.min() < longest:
        centred[np.arange(longest) >= counts[:, None]] = 0.0
    spectrum = np.fft.rfft(centred, size)
    covariance = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, size)
    acf = covariance[:, : longest // 2 * 2] / covariance[:, :1]
    falling = np.minimum.accumulate(acf[:, 0::2] + acf[:, 1::2], axis=1)
    ended = falling <= 0
    stops = np.minimum(np.where(ended[:, -1], ended.argmax(axis=1), falling.shape[1]), counts // 2).tolist()
    # A sum of one or two has one order: most are, and then no row is looked at by itself.
    short = np.maximum(1.0, 2 * (falling[:, 0] + np.where(np.array(stops) > 1, falling[:, 1], 0.0)) - 1).tolist()
    times = [short[row] if 0 < stop <= 2 else _time_of(falling[row, :stop]) for row, stop in enumerate(stops)]
    return [times[end - many : end] for end, many in zip(ends, rows, strict=True)]


def transform_size(count: int) -> int:
    """Of a transform of so many values in which no lag meets its own end."""
    return 1 << (2 * count - 1).bit_length()


def _integrated_time(series: Floats) -> float:
    if series.size < 4:
        return 1.0
    acf = autocorrelation_of(series)
    even = acf.size // 2 * 2
    pairs = acf[0:even:2] + acf[1:even:2]
    negative = pairs <= 0
    first = int(negative.argmax())
    return _time_of(np.minimum.accumulate(pairs[:first] if negative[first] else pairs))


def _time_of(falling: Floats) -> float:
    """Twice the sum of the falling pairs, less what lag 0 counts twice."""
    return max(1.0, float(2 * np.add.reduce(falling) - 1)) if falling.size else 1.0


def effective_count(values: Numbers) -> float:
    """n / integrated autocorrelation time: between 1 and n (0 for an empty series)."""
    series = as_series(values)
    if series.size == 0:
        return 0.0
    return max(1.0, series.size / integrated_time(series))
