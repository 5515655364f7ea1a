"""What somebody points at, found out by looking: a server, a model, a file, a function; and a contract for it.

The short contract answers within two minutes and says what that cannot show; the long one is there to be agreed on.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from lynxbench.contract.loader import CONTRACT
from lynxbench.contract.template import parse_model
from lynxbench.engines.onnx.model_file import find_model, read_model
from lynxbench.engines.openai import read_key
from lynxbench.errors import BadInput, CannotRun, first_line
from lynxbench.https import HttpAnswer, request
from lynxbench.model.contract import Contract
from lynxbench.model.dialect import Dialect
from lynxbench.model.file_nodes import nodes_from_json
from lynxbench.model.precision import Precision
from lynxbench.model.quantities import format_duration, format_ratio
from lynxbench.model.serving import CacheState
from lynxbench.model.strict_file import validate
from lynxbench.model.workload import PathModel, Task

SHORT_PROTOCOL = {
    "restarts": 3,
    "steady": {"drift": "5 %", "window": "500 ms"},
    "min_duration": "9 s",
    "limit": "11 s",
    "emulated_limit": "20 s",
}
"""The quickstart's: three fresh processes with a steady stretch of some seconds each."""
LONG_PROTOCOL = {"restarts": 5, "min_duration": "60 s", "limit": "2 min"}
PATIENCE_S, WHOLE_S = 5.0, 20.0
"""How long a server may be silent when it is asked for its models, and how long its whole answer may take."""
MOST_BYTES = 1 << 24
"""A gateway's list of ten thousand models takes two million."""
OPENAI = "openai"
CHAT_TOKENS = 64
"""A chat template alone may take forty; what is asked must be longer than it."""
WEIGHTS = ("*.safetensors", "*.bin")
TRACES = (".json", ".json.gz", ".sqlite")
"""Files that profilers write; what they hold is read by their content."""

_ACCELERATORS = ("/dev/nvidia0", "/dev/kfd")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_EMBEDS = re.compile(r"embed|minilm|\bbge-|\be5-|\bgte-", re.IGNORECASE)
_WRITTEN_PRECISIONS = (
    (Precision.INT4_WEIGHT_ONLY, r"i?q4(_\w+)?|int4|w4a16|awq"),
    (Precision.INT5_WEIGHT_ONLY, r"q5(_\w+)?"),
    (Precision.INT6_WEIGHT_ONLY, r"q6(_\w+)?"),
    (Precision.INT8_WEIGHT_ONLY, r"q8(_\w+)?|w8a16"),
    (Precision.INT8, r"int8|w8a8"),
    (Precision.FP8, r"fp8"),
    (Precision.NVFP4, r"nvfp4"),
    (Precision.MXFP4, r"mxfp4"),
    (Precision.BF16, r"bf16"),
    (Precision.FP16, r"fp?16"),
    (Precision.FP32, r"fp?32"),
)
"""As the names of served models write them: GGUF files, and what quantising tools append."""
_OWNERS = {
    "vllm": Dialect.VLLM,
    "sglang": Dialect.SGLANG,
    "llamacpp": Dialect.LLAMACPP,
    "library": Dialect.OLLAMA,
}
"""What servers say of who owns their models."""


@dataclass(frozen=True, slots=True)
class QuickTarget:
    """What there is to be measured, and what was taken for granted about it."""

    found: str
    name: str
    task: Task
    model: str
    """As `contract new --model` takes it."""
    engine: str
    precision: Precision = Precision.FP32
    url: str = ""
    dialect: Dialect = Dialect.GENERIC
    key_variable: str | None = None
    input_tokens: int | None = 32
    """How many it reads at a time; an image has none."""
    guesses: tuple[str, ...] = ()


def is_trace(text: str) -> bool:
    """Whether a file is there that a profiler may have written."""
    return text.lower().endswith(TRACES) and Path(text).is_file()


def find_target(
    text: str, *, task: Task | None = None, model: str = "", key_variable: str | None = None
) -> QuickTarget:
    """What a text points at; BadInput says what it may be."""
    path = Path(text).expanduser()
    if text.startswith(("http://", "https://")):
        return _server(text, task, model, key_variable)
    if path.exists():
        return _on_disk(path, task)
    if _FUNCTION.fullmatch(text):
        return QuickTarget(f"the function {text}", _slug(text), Task.CALLABLE, f"callable:{text}", "callable")
    if _HUB.fullmatch(text):
        chosen = task or (Task.EMBED if _EMBEDS.search(text) else Task.GENERATE)
        guesses = () if task else (f"task {chosen}, by its name (--task says another)",)
        found = f"the model {text} of the hub"
        return QuickTarget(found, _slug(text), chosen, f"hub:{text}", "torch", usual_precision(), guesses=guesses)
    raise BadInput(
        f"{text}: nothing is there; name a server (http:…), a model folder, a .gguf or .onnx file, OWNER/MODEL of the "
        "hub, module:function, or a trace"
    )


