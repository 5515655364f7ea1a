"""The KServe v2 inference language over gRPC (Triton, MLServer, OpenVINO): calls, answers, and what servers tell.

Messages are written and read by their field numbers (the protocol's grpc_service.proto); there are few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from lynxbench.engines.kserve import DATATYPES, KserveReader, NamedTensor
from lynxbench.engines.openai import read_key
from lynxbench.errors import BadInput
from lynxbench.load import protobuf
from lynxbench.load.http import Malformed
from lynxbench.load.http2 import pack_call
from lynxbench.load.protobuf import as_bytes, as_text, read_fields
from lynxbench.load.response_reading import FAILED, NOTHING, OUTPUT
from lynxbench.model.serving import KserveEngine, TensorInput

SERVICE: Final = "/inference.GRPCInferenceService/"
CONTENTS: Final = {
    "BOOL": 1, "INT8": 2, "INT16": 2, "INT32": 2, "INT64": 3, "UINT8": 4, "UINT16": 4, "UINT32": 4, "UINT64": 5,
    "FP32": 6, "FP64": 7, "BYTES": 8,
}  # fmt: skip
"""The field of InferTensorContents that holds an element type; FP16 has none."""
ELEMENT_BYTES: Final = {word: np.dtype(name).itemsize for name, word in DATATYPES.items()} | {"BF16": 2}
PROBE_INPUT: Final = TensorInput(name="answers", datatype="INT32", shape=(1, 1))
REMEMBERED_BYTES = 4096
"""A longer description holds values, which do not come again."""


# --- calls -----------------------------------------------------------------------------------------------------------


def build_call(engine: KserveEngine, model: str, inputs: Sequence[NamedTensor]) -> bytes:
    """One inference as a prepared call."""
    body = protobuf.text(1, model) + (protobuf.text(2, engine.version) if engine.version else b"")
    raws = []
    for tensor in inputs:
        entry, raw = _input(tensor, engine.binary)
        body += protobuf.text(5, entry)
        raws.append(raw)
    body += b"".join(protobuf.text(6, protobuf.text(1, name)) for name in engine.outputs)
    if engine.binary:
        body += b"".join(protobuf.text(7, raw) for raw in raws)
    return prepare_call(engine, "ModelStreamInfer" if engine.stream else "ModelInfer", body)


def prepare_call(engine: KserveEngine, method: str, body: bytes) -> bytes:
    """A call of one of the service's methods."""
    parts = urlsplit(engine.url)
    key = () if engine.api_key_env is None else (("authorization", f"Bearer {read_key(engine.api_key_env)}"),)
    return pack_call(SERVICE + method, parts.netloc, body, tls=parts.scheme == "https", more=key)


def _input(tensor: NamedTensor, binary: bool) -> tuple[bytes, bytes]:
    """The entry of an input, and its values as bytes where they are sent so."""
    values = tensor.values
    if isinstance(values, np.ndarray):
        datatype, shape = DATATYPES[values.dtype.name], tuple(values.shape)
    else:
        datatype, shape = "BYTES", tensor.shape or (len(values),)
    entry = protobuf.text(1, tensor.name) + protobuf.text(2, datatype) + protobuf.numbers(3, shape)
    if not binary:
        if datatype not in CONTENTS:
            raise BadInput(f"input {tensor.name}: {datatype} has no typed form in the protocol; send it as binary")
        return entry + protobuf.text(5, _contents(datatype, values)), b""
    if isinstance(values, np.ndarray):
        return entry, np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"))).tobytes()
    return entry, b"".join(len(text.encode()).to_bytes(4, "little") + text.encode() for text in values)


def _contents(datatype: str, values: npt.NDArray[np.generic] | Sequence[str]) -> bytes:
    place = CONTENTS[datatype]
    if not isinstance(values, np.ndarray):
        return b"".join(protobuf.text(place, text) for text in values)
    if datatype in ("FP32", "FP64"):
        return protobuf.text(place, values.astype("<f4" if datatype == "FP32" else "<f8").tobytes())
    return protobuf.numbers(place, (int(value) for value in values.ravel().tolist()))


# --- answers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A tensor as an answer or a model's metadata describes it."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    typed: bool
    """Whether its values stand in the entry itself."""
    raw_bytes: int | None
    """How long its values are as bytes; None where that depends on them, or the type is not a known one."""


