"""Where the model file is, what its graph says of itself, and its 8-bit form in the cache."""

import importlib.util
import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lynxbench.attribute.read.operator_names import ONNX_INTEGER_PRODUCTS
from lynxbench.errors import CannotRun, first_line
from lynxbench.model.precision import Precision
from lynxbench.model.workload import ModelSource, PackageModel, PathModel
from lynxbench.workload.model_files import cache_root, file_sha256, make_folder_once
from lynxbench.workload.model_packages import PACKAGED, find_packaged, locate_packaged

INTEGER_OPERATORS = ONNX_INTEGER_PRODUCTS | {"DynamicQuantizeLinear", "QuantizeLinear"}
"""Operators that bring activations to 8 bits or multiply there; without one, 8-bit weights are storage only."""

WEIGHT_ONLY = {
    4: Precision.INT4_WEIGHT_ONLY,
    5: Precision.INT5_WEIGHT_ONLY,
    6: Precision.INT6_WEIGHT_ONLY,
    8: Precision.INT8_WEIGHT_ONLY,
}
"""By the bits of a weight."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """What the file itself says, before any runtime touches it."""

    path: Path
    sha256: str
    bytes: int
    stored: Precision | None
    """None where the `onnx` package is missing and nobody can look inside."""
    vocabulary: dict[str, int]
    """Integer input → number of rows of the table that it indexes."""
    producer: str
    opset: str


def find_model(source: ModelSource) -> Path:
    """The .onnx file a contract's model means; CannotRun says what would be right."""
    if isinstance(source, PackageModel):
        if not find_packaged(source.name).weights.endswith(".onnx"):
            able = ", ".join(sorted(name for name, model in PACKAGED.items() if model.weights.endswith(".onnx")))
            raise CannotRun(f"package model {source.name!r} has no ONNX file; engine onnx knows {able}")
        return locate_packaged(source.name).weights
    if not isinstance(source, PathModel):
        raise CannotRun(f"engine onnx runs model files; model source {source.source} is not one: use source path")
    path = Path(source.path).expanduser()
    if path.is_dir():
        named = path / "model.onnx"
        files = [named] if named.is_file() else sorted(path.glob("*.onnx"))
        if len(files) != 1:
            has = "no .onnx file" if not files else f"{len(files)} .onnx files and none is model.onnx"
            raise CannotRun(f"model {path}: the folder has {has}; name the file")
        return files[0]
    if not path.is_file():
        raise CannotRun(f"model {path}: there is no such file or folder")
    return path


def read_model(path: Path) -> ModelFile:
    """Hash the file and, where the `onnx` package is there, read its precision and the tables its inputs index."""
    sha256, size = file_sha256(path), path.stat().st_size
    if importlib.util.find_spec("onnx") is None:
        return ModelFile(path, sha256, size, None, {}, "unknown", "unknown")
    model = _load(path)
    opset = ", ".join(f"{o.domain or 'ai.onnx'} {o.version}" for o in model.opset_import)
    producer = f"{model.producer_name} {model.producer_version}".strip() or "unknown"
    return ModelFile(path, sha256, size, _stored_precision(model.graph), _vocabularies(model.graph), producer, opset)


def quantised_copy(model: ModelFile) -> tuple[Path, str]:
    """The file with 8-bit weights and dynamically quantised activations, made once, and the tool chain that made it."""
    import onnxruntime

    def fill(folder: Path) -> None:
        if importlib.util.find_spec("onnx") is None:
            raise CannotRun("int8 from an fp32 file needs the onnx package; pip install 'lynxbench[onnx]'")
        _quantise(model.path, folder / "model.onnx")

    folder = cache_root() / "onnx" / f"{model.sha256[:16]}-int8-onnxruntime-{onnxruntime.__version__}"
    chain = f"onnxruntime {onnxruntime.__version__} quantize_dynamic, QInt8 weights per tensor"
    return make_folder_once(folder, fill) / "model.onnx", chain


