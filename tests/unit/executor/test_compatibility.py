"""CUDA compatibility on four axes."""

from __future__ import annotations

import pytest

from lynxbench.executor.compatibility import CudaStack, FindingVerdict, check_compatibility, check_cuda, parse_arch
from lynxbench.model.executor import Executor, measured
from lynxbench.model.layers import Layer

OK, WARNING, BROKEN = FindingVerdict.OK, FindingVerdict.WARNING, FindingVerdict.BROKEN


def verdicts(stack: CudaStack) -> dict[str, FindingVerdict]:
    return {finding.subject: finding.verdict for finding in check_cuda(stack)}


@pytest.mark.parametrize(
    ("driver", "cuda", "verdict"),
    [
        ("449.99", "11.8", BROKEN),
        ("450.80.02", "11.8", OK),
        ("524.1", "12.0", BROKEN),
        ("525.60.13", "12.9", OK),
        ("579.9", "13.0", BROKEN),
        ("580.65.06", "13.0", OK),
        ("580.65.06", "14.0", WARNING),
        (None, "12.4", WARNING),
    ],
)
def test_driver_floors(driver: str | None, cuda: str, verdict: FindingVerdict) -> None:
    stack = CudaStack(driver=driver, framework="torch 2", framework_cuda=cuda)
    assert verdicts(stack)["driver x CUDA runtime"] is verdict


def test_minor_version_compatibility_is_a_warning() -> None:
    stack = CudaStack(driver="535.161.08", driver_cuda="12.2", framework="torch 2.6", framework_cuda="12.8")
    (finding, _) = check_cuda(stack)
    assert finding.verdict is WARNING
    assert "minor-version" in finding.reason
    assert finding.layer is Layer.SYSTEM


def test_forward_compatibility_package_lifts_the_floor() -> None:
    old = CudaStack(driver="470.82", framework="torch 2", framework_cuda="12.4", forward_compatibility="550.54.14")
    assert verdicts(old)["driver x CUDA runtime"] is WARNING


@pytest.mark.parametrize(
    ("capability", "archs", "driver_cuda", "verdict"),
    [
        ("9.0", ("sm_80", "sm_90"), "12.8", OK),
        ("8.6", ("sm_80",), "12.8", OK),  # binaries run on later minors of one major
        ("8.0", ("sm_86",), "12.8", BROKEN),  # and not on earlier ones
        ("8.9", ("sm_90a",), "12.8", BROKEN),
        ("9.0", ("sm_90a",), "12.8", OK),
        ("12.0", ("sm_90", "compute_90"), "12.8", WARNING),
        ("12.0", ("sm_90", "compute_90"), "12.4", BROKEN),  # the driver cannot compile newer PTX
        ("12.0", ("sm_90", "compute_90a"), "12.8", BROKEN),
        ("7.0", ("sm_75", "compute_75"), "12.8", BROKEN),
        ("10.3", ("sm_100f",), "13.0", OK),
    ],
)
def test_architectures_of_the_build_against_the_device(
    capability: str, archs: tuple[str, ...], driver_cuda: str, verdict: FindingVerdict
) -> None:
    stack = CudaStack("570.1", driver_cuda, None, "torch 2.7", "12.8", archs, (capability,))
    assert verdicts(stack)["framework build x device"] is verdict


@pytest.mark.parametrize(
    ("capability", "cuda", "verdict"),
    [("12.0", "12.4", WARNING), ("9.0", "12.4", OK), ("7.0", "13.0", BROKEN), ("3.5", "12.0", BROKEN)],
)
def test_without_the_list_the_release_decides(capability: str, cuda: str, verdict: FindingVerdict) -> None:
    stack = CudaStack("580.1", "13.0", None, "torch 2", cuda, None, (capability,))
    assert verdicts(stack)["framework build x device"] is verdict


def test_cpu_build_beside_a_device_is_broken() -> None:
    stack = CudaStack(driver="580.1", driver_cuda="13.0", framework="torch 2.13+cpu", capabilities=("9.0",))
    (finding, device) = check_cuda(stack)
    assert finding.verdict is BROKEN
    assert "built without CUDA" in finding.reason
    assert finding.layer is Layer.FRAMEWORK
    assert device.verdict is OK


def test_driver_older_than_the_device() -> None:
    stack = CudaStack("535.1", "12.2", None, "torch 2", "12.8", ("sm_100",), ("10.0", "10.0"))
    found = [finding for finding in check_cuda(stack) if finding.subject == "driver x device"]
    assert [finding.verdict for finding in found] == [BROKEN]


@pytest.mark.parametrize(("toolkit", "verdict"), [("12.8.93", OK), ("12.4", WARNING), ("11.8", WARNING)])
def test_toolkit_against_the_build(toolkit: str, verdict: FindingVerdict) -> None:
    stack = CudaStack("570.1", "12.8", toolkit, "torch 2.7", "12.8")
    assert verdicts(stack)["toolkit x framework build"] is verdict


def test_nothing_to_match_on_a_cpu_machine() -> None:
    (finding,) = check_cuda(CudaStack(framework="torch 2.13+cpu"))
    assert finding.verdict is OK


def test_axes_are_taken_from_an_executor() -> None:
    executor = Executor(
        layers={
            Layer.SYSTEM: {
                "nvidia_driver": measured("470.82.01", "t"),
                "nvidia_driver_cuda": measured("12.4", "t"),
                "system_libraries": measured({"libcuda": ["1", "470.82.01", "550.54.14"]}, "t"),
            },
            Layer.FRAMEWORK: {
                "torch": measured("2.6.0", "t"),
                "torch_cuda": measured("12.4", "t"),
                "torch_cuda_archs": measured(["sm_80", "sm_90"], "t"),
                "distributions": measured({"nvidia-cuda-runtime-cu12": "12.4.127"}, "t"),
            },
            Layer.ACCELERATOR: {"gpu_capability": measured(["9.0", None], "t")},
        }
    )
    found = {finding.subject: finding for finding in check_compatibility(executor)}
    assert "550.54.14" in found["driver x CUDA runtime"].reason
    assert found["toolkit x framework build"].verdict is OK
    assert found["framework build x device"].reason == "torch 2.6.0 carries sm_90 for capability 9.0"


def test_parse_arch() -> None:
    assert parse_arch("sm_120a") == ("sm", (12, 0), "a")
    assert parse_arch("gfx942") is None
