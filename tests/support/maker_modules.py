"""Stand-ins of accelerator makers' modules: the documented functions and forms of answers, of no real chip."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class AmdSmiLibraryException(Exception):
    """As the library raises where a device does not offer something."""


class AmdSmi:
    """Two devices of amdsmi; `answers` replaces what a function says, an exception is raised."""

    AmdSmiTemperatureType = SimpleNamespace(EDGE=0, HOTSPOT=1, VRAM=2)
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT=0)
    AmdSmiClkType = SimpleNamespace(GFX=0, MEM=4)

    def __init__(self, count: int = 2, **answers: Any) -> None:
        self.count, self.answers, self.open, self.ticks = count, answers, 0, 1_000_000

    def amdsmi_init(self) -> None:
        self.open += 1
        self._say("amdsmi_init", None)

    def amdsmi_shut_down(self) -> None:
        self.open -= 1

    def amdsmi_get_processor_handles(self) -> list[str]:
        return [f"handle{index}" for index in range(self.count)]

    def amdsmi_get_gpu_asic_info(self, handle: str) -> Any:
        asic = {"market_name": "AMD Instinct MI300X", "target_graphics_version": "gfx942", "asic_serial": "0x1"}
        return self._say("asic", asic)

    def amdsmi_get_gpu_vram_usage(self, handle: str) -> Any:
        return self._say("vram", {"vram_total": 196592, "vram_used": 1024})

    def amdsmi_get_power_cap_info(self, handle: str) -> Any:
        return self._say("cap", {"power_cap": 750_000_000, "default_power_cap": 750_000_000})

    def amdsmi_get_gpu_vbios_info(self, handle: str) -> Any:
        return self._say("vbios", {"version": "022.040.003.043.000001"})

    def amdsmi_get_gpu_compute_partition(self, handle: str) -> Any:
        return self._say("partition", "SPX")

    def amdsmi_get_gpu_device_uuid(self, handle: str) -> Any:
        return f"uuid-{handle}"

    def amdsmi_get_gpu_device_bdf(self, handle: str) -> Any:
        return "0000:05:00.0"

    def amdsmi_get_gpu_driver_info(self, handle: str) -> Any:
        return self._say("driver", {"driver_version": "6.10.5", "driver_name": "amdgpu"})

    def amdsmi_get_power_info(self, handle: str) -> Any:
        power = {"socket_power": 512, "current_socket_power": 512, "average_socket_power": "N/A"}
        return self._say("power", power)

    def amdsmi_get_energy_count(self, handle: str) -> Any:
        self.ticks += 1000
        return self._say("energy", {"energy_accumulator": self.ticks, "counter_resolution": 15.3, "timestamp": 1})

    def amdsmi_get_temp_metric(self, handle: str, sensor: int, metric: int) -> Any:
        if sensor == self.AmdSmiTemperatureType.EDGE:
            raise AmdSmiLibraryException("AMDSMI_STATUS_NOT_SUPPORTED")
        return self._say("temperature", 71)

    def amdsmi_get_clock_info(self, handle: str, kind: int) -> Any:
        return self._say("clock", {"clk": 2100, "min_clk": 132, "max_clk": 2100, "clk_locked": False})

    def amdsmi_get_gpu_activity(self, handle: str) -> Any:
        return self._say("activity", {"gfx_activity": 96, "umc_activity": 40, "mm_activity": "N/A"})

    def _say(self, name: str, usual: Any) -> Any:
        answer = self.answers.get(name, usual)
        if isinstance(answer, Exception):
            raise answer
        return answer


class TpuMonitoring:
    """libtpu.sdk.tpumonitoring: a metric's data are texts, one for each chip."""

    def __init__(self, **metrics: list[str]) -> None:
        self.metrics = {
            "hbm_capacity_total": ["34088157184", "34088157184"],
            "hbm_capacity_usage": ["1073741824", "2147483648"],
            "duty_cycle_pct": ["93.50", "0.00"],
            **metrics,
        }

    def get_metric(self, name: str) -> Any:
        return SimpleNamespace(data=lambda: self.metrics[name], description=lambda: name)