def _quantise(source: Path, target: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it advises on pre-processing through the root logger
    try:
        quantize_dynamic(source, target, weight_type=QuantType.QInt8)
    except Exception as error:  # foreign graphs fail in many ways; one line is what a person can use
        raise CannotRun(f"{source.name}: cannot be quantised to int8: {first_line(error)}") from error
    finally:
        root.setLevel(level)


def find_tokenizer(source: ModelSource, model: Path) -> Path | None:
    """The tokenizer.json beside the model, or that of a packaged twin; None where there is none."""
    folder = model.parent
    if isinstance(source, PackageModel) and (twin := find_packaged(source.name).tokenizer_of) is not None:
        try:
            folder = locate_packaged(twin).folder
        except CannotRun:
            return None
    path = folder / "tokenizer.json"
    return path if path.is_file() else None


def _load(path: Path) -> Any:
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.load(str(path), load_external_data=False)
    except (DecodeError, OSError) as error:
        raise CannotRun(f"model {path}: not an ONNX file ({first_line(error)})") from error
    if not model.graph.node:
        raise CannotRun(f"model {path}: not an ONNX model (its graph is empty)")
    return model


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    yield from _graphs(inner)


def _stored_precision(graph: Any) -> Precision:
    """The format of most weights; 8-bit files are weight-only unless activations are brought to 8 bits too."""
    from onnx import TensorProto

    formats = {
        TensorProto.FLOAT: Precision.FP32,
        TensorProto.DOUBLE: Precision.FP32,
        TensorProto.FLOAT16: Precision.FP16,
        TensorProto.BFLOAT16: Precision.BF16,
        TensorProto.FLOAT8E4M3FN: Precision.FP8,
        TensorProto.FLOAT8E5M2: Precision.FP8,
        TensorProto.INT8: Precision.INT8,
        TensorProto.UINT8: Precision.INT8,
        TensorProto.INT4: Precision.INT4_WEIGHT_ONLY,
        TensorProto.UINT4: Precision.INT4_WEIGHT_ONLY,
    }
    numbers: Counter[Precision] = Counter()
    operators: set[str] = set()
    for part in _graphs(graph):
        constants = [a.t for n in part.node if n.op_type == "Constant" for a in n.attribute if a.name == "value"]
        packed = {node.input[1]: node for node in part.node if node.op_type in ("MatMulNBits", "MatMulBnb4")}
        for tensor in (*part.initializer, *constants):
            if tensor.name in packed:
                numbers.update(_packed(packed[tensor.name]))
            elif tensor.data_type in formats:
                numbers[formats[tensor.data_type]] += _count(tensor.dims)
        operators.update(node.op_type for node in part.node)
    if not numbers:
        return Precision.FP32
    stored = numbers.most_common(1)[0][0]
    if stored is Precision.INT8 and not operators & INTEGER_OPERATORS:
        return Precision.INT8_WEIGHT_ONLY
    return stored


def _packed(node: Any) -> dict[Precision, int]:
    """How many weights a product reads out of bytes that hold several, and in which format."""
    known = {attribute.name: attribute.i for attribute in node.attribute}
    bits = known.get("bits", 4)
    if bits not in WEIGHT_ONLY or node.op_type != "MatMulNBits":
        have = ", ".join(WEIGHT_ONLY.values())
        raise CannotRun(f"the file's weights for {node.op_type} of {bits} bits have no name here; {have} have")
    return {WEIGHT_ONLY[bits]: known.get("K", 0) * known.get("N", 0)}


def _vocabularies(graph: Any) -> dict[str, int]:
    """Rows of the table each input indexes: the input is followed to a Gather, its table to the stored weights."""
    weights = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    makers = {output: node for node in graph.node for output in node.output}
    inputs = {value.name for value in graph.input} - set(weights)
    rows: dict[str, int] = {}
    for node in graph.node:
        if node.op_type != "Gather" or any(a.name == "axis" and a.i != 0 for a in node.attribute):
            continue
        table = _table(node.input[0], weights, makers)
        index = _input_behind(node.input[1], inputs, makers)
        if table and index and len(table) > 1:
            rows[index] = min(table[0], rows.get(index, table[0]))
    return rows


_SAME_ROWS = {"Cast", "DequantizeLinear", "Identity", "Mul", "Sub", "Add"}
_SAME_NUMBERS = {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"}


def _table(name: str, weights: dict[str, tuple[int, ...]], makers: dict[str, Any], depth: int = 8) -> tuple[int, ...]:
    if name in weights or depth == 0 or name not in makers or makers[name].op_type not in _SAME_ROWS:
        return weights.get(name, ())
    operands = (_table(operand, weights, makers, depth - 1) for operand in makers[name].input)
    return max(operands, key=_count, default=())


def _input_behind(name: str, inputs: set[str], makers: dict[str, Any], depth: int = 8) -> str | None:
    while depth and name not in inputs:
        if name not in makers or makers[name].op_type not in _SAME_NUMBERS:
            return None
        name = makers[name].input[0]
        depth -= 1
    return name if name in inputs else None


def _count(dims: Iterable[int]) -> int:
    return math.prod(map(int, dims))
