"""Hardware roots: asked with the run's nonce where they are there, and never a reason to fail."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attested import VouchingNvml, gpu_report, install_programs, quote
from lynxbench.evidence.hardware_reports import ReportKind, attestation_nonce
from lynxbench.executor.capture import capture_host
from lynxbench.executor.hardware_roots import TPM_KEY_VARIABLE, ask_roots, run_tool
from lynxbench.executor.host import Host
from lynxbench.executor.nvidia import capture_nvidia
from lynxbench.model.executor import Executor, Status, Tier
from lynxbench.model.layers import Layer

MakeHost = Callable[..., Host]
NONCE = attestation_nonce("spin-1", "ab" * 16)
HANDLE = "0x81010002"


def no_nvml() -> Any:
    raise OSError("libnvidia-ml.so.1: cannot open")


@pytest.fixture
def machine(make_host: MakeHost, tmp_path: Path) -> Callable[..., Host]:
    """A machine with a TPM and its programs."""

    def make(*programs: str, handle: str = HANDLE, device: bool = True) -> Host:
        folder = tmp_path / "programs"
        folder.mkdir(exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        install_programs(folder, *programs)
        files = {"dev/tpmrm0": ""} if device else {"dev/null": ""}
        host: Host = make_host(files, {"PATH": str(folder), TPM_KEY_VARIABLE: handle})
        return host

    return make


# --- GPUs -------------------------------------------------------------------


def test_every_device_is_asked_with_the_runs_nonce(make_host: MakeHost) -> None:
    nvml = VouchingNvml()
    answers = ask_roots(NONCE, host=make_host({}), load=lambda: nvml)
    assert nvml.asked == [NONCE, NONCE]
    assert [(report.name, report.kind) for report in answers.record.reports] == [
        ("gpu-0", ReportKind.NVIDIA_GPU),
        ("gpu-1", ReportKind.NVIDIA_GPU),
    ]
    assert len(answers.files["gpu-1.report"]) == len(gpu_report(NONCE)), "without what NVML's array has behind it"
    assert answers.files["gpu-0.pem"].startswith(b"-----BEGIN CERTIFICATE")
    field = answers.record.fields[Layer.ACCELERATOR]["gpu_attestation"]
    assert (field.status, field.tier) == (Status.MEASURED, Tier.STATE)
    assert len(set(field.value)) == 2  # type: ignore[arg-type]


def test_devices_that_do_not_vouch_are_not_asked(make_host: MakeHost, fake_nvml: Callable[..., Any]) -> None:
    off = VouchingNvml(feature=0)
    for load in (lambda: off, fake_nvml, no_nvml):
        answers = ask_roots(NONCE, host=make_host({}), load=load)
        assert (answers.record.fields, answers.files) == ({}, {})
    assert off.asked == []


def test_a_device_that_fails_is_a_reason_not_an_end(make_host: MakeHost) -> None:
    class Failing(VouchingNvml):
        def nvmlDeviceGetConfComputeGpuAttestationReport(self, gpu: int, nonce: bytes) -> Any:  # noqa: N802
            raise RuntimeError("GSP timeout")

    answers = ask_roots(NONCE, host=make_host({}), load=Failing)
    field = answers.record.fields[Layer.ACCELERATOR]["gpu_attestation"]
    assert field.status is Status.UNREADABLE
    assert "did not answer: NVML: RuntimeError: GSP timeout" in field.source
    assert answers.record.reports == ()


def test_the_capture_says_whether_devices_can_be_asked(make_host: MakeHost, fake_nvml: Callable[..., Any]) -> None:
    host = make_host({})
    on = fake_nvml(nvmlSystemGetConfComputeState=lambda: SimpleNamespace(ccFeature=1))
    off = fake_nvml(nvmlSystemGetConfComputeState=lambda: SimpleNamespace(ccFeature=0))
    layers = {name: capture_nvidia(host, load) for name, load in
              (("on", lambda: on), ("off", lambda: off), ("old", fake_nvml), ("none", no_nvml))}  # fmt: skip
    said = {name: fields[Layer.ACCELERATOR]["gpu_attestation"].source for name, fields in layers.items()}
    assert said == {
        "on": "asked for with a run's nonce when one is registered",
        "off": "not available: confidential computing is off (NVML)",
        "old": "not available: NVML: Not Supported",
        "none": "not available: no NVIDIA device answers",
    }
    ids = {name: Executor(layers=fields).executor_id for name, fields in layers.items()}
    assert ids["off"] == ids["old"], "executors keep the ids that they had"
    assert ids["on"] != ids["off"], "encrypted memory is another configuration"


# --- TPM --------------------------------------------------------------------


def test_a_tpm_quotes_the_runs_nonce(machine: Callable[..., Host]) -> None:
    answers = ask_roots(NONCE, host=machine(), load=no_nvml)
    (report,) = answers.record.reports
    assert (report.name, report.kind) == ("tpm", ReportKind.TPM_QUOTE)
    assert answers.files["tpm.message"] == quote(NONCE)[0]
    field = answers.record.fields[Layer.SYSTEM]["tpm_quote"]
    assert (field.tier, field.value["pcr_digest"]) == (Tier.STATE, "00" * 32)  # type: ignore[index, call-overload]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"device": False}, "no /dev/tpmrm0"),
        ({"programs": ("tpm2_readpublic",)}, "tpm2_quote (tpm2-tools) is not installed"),
        ({"handle": ""}, "LYNXBENCH_TPM_KEY names no attestation key"),
        ({"handle": "/etc/passwd"}, "LYNXBENCH_TPM_KEY names no attestation key"),
        ({"handle": "0x81010002 -o /tmp/x"}, "LYNXBENCH_TPM_KEY names no attestation key"),
        ({"handle": "--help"}, "LYNXBENCH_TPM_KEY names no attestation key"),
    ],
)
def test_without_a_tpm_it_is_said_and_nothing_is_asked(
    machine: Callable[..., Host], changed: dict[str, Any], why: str
) -> None:
    host = machine(*changed.pop("programs", ()), **changed)
    asked: list[Sequence[str]] = []
    answers = ask_roots(NONCE, host=host, load=no_nvml, tool=lambda words, folder: asked.append(words))
    assert (answers.record.fields, asked) == ({}, [])
    field = capture_host(host=host, nvml=no_nvml, plugins=[]).layers[Layer.SYSTEM]["tpm_quote"]
    assert (field.status, field.tier) == (Status.UNREADABLE, Tier.STATE)
    assert field.source.startswith("not available: ")
    assert why in field.source


def test_a_tpm_that_refuses_is_a_reason_not_an_end(machine: Callable[..., Host]) -> None:
    answers = ask_roots(NONCE, host=machine(handle="0x81ffffff"), load=no_nvml)
    field = answers.record.fields[Layer.SYSTEM]["tpm_quote"]
    assert "tpm2_quote ended with 1: ERROR: Esys_Quote" in field.source
    assert answers.files == {}


def test_a_program_that_writes_rubbish_is_a_reason_not_an_end(machine: Callable[..., Host]) -> None:
    def rubbish(words: Sequence[str], folder: Path) -> None:
        for name in ("tpm.message", "tpm.signature", "tpm.key"):
            (folder / name).write_bytes(b"rubbish")

    answers = ask_roots(NONCE, host=machine(), load=no_nvml, tool=rubbish)
    assert "not a quote" in answers.record.fields[Layer.SYSTEM]["tpm_quote"].source
    silent = ask_roots(NONCE, host=machine(), load=no_nvml, tool=lambda words, folder: None)
    assert "not present" in silent.record.fields[Layer.SYSTEM]["tpm_quote"].source


def test_a_program_that_is_gone_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-such-program"):
        run_tool([str(tmp_path / "no-such-program")], tmp_path)
    assert os.environ.get("TPM2TOOLS_TCTI") is None, "its surroundings are its own"
