"""How many independent values a correlated series is worth."""

import numpy as np

from lynxbench.stats.arrays import Floats, Numbers, as_series

ROUNDING = float(8 * np.finfo(np.float64).eps)


def autocorrelation(values: Numbers) -> Floats:
    """Autocorrelation at lags 0…n-1 by FFT (biased, hence positive definite); zeros beyond lag 0 for a constant."""
    series = as_series(values)
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
    size = 1 << (2 * series.size - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    covariance = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, size)[: series.size]
    return np.asarray(covariance / covariance[0], dtype=np.float64)


def integrated_time(values: Numbers) -> float:
    """Integrated autocorrelation time 1 + 2·Σρ by Geyer's initial monotone positive sequence (1992), at least 1.

    Pair sums ρ(2m) + ρ(2m+1) of a reversible process are positive and fall; the sum stops where noise breaks that.
    A floor of 1 means that negative correlation never earns more values than were taken.
    """
    series = as_series(values)
    if series.size < 4:
        return 1.0
    acf = autocorrelation(series)
    even = acf.size // 2 * 2
    pairs = acf[0:even:2] + acf[1:even:2]
    negative = pairs <= 0
    first = int(negative.argmax())
    positive = pairs[:first] if negative[first] else pairs
    if positive.size == 0:
        return 1.0
    return max(1.0, float(2 * np.minimum.accumulate(positive).sum() - 1))


def effective_count(values: Numbers) -> float:
    """n / integrated autocorrelation time: between 1 and n (0 for an empty series)."""
    series = as_series(values)
    if series.size == 0:
        return 0.0
    return max(1.0, series.size / integrated_time(series))
