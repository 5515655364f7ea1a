"""The precision a contract declares for a server, held against launch arguments, files and the server's own words.

What was read becomes a field of the serving layer, so that everybody can judge again; over HTTP alone nothing proves
which kernels ran, and `native` stays unknown.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

from pydantic import JsonValue

from lynxbench.executor.server import CapturedServer
from lynxbench.measure.validity import Doubt
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor, Field, Tier, measured
from lynxbench.model.layers import Layer
from lynxbench.model.serving import OpenAiEngine
from lynxbench.tables import read_table

FORMATS_FIELD: Final = "server_formats"
DECLARED: Final = "as the server runs it; the contract declares the precision"
LARGEST_CONFIG_BYTES: Final = 1 << 20
MOST_KEYS: Final = 4096
"""Of a GGUF header; real ones have a few dozen."""
_TABLE = read_table("run/served_formats.toml")


@dataclass(frozen=True, slots=True)
class PrecisionCheck:
    """What is said of a declared precision, and why it is doubted."""

    how: str
    doubts: tuple[Doubt, ...] = ()


# --- reading, while the server is there ------------------------------------------------------------------------------


def with_formats(server: CapturedServer) -> CapturedServer:
    """A captured server with what its arguments, files and answers say of its formats."""
    found = list(_found(server))
    if not found:
        return server
    rows: list[JsonValue] = [dict(row) for row in found]
    field = measured(rows, "launch arguments, /v1/models and model files", Tier.STATE)
    serving = {**server.layers.get(Layer.SERVING, {}), FORMATS_FIELD: field}
    return replace(server, layers={**server.layers, Layer.SERVING: serving})


def _found(server: CapturedServer) -> Iterator[dict[str, JsonValue]]:
    serving = server.layers.get(Layer.SERVING, {})
    for name, source in (("server_command", "the launch arguments"), ("server_launch", "engine.launch")):
        words = _words(serving.get(name))
        yield from parse_arguments(words, source)
        if name == "server_command" and server.is_local:
            for path in model_paths(words):
                yield from read_formats(path)
    listed = serving.get("server_models")
    yield from parse_models(None if listed is None else listed.value)


def _words(field: Field | None) -> list[str]:
    return [str(word) for word in field.value] if field is not None and isinstance(field.value, list) else []


def parse_arguments(words: Sequence[str], source: str) -> Iterator[dict[str, JsonValue]]:
    """What a command line says: quantising method, data type, format of the key-value cache."""
    for option, value in _options(words):
        said = f"{option} {value}"
        if option in _TABLE["options"]["weights"] and value in _TABLE["methods"]:
            yield {"source": source, "says": said, "weights": _TABLE["methods"][value], "quantised": True}
        elif option in _TABLE["options"]["dtype"] and value in _TABLE["dtypes"]:
            yield {"source": source, "says": said, "weights": _TABLE["dtypes"][value], "quantised": False}
        elif option in _TABLE["options"]["cache"] and value in _TABLE["caches"]:
            yield {"source": source, "says": said, "cache": _TABLE["caches"][value]}


def model_paths(words: Sequence[str]) -> list[Path]:
    """Model folders and GGUF files that a command line names and that are here."""
    named = [value for option, value in _options(words) if option in _TABLE["options"]["model"]]
    paths = [Path(word) for word in (*named, *words) if word.startswith(("/", "./"))]
    here = [path for path in paths if path.suffix == ".gguf" or (path / "config.json").is_file()]
    return list(dict.fromkeys(path for path in here if path.exists()))[:1]


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word, following in zip(words, [*words[1:], ""], strict=False):
        option, equals, value = word.partition("=")
        if option.startswith("-"):
            yield option.replace("_", "-") if option.startswith("--") else option, value if equals else following


def parse_models(listed: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """What `/v1/models` says of the size of the weights, where it does (llama.cpp): bits a parameter."""
    rows = listed.get("data") if isinstance(listed, dict) else None
    for row in rows if isinstance(rows, list) else []:
        meta = row.get("meta") if isinstance(row, dict) else None
        size, count = (meta.get("size"), meta.get("n_params")) if isinstance(meta, dict) else (None, None)
        if isinstance(size, int) and isinstance(count, int) and count > 0:
            bits = 8 * size / count
            yield {"source": "/v1/models", "says": f"{bits:.2f} bits a parameter", "bits": round(bits, 2)}


def read_formats(path: Path) -> Iterator[dict[str, JsonValue]]:
    """What a model's own files say."""
    if path.suffix == ".gguf":
        kind = read_gguf_type(path)
        named = _TABLE["gguf"].get(str(kind)) if kind is not None else None
        if named is not None:
            says = f"general.file_type {named[0]}"
            yield {"source": path.name, "says": says, "weights": [named[1]], "quantised": named[0][0] in "QIM"}
        return
    try:
        with (path / "config.json").open("rb") as stream:
            config = json.loads(stream.read(LARGEST_CONFIG_BYTES))
    except (OSError, ValueError):
        return
    yield from parse_config(config)


