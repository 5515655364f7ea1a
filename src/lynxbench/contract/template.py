"""A commented contract to start from, for each task: what `contract new` writes."""

import re
from collections.abc import Mapping, Sequence

from lynxbench.contract.loader import CONTRACT
from lynxbench.contract.writer import Explained, render_contract
from lynxbench.errors import BadInput
from lynxbench.model.file_nodes import nodes_from_json
from lynxbench.model.mlperf_forms import MlperfForm
from lynxbench.model.strict_file import validate
from lynxbench.model.workload import SERVED_TASKS, Task
from lynxbench.tables import read_table

_TABLE = read_table("contract/template.toml")
USUAL_MODELS: dict[Task, str] = {task: _TABLE["tasks"][task]["model"] for task in Task}
"""Each runs on any machine, without a network."""
SERVERS: dict[str, dict[str, object]] = _TABLE["servers"]
"""Engines that are asked over HTTP: an address to replace by one's own."""
_HEADER = """\
# A lynxbench contract: what is measured and how, agreed before the first sample is taken.
# Its id is the hash of its meaning; comments, key order and the spelling of units (90 s, 1.5 min) do not change it.
# Check it: lynxbench contract check {file}      run it: lynxbench run {file}
"""
_VISION = re.compile(r"preset:(resnet|vit)-")


def render_template(
    task: Task = Task.GENERATE,
    model: str = "",
    engine: str = "",
    name: str = "",
    file: str = "contract.yaml",
    *,
    url: str = "",
    workload: Mapping[str, object] | None = None,
    remarks: Sequence[str] = (),
    mlperf: MlperfForm | None = None,
) -> str:
    """A contract for a task, with every key explained in one line; it loads as it is.

    `workload` holds keys that something else has decided, such as a production log, and `remarks` what is to be said
    about them at the top. `mlperf` gives a served contract the arrivals and bounds of that scenario.
    """
    if url and engine not in SERVERS:
        raise BadInput(f"--url goes with a server (--engine {' or '.join(SERVERS)}), not with {engine or 'torch'}")
    engine = engine or ("openai" if task in SERVED_TASKS else "")
    served = engine in SERVERS
    if mlperf is not None and not served:
        raise BadInput(f"--mlperf goes with a server (--engine {' or '.join(SERVERS)}), not with {engine or 'torch'}")
    form = {} if mlperf is None else _TABLE["mlperf"][mlperf]
    bounds = form.get("slo", {}).get("generate" if task is Task.GENERATE else "other", [])
    model = model or ("served:my-model" if served else USUAL_MODELS[task])
    document = {
        "lynxbench": 1,
        "name": name or f"my-{task}",
        "question": _TABLE["tasks"][task]["question"],
        "regime": form.get("regime") or ("latency" if task is Task.CALLABLE else "throughput"),
        "agreed": [{"team": "ML platform engineering"}, {"team": "infrastructure SRE"}],
        "workload": {**_workload(task, model), **_that_fit(task, workload or {}), **form.get("workload", {})},
        "engine": {**_engine(task, engine), **({"url": url} if url else {})},
        "objective": {"slo": [_slo(task)]} if mlperf is None else {"slo": bounds, "mlperf": mlperf.value},
        "protocol": _protocol(served, mlperf),
        "policy": {} if served else {"accuracy": _TABLE["tasks"][task]["accuracy"]},
    }
    # Only the options can be wrong here, so the key is named and no line of a file that does not exist yet.
    contract = validate(nodes_from_json(document, file), "contract new", CONTRACT)
    hidden = frozenset({"input_tokens"} if task in (Task.CALLABLE, Task.TRANSCRIBE) else ())
    hidden |= {key for key, of in (("rerank", Task.RERANK), ("audio", Task.TRANSCRIBE)) if task is not of}
    if task is not Task.GENERATE or engine not in ("", "torch", "openai"):
        hidden |= {"accuracy"}
    header = _HEADER.format(file=file) + "".join(f"# {remark}\n" for remark in remarks)
    return header + "\n" + render_contract(contract, Explained(hidden))


def parse_model(text: str) -> dict[str, str]:
    """The model that `--model` names: `package:`, `preset:`, `path:`, `hub:`, `served:` or `callable:` and its name."""
    source, colon, rest = text.partition(":")
    names = {"package": "name", "preset": "name", "path": "path", "hub": "id", "callable": "target", "served": "name"}
    if colon and rest and source in names:
        return {"source": source, names[source]: rest}
    if text.startswith(("/", "./", "../", "~")):
        return {"source": "path", "path": text}
    if colon and rest and "/" not in text:
        return {"source": "callable", "target": text}
    raise BadInput(
        f"--model {text!r}: say where it comes from: package:NAME, preset:NAME, path:PATH, hub:OWNER/NAME, "
        "served:NAME or callable:module:function"
    )


def _workload(task: Task, model: str) -> dict[str, object]:
    workload: dict[str, object] = {"task": task.value, "model": parse_model(model), "precisions": ["fp32"]}
    if model.startswith("served:"):
        workload["precisions"] = ["bf16"]
        workload["arrival"] = {"process": "poisson", "rate": "1 /s"}
    elif task is not Task.CALLABLE:
        workload["precisions"] = ["fp32", "bf16"] if task is Task.TRAIN_STEP else ["fp32", "int8"]
    if task is Task.RERANK:
        workload["rerank"] = {"documents": {"distribution": "fixed", "value": 16}}
    if task is Task.TRANSCRIBE:
        workload["audio"] = {"seconds": {"distribution": "fixed", "value": 10}}
    elif task is not Task.CALLABLE and not _VISION.match(model):
        workload["input_tokens"] = {"distribution": "fixed", "value": 64}
    if task is Task.GENERATE:
        workload["output_tokens"] = {"distribution": "fixed", "value": 32}
    return workload


def _that_fit(task: Task, workload: Mapping[str, object]) -> dict[str, object]:
    """The given keys without those that the task has no use for: an embedding has no output tokens."""
    useless = {"output_tokens"} if task is not Task.GENERATE else set()
    return {key: value for key, value in workload.items() if key not in useless}


def _engine(task: Task, engine: str) -> dict[str, object]:
    if engine in SERVERS:
        return SERVERS[engine]
    name, _, plugin = engine.partition(":")
    if name == "plugin":
        return {"name": "plugin", "plugin": plugin}
    return {"name": name or ("callable" if task is Task.CALLABLE else "torch")}


def _protocol(served: bool, mlperf: MlperfForm | None) -> dict[str, object]:
    if mlperf is not None:
        return {"min_duration": "2 min"}
    return {} if served else {"emulated_limit": "10 min"}


def _slo(task: Task) -> dict[str, object]:
    if task is Task.GENERATE:
        return {"metric": "time-per-token", "percentile": 95, "at_most": "250 ms"}
    return {"metric": "latency", "percentile": 99, "at_most": "1 s"}
