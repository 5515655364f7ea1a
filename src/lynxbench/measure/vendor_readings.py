"""Accelerators of other makers while a run goes on: AMD by amdsmi, Intel by the kernel's files, Google by libtpu.

Written from the makers' documents, tested with stand-ins of their modules: **untested on the real chip**. Each device
has a column `…_untested`, by which a run that used it says so. What a device does not offer is an empty cell with its
reason, never 0. Clocks stand under names of their own: no rule of ours has been tried on how these chips hold them.
"""

import importlib
import importlib.util
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNTESTED = "untested"
DRM = Path("/sys/class/drm")
INTEL_VENDOR = "0x8086"
MOST_C = 200.0
"""Above this a temperature is in another unit than °C: earlier libraries gave thousandths."""


@dataclass(frozen=True, slots=True)
class VendorDevice:
    """A device by its column's beginning, and how each of its columns is read."""

    name: str
    readings: Mapping[str, Callable[[], object]]


class VendorReader:
    """Readings of all devices of one maker; one that fails is NaN, with the first reason kept."""

    def __init__(self, devices: Sequence[VendorDevice]) -> None:
        self._devices = devices
        self.reasons: dict[str, str] = {}

    def read(self) -> dict[str, float]:
        """One reading of every column."""
        columns: dict[str, float] = {}
        for device in self._devices:
            columns[f"{device.name}_{UNTESTED}"] = 1.0
            for name, read in device.readings.items():
                column = f"{device.name}_{name}"
                try:
                    columns[column] = number(read(), most=MOST_C if name.endswith("_c") else math.inf)
                except Exception as problem:  # each library has errors of its own
                    columns[column] = math.nan
                    self.reasons.setdefault(column, " ".join(f"{type(problem).__name__}: {problem}".split())[:200])
        return columns


