"""The KServe v2 inference language (Triton, MLServer): requests with JSON or binary tensors; Triton's statistics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

import msgspec
import numpy as np
import numpy.typing as npt

from lynxbench.engines.openai import read_key
from lynxbench.errors import BadInput, BadResult
from lynxbench.load.response_reading import FAILED, OUTPUT, UNKNOWN_TOKENS
from lynxbench.model.serving import KserveEngine

DATATYPES: Final[dict[str, str]] = {
    name: name.upper().replace("FLOAT", "FP")
    for name in (
        "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
        "float16", "float32", "float64",
    )
}  # fmt: skip
"""The protocol's names of element types, by numpy's. Text is BYTES and is given as a list of str."""


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """One named input: an array, or texts."""

    name: str
    values: npt.NDArray[np.generic] | Sequence[str]
    shape: tuple[int, ...] | None = None
    """Of texts, where it is not simply their number."""


def build_request(engine: KserveEngine, model: str, inputs: Sequence[NamedTensor]) -> bytes:
    """The whole HTTP/1.1 request of one inference."""
    parts = urlsplit(engine.url)
    described = [_describe(tensor, engine.binary) for tensor in inputs]
    tail = b"".join(raw for _, raw in described)
    body: dict[str, object] = {"inputs": [entry for entry, _ in described]}
    if engine.outputs:
        body["outputs"] = [
            {"name": name, "parameters": {"binary_data": True}} if engine.binary else {"name": name}
            for name in engine.outputs
        ]
    elif engine.binary:
        body["parameters"] = {"binary_data_output": True}
    head = msgspec.json.encode(body)
    version = f"/versions/{quote(engine.version, safe='')}" if engine.version else ""
    lines = [
        f"POST {parts.path.rstrip('/')}/v2/models/{quote(model, safe='')}{version}/infer HTTP/1.1",
        f"Host: {parts.netloc.rpartition('@')[2]}",
        f"Content-Type: {'application/octet-stream' if engine.binary else 'application/json'}",
        f"Content-Length: {len(head) + len(tail)}",
    ]
    if engine.binary:
        lines.append(f"Inference-Header-Content-Length: {len(head)}")
    if engine.api_key_env is not None:
        lines.append(f"Authorization: Bearer {read_key(engine.api_key_env)}")
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + head + tail


def _describe(tensor: NamedTensor, binary: bool) -> tuple[dict[str, object], bytes]:
    """The JSON entry of an input, and its values as bytes where they are sent so."""
    values = tensor.values
    if isinstance(values, np.ndarray):
        datatype, shape = DATATYPES[values.dtype.name], values.shape
        if datatype == "FP16" and not binary:
            raise BadInput(f"input {tensor.name}: FP16 has no JSON form in the protocol; send it as binary")
    else:
        datatype, shape = "BYTES", tensor.shape or (len(values),)
    entry: dict[str, object] = {"name": tensor.name, "shape": list(shape), "datatype": datatype}
    if not binary:
        entry["data"] = values.ravel().tolist() if isinstance(values, np.ndarray) else list(values)
        return entry, b""
    if isinstance(values, np.ndarray):
        raw = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"))).tobytes()
    else:
        raw = b"".join(len(text.encode()).to_bytes(4, "little") + text.encode() for text in values)
    entry["parameters"] = {"binary_data_size": len(raw)}
    return entry, raw


class _Output(msgspec.Struct):
    name: str
    shape: list[int]
    datatype: str


class _Answer(msgspec.Struct):
    outputs: list[_Output] = []
    error: str | None = None


_decode = msgspec.json.Decoder(_Answer).decode


class KserveReader:
    """Reads one connection's answers; an inference has no tokens."""

    __slots__ = (
        "answering", "cached_tokens", "failure", "finished", "input_tokens", "output_tokens", "reasoning_tokens",
    )  # fmt: skip

    def __init__(self) -> None:
        self.begin()

    def begin(self, number: int = 0) -> None:
        """Forget the answer before."""
        self.finished = self.answering = False
        self.output_tokens = self.input_tokens = self.cached_tokens = self.reasoning_tokens = UNKNOWN_TOKENS
        self.failure = ""

    def event(self, data: bytes) -> int:
        """The protocol does not stream; an event is read as a whole answer (Triton's generate extension)."""
        return self.body(data, -1)

    def body(self, data: bytes, inference_header_bytes: int) -> int:
        """One answer; of a binary one only the JSON part is decoded."""
        answer = _decode(data[:inference_header_bytes] if inference_header_bytes >= 0 else data)
        self.finished = True
        if answer.error is not None:
            self.failure = answer.error
            return FAILED
        if not answer.outputs:
            raise ValueError("an inference answer without outputs")
        return OUTPUT

    def text(self) -> str:
        """Tensors say nothing."""
        return ""


class KserveLanguage:
    """What makes readers for the driver."""

    def reader(self, keep_text: bool) -> KserveReader:
        """A reader for one connection."""
        return KserveReader()


# --- Triton's statistics ---------------------------------------------------------------------------------------------


TRITON_PHASES = ("queue", "compute_input", "compute_infer", "compute_output")


class _Duration(msgspec.Struct):
    count: int = 0
    ns: int = 0


class _Model(msgspec.Struct):
    name: str
    version: str = ""
    inference_count: int = 0
    execution_count: int = 0
    inference_stats: dict[str, _Duration] = {}


class _Statistics(msgspec.Struct):
    model_stats: list[_Model]


def parse_triton_stats(document: bytes, model: str, version: str | None = None) -> dict[str, int]:
    """A model's counters from `/v2/models/MODEL/stats`, summed over its versions unless one is named.

    They count since the server started; take two and subtract.
    """
    try:
        statistics = msgspec.json.decode(document, type=_Statistics)
    except msgspec.DecodeError as error:
        raise BadResult(f"not Triton statistics: {error}") from None
    models = [m for m in statistics.model_stats if m.name == model and version in (None, m.version)]
    if not models:
        raise BadResult(f"Triton's statistics do not mention model {model!r}{f' version {version}' if version else ''}")

    def durations(name: str) -> list[_Duration]:
        return [m.inference_stats.get(name, _Duration()) for m in models]

    return {
        "requests": sum(part.count for part in durations("success")),
        "inferences": sum(m.inference_count for m in models),
        "executions": sum(m.execution_count for m in models),
        "cache_hits": sum(part.count for part in durations("cache_hit")),
        "total_ns": sum(part.ns for part in durations("success")),
        **{f"{phase}_ns": sum(part.ns for part in durations(phase)) for phase in TRITON_PHASES},
    }


def triton_between(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """What happened between two readings; a counter that went back means that the server restarted."""
    differences = {name: after[name] - before[name] for name in after}
    if min(differences.values()) < 0:
        raise BadResult("Triton's counters went backwards: the server was restarted during the run")
    return differences
