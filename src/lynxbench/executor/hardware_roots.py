"""Hardware roots of trust of this machine: whether they are there, and what they answer to a run's nonce.

Nothing here ends a run: what a root cannot or will not answer becomes the reason in its field.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from lynxbench.evidence.hardware_reports import AttestationRecord, HardwareReport, ReportKind, parse_quote
from lynxbench.executor.host import Host, Probe, explain
from lynxbench.executor.nvidia import (
    ASKED_LATER,
    GPU_ATTESTATION,
    Handle,
    Nvml,
    load_nvml,
    nvml_reason,
    opened,
    why_no_gpu_root,
)
from lynxbench.model.executor import Field, Tier, measured, unreadable
from lynxbench.model.layers import Layer

TPM_FIELD: Final = "tpm_quote"
TPM_DEVICE: Final = "/dev/tpmrm0"
TPM_KEY_VARIABLE: Final = "LYNXBENCH_TPM_KEY"
"""Handle of the attestation key that signs quotes, such as 0x81010002; making one is for whoever owns the machine."""
TPM_REGISTERS: Final = "sha256:0,1,2,3,4,5,6,7"
"""Firmware, boot loader and secure-boot state (TCG PC Client profile)."""
TOOL_TIMEOUT_S: Final = 30.0

_HANDLE = re.compile(r"0x81[0-9a-fA-F]{6}")

Tool = Callable[[Sequence[str], Path], None]
"""Runs a program in a folder; raises OSError or subprocess.SubprocessError where it fails."""


@dataclass(frozen=True, slots=True)
class RootAnswers:
    """What the roots answered: the record, and the files that it names."""

    record: AttestationRecord
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Answer:
    field: Field
    reports: tuple[HardwareReport, ...]
    files: dict[str, bytes]


def ask_roots(
    nonce: bytes, *, host: Host | None = None, load: Callable[[], Nvml] = load_nvml, tool: Tool | None = None
) -> RootAnswers:
    """Ask every root that is there; one that is not is left to what the capture says of it."""
    host = host or Host()
    reports: list[HardwareReport] = []
    fields: dict[Layer, dict[str, Field]] = {}
    files: dict[str, bytes] = {}
    askers: tuple[tuple[Layer, str, Callable[[], _Answer | None]], ...] = (
        (Layer.ACCELERATOR, GPU_ATTESTATION, partial(_ask_gpus, nonce, load)),
        (Layer.SYSTEM, TPM_FIELD, partial(_ask_tpm, nonce, host, tool or run_tool)),
    )
    for layer, name, ask in askers:
        try:
            answer = ask()
        except Exception as problem:  # a library or a program of others: whatever it does, the run goes on
            reason = nvml_reason(problem) if layer is Layer.ACCELERATOR else explain(problem)
            fields[layer] = {name: unreadable(f"did not answer: {reason}", Tier.STATE)}
            continue
        if answer is not None:
            fields[layer] = {name: answer.field}
            reports += answer.reports
            files |= answer.files
    return RootAnswers(AttestationRecord(reports=tuple(reports), fields=fields), files)


# --- NVIDIA ---------------------------------------------------------


def _ask_gpus(nonce: bytes, load: Callable[[], Nvml]) -> _Answer | None:
    try:
        nvml = load()
    except (OSError, ImportError):
        return None
    with opened(nvml) as gpus:
        if not gpus or why_no_gpu_root(nvml) is not None:
            return None
        reports: list[HardwareReport] = []
        files: dict[str, bytes] = {}
        digests: list[JsonValue] = []
        for index, gpu in enumerate(gpus):
            report, certificates = _gpu_report(nvml, gpu, nonce)
            names = {"report": f"gpu-{index}.report", "certificates": f"gpu-{index}.pem"}
            reports.append(HardwareReport(name=f"gpu-{index}", kind=ReportKind.NVIDIA_GPU, files=names))
            files |= {names["report"]: report, names["certificates"]: certificates}
            digests.append(sha256(report).hexdigest())
    value = measured(digests, "NVML: SHA-256 of each device's attestation report", Tier.STATE)
    return _Answer(value, tuple(reports), files)


def _gpu_report(nvml: Nvml, gpu: Handle, nonce: bytes) -> tuple[bytes, bytes]:
    answered = nvml.nvmlDeviceGetConfComputeGpuAttestationReport(gpu, nonce)
    certificate = nvml.nvmlDeviceGetConfComputeGpuCertificate(gpu)
    report = bytes(answered.attestationReport)[: answered.attestationReportSize]
    return report, bytes(certificate.attestationCertChain)[: certificate.attestationCertChainSize]


# --- TPM ---------------------------------------------------------


def read_tpm_root(host: Host) -> dict[str, Field]:
    """Whether this machine's TPM can be asked."""
    why = _why_no_tpm(host)
    return {TPM_FIELD: unreadable(ASKED_LATER if why is None else f"not available: {why}", Tier.STATE)}


def _why_no_tpm(host: Host) -> str | None:
    if not host.path(TPM_DEVICE).exists():
        return f"no {TPM_DEVICE}"
    missing = [name for name in ("tpm2_quote", "tpm2_readpublic") if not _program(name, host)]
    if missing:
        return f"{missing[0]} (tpm2-tools) is not installed"
    if not _HANDLE.fullmatch(host.environ.get(TPM_KEY_VARIABLE, "")):
        return f"{TPM_KEY_VARIABLE} names no attestation key (a persistent handle, such as 0x81010002)"
    return None


def _program(name: str, host: Host) -> str | None:
    return shutil.which(name, path=host.environ.get("PATH", os.defpath))


def _ask_tpm(nonce: bytes, host: Host, tool: Tool) -> _Answer | None:
    if _why_no_tpm(host) is not None:
        return None
    handle, names = host.environ[TPM_KEY_VARIABLE], {part: f"tpm.{part}" for part in ("message", "signature", "key")}
    quote, read = (str(_program(name, host)) for name in ("tpm2_quote", "tpm2_readpublic"))
    with tempfile.TemporaryDirectory(prefix="lynxbench-tpm-") as temporary:
        folder = Path(temporary)
        asked = ("-c", handle, "-l", TPM_REGISTERS, "-q", nonce.hex(), "-g", "sha256")
        tool([quote, *asked, "-m", names["message"], "-s", names["signature"]], folder)
        tool([read, "-c", handle, "-f", "pem", "-o", names["key"]], folder)
        files = {name: (folder / name).read_bytes() for name in names.values()}
    digest = parse_quote(files[names["message"]]).pcr_digest.hex()
    value = measured({"pcr_digest": digest, "registers": TPM_REGISTERS}, "tpm2_quote", Tier.STATE)
    return _Answer(value, (HardwareReport(name="tpm", kind=ReportKind.TPM_QUOTE, files=names),), files)


def run_tool(words: Sequence[str], folder: Path) -> None:
    """Run a program of tpm2-tools; what it says on failure becomes the reason."""
    surroundings = {**os.environ, "TPM2TOOLS_TCTI": f"device:{TPM_DEVICE}"}
    try:
        subprocess.run(
            words, cwd=folder, env=surroundings, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=TOOL_TIMEOUT_S, check=True,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").strip().splitlines()
        why = said[-1][:200] if said else "without a word"
        raise OSError(f"{Path(words[0]).name} ended with {error.returncode}: {why}") from None


PROBES: tuple[Probe, ...] = (Probe(Layer.SYSTEM, read_tpm_root, (TPM_FIELD,), Tier.STATE),)
