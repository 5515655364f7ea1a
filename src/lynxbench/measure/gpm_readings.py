"""NVML's GPU performance monitoring (Hopper and later): how busy the units of a GPU were between two readings.

What NVML calls utilisation only says that a kernel ran. These say which units worked: streaming multiprocessors, tensor
cores, the fp32 and fp16 pipes, memory.
"""

from __future__ import annotations

import math
from typing import Any

METRICS: dict[str, str] = {
    "gpm_sm": "NVML_GPM_METRIC_SM_UTIL",
    "gpm_occupancy": "NVML_GPM_METRIC_SM_OCCUPANCY",
    "gpm_tensor": "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
    "gpm_fp32": "NVML_GPM_METRIC_FP32_UTIL",
    "gpm_fp16": "NVML_GPM_METRIC_FP16_UTIL",
    "gpm_dram": "NVML_GPM_METRIC_DRAM_BW_UTIL",
}
"""Columns by metric; all are percentages of the device's most."""


class GpmReader:
    """The share that each unit was active since the last reading; NaN at the first, and where a reading fails."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._ids = {column: int(getattr(nvml, name)) for column, name in METRICS.items()}
        self._earlier, self._later = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
        self._began = False

    def read(self) -> dict[str, float]:
        """One reading of every column."""
        unknown = dict.fromkeys(METRICS, math.nan)
        try:
            self._nvml.nvmlGpmSampleGet(self._handle, self._later)
        except self._nvml.NVMLError:
            self._began = False  # the next span would reach back over the gap
            return unknown
        self._earlier, self._later = self._later, self._earlier
        if not self._began:
            self._began = True
            return unknown
        return self._between(earlier=self._later, later=self._earlier)

    def _between(self, earlier: Any, later: Any) -> dict[str, float]:
        nvml = self._nvml
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(self._ids)
        asked.sample1, asked.sample2 = earlier, later
        for place, number in enumerate(self._ids.values()):
            asked.metrics[place].metricId = number
        try:
            nvml.nvmlGpmMetricsGet(asked)
        except nvml.NVMLError:
            return dict.fromkeys(METRICS, math.nan)
        answers = (asked.metrics[place] for place in range(len(self._ids)))
        return {
            column: one.value / 100 if one.nvmlReturn == nvml.NVML_SUCCESS else math.nan
            for column, one in zip(self._ids, answers, strict=True)
        }


def open_gpm(nvml: Any, handle: Any) -> GpmReader | None:
    """A reader of one GPU; None where the device, the driver, the binding or the permission does not have it."""
    try:
        if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            return None
        return GpmReader(nvml, handle)
    except (nvml.NVMLError, AttributeError):
        return None
