"""Contracts that are run against servers that people run: llama.cpp with SmolLM2-135M, and Triton.

As in test_real_servers.py the machine is shared: every request is accounted for, and a search ends, states its bounds
and is honest; that any of them is quick is asked of nobody.
"""

import json
from pathlib import Path
from unittest import mock

import numpy as np
import psutil
import pytest

from command_line import lynxbench_here
from lynxbench.contract.loader import parse_contract
from lynxbench.evidence.documents import read_result
from lynxbench.executor.server import Address, capture_server
from lynxbench.measure.served_answers import judge_answers
from lynxbench.model.contract import AccuracyMetric, AccuracyPolicy
from lynxbench.model.executor import Executor
from lynxbench.model.precision import Precision
from lynxbench.model.verdicts import ValidityVerdict
from lynxbench.run import quick_target, served_accuracy
from lynxbench.run.served_accuracy import collect_answers
from lynxbench.run.served_precision import check_precision, with_formats
from real_servers import ROOT, llamacpp_server
from saturations import NOTHING_HELD, assert_honest

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.usefixtures("one_preflight")]

TOKENS = 4
LLAMACPP_PYTHON = str(ROOT / ".servers" / "llamacpp" / "bin" / "python")

FIRST_LAYERS, WHOLE = "int8-weight-only", "int4-weight-only"
"""The formats of most of the cut model's weights, the table of tokens, and of the whole one's."""
# Bounds on the client and on drift are wide: these tests share two cores with a server that fills one of them.
LLAMA = """\
lynxbench: 1
name: llama-chat
question: What does llama.cpp with SmolLM2-135M hold on this machine?
regime: throughput
workload:
  task: generate
  model: {{source: served, name: smollm2}}
  precisions: [{precision}]
  input_tokens: {{distribution: fixed, value: 4}}
  output_tokens: {{distribution: fixed, value: {tokens}}}
  arrival: {arrival}
engine:
  name: openai
  url: {url}/v1
  dialect: llamacpp
  endpoint: completions
  cache: bypassed
  processes: 1
  instrument: {{mean_lateness: 100 ms, p99_lateness: 1 s, p99_lag: 1 s, busy: 100 %}}
objective:
  slo:
    - {{metric: latency, percentile: 75, at_most: 1 s}}
protocol:
  restarts: 2
  steady: {{drift: 20 %, window: 250 ms}}
  min_duration: 1 s
  limit: 1500 ms
  foreign_load: 100 %
"""
TRITON = """\
lynxbench: 1
name: triton-double
question: What does Triton hold with a model that takes two milliseconds a batch?
regime: latency
workload:
  task: classify
  model: {{source: served, name: double}}
  precisions: [fp32]
  arrival: {arrival}
engine:
  name: kserve
  url: {url}
  inputs: [{{name: values, datatype: FP32, shape: [1, 4]}}]
  processes: 1
  instrument: {{mean_lateness: 100 ms, p99_lateness: 1 s, p99_lag: 1 s, busy: 100 %}}
objective:
  slo:
    - {{metric: latency, percentile: 90, at_most: 100 ms}}
protocol:
  restarts: 2
  steady: {{drift: 20 %, window: 500 ms}}
  min_duration: 2 s
  limit: 3 s
  foreign_load: 100 %
"""


@pytest.fixture
def fresh_llamacpp(first_layers):
    """One that nobody asked before: what its slots remember of other tests' prompts is no part of its capacity."""
    with llamacpp_server(slots=4, model=first_layers) as server:
        yield server


def run_contract(folder, contract, server, arrival, tokens=1):
    """Run it through the command line; the figures at its one precision and the folder they lie in."""
    text = contract.format(url=server.url, arrival=arrival, tokens=tokens, precision=FIRST_LAYERS)
    (folder / "contract.yaml").write_text(text)
    done = lynxbench_here("run", "contract.yaml", cwd=folder)
    assert done.code in (0, 1), done.err
    path = max((folder / "results").iterdir(), key=lambda path: path.stat().st_mtime)
    (figures,) = read_result(path).per_precision
    assert figures.load is not None
    return figures, path


def assert_accounted(figures):
    """Every request that was offered ended in one way."""
    load = figures.load
    assert load.accounting.offered == load.accounting.ok + sum(load.accounting.failed.values())
    assert load.accounting.ok > 0