@lru_cache(maxsize=1024)
def read_entry(entry: bytes) -> TensorEntry:
    """A tensor's description; servers repeat themselves."""
    name = datatype = ""
    shape: tuple[int, ...] = ()
    typed = False
    for field, value in read_fields(entry):
        if field == 1:
            name = as_text(value)
        elif field == 2:
            datatype = as_text(value)
        elif field == 3:
            shape += protobuf.unpack_numbers(value)
        elif field == 5:
            typed = True
    size = ELEMENT_BYTES.get(datatype)
    return TensorEntry(name, datatype, shape, typed, None if size is None else size * math.prod(shape))


def check_answer(data: bytes, asked: tuple[str, ...] = ()) -> int:
    """How many outputs a ModelInferResponse holds; Malformed where its values do not fill the shapes that it states."""
    entries: list[bytes] = []
    raws: list[bytes] = []
    for field, value in read_fields(data):
        if field == 5:
            entries.append(as_bytes(value))
        elif field == 6:
            raws.append(as_bytes(value))
    outputs = [
        read_entry(entry) if len(entry) < REMEMBERED_BYTES else read_entry.__wrapped__(entry) for entry in entries
    ]
    if raws:
        if len(raws) != len(outputs):
            raise Malformed(f"{len(outputs)} outputs with the values of {len(raws)}")
        for output, raw in zip(outputs, raws, strict=True):
            if output.raw_bytes != len(raw):
                _refuse_values(output, raw)
    elif any(not output.typed and 0 not in output.shape for output in outputs):
        raise Malformed("an output without its values")
    missing = set(asked) - {output.name for output in outputs} if asked else None
    if outputs and missing:
        raise Malformed(f"an answer without the output {min(missing)}, which was asked for")
    return len(outputs)


def _refuse_values(output: TensorEntry, raw: bytes) -> None:
    """Values that are not as long as their shape says: Malformed, unless only they themselves can tell."""
    wanted = output.raw_bytes
    if min(output.shape, default=0) < 0:
        raise Malformed(f"output {output.name}: a shape of {list(output.shape)}")
    if wanted is None and output.datatype == "BYTES":
        count, at = 0, 0
        while at + 4 <= len(raw):
            at += 4 + int.from_bytes(raw[at : at + 4], "little")
            count += 1
        if at != len(raw) or count != math.prod(output.shape):
            raise Malformed(f"output {output.name}: shape {list(output.shape)} of texts, {count} came")
    elif wanted is not None:
        raise Malformed(
            f"output {output.name}: shape {list(output.shape)} of {output.datatype} is {wanted} bytes, {len(raw)} came"
        )


class GrpcReader(KserveReader):
    """Reads one connection's answers in the binary language; tensors say nothing, and have no tokens here either."""

    __slots__ = ("_asked", "_streamed")

    def __init__(self, streamed: bool, asked: tuple[str, ...]) -> None:
        self._streamed, self._asked = streamed, asked
        super().__init__()

    def event(self, data: bytes) -> int:
        """One message; of a stream, one of several answers, or the word that it failed."""
        if not self._streamed:
            if self.finished:
                raise Malformed("a second answer to a call that has one")
            self.finished = True
            return OUTPUT if check_answer(data, self._asked) else NOTHING
        answer = b""
        for field, value in read_fields(data):
            if field == 1:
                self.failure = as_text(value)
            elif field == 2:
                answer = as_bytes(value)
        if self.failure:
            return FAILED
        # An answer without outputs only says that it was the last (triton_final_response).
        return OUTPUT if check_answer(answer, self._asked) else NOTHING

    def body(self, data: bytes, inference_header_bytes: int) -> int:
        """As an event: gRPC has no other form."""
        return self.event(data)


@dataclass(frozen=True, slots=True)
class GrpcLanguage:
    """What makes readers for the driver."""

    streamed: bool = False
    asked: tuple[str, ...] = ()
    over_http2: bool = True

    def reader(self, keep_text: bool) -> GrpcReader:
        """A reader for one connection."""
        return GrpcReader(self.streamed, self.asked)


def language_of_engine(engine: KserveEngine) -> GrpcLanguage:
    """How a contract's answers are read."""
    return GrpcLanguage(engine.stream, engine.outputs)


def build_grpc_probe(url: str, answers: int) -> bytes:
    """A call of the bundled ground-truth server that answers so many times: what the instrument is proven with."""
    engine = KserveEngine(name="kserve", url=url, protocol="grpc", stream=True, inputs=(PROBE_INPUT,))
    values = np.full((1, 1), answers, dtype=np.int32)
    return build_call(engine, "ground-truth", [NamedTensor(PROBE_INPUT.name, values)])
