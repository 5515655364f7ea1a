"""Fake machines: file trees under a temporary root, and an NVML that answers like an 8-GPU node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lynxbench.executor.host import Host

FLAGS = "fpu sse4_2 avx avx2 fma f16c avx512f avx512_vnni avx512_bf16 amx_tile amx_bf16 amx_int8 constant_tsc dts"
XEON = f"""model name\t: Intel(R) Xeon(R)   Platinum 8480C
cpu family\t: 6
model\t\t: 143
stepping\t: 8
microcode\t: 0x2b000590
cpu MHz\t\t: 2000.112
flags\t\t: {FLAGS}"""


def cpuinfo(cpus: int, body: str = XEON) -> str:
    """/proc/cpuinfo of that many CPUs."""
    return "\n\n".join(f"processor\t: {cpu}\n{body}" for cpu in range(cpus)) + "\n"


def xeon_files(cpus: int = 4) -> dict[str, str]:
    """A two-socket server with a performance governor, cgroup v2 and an NVIDIA driver."""
    files = {
        "proc/cpuinfo": cpuinfo(cpus),
        "proc/meminfo": (
            "MemTotal:  2113568768 kB\nMemAvailable: 2000000000 kB\nSwapTotal: 8388604 kB\nSwapFree: 8388600 kB\n"
        ),
        "proc/loadavg": "1.50 1.20 0.90 2/900 4242\n",
        "proc/uptime": "86400.25 100.0\n",
        "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=3f2b mitigations=off isolcpus=2-3 quiet nosmt\n",
        "proc/self/cgroup": "0::/kubepods/pod1/inner\n",
        "proc/1/cgroup": "0::/\n",
        "proc/sys/kernel/osrelease": "5.15.0-105-generic\n",
        "proc/sys/kernel/version": "#115-Ubuntu SMP\n",
        "proc/sys/kernel/hostname": "node-17.example\n",
        "proc/sys/kernel/numa_balancing": "1\n",
        "proc/sys/vm/swappiness": "10\n",
        "proc/driver/nvidia/version": (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.161.08  Release Build\nGCC version: 12\n"
        ),
        "etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\n',
        "etc/machine-id": "b3c1a7f0d2e94d6c8f11223344556677\n",
        "usr/local/cuda-12.2/version.json": '{"cuda": {"name": "CUDA SDK", "version": "12.2.2"}}',
        "usr/lib/x86_64-linux-gnu/libcudnn.so.9": "",
        "usr/lib/x86_64-linux-gnu/libcudnn.so.9.1.0": "",
        "usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08": "",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
        "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
        "sys/devices/system/cpu/online": f"0-{cpus - 1}\n",
        "sys/devices/system/cpu/vulnerabilities/meltdown": "Mitigation: PTI\n",
        "sys/devices/system/node/node0/cpulist": f"0-{cpus // 2 - 1}\n",
        "sys/devices/system/node/node1/cpulist": f"{cpus // 2}-{cpus - 1}\n",
        "sys/devices/system/node/node0/distance": "10 21\n",
        "sys/devices/system/node/node1/distance": "21 10\n",
        "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
        "sys/fs/cgroup/kubepods/pod1/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/kubepods/pod1/inner/cpu.max": "max 100000\n",
        "sys/fs/cgroup/kubepods/pod1/inner/cpu.stat": "usage_usec 5\nnr_throttled 7\n",
        "sys/fs/cgroup/kubepods/pod1/memory.max": "68719476736\n",
        "sys/fs/cgroup/kubepods/pod1/inner/memory.max": "max\n",
        "sys/class/dmi/id/sys_vendor": "Supermicro\n",
        "sys/class/dmi/id/product_name": "SYS-821GE\n",
        "sys/bus/pci/devices/0000:18:00.0/class": "0x030200\n",
        "sys/bus/pci/devices/0000:18:00.0/vendor": "0x10de\n",
        "sys/bus/pci/devices/0000:18:00.0/device": "0x2330\n",
        "sys/bus/pci/devices/0000:18:00.0/numa_node": "0\n",
        "sys/bus/pci/devices/0000:18:00.0/max_link_speed": "32.0 GT/s PCIe\n",
        "sys/bus/pci/devices/0000:18:00.0/max_link_width": "16\n",
        "sys/bus/pci/devices/0000:18:00.0/current_link_speed": "2.5 GT/s PCIe\n",
        "sys/bus/pci/devices/0000:18:00.0/current_link_width": "8\n",
        "sys/bus/pci/devices/0000:19:00.0/class": "0x020000\n",
        "sys/class/hwmon/hwmon0/name": "coretemp\n",
        "sys/class/hwmon/hwmon0/temp1_label": "Package id 0\n",
        "sys/class/hwmon/hwmon0/temp1_input": "54000\n",
    }
    for cpu in range(cpus):
        socket = 0 if cpu < cpus // 2 else 1
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        files |= {
            f"{folder}/cpufreq/scaling_governor": "performance\n" if cpu else "powersave\n",
            f"{folder}/cpufreq/scaling_max_freq": "3800000\n",
            f"{folder}/topology/physical_package_id": f"{socket}\n",
            f"{folder}/topology/thread_siblings_list": f"{cpu}\n",
            f"{folder}/cache/index0/level": "1\n",
            f"{folder}/cache/index0/type": "Data\n",
            f"{folder}/cache/index0/size": "48K\n",
            f"{folder}/cache/index0/shared_cpu_list": f"{cpu}\n",
            f"{folder}/cache/index3/level": "3\n",
            f"{folder}/cache/index3/type": "Unified\n",
            f"{folder}/cache/index3/size": "107520K\n",
            f"{folder}/cache/index3/shared_cpu_list": f"{socket}\n",
        }
    return files


def write_tree(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Files under a root."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


HostMaker = Callable[..., Host]


@pytest.fixture
def make_host(tmp_path: Path) -> HostMaker:
    """A host over a fake tree; without files, the two-socket server."""
    made = 0

    def make(
        files: Mapping[str, str | bytes] | None = None,
        environ: Mapping[str, str] | None = None,
        affinity: set[int] | None = None,
    ) -> Host:
        nonlocal made
        made += 1
        root = tmp_path / f"host{made}"
        root.mkdir()
        write_tree(root, xeon_files() if files is None else files)
        return Host(root=root, environ=dict(environ or {}), affinity=lambda: set(affinity or {0, 1, 2, 3}))

    return make


class NVMLError(Exception):
    """As pynvml's own: the class name begins with NVMLError."""


