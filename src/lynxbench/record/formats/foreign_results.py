"""Results of other tools, read as foreign evidence: what they say, and what they fail to state."""

import json
from enum import StrEnum
from pathlib import Path

from pydantic import JsonValue

from lynxbench.errors import BadInput
from lynxbench.model.entries import ForeignImported
from lynxbench.reading import read_text
from lynxbench.record.formats import genai, guidellm, inference_perf, mlperf, pytest_benchmark, vllm_bench
from lynxbench.record.formats.foreign_statements import TABLE, ForeignStatements

LARGEST_BYTES = 256 << 20
"""vLLM's detailed results hold every token time; larger files are not results."""


class ForeignTool(StrEnum):
    """Who wrote a foreign result."""

    AUTO = "auto"
    """Told from the file."""
    AIPERF = "aiperf"
    GENAI_PERF = "genai-perf"
    GUIDELLM = "guidellm"
    INFERENCE_PERF = "inference-perf"
    VLLM = "vllm"
    MLPERF = "mlperf"
    PYTEST_BENCHMARK = "pytest-benchmark"


JSON_READERS = {
    ForeignTool.AIPERF: genai.parse_aiperf,
    ForeignTool.GENAI_PERF: genai.parse_genai_perf,
    ForeignTool.GUIDELLM: guidellm.parse_guidellm,
    ForeignTool.INFERENCE_PERF: inference_perf.parse_inference_perf,
    ForeignTool.VLLM: vllm_bench.parse_vllm,
    ForeignTool.PYTEST_BENCHMARK: pytest_benchmark.parse_pytest_benchmark,
}
"""In the order of trial: the most telling key first."""
TOOLS = (*JSON_READERS, ForeignTool.MLPERF)

CONTEXT: dict[str, list[str]] = TABLE["context"]
"""What a sound claim states, and the keys that count as stating it; no tool's format has a place for the rest."""


def read_foreign(path: Path, tool: ForeignTool = ForeignTool.AUTO) -> ForeignImported:
    """A result of another tool; BadInput where it is none that we know."""
    noun = f"a result file of {', '.join(TOOLS)}"
    text = read_text(path, noun, missing=f"no such file; give {noun}", largest_bytes=LARGEST_BYTES)
    return parse_foreign(text, str(path), tool)


def parse_foreign(text: str, file: str = "<foreign>", tool: ForeignTool = ForeignTool.AUTO) -> ForeignImported:
    """The same from text."""
    statements = _parse(text, file, tool)
    if statements is None or not statements.figures:
        named = "a tool that is known" if tool is ForeignTool.AUTO else tool
        raise BadInput(f"{file}: not a result of {named}; known are {', '.join(TOOLS)} (choose with --tool)")
    return ForeignImported(
        tool=statements.tool,
        figures=statements.figures,
        stated=statements.stated,
        missing=tuple(what for what, keys in CONTEXT.items() if not statements.stated.keys() & set(keys)),
    )


def _parse(text: str, file: str, tool: ForeignTool) -> ForeignStatements | None:
    if tool is ForeignTool.MLPERF or (tool is ForeignTool.AUTO and mlperf.looks_like(text)):
        return mlperf.parse_mlperf(text)
    document = _json(text, file)
    if not isinstance(document, dict):
        return None
    readings = (parse(document) for name, parse in JSON_READERS.items() if tool in (ForeignTool.AUTO, name))
    return next((statements for statements in readings if statements is not None), None)


def _json(text: str, file: str) -> JsonValue:
    try:
        # NaN and Infinity stand in some tools' files; they are no figures here.
        document: JsonValue = json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        where = file if line is None else f"{file}:{line}"
        raise BadInput(f"{where}: neither JSON nor an MLPerf log; give a result file of {', '.join(TOOLS)}") from None
    return document