def assert_figure_or_reason(figures):
    """A client that was the limit says by what, and then gives no figure."""
    if figures.load.instrument.verdict == "good":
        assert figures.throughput is not None
    else:
        assert figures.load.instrument.reasons
        assert figures.throughput is None


def test_a_contract_run_accounts_for_every_request_and_token(llamacpp, tmp_path):
    figures, path = run_contract(tmp_path, LLAMA, llamacpp, "{process: closed, concurrency: 2}", tokens=3)
    assert_accounted(figures)
    assert_figure_or_reason(figures)
    load = figures.load
    assert load.tokens.source == "usage"
    assert load.tokens.output_mean == pytest.approx(3)
    assert load.cache.cached_share in (None, 0)
    assert "2 at a time" in load.load
    assert (path / "report.html").read_text().startswith("<!doctype html>")


def test_a_quick_look_knows_llamacpp_and_its_template_makes_no_doubt(llamacpp, tmp_path):
    """Its chat template is the same in every prompt: it must not come from the cache, nor be longer than the prompt."""
    short = {"restarts": 2, "min_duration": "2 s", "limit": "3 s"}  # it is looked at what is asked, not at the figures
    with mock.patch.dict(quick_target.SHORT_PROTOCOL, short):
        done = lynxbench_here("quick", llamacpp.url, "--json", cwd=tmp_path, LYNXBENCH_HOME=str(tmp_path / "home"))
    assert done.code in (0, 1), done.err
    assert f"(llamacpp): task generate, {FIRST_LAYERS}" in done.err
    result = json.loads(done.out)
    (figures,) = result["per_precision"]
    assert figures["load"]["cache"]["regime"] == "bypassed"
    assert figures["load"]["cache"]["cached_share"] in (None, 0)
    doubts = " ".join(figures["validity"]["reasons"])
    assert "prefix cache" not in doubts
    assert "tokens on average by the server's count" not in doubts


def test_a_contract_run_accounts_for_every_request_and_records_tritons_statistics(triton, tmp_path):
    figures, _ = run_contract(tmp_path, TRITON, triton, "{process: poisson, rate: 100 /s}")
    assert_accounted(figures)
    assert_figure_or_reason(figures)
    load = figures.load
    assert load.accounting.failed == {}
    assert load.server_counters["triton_inferences"] >= load.accounting.ok
    assert load.server_counters["triton_compute_infer_s"] > 0.002 * load.accounting.ok / 16, "a batch takes 2 ms"
    if figures.throughput is not None:
        assert figures.throughput.interval.estimate > 0
        assert figures.throughput.interval.low < 115, "no more is answered than is asked"
        if figures.validity.verdict is ValidityVerdict.VALID:  # after a stall, what waited is answered at once
            assert figures.throughput.interval.estimate < 115


@pytest.mark.parametrize(
    ("server", "contract", "arrival", "budget_s"),
    [
        ("fresh_llamacpp", LLAMA, "{process: saturating, tolerance: 50 %, concurrency: 4, budget: 12 s}", 12),
        ("triton", TRITON, "{process: saturating, tolerance: 30 %, concurrency: 64, budget: 10 s}", 10),
    ],
    ids=["llamacpp", "triton"],
)
def test_a_search_for_the_servers_saturation_ends_and_is_honest(server, contract, arrival, budget_s, request, tmp_path):
    figures, path = run_contract(tmp_path, contract, request.getfixturevalue(server), arrival)
    assert_accounted(figures)
    search, report = figures.load.saturation, (path / "report.md").read_text()
    if search is None:
        assert figures.load.instrument.verdict == "void"
        assert "void" in report
        return
    assert_honest(search, budget_s)
    if search.passed_per_s is None:
        assert NOTHING_HELD in report
    else:
        assert "holds " in report
        assert "goodput" in report
    assert "saturation" in (path / "report.html").read_text().lower()