class NVMLErrorNotSupported(NVMLError):
    """What NVML says where a device lacks a feature."""

    def __init__(self) -> None:
        super().__init__("Not Supported")


class FakeNvml:
    """An 8-GPU H100 node on NVSwitch; `broken` functions raise NotSupported, `odd` overrides one device's answer."""

    def __init__(self, count: int = 8, **overrides: Callable[..., Any]) -> None:
        self.count = count
        self.overrides = overrides
        self.open = 0
        self.answers: dict[str, Callable[..., Any]] = {
            "nvmlSystemGetDriverVersion": lambda: "535.161.08",
            "nvmlSystemGetCudaDriverVersion": lambda: 12020,
            "nvmlDeviceGetCount": lambda: self.count,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetName": lambda g: b"NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetCudaComputeCapability": lambda g: (9, 0),
            "nvmlDeviceGetMemoryInfo": lambda g: SimpleNamespace(total=85520809984, used=1048576 * g),
            "nvmlDeviceGetBAR1MemoryInfo": lambda g: SimpleNamespace(bar1Total=137438953472),
            "nvmlDeviceGetMemoryBusWidth": lambda g: 5120,
            "nvmlDeviceGetVbiosVersion": lambda g: "96.00.74.00.01",
            "nvmlDeviceGetBoardPartNumber": lambda g: "692-2G520-0200-000",
            "nvmlDeviceGetInforomImageVersion": lambda g: "G520.0200.00.05",
            "nvmlDeviceGetGspFirmwareVersion": lambda g: "535.161.08",
            "nvmlDeviceGetVirtualizationMode": lambda g: 0,
            "nvmlDeviceGetEnforcedPowerLimit": lambda g: 650000 if g == 3 else 700000,
            "nvmlDeviceGetPowerManagementLimit": lambda g: 700000,
            "nvmlDeviceGetPowerManagementDefaultLimit": lambda g: 700000,
            "nvmlDeviceGetPowerManagementLimitConstraints": lambda g: [200000, 700000],
            "nvmlDeviceGetMaxClockInfo": lambda g, kind: {1: 1980, 2: 2619}[kind],
            "nvmlDeviceGetApplicationsClock": lambda g, kind: {1: 1980, 2: 2619}[kind],
            "nvmlDeviceGetEccMode": lambda g: [1, 1],
            "nvmlDeviceGetMigMode": lambda g: [0, 0],
            "nvmlDeviceGetPersistenceMode": lambda g: 1,
            "nvmlDeviceGetComputeMode": lambda g: 0,
            "nvmlDeviceGetMaxPcieLinkGeneration": lambda g: 5,
            "nvmlDeviceGetMaxPcieLinkWidth": lambda g: 16,
            "nvmlDeviceGetCurrPcieLinkGeneration": lambda g: 5,
            "nvmlDeviceGetCurrPcieLinkWidth": lambda g: 8 if g == 5 else 16,
            "nvmlDeviceGetMemoryAffinity": lambda g, words, scope: [1 if g < 4 else 2],
            "nvmlDeviceGetCpuAffinity": lambda g, words: [0b0011 if g < 4 else 0b1100],
            "nvmlDeviceGetUUID": lambda g: f"GPU-00000000-0000-0000-0000-00000000000{g}",
            "nvmlDeviceGetSerial": lambda g: f"16537240567{g}",
            "nvmlDeviceGetPciInfo": lambda g: SimpleNamespace(busId=f"00000000:{g:02X}:00.0"),
            "nvmlDeviceGetClockInfo": lambda g, kind: {1: 345, 2: 2619}[kind],
            "nvmlDeviceGetTemperature": lambda g, sensor: 30 + g,
            "nvmlDeviceGetPowerUsage": lambda g: 70000,
            "nvmlDeviceGetCurrentClocksEventReasons": lambda g: 0x24 if g == 3 else 0x1,
            "nvmlDeviceGetComputeRunningProcesses": lambda g: [object()] if g == 7 else [],
            "nvmlDeviceGetUtilizationRates": lambda g: SimpleNamespace(gpu=0),
            "nvmlDeviceGetRemappedRows": lambda g: (0, 0, 0, 0),
            "nvmlDeviceGetNvLinkState": lambda g, link: 1,
            "nvmlDeviceGetNvLinkVersion": lambda g, link: 4,
            "nvmlDeviceGetNvLinkRemoteDeviceType": lambda g, link: 2,
            "nvmlDeviceGetTopologyCommonAncestor": lambda g, other: 40 if (g < 4) == (other < 4) else 50,
        }
        self.answers.update(overrides)

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        if name not in self.answers:
            return self.unsupported
        return self.answers[name]

    @staticmethod
    def unsupported(*_: object) -> Any:
        """What every missing function answers."""
        raise NVMLErrorNotSupported


@pytest.fixture
def fake_nvml() -> type[FakeNvml]:
    """The class, so that tests can bend single answers."""
    return FakeNvml
