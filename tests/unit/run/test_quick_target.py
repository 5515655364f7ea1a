"""What somebody points at is found out by looking, and its contracts load."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.contract.writer import Explained, render_contract
from lynxbench.errors import BadInput, CannotRun
from lynxbench.model.dialect import Dialect
from lynxbench.model.precision import Precision
from lynxbench.model.serving import OpenAiEngine
from lynxbench.model.workload import Task
from lynxbench.run import quick_target
from lynxbench.run.quick_target import find_target, is_trace, long_contract, quick_contract, written_precision
from lynxbench.workload.model_packages import locate_packaged


@pytest.fixture(autouse=True)
def _no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_target, "_ACCELERATORS", ())


@contextmanager
def answering(body: str, status: int = 200, software: str = "plain", place: str = "") -> Iterator[str]:
    """A server that gives one answer to every question."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(status)
            self.send_header("Server", software)
            if place:
                self.send_header("Location", place)
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


def model_folder(folder: Path, config: object, weights: str = "model.safetensors") -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    if weights:
        (folder / weights).write_bytes(b"")
    return folder


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
    folder = model_folder(tmp_path / "My Model", {"architectures": architectures})
    target = find_target(str(folder))
    assert (target.task, target.engine, target.precision) == (task, "torch", Precision.FP32)
    contract = quick_contract(target)
    assert contract.name == "quick-my-model"
    assert (contract.workload.input_tokens is not None) is reads
    assert find_target(str(folder), task=Task.TRAIN_STEP).task is Task.TRAIN_STEP


def test_a_folder_that_does_not_say_its_task_has_it_guessed_aloud(tmp_path: Path) -> None:
    target = find_target(str(model_folder(tmp_path / "plain", {}, "pytorch_model.bin")))
    assert target.task is Task.EMBED
    assert "names no architecture" in target.guesses[0]
    assert not find_target(str(tmp_path / "plain"), task=Task.GENERATE).guesses


def test_a_folder_without_weights_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no weights"):
        find_target(str(model_folder(tmp_path / "pooling", {"word_embedding_dimension": 384}, weights="")))


def test_a_model_that_is_called_model_is_named_after_its_folder(tmp_path: Path) -> None:
    (tmp_path / "MiniLM").mkdir()
    folder = model_folder(tmp_path / "MiniLM" / "model", {"architectures": ["BertModel"]})
    assert (find_target(str(folder)).name, find_target(str(folder)).found) == ("minilm-model", "the model MiniLM-model")


def test_an_onnx_file_says_its_task_and_precision() -> None:
    pytest.importorskip("onnx")
    target = find_target(str(locate_packaged("minilm-int8-onnx").weights))
    assert (target.engine, target.task, target.precision) == ("onnx", Task.EMBED, Precision.INT8_WEIGHT_ONLY)
    assert target.guesses == ("task embed, because it reads token ids (--task says another)",)


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


def test_a_server_whose_cache_can_be_asked_aside_is_asked_so() -> None:
    """Otherwise the chat template that all prompts begin with comes from the cache, and the figures are doubtful."""
    for owner, cache in (("llamacpp", "bypassed"), ("vllm", "bypassed"), ("sglang", "avoided"), ("me", "avoided")):
        with answering(models("chat", owner=owner)) as url:
            engine = quick_contract(find_target(url)).engine
        assert isinstance(engine, OpenAiEngine)
        assert engine.cache == cache


def test_a_model_that_is_served_from_a_file_is_called_by_its_name() -> None:
    file = "/srv/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    with answering(models(file, owner="llamacpp")) as url:
        target = find_target(url)
    assert target.found == f"SmolLM2-135M-Instruct.Q4_1 on the server at {url}/v1 (llamacpp)"
    assert (target.model, target.name) == (f"served:{file}", "smollm2-135m-instruct.q4_1")
    assert target.precision is Precision.INT4_WEIGHT_ONLY
    assert "precision int4-weight-only, by the model's name (edit workload.precisions)" in target.guesses


@pytest.mark.parametrize("name", ["a\nteams: [b]", "\x1b[2J", "a\u202eb"])
def test_a_name_that_would_write_more_than_a_name_is_refused(name: str) -> None:
    with answering(models(name)) as url, pytest.raises(BadInput, match="signs that cannot be shown"):
        find_target(url)


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("llama3:8b-instruct-q4_K_M", Precision.INT4_WEIGHT_ONLY),
        ("gemma.IQ4_XS.gguf", Precision.INT4_WEIGHT_ONLY),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", Precision.INT4_WEIGHT_ONLY),
        ("phi-4.Q8_0", Precision.INT8_WEIGHT_ONLY),
        ("RedHatAI/Llama-3.1-8B-quantized.w8a8", Precision.INT8),
        ("neuralmagic/Meta-Llama-3-8B-FP8", Precision.FP8),
        ("smollm2-135m-f16", Precision.FP16),
        ("model-BF16.gguf", Precision.BF16),
        ("mistral.Q5_K_M.gguf", Precision.INT5_WEIGHT_ONLY),
        ("mistral.Q3_K_M.gguf", None),
        ("meta-llama/Llama-3.1-8B", None),
        ("qwen-16", None),
    ],
)
def test_a_name_says_its_precision_or_none(name: str, precision: Precision | None) -> None:
    assert written_precision(name) is precision


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


def test_a_gateway_of_ten_thousand_models_is_looked_through() -> None:
    names = [
        f"somebody/a-model-with-a-rather-long-name-{number:05d}-of-a-variant-that-nobody-knows"
        for number in range(10_000)
    ]
    with answering(models(*names)) as url:
        assert find_target(url, model=names[-1]).model == f"served:{names[-1]}"
        assert any("first model of 10000" in guess for guess in find_target(url).guesses)


def test_a_list_beyond_every_bound_is_not_called_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_target, "MOST_BYTES", 1 << 20)
    with answering(models("m" * (1 << 20))) as url, pytest.raises(CannotRun, match="longer than 1 MiB"):
        find_target(url)


def test_a_server_that_leads_elsewhere_says_where() -> None:
    said = r"307; it leads to https://models\.example/\\x1b\[2Jv1/models"
    with (
        answering("", 307, place="https://models.example/\x1b[2Jv1/models") as url,
        pytest.raises(CannotRun, match=said),
    ):
        find_target(url)


def test_a_list_of_models_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then ends no wait; all of them together have a bound."""
    monkeypatch.setattr(quick_target, "WHOLE_S", 0.4)
    over = threading.Event()

    def trickle() -> None:
        with listening.accept()[0] as asked:
            asked.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not over.wait(0.05):
                with suppress(OSError):
                    asked.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        with pytest.raises(CannotRun, match=r"no whole answer within 0\.4 s"):
            find_target(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
        over.set()
        thread.join(timeout=5)


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
