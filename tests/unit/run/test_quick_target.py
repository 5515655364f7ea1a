"""What somebody points at is found out by looking, and its contracts load."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.contract.writer import Explained, render_contract
from lynxbench.errors import BadInput, CannotRun
from lynxbench.model.precision import Precision
from lynxbench.model.serving import Dialect, OpenAiEngine
from lynxbench.model.workload import Task
from lynxbench.run import quick_target
from lynxbench.run.quick_target import find_target, is_trace, long_contract, quick_contract
from lynxbench.workload.model_packages import locate_packaged


@pytest.fixture(autouse=True)
def _no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_target, "_ACCELERATORS", ())


@contextmanager
def answering(body: str, status: int = 200, software: str = "plain") -> Iterator[str]:
    """A server that gives one answer to every question."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(status)
            self.send_header("Server", software)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def models(*names: str, owner: str = "me") -> str:
    return json.dumps({"object": "list", "data": [{"id": name, "owned_by": owner} for name in names]})


@pytest.mark.parametrize(
    ("architectures", "task", "reads"),
    [
        (["LlamaForCausalLM"], Task.GENERATE, True),
        (["GPT2LMHeadModel"], Task.GENERATE, True),
        (["BertForSequenceClassification"], Task.CLASSIFY, True),
        (["ResNetForImageClassification"], Task.CLASSIFY, False),
        (["BertModel"], Task.EMBED, True),
    ],
)
def test_a_folder_says_its_task(tmp_path: Path, architectures: list[str], task: Task, reads: bool) -> None:
    folder = tmp_path / "My Model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"architectures": architectures}))
    target = find_target(str(folder))
    assert (target.task, target.engine, target.precision) == (task, "torch", Precision.FP32)
    contract = quick_contract(target)
    assert contract.name == "quick-my-model"
    assert (contract.workload.input_tokens is not None) is reads
    assert find_target(str(folder), task=Task.TRAIN_STEP).task is Task.TRAIN_STEP


def test_an_onnx_file_says_its_task_and_precision() -> None:
    pytest.importorskip("onnx")
    target = find_target(str(locate_packaged("minilm-int8-onnx").weights))
    assert (target.engine, target.task, target.precision) == ("onnx", Task.EMBED, Precision.INT8_WEIGHT_ONLY)


def test_a_function_and_a_model_of_the_hub() -> None:
    assert find_target("my.module:work.fast").model == "callable:my.module:work.fast"
    assert find_target("HuggingFaceTB/SmolLM2-135M").task is Task.GENERATE
    assert find_target("sentence-transformers/all-MiniLM-L6-v2").task is Task.EMBED


@pytest.mark.parametrize("target", ["nothing", "no/such/folder/here", "", "ftp://x", "a b"])
def test_what_is_nothing_says_what_it_may_be(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput):
        find_target(target)


def test_a_python_file_is_asked_for_its_function(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def work(): pass\n")
    with pytest.raises(BadInput, match="mine:function"):
        find_target(str(file))


def test_a_trace_is_a_file_that_a_profiler_may_have_written(tmp_path: Path) -> None:
    file = tmp_path / "step.json.gz"
    assert not is_trace(str(file))
    file.write_bytes(b"")
    assert is_trace(str(file))


@pytest.mark.parametrize(
    ("owner", "software", "dialect"),
    [
        ("vllm", "uvicorn", Dialect.VLLM),
        ("sglang", "uvicorn", Dialect.SGLANG),
        ("llamacpp", "llama.cpp", Dialect.LLAMACPP),
        ("me", "llama.cpp", Dialect.LLAMACPP),
        ("library", "", Dialect.OLLAMA),
        ("somebody", "nginx", Dialect.GENERIC),
    ],
)
def test_a_server_says_its_models_and_its_dialect(owner: str, software: str, dialect: Dialect) -> None:
    with answering(models("org/chat-7b", "other", owner=owner), software=software) as url:
        target = find_target(url)
        other = find_target(f"{url}/v1/", model="other")
        with pytest.raises(BadInput, match="has no model 'third'; it has org/chat-7b, other"):
            find_target(url, model="third")
    assert (target.url, target.model, target.dialect) == (f"{url}/v1", "served:org/chat-7b", dialect)
    assert any("first model of 2" in guess for guess in target.guesses)
    assert other.model == "served:other"
    engine = quick_contract(target).engine
    assert isinstance(engine, OpenAiEngine)
    assert (engine.url, engine.dialect) == (f"{url}/v1", dialect)


def test_an_embedding_model_is_asked_to_embed() -> None:
    with answering(models("bge-small-en")) as url:
        assert find_target(url).task is Task.EMBED


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, "{}", "--api-key-env"),
        (404, "{}", "--engine kserve"),
        (200, "not json", "lists no model"),
        (200, '{"data": []}', "lists no model"),
    ],
)
def test_a_server_that_cannot_be_looked_at_says_why(status: int, body: str, says: str) -> None:
    with answering(body, status) as url, pytest.raises(CannotRun, match=says):
        find_target(url)


def test_nobody_there_is_asked_whether_it_runs() -> None:
    with pytest.raises(CannotRun, match="is the server running"):
        find_target("http://127.0.0.1:9/v1")


@pytest.mark.parametrize("name", ["my.module:work", "HuggingFaceTB/SmolLM2-135M"])
def test_both_contracts_load_as_written(name: str) -> None:
    target = find_target(name)
    for contract in (quick_contract(target), long_contract(target)):
        assert parse_contract(render_contract(contract, Explained())).contract_id == contract.contract_id
    short, whole = quick_contract(target).protocol, long_contract(target).protocol
    assert short.limit_s < whole.min_duration_s
    assert short.steady.drift > whole.steady.drift
    assert quick_contract(target).question.startswith("Quick look")
