"""A model from a package, a preset, a path or a hub, at a dtype, on a device; presets get seeded random weights."""

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import JsonValue
from torch import nn

from lynxbench.engines.torch.library import import_config_class, import_model_class, quiet_library
from lynxbench.errors import BadInput, CannotRun, first_line
from lynxbench.model.canonical import content_id
from lynxbench.model.workload import HubModel, PackageModel, PathModel, PresetModel, Task, Workload
from lynxbench.workload.gguf import convert_gguf
from lynxbench.workload.model_files import files_sha256, weight_files
from lynxbench.workload.model_packages import LocatedModel, locate_packaged
from lynxbench.workload.presets import FAMILY_OF_TYPE, TASKS_OF_FAMILY, ModelFamily, find_preset, shaped_config

SEQUENCE_CLASSES = 2
LINEAR_STD = 0.02
"""What transformers draws linear layers and embeddings with (initializer_range)."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model comes from: a folder with weights, or a configuration to fill with seeded numbers."""

    config: dict[str, Any]
    identity: Callable[[], str]
    """SHA-256 of the weights, or of configuration and seed; computed when asked, since weights can be large."""
    facts: dict[str, JsonValue] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def model_type(self) -> str:
        """The architecture's name in transformers."""
        return str(self.config.get("model_type", ""))

    @property
    def family(self) -> ModelFamily:
        """What it consumes and produces; for architectures unknown here, by what its configuration says."""
        guessed = ModelFamily.DECODER if "CausalLM" in str(self.config.get("architectures")) else ModelFamily.ENCODER
        return FAMILY_OF_TYPE.get(self.model_type, guessed)

    @property
    def has_weights(self) -> bool:
        """False when the weights are random."""
        return self.folder is not None


def find_source(workload: Workload) -> Source:
    """The model the workload names, checked against its task, without loading it."""
    model = workload.model
    if isinstance(model, PackageModel):
        source = _from_package(locate_packaged(model.name))
    elif isinstance(model, PresetModel):
        source = _from_preset(model, workload)
    elif isinstance(model, PathModel):
        source = _from_path(Path(model.path).expanduser())
    elif isinstance(model, HubModel):
        source = _from_hub(model)
    else:
        raise BadInput("workload.model.source: the torch engine takes package, preset, path or hub")
    if workload.task.value not in TASKS_OF_FAMILY[source.family]:
        able = ", ".join(TASKS_OF_FAMILY[source.family])
        raise BadInput(f"workload.task: a {source.model_type} model cannot do {workload.task}; it can do {able}")
    return source


def _from_package(located: LocatedModel) -> Source:
    if located.weights.suffix == ".onnx":
        raise BadInput(f"workload.model.name: {located.model.name} is an ONNX file; run it with engine onnx")
    folder = convert_gguf(located.weights) if located.weights.suffix == ".gguf" else located.folder
    converted = folder != located.folder
    facts: dict[str, JsonValue] = {
        "application.model": located.model.name,
        "application.model_source": f"package {located.model.distribution} {located.version}",
        "application.model_licence": located.model.licence,
        "application.weights_as_shipped": "GGUF Q4_1, dequantised to fp32" if converted else "safetensors fp32",
    }
    return Source(config=_read_config(folder), folder=folder, identity=located.sha256, facts=facts)


def _from_preset(model: PresetModel, workload: Workload) -> Source:
    preset = find_preset(model.name)
    config = {"model_type": preset.model_type, **shaped_config(preset, model.layers)}
    if preset.family is ModelFamily.ENCODER:
        config["num_labels"] = SEQUENCE_CLASSES
    identity = content_id({"config": config, "seed": workload.seed, "rule": "seeded.fill_with_seed 1"})
    facts: dict[str, JsonValue] = {
        "application.model": model.name if model.layers is None else f"{model.name}, {model.layers} layers",
        "application.model_source": f"preset with random weights, seed {workload.seed}",
        "application.weights_as_shipped": "none: drawn here",
    }
    return Source(config=config, identity=lambda: identity, facts=facts)


def _from_path(path: Path) -> Source:
    if not path.exists():
        raise CannotRun(f"workload.model.path: {path} does not exist")
    folder = convert_gguf(path) if path.suffix == ".gguf" else path
    if not (folder / "config.json").is_file():
        raise BadInput(f"workload.model.path: {path} is neither a GGUF file nor a folder with config.json")
    weights = (path,) if path.suffix == ".gguf" else weight_files(folder)
    if not weights:
        raise BadInput(f"workload.model.path: {path} holds no weights (.safetensors or .bin)")
    facts: dict[str, JsonValue] = {
        "application.model": path.name,
        "application.model_source": "path",
        "application.weights_as_shipped": ", ".join(sorted({file.suffix[1:] for file in weights})),
    }
    return Source(config=_read_config(folder), folder=folder, identity=lambda: files_sha256(weights), facts=facts)


