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
from lynxbench.model.file_nodes import nodes_from_json
from lynxbench.model.precision import Precision
from lynxbench.model.quantities import format_duration, format_ratio
from lynxbench.model.serving import Dialect
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
PATIENCE_S = 5.0
MOST_BYTES = 1 << 20
OPENAI = "openai"
TRACES = (".json", ".json.gz", ".sqlite")
"""Files that profilers write; what they hold is read by their content."""

_ACCELERATORS = ("/dev/nvidia0", "/dev/kfd")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_EMBEDS = re.compile(r"embed|minilm|\bbge-|\be5-|\bgte-", re.IGNORECASE)
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
    takes_text: bool = True
    """Whether it reads tokens; an image has none."""
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
    if target.task is not Task.CALLABLE and target.takes_text:
        workload["input_tokens"] = {"distribution": "fixed", "value": 32}
    if target.task is Task.GENERATE:
        workload["output_tokens"] = {"distribution": "fixed", "value": 16}
    asked: dict[str, object] = {"name": target.engine, **engine}
    if served:
        asked |= {"url": target.url, "dialect": target.dialect.value}
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
    name = _slug(path.resolve().stem if path.is_file() else path.resolve().name)
    has_onnx = path.is_dir() and not (path / "config.json").is_file() and any(path.glob("*.onnx"))
    model = f"path:{path}"
    if path.suffix == ".onnx" or has_onnx:
        file = read_model(find_model(PathModel(source="path", path=str(path))))
        chosen = task or (Task.EMBED if file.vocabulary else Task.CLASSIFY)
        stored = file.stored or Precision.FP32
        return QuickTarget(f"the ONNX model {file.path.name}", name, chosen, model, "onnx", stored)
    if path.suffix == ".gguf":
        chosen = task or Task.GENERATE
        return QuickTarget(f"the model {path.name}", name, chosen, model, "torch", usual_precision())
    if path.is_dir() and (path / "config.json").is_file():
        seen, reads = _task_of(path / "config.json")
        found, used = f"the model {path.resolve().name}", usual_precision()
        return QuickTarget(found, name, task or seen, model, "torch", used, takes_text=reads)
    if path.suffix == ".py":
        raise BadInput(f"{path}: name a function in it, as {path.stem}:function")
    raise BadInput(
        f"{path}: neither a folder with config.json, a .gguf or .onnx file, nor a trace ({', '.join(TRACES)})"
    )


def _task_of(config: Path) -> tuple[Task, bool]:
    """What a model is made for by its configuration, and whether it reads text."""
    try:
        said = json.loads(config.read_bytes())
    except (OSError, ValueError) as error:
        raise BadInput(f"{config}: cannot be read: {first_line(error)}") from None
    kinds = str(said.get("architectures")) if isinstance(said, dict) else ""
    if re.search(r"CausalLM|LMHeadModel", kinds):
        return Task.GENERATE, True
    return (Task.CLASSIFY if "Classification" in kinds else Task.EMBED), "Image" not in kinds


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
    software = str(answer.headers.get("server", "")).lower()
    usual = Dialect.LLAMACPP if "llama.cpp" in software else Dialect.GENERIC
    dialect = _OWNERS.get(str(chosen.get("owned_by", "")).lower(), usual)
    asked = task or (Task.EMBED if _EMBEDS.search(name) else Task.GENERATE)
    guesses = ["precision bf16, which a server does not say (edit workload.precisions)"]
    if len(names) > 1 and not model:
        guesses.append(f"its first model of {len(names)} (--model says another)")
    if not task:
        guesses.append(f"task {asked}, by the model's name (--task says another)")
    of = "" if dialect is Dialect.GENERIC else f" ({dialect})"
    return QuickTarget(
        found=f"{name} on the server at {url}{of}",
        name=_slug(Path(name).stem if name.endswith(".gguf") else name),
        task=asked,
        model=f"served:{name}",
        engine=OPENAI,
        precision=Precision.BF16,
        url=url,
        dialect=dialect,
        key_variable=key_variable,
        guesses=tuple(guesses),
    )


def _models(url: str, key_variable: str | None) -> HttpAnswer:
    headers = {} if key_variable is None else {"Authorization": f"Bearer {read_key(key_variable)}"}
    where = f"{url}/models"
    try:
        answer = request("GET", where, None, headers, timeout_s=PATIENCE_S, most_bytes=MOST_BYTES)
    except ValueError:
        raise BadInput(f"{url}: no address of a server, such as http://127.0.0.1:8000/v1") from None
    except OSError as error:
        raise CannotRun(f"{url}: {error.strerror or error}; is the server running?") from None
    if answer.status in (401, 403):
        raise CannotRun(f"{where}: {answer.status}; name the variable that holds its key with --api-key-env")
    if not answer.is_good:
        other = "a KServe server is measured by lynxbench contract new --engine kserve"
        raise CannotRun(f"{where}: {answer.status}; no server of the OpenAI language answers there ({other})")
    return answer


def _listed(answer: HttpAnswer, url: str) -> list[dict[str, Any]]:
    try:
        said = json.loads(answer.body)
    except ValueError:
        said = None
    data = said.get("data") if isinstance(said, dict) else None
    listed = [one for one in data if isinstance(one, dict) and one.get("id")] if isinstance(data, list) else []
    if not listed:
        raise CannotRun(f"{url}/models: lists no model; start the server with one")
    return listed