def quick_contract(target: QuickTarget) -> Contract:
    """The contract of a short look."""
    return contract_for(replace(target, name=f"quick-{target.name}"), "Quick look: what", SHORT_PROTOCOL)


def long_contract(target: QuickTarget) -> Contract:
    """The same workload with time enough for heat, power limits and slow drifts to show."""
    return contract_for(target, "What", LONG_PROTOCOL)


def usual_precision() -> Precision:
    """What models are run in here: bf16 where there is an accelerator, fp32 on processors alone."""
    return Precision.BF16 if any(Path(device).exists() for device in _ACCELERATORS) else Precision.FP32


def written_precision(name: str) -> Precision | None:
    """The precision that a model's name says; None where it says none, or one that there is no word for here."""
    parts = re.split(r"[-.:/@]", name.lower())
    return next((own for own, words in _WRITTEN_PRECISIONS if any(re.fullmatch(words, one) for one in parts)), None)


def quick_limits(contract: Contract) -> str:
    """What a quick look cannot show."""
    protocol = contract.protocol
    limit, drift = format_duration(protocol.limit_s), format_ratio(protocol.steady.drift)
    return (
        f"a quick look: {protocol.restarts} processes of at most {limit}, and a drift of {drift} passes as "
        "steady; heat, power limits and slow drifts do not show in it"
    )


def contract_for(
    target: QuickTarget,
    what: str,
    protocol: Mapping[str, Any],
    engine: Mapping[str, Any] = MappingProxyType({}),
    policy: Mapping[str, Any] = MappingProxyType({}),
    where: str = "quick",
) -> Contract:
    """A contract for what was found, asking `what` it sustains; `engine` and `policy` add to the usual keys.

    What is wrong with them is said to be wrong in `where`.
    """
    served = target.engine == OPENAI
    workload: dict[str, object] = {
        "task": target.task.value,
        "model": parse_model(target.model),
        "precisions": [target.precision.value],
        "arrival": {"process": "closed", "concurrency": 1},
    }
    if target.task is not Task.CALLABLE and target.input_tokens is not None:
        workload["input_tokens"] = {"distribution": "fixed", "value": target.input_tokens}
    if target.task is Task.GENERATE:
        workload["output_tokens"] = {"distribution": "fixed", "value": 16}
    asked: dict[str, object] = {"name": target.engine, **engine}
    if served:
        asked |= {"url": target.url, "dialect": target.dialect.value}
        if target.dialect.bypasses_cache:  # a chat template is the same in every prompt, and soon lies in the cache
            asked["cache"] = CacheState.BYPASSED.value
    if target.key_variable is not None:
        asked["api_key_env"] = target.key_variable
    document = {
        "lynxbench": 1,
        "name": target.name,
        "question": f"{what} does {target.found} sustain, and what holds it back?",
        "regime": "latency" if served or target.task is Task.CALLABLE else "throughput",
        "workload": workload,
        "engine": asked,
        "protocol": dict(protocol),
        "policy": dict(policy),
    }
    return validate(nodes_from_json(document, target.model), where, CONTRACT)