def test_llamacpp_is_started_by_a_contract_tested_with_other_arguments_and_ended(
    first_layers: Path, tmp_path: Path
) -> None:
    command = [LLAMACPP_PYTHON, str(ROOT / "tests" / "servers" / "llamacpp_flags.py"), "--model", str(first_layers)]
    (tmp_path / "servers.yaml").write_text(
        json.dumps(
            {
                "lynxbench_servers": 1,
                "servers": {"llama": {"command": [*command, "--port", "{port}"], "kind": "llamacpp"}},
            }
        )
    )
    serve = "  serve: {server: llama, arguments: {parallel: 1, threads: 1}}\n"
    arrival = "{process: closed, concurrency: 2}"
    text = LLAMA.format(url="http://127.0.0.1:0", arrival=arrival, tokens=TOKENS, precision=FIRST_LAYERS)
    (tmp_path / "llama.yaml").write_text(text.replace("  processes: 1\n", f"  processes: 1\n{serve}"))
    changed = "engine.serve.arguments.parallel=2"
    done = lynxbench_here(
        *("run", "llama.yaml", "--json", "--ledger", "none", "--intervene", changed),
        cwd=tmp_path,
        LYNXBENCH_HOME=str(tmp_path),
    )
    assert done.code == 0, done.err
    result = json.loads(done.out)
    words = result["executor"]["layers"]["serving"]["server_command"]["value"]
    assert words[-4:] == ["--parallel", "1", "--threads", "1"]
    (tried,) = result["attribution"]["interventions"]
    assert tried["name"] == "launch with --parallel 2"
    assert tried["measured"]["estimate"] > 0
    (folder,) = (tmp_path / "results").iterdir()
    assert (folder / "server.txt").read_text().count("--- server") == 1 + 4
    below = psutil.Process().children(recursive=True)
    assert not [one for one in below if "llamacpp_flags.py" in " ".join(one.cmdline())]


def test_llamacpp_is_asked_labelled_and_greedy_prompts(whole_llamacpp, tmp_path):
    """Trained weights: tokens known by id, no log-probabilities of prompts, and a file that tells the format."""
    task = tmp_path / "task.jsonl"
    rows = [("The capital of France is", "Paris"), ("The capital of France is", "cheese")]
    task.write_text("".join(json.dumps({"prompt": prompt, "answer": answer}) + "\n" for prompt, answer in rows))
    asks = f"accuracy: {{greedy: {{prompts: 2, tokens: 2}}, task: {{file: {task}, answer_tokens: 1}}}}\n"
    arrival = "{process: closed, concurrency: 1}"
    text = LLAMA.format(url=whole_llamacpp.url, tokens=2, arrival=arrival, precision=WHOLE)
    contract = parse_contract(text + asks, "llama.yaml")
    answers, texts = collect_answers(contract, Executor(schema_version=1, layers={}))
    assert answers.marks.tolist() == [1, 0]
    assert texts[0].strip() == "Paris"
    assert (answers.prefixes != 0).all()
    assert np.isfinite(answers.logprobs).all()
    assert (answers.logprobs <= 0).all()
    assert (answers.margins >= 0).all()
    assert any("no log-probabilities of prompts" in line for line in answers.notes.said)
    look = with_formats(capture_server(Address(f"{whole_llamacpp.url}/v1"), model="smollm2"))
    check = check_precision(contract, Executor(schema_version=1, layers=look.layers))
    assert not check.doubts
    assert "general.file_type Q4_1" in check.how
    assert "bits a parameter" in check.how


def test_answers_of_trained_weights_can_tell(whole_llamacpp):
    """SmolLM2 held against itself is a go: its answers depend on the prompt, and it prefers tokens."""
    asks = "accuracy: {greedy: {prompts: 12, tokens: 8}}\n"
    arrival = "{process: closed, concurrency: 1}"
    text = LLAMA.format(url=whole_llamacpp.url, tokens=2, arrival=arrival, precision=WHOLE)
    contract = parse_contract(text + asks, "llama.yaml")
    with mock.patch.object(served_accuracy, "PROMPT_WORDS", 12):  # 48 would take the server three times as long
        twice = [collect_answers(contract, Executor(schema_version=1, layers={}))[0] for _ in range(2)]
    policy = AccuracyPolicy(metric=AccuracyMetric.TOP1, largest_loss="5 %")
    accuracy = judge_answers(twice[1], twice[0], policy, Precision.BF16, Precision.BF16, "a" * 64)
    assert accuracy.verdict == "go", accuracy.notes