def _from_hub(model: HubModel) -> Source:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise CannotRun("workload.model.source hub needs huggingface_hub: pip install 'lynxbench[torch]'") from error
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    files = ["*.json", "*.safetensors", "*.model", "*.txt"]
    try:
        folder = Path(snapshot_download(model.id, revision=model.revision, allow_patterns=files))
    except Exception as error:  # the hub's client raises a dozen kinds: unreachable, unknown, gated, not cached
        why = f"{model.id} cannot be fetched ({first_line(error)}); download it and use source path"
        raise CannotRun(f"workload.model.id: {why}") from error
    source = _from_path(folder)
    facts: dict[str, JsonValue] = {
        "application.model": model.id,
        "application.model_source": "hub",
        "application.model_revision": folder.name,  # the snapshot folder is named after the commit
    }
    return replace(source, facts=source.facts | facts)


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        raise BadInput(f"workload.model: {folder / 'config.json'} cannot be read: {error}") from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise BadInput(f"workload.model: {folder / 'config.json'} names no model_type")
    return config


def load_model(
    source: Source, task: Task, *, seed: int, dtype: torch.dtype, device: torch.device, attention: str
) -> Any:
    """The model with its weights, in evaluation mode."""
    if source.model_type == "resnet":
        attention = "eager"  # convolutions attend to nothing
    model_class = import_model_class(source.model_type, task)
    if source.folder is not None:
        return _load_weights(model_class, source.folder, dtype, attention).to(device).eval()
    config = import_config_class(source.model_type)(
        **{key: value for key, value in source.config.items() if key != "model_type"}
    )
    config._attn_implementation = attention
    with parameters_without_storage():
        model = model_class(config)
    fill_with_seed(model, seed=seed, device=device, dtype=dtype)
    return model.eval()


def _load_weights(model_class: Any, folder: Path, dtype: torch.dtype, attention: str) -> Any:
    quiet_library()
    try:
        return model_class.from_pretrained(
            folder, dtype=dtype, attn_implementation=attention, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError) as error:
        raise CannotRun(f"workload.model: {folder.name} cannot be loaded: {first_line(error)}") from error


# --- random weights ---


@contextlib.contextmanager
def parameters_without_storage() -> Iterator[None]:
    """Inside, new modules get buffers but no memory for parameters: these are drawn once, at their own precision."""
    register = nn.Module.register_parameter

    def register_on_meta(module: Any, name: str, parameter: Any) -> None:
        if parameter is not None and parameter.device.type != "meta":
            parameter = nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)
        register(module, name, parameter)

    nn.Module.register_parameter = register_on_meta
    try:
        yield
    finally:
        nn.Module.register_parameter = register


def fill_with_seed(model: Any, *, seed: int, device: torch.device, dtype: torch.dtype) -> None:
    """Draw every parameter by the seed and its place alone, never zero: in fp32 on the device, rounded to the dtype.

    So precisions share their weights.
    """
    generator = torch.Generator(device=device)
    for place, (name, parameter) in enumerate(list(model.named_parameters())):
        generator.manual_seed((seed << 20) + place)
        values = torch.randn(parameter.shape, generator=generator, device=device, dtype=torch.float32)
        values *= _spread(parameter.shape)
        if parameter.dim() == 1 and name.endswith("weight"):
            values += 1.0  # the scale of a norm
        owner, _, last = name.rpartition(".")
        drawn = nn.Parameter(values.to(dtype), requires_grad=parameter.requires_grad)
        model.get_submodule(owner)._parameters[last] = drawn
    for name, buffer in list(model.named_buffers()):
        moved = buffer.to(device)
        floating = buffer.is_floating_point() and "inv_freq" not in name  # rotary frequencies stay in fp32
        owner, _, last = name.rpartition(".")
        model.get_submodule(owner)._buffers[last] = moved.to(dtype) if floating else moved
    model.tie_weights()
    missing = [name for name, parameter in model.named_parameters() if parameter.device.type == "meta"]
    assert not missing, f"parameters without values: {missing}"


def _spread(shape: tuple[int, ...]) -> float:
    if len(shape) == 4:  # convolutions: variance kept through rectifiers (He et al. 2015)
        return math.sqrt(2.0 / math.prod(shape[1:]))
    return LINEAR_STD