def _slug(text: str) -> str:
    """A name that a contract may have."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[-50:].strip("-._") or "target"


# --- what lies on the disk ------------------------------------------------------------------------------------------


def _on_disk(path: Path, task: Task | None) -> QuickTarget:
    own = path.resolve().stem if path.is_file() else path.resolve().name
    if own == "model":  # as exporters call every one of them
        own = f"{path.resolve().parent.name}-model"
    name = _slug(own)
    has_onnx = path.is_dir() and not (path / "config.json").is_file() and any(path.glob("*.onnx"))
    model = f"path:{path}"
    if path.suffix == ".onnx" or has_onnx:
        file = read_model(find_model(PathModel(source="path", path=str(path))))
        chosen = task or (Task.EMBED if file.vocabulary else Task.CLASSIFY)
        stored = file.stored or Precision.FP32
        why = "it reads token ids" if file.vocabulary else "it reads no token ids"
        guesses = [] if task else [f"task {chosen}, because {why} (--task says another)"]
        if file.stored is None:
            guesses.append("precision fp32 (pip install 'lynxbench[onnx]' to have it read from the file)")
        return QuickTarget(f"the ONNX model {own}", name, chosen, model, "onnx", stored, guesses=tuple(guesses))
    if path.suffix == ".gguf":
        chosen = task or Task.GENERATE
        return QuickTarget(f"the model {path.name}", name, chosen, model, "torch", usual_precision())
    if path.is_dir() and (path / "config.json").is_file():
        return _model_folder(path, task, f"the model {own}", name)
    if path.suffix == ".py":
        raise BadInput(f"{path}: name a function in it, as {path.stem}:function")
    raise BadInput(
        f"{path}: neither a folder with config.json, a .gguf or .onnx file, nor a trace ({', '.join(TRACES)})"
    )


def _model_folder(folder: Path, task: Task | None, found: str, name: str) -> QuickTarget:
    if not any(file for pattern in WEIGHTS for file in folder.glob(pattern)):
        raise BadInput(f"{folder}: holds no weights (.safetensors or .bin); name the folder that does")
    kinds = _architectures(folder / "config.json")
    seen = Task.EMBED
    if re.search(r"CausalLM|LMHeadModel", kinds):
        seen = Task.GENERATE
    elif "Classification" in kinds:
        seen = Task.CLASSIFY
    return QuickTarget(
        found,
        name,
        task or seen,
        f"path:{folder}",
        "torch",
        usual_precision(),
        input_tokens=None if "Image" in kinds else 32,
        guesses=() if task or kinds else (f"task {seen}: config.json names no architecture (--task says another)",),
    )


def _architectures(config: Path) -> str:
    """What a configuration says that the model is made for; nothing where it does not say."""
    try:
        said = json.loads(config.read_bytes())
    except (OSError, ValueError) as error:
        raise BadInput(f"{config}: cannot be read: {first_line(error)}") from None
    return str(said.get("architectures") or "") if isinstance(said, dict) else ""


# --- servers --------------------------------------------------------------------------------------------------------


def _server(text: str, task: Task | None, model: str, key_variable: str | None) -> QuickTarget:
    url = text.rstrip("/")
    if not urlsplit(url).path.strip("/"):
        url += "/v1"
    answer = _models(url, key_variable)
    listed = _listed(answer, url)
    names = [str(one["id"]) for one in listed]
    if model and model not in names:
        raise BadInput(f"{url}: has no model {model!r}; it has {', '.join(names[:8])}")
    chosen = next(one for one in listed if str(one["id"]) == (model or names[0]))
    name = str(chosen["id"])
    if not name.isprintable():  # it would stand in a contract, and a line break in it begin another key
        raise BadInput(f"{url}: its model {name!r} has a name with signs that cannot be shown; --model says another")
    software = str(answer.headers.get("server", "")).lower()
    usual = Dialect.LLAMACPP if "llama.cpp" in software else Dialect.GENERIC
    dialect = _OWNERS.get(str(chosen.get("owned_by", "")).lower(), usual)
    asked = task or (Task.EMBED if _EMBEDS.search(name) else Task.GENERATE)
    precision = written_precision(name)
    said = "which a server does not say" if precision is None else "by the model's name"
    precision = precision or Precision.BF16
    guesses = [f"precision {precision}, {said} (edit workload.precisions)"]
    if len(names) > 1 and not model:
        guesses.append(f"its first model of {len(names)} (--model says another)")
    if not task:
        guesses.append(f"task {asked}, by the model's name (--task says another)")
    of = "" if dialect is Dialect.GENERIC else f" ({dialect})"
    called = Path(name).stem if name.endswith(".gguf") else name  # llama.cpp calls a model by its file's whole path
    return QuickTarget(
        found=f"{called} on the server at {url}{of}",
        name=_slug(called),
        task=asked,
        model=f"served:{name}",
        engine=OPENAI,
        precision=precision,
        url=url,
        dialect=dialect,
        key_variable=key_variable,
        input_tokens=CHAT_TOKENS if asked is Task.GENERATE else 32,
        guesses=tuple(guesses),
    )


def _models(url: str, key_variable: str | None) -> HttpAnswer:
    headers = {} if key_variable is None else {"Authorization": f"Bearer {read_key(key_variable)}"}
    where = f"{url}/models"
    try:
        answer = request("GET", where, None, headers, timeout_s=PATIENCE_S, whole_s=WHOLE_S, most_bytes=MOST_BYTES)
    except ValueError:
        raise BadInput(f"{url}: no address of a server, such as http://127.0.0.1:8000/v1") from None
    except OSError as error:
        raise CannotRun(f"{url}: {error.strerror or error}; is the server running?") from None
    if answer.status in (401, 403):
        raise CannotRun(f"{where}: {answer.status}; name the variable that holds its key with --api-key-env")
    if answer.leads_to:
        raise CannotRun(f"{where}: {answer.status}; it leads to {answer.leads_to}: name the address there")
    if not answer.is_good:
        other = "a KServe server is measured by lynxbench contract new --engine kserve"
        raise CannotRun(f"{where}: {answer.status}; no server of the OpenAI language answers there ({other})")
    return answer


def _listed(answer: HttpAnswer, url: str) -> list[dict[str, Any]]:
    try:
        said = json.loads(answer.body)
    except (ValueError, RecursionError):
        if len(answer.body) >= MOST_BYTES:
            problem = f"its list is longer than {MOST_BYTES >> 20} MiB; lynxbench contract new names a model without it"
            raise CannotRun(f"{url}/models: {problem}") from None
        raise CannotRun(f"{url}/models: lists no model: what is there is not JSON; is it the right address?") from None
    data = said.get("data") if isinstance(said, dict) else None
    listed = [one for one in data if isinstance(one, dict) and one.get("id")] if isinstance(data, list) else []
    if not listed:
        raise CannotRun(f"{url}/models: lists no model; start the server with one")
    return listed