def number(value: object, most: float = math.inf) -> float:
    """A reading as a number; ValueError for N/A, for what is no number and for what it cannot be."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"not a number: {value!r}"[:80])
    if not math.isfinite(value) or not 0 <= value <= most:
        raise ValueError(f"outside of what it can be: {value!r}"[:80])
    return float(value)


def open_vendors(first: int = 0) -> list[VendorReader]:
    """Readers of what is here; `first` is the number after the last device that NVML has named."""
    finds = (
        lambda: amd_devices(first, _module("amdsmi")),
        intel_devices,
        lambda: tpu_devices(_module("libtpu.sdk").tpumonitoring),
    )
    return [VendorReader(devices) for find in finds if (devices := _found(find))]


def _found(find: Callable[[], Iterator[VendorDevice]]) -> list[VendorDevice]:
    try:
        return list(find())
    except Exception:  # no library or no device: no news
        return []


def _module(name: str) -> Any:
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        raise ImportError(name)
    return importlib.import_module(name)


# --- AMD -------------------------------------------------------------------------------------------------------------


def amd_devices(first: int, smi: Any) -> Iterator[VendorDevice]:
    """Every device of amdsmi: W, µJ by counter times resolution, °C, MHz, %, MiB by its documents."""
    smi.amdsmi_init()
    for place, handle in enumerate(smi.amdsmi_get_processor_handles()):
        yield VendorDevice(f"gpu{first + place}", dict(_amd_readings(smi, handle)))


def _amd_readings(smi: Any, handle: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    def temperature(kind: str) -> Callable[[], object]:
        return lambda: smi.amdsmi_get_temp_metric(
            handle, getattr(smi.AmdSmiTemperatureType, kind), smi.AmdSmiTemperatureMetric.CURRENT
        )

    def clock(kind: str) -> Callable[[], object]:
        return lambda: _first(smi.amdsmi_get_clock_info(handle, getattr(smi.AmdSmiClkType, kind)), "clk", "cur_clk")

    def busy() -> float:
        return number(smi.amdsmi_get_gpu_activity(handle)["gfx_activity"], most=100.0) / 100

    def energy_j() -> float:
        busy()  # energy of a device of which nobody knows whether the run used it would be anybody's
        count = smi.amdsmi_get_energy_count(handle)
        return number(_first(count, "energy_accumulator", "power")) * number(count["counter_resolution"]) / 1e6

    power = ("socket_power", "current_socket_power", "average_socket_power")
    yield "power_w", lambda: _first(smi.amdsmi_get_power_info(handle), *power)
    yield "energy_j", energy_j
    yield "temperature_c", temperature("EDGE")
    yield "hotspot_temperature_c", temperature("HOTSPOT")
    yield "memory_temperature_c", temperature("VRAM")
    yield "gfx_clock_mhz", clock("GFX")
    yield "memory_clock_mhz", clock("MEM")
    yield "utilisation", busy
    yield "memory_used_bytes", lambda: number(smi.amdsmi_get_gpu_vram_usage(handle)["vram_used"]) * 2**20
    yield "memory_total_bytes", lambda: number(smi.amdsmi_get_gpu_vram_usage(handle)["vram_total"]) * 2**20


def _first(answer: Any, *keys: str) -> object:
    """The value under the first key that has a number: names changed between versions, and N/A fills the others."""
    values = [answer[key] for key in keys if key in answer]
    return next((value for value in values if isinstance(value, (int, float))), values[0] if values else "N/A")


# --- Intel -----------------------------------------------------------------------------------------------------------


class _MeanPower:
    """Watts since the reading before, by a counter of microjoules; none at the first, or where it went back."""

    def __init__(self, file: Path, clock: Callable[[], int]) -> None:
        self._file, self._clock = file, clock
        self._last: tuple[int, float] | None = None

    def read(self) -> float:
        now = self._clock(), float(self._file.read_text())
        before, self._last = self._last, now
        if before is None or now[0] <= before[0]:
            raise ValueError("no reading before this one")
        return (now[1] - before[1]) / 1e6 / ((now[0] - before[0]) / 1e9)


def intel_devices(drm: Path = DRM, clock: Callable[[], int] = time.perf_counter_ns) -> Iterator[VendorDevice]:
    """Discrete GPUs of the xe and i915 drivers, by hwmon and the frequency files (MHz).

    How busy they are nobody tells without rights, so nobody knows whether a run used one: they are shown as `xpu0` and
    so on, give no energy figure and judge nothing.
    """
    cards = sorted(card for card in drm.glob("card[0-9]*") if card.name.removeprefix("card").isdecimal())
    chosen = []
    for card in cards:
        energy = sorted((card / "device").glob("hwmon/hwmon*/energy1_input"))
        vendor = card / "device" / "vendor"
        if energy and vendor.exists() and vendor.read_text().strip() == INTEL_VENDOR:
            chosen.append((card, energy[0]))
    for place, (card, energy_file) in enumerate(chosen):
        files = (card / "gt_act_freq_mhz", card / "device" / "tile0" / "gt0" / "freq0" / "act_freq")
        clock_file = next((file for file in files if file.exists()), files[0])
        readings: dict[str, Callable[[], object]] = {
            "power_w": _MeanPower(energy_file, clock).read,
            "gfx_clock_mhz": lambda file=clock_file: float(file.read_text()),  # type: ignore[misc]
        }
        yield VendorDevice(f"xpu{place}", readings)


# --- Google ----------------------------------------------------------------------------------------------------------


def tpu_devices(monitoring: Any) -> Iterator[VendorDevice]:
    """Every chip of libtpu's monitoring library; values come as texts, a list with one for each chip."""
    for index in range(len(monitoring.get_metric("hbm_capacity_total").data())):

        def part(metric: str, most: float = math.inf, index: int = index) -> float:
            return number(float(monitoring.get_metric(metric).data()[index]), most)

        yield VendorDevice(
            f"tpu{index}",
            {
                "utilisation": lambda part=part: part("duty_cycle_pct", 100.0) / 100,  # type: ignore[misc]
                "memory_used_bytes": lambda part=part: part("hbm_capacity_usage"),  # type: ignore[misc]
                "memory_total_bytes": lambda part=part: part("hbm_capacity_total"),  # type: ignore[misc]
            },
        )
