"""From a job to a session: threads, device, weights, precision, task."""

from __future__ import annotations

from typing import Any

import torch

from lynxbench.engines.torch.device import choose_device
from lynxbench.engines.torch.events import open_clock
from lynxbench.engines.torch.model_loading import find_source, load_model
from lynxbench.engines.torch.number_formats import compute_dtype, prepare
from lynxbench.engines.torch.task_work import Loaded, TaskWork
from lynxbench.engines.torch.torch_inputs import read_tokenizer
from lynxbench.engines.torch.torch_session import TorchSession
from lynxbench.errors import BadInput, CannotRun
from lynxbench.model.contract import Timing, TorchEngine
from lynxbench.model.job import Job
from lynxbench.model.workload import Task


def open_session(job: Job) -> TorchSession:
    """Load what the job names; CannotRun or BadInput in one line where that is impossible."""
    engine, workload = job.contract.engine, job.contract.workload
    assert isinstance(engine, TorchEngine)
    torch.set_num_threads(job.threads)
    device = choose_device(engine.device)
    source = find_source(workload)
    training = workload.task is Task.TRAIN_STEP
    dtype = torch.float32 if training else compute_dtype(job.precision, device)

    def load() -> Any:
        try:
            attention = _attention(engine, source.config)
            return load_model(
                source, workload.task, seed=workload.seed, dtype=dtype, device=device, attention=attention
            )
        except torch.OutOfMemoryError as error:
            raise CannotRun(f"the model does not fit into the memory of {device} at {job.precision}") from error

    model = load()
    prepared = prepare(model, job.precision, device)
    loaded = Loaded(
        model=model,
        source=source,
        tokenizer=read_tokenizer(source.folder),
        workload=workload,
        precision=job.precision,
        device=device,
        prepared=prepared,
        reload=load,
        clock=open_clock(device) if engine.timing is Timing.DEVICE else None,
    )
    return TorchSession(loaded, _work(loaded), engine, job.change)


def _attention(engine: TorchEngine, config: dict[str, Any]) -> str:
    return "eager" if config.get("model_type") == "resnet" else engine.attention  # convolutions attend to nothing


def _work(loaded: Loaded) -> TaskWork:
    task = loaded.workload.task
    if task is Task.GENERATE:
        from lynxbench.engines.torch.generate import Generate

        return Generate(loaded)
    if task in (Task.PREFILL, Task.DECODE):
        from lynxbench.engines.torch.generation_steps import Decode, Prefill

        return Prefill(loaded) if task is Task.PREFILL else Decode(loaded)
    if task is Task.EMBED:
        from lynxbench.engines.torch.embed import Embed

        return Embed(loaded)
    if task is Task.CLASSIFY:
        from lynxbench.engines.torch.classify import Classify

        return Classify(loaded)
    if task is Task.TRAIN_STEP:
        from lynxbench.engines.torch.train import Train

        return Train(loaded)
    raise BadInput(f"workload.task: the torch engine cannot do {task}")