def parse_config(config: Any) -> Iterator[dict[str, JsonValue]]:
    """What a `config.json` says: how its weights were quantised, or their data type."""
    told = config.get("quantization_config") if isinstance(config, dict) else None
    if isinstance(told, dict):
        method = str(told.get("quant_method", "")).lower()
        method = "nvfp4" if "nvfp4" in str(told.get("quant_algo", "")).lower() else method
        weights = _TABLE["methods"].get(method)
        bits = _TABLE["bits"].get(str(told.get("bits"))) if method.startswith("gptq") else None
        says = f"quantization_config {method}"
        if bits is not None:
            weights, says = [bits], f"{says}, {told.get('bits')} bits"
        if method == "fp8":
            weights = ["fp8-block"] if told.get("weight_block_size") else ["fp8", "fp8-weight-only"]
            says += ", in blocks" if told.get("weight_block_size") else ""
        if weights is not None:
            yield {"source": "config.json", "says": says, "weights": list(weights), "quantised": True}
    elif isinstance(config, dict):
        name = config.get("dtype") or config.get("torch_dtype")
        if name in _TABLE["dtypes"]:
            yield {"source": "config.json", "says": f"dtype {name}", "stored": _TABLE["dtypes"][name]}


def read_gguf_type(path: Path) -> int | None:
    """`general.file_type` of a GGUF header; None where there is none that can be read."""
    try:
        with path.open("rb") as stream:
            if stream.read(4) != b"GGUF":
                return None
            version, _, keys = struct.unpack("<IQQ", stream.read(20))
            if version < 2 or keys > MOST_KEYS:
                return None
            for _ in range(keys):
                name = _gguf_text(stream)
                (kind,) = struct.unpack("<I", stream.read(4))
                if name == "general.file_type" and kind == 4:
                    return int(struct.unpack("<I", stream.read(4))[0])
                _skip_value(stream, kind)
    except (OSError, struct.error, UnicodeDecodeError, KeyError, ValueError):
        return None
    return None


_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a GGUF value by its kind; 8 is a text and 9 an array."""


def _gguf_text(stream: BinaryIO) -> str:
    (length,) = struct.unpack("<Q", stream.read(8))
    if length > LARGEST_CONFIG_BYTES:
        raise ValueError("no name of a key is so long")
    return stream.read(length).decode()


def _skip_value(stream: BinaryIO, kind: int) -> None:
    if kind == 8:
        (length,) = struct.unpack("<Q", stream.read(8))
        stream.seek(length, 1)
    elif kind == 9:
        inner, count = struct.unpack("<IQ", stream.read(12))
        if inner == 8:
            for _ in range(count):
                _skip_value(stream, 8)
        else:
            stream.seek(_SIZES[inner] * count, 1)
    else:
        stream.seek(_SIZES[kind], 1)


# --- judging, from the record ----------------------------------------------------------------------------------------

BITS_OF: Final = {"fp32": 32, "tf32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "fp8-block": 8, "fp8-weight-only": 8,
                  "int8": 8, "int8-weight-only": 8, "int6-weight-only": 6, "int5-weight-only": 5,
                  "int4-weight-only": 4, "nvfp4": 4, "mxfp4": 4, "mxfp8": 8}  # fmt: skip
MORE_BITS: Final = 3.0
"""Scales, and tables left wide, take so many bits a parameter at most; a small vocabulary-heavy model comes near it."""


def check_precision(contract: Contract, executor: Executor) -> PrecisionCheck:
    """What the record says of the declared precision; a contradiction is a doubt."""
    field = executor.layers.get(Layer.SERVING, {}).get(FORMATS_FIELD)
    rows = [row for row in field.value if isinstance(row, dict)] if field and isinstance(field.value, list) else []
    if not rows:
        return PrecisionCheck(DECLARED)
    declared = contract.workload.precisions[0].value
    engine = contract.engine
    cache = engine.kv_cache if isinstance(engine, OpenAiEngine) else None
    agreeing, against = [], []
    quantised = any(row.get("quantised") for row in rows)
    for row in rows:
        verdict = _agrees(row, declared, None if cache is None else cache.value, quantised)
        said = f"{row.get('source')} ({row.get('says')})"
        if verdict is True:
            agreeing.append(said)
        elif verdict is False:
            against.append(said)
    undeclared = [str(row["cache"]) for row in rows if "cache" in row and cache is None]
    how = f"declared {declared}, agrees with {'; '.join(agreeing)}" if agreeing and not against else DECLARED
    if undeclared:
        how += f"; the key-value cache is {undeclared[0]} by its launch arguments, which the contract does not declare"
    contradictions = tuple(
        Doubt(f"the contract declares {_declared_words(contract)}, and {said} says otherwise") for said in against
    )
    return PrecisionCheck(how, contradictions)


def _declared_words(contract: Contract) -> str:
    cache = contract.engine.kv_cache if isinstance(contract.engine, OpenAiEngine) else None
    beside = "" if cache is None else f" with a key-value cache in {cache.value}"
    return contract.workload.precisions[0].value + beside


def _agrees(row: dict[str, Any], declared: str, cache: str | None, quantised: bool) -> bool | None:
    """Whether one finding agrees with what is declared; None where it says nothing of it."""
    if "cache" in row:
        return None if cache is None else row["cache"] == cache
    if "bits" in row:
        bits, said = BITS_OF.get(declared), float(row["bits"])
        return None if bits is None else bits - 0.5 <= said <= bits + MORE_BITS
    if "stored" in row:
        return True if declared in row["stored"] else None  # a server may convert what it loads
    if not row.get("quantised") and quantised:
        return None  # the data type is then that of the products
    return declared in row.get("weights", ())
