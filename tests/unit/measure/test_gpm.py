"""The units of a GPU by its own counters: readings between samples, means over counted time, and what they decide."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lynxbench.attribute.judge.unit_activity import measured_side, weigh_activity
from lynxbench.measure.device_activity import device_activity
from lynxbench.measure.nvml_readings import GPM_METRICS, open_gpm
from lynxbench.model.activity import DeviceActivity
from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.interval import Interval
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.model.samples import Telemetry

SECOND = 10**9


class FakeGpm:
    """Samples are numbers that grow; a metric is its id times the distance of two samples."""

    NVML_SUCCESS = 0
    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_GPM_METRIC_GRAPHICS_UTIL = 1
    NVML_GPM_METRIC_SM_UTIL, NVML_GPM_METRIC_SM_OCCUPANCY, NVML_GPM_METRIC_ANY_TENSOR_UTIL = 2, 3, 5
    NVML_GPM_METRIC_FP32_UTIL, NVML_GPM_METRIC_FP16_UTIL, NVML_GPM_METRIC_DRAM_BW_UTIL = 12, 13, 10

    class NVMLError(Exception):
        pass

    def __init__(self, supported: bool = True) -> None:
        self.supported, self.taken, self.fails = supported, 0, False

    def nvmlGpmQueryDeviceSupport(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(isSupportedDevice=int(self.supported))

    def nvmlGpmSampleAlloc(self) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(at=0)

    def nvmlGpmSampleGet(self, handle: int, sample: Any) -> None:  # noqa: N802
        if self.fails:
            raise self.NVMLError
        self.taken += 1
        sample.at = self.taken

    def c_nvmlGpmMetricsGet_t(self) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(metrics=[SimpleNamespace(metricId=0, value=0.0, nvmlReturn=0) for _ in range(9)])

    def nvmlGpmMetricsGet(self, asked: Any) -> None:  # noqa: N802
        assert asked.version == 1
        assert asked.sample2.at > asked.sample1.at, "samples in the order of time"
        for one in asked.metrics[: asked.numMetrics]:
            one.value = float(one.metricId * (asked.sample2.at - asked.sample1.at))
            one.nvmlReturn = 3 if one.metricId == self.NVML_GPM_METRIC_FP16_UTIL else 0


def test_each_reading_is_about_the_time_since_the_last() -> None:
    nvml = FakeGpm()
    reader = open_gpm(nvml, 0)
    assert reader is not None
    assert all(math.isnan(value) for value in reader.read().values()), "the first has nothing before it"
    for _ in range(3):
        found = reader.read()
        assert list(found) == list(GPM_METRICS)
        assert found["gpm_sm"] == pytest.approx(0.02)
        assert found["gpm_dram"] == pytest.approx(0.10)
        assert math.isnan(found["gpm_fp16"]), "a metric the device does not offer"


def test_a_failed_reading_leaves_no_span_over_the_gap() -> None:
    nvml = FakeGpm()
    reader = open_gpm(nvml, 0)
    assert reader is not None
    reader.read()
    nvml.fails = True
    assert all(math.isnan(value) for value in reader.read().values())
    nvml.fails = False
    assert all(math.isnan(value) for value in reader.read().values())
    assert reader.read()["gpm_sm"] == pytest.approx(0.02)


def test_devices_and_bindings_without_it_have_no_columns() -> None:
    assert open_gpm(FakeGpm(supported=False), 0) is None
    assert open_gpm(SimpleNamespace(NVMLError=FakeGpm.NVMLError), 0) is None


def _telemetry(**columns: float) -> Telemetry:
    at = np.arange(1, 101, dtype=np.int64) * SECOND // 10
    return Telemetry(at, {name: np.full(100, value) for name, value in columns.items()})


def test_means_are_over_readings_that_lie_wholly_in_the_counted_time() -> None:
    telemetry = _telemetry(gpu0_gpm_sm=0.9, gpu0_gpm_tensor=0.8, gpu0_gpm_dram=0.2)
    telemetry.columns["gpu0_gpm_sm"][:50] = 0.0
    telemetry.columns["gpu0_gpm_sm"][50] = 0.5  # half of its interval was before
    found = device_activity(telemetry, [(5 * SECOND + 1, 10 * SECOND)])
    assert found is not None
    assert found.sm == pytest.approx(0.9)
    assert found.arithmetic == pytest.approx(0.8)
    assert found.samples == 49
    assert device_activity(telemetry, [(0, SECOND // 10)]) is None
    assert device_activity(_telemetry(cpu_busy=1.0), [(0, 10 * SECOND)]) is None
    assert device_activity(None, []) is None


def _activity(tensor: float, dram: float) -> DeviceActivity:
    return DeviceActivity(device="gpu0", samples=40, sm=0.9, tensor=tensor, fp32=0.01, dram=dram, source="NVML GPM")


def _found(bottleneck: Category) -> Attribution:
    return Attribution(
        bottleneck=bottleneck,
        bound=Bound.SOFTWARE,
        layer=Layer.RUNTIME,
        owner="someone",
        shares={bottleneck: 0.8, Category.LAUNCH: 0.2},
        gain_if_removed=Interval(1.0, 2.0, 3.0),
        evidence=("a trace",),
        sentence="software-bound: by shapes",
        next_step="look",
        wall_ms_per_step=1.0,
        steps=4,
    )


@pytest.mark.parametrize(
    ("tensor", "dram", "side"),
    [(0.82, 0.19, "compute"), (0.05, 0.9, "memory_bandwidth"), (0.6, 0.5, None), (0.3, 0.1, None)],
)
def test_the_side_that_binds_is_measured(tensor: float, dram: float, side: str | None) -> None:
    found = measured_side(_activity(tensor, dram))
    assert (found.value if found else None) == side


def test_counters_that_agree_are_evidence_and_change_nothing() -> None:
    before = _found(Category.COMPUTE)
    after = weigh_activity(before, _activity(0.82, 0.19), DEFAULT_OWNERS.__getitem__)
    assert after.model_copy(update={"evidence": before.evidence}) == before
    assert "tensor 82%" in after.evidence[-1]
    assert "arithmetic, measured" in after.evidence[-1]
    assert weigh_activity(before, None, DEFAULT_OWNERS.__getitem__) == before


def test_counters_that_contradict_the_shapes_win_and_say_so() -> None:
    after = weigh_activity(_found(Category.COMPUTE), _activity(0.05, 0.85), DEFAULT_OWNERS.__getitem__)
    assert after.bottleneck is Category.MEMORY_BANDWIDTH
    assert after.bound is Bound.HARDWARE
    assert after.layer is Layer.ACCELERATOR
    assert after.weak
    assert "85%" in after.sentence
    assert after.evidence[-1] == "before the counters: software-bound: by shapes"
    half = weigh_activity(_found(Category.COMPUTE), _activity(0.05, 0.55), DEFAULT_OWNERS.__getitem__)
    assert half.bound is Bound.UNDETERMINED
    assert half.layer is None


def test_idle_units_leave_a_device_bound_verdict_in_doubt() -> None:
    after = weigh_activity(_found(Category.COMPUTE), _activity(0.03, 0.04), DEFAULT_OWNERS.__getitem__)
    assert after.weak
    assert after.bottleneck is Category.COMPUTE
    launch = weigh_activity(_found(Category.LAUNCH), _activity(0.03, 0.04), DEFAULT_OWNERS.__getitem__)
    assert not launch.weak
    assert launch.bottleneck is Category.LAUNCH
