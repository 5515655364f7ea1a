"""KServe over gRPC against Triton, which has gRPC's own library, and Triton's own client against the bundled server."""

import subprocess

import numpy as np
import pytest

from command_line import lynxbench_here
from lynxbench.engines.grpc_asking import named_model, statistics_document, tell
from lynxbench.engines.kserve import NamedTensor, parse_triton_stats, triton_between
from lynxbench.engines.kserve_grpc import GrpcLanguage, build_call
from lynxbench.evidence.documents import read_result
from lynxbench.load.driver import run_probe
from lynxbench.load.ground_truth import Behaviour, ServedOutcome
from lynxbench.load.plan import ClosedLoop, LoadPlan, parse_target
from lynxbench.load.response_reading import PlainRotation
from lynxbench.load.truth_process import running_server
from lynxbench.model.layers import Layer
from lynxbench.model.serving import KserveEngine, TensorInput
from real_servers import ROOT

pytestmark = [pytest.mark.servers, pytest.mark.slow]

CONTRACT = """\
lynxbench: 1
name: triton-grpc
question: What does Triton answer over gRPC, one answer after the other?
regime: latency
workload:
  task: classify
  model: {{source: served, name: count}}
  precisions: [fp32]
  arrival: {{process: poisson, rate: 20 /s}}
engine:
  name: kserve
  url: {url}
  protocol: grpc
  stream: true
  inputs: [{{name: until, datatype: INT32, shape: [1], low: 3, high: 3}}]
  processes: 1
  instrument: {{mean_lateness: 100 ms, p99_lateness: 1 s, p99_lag: 1 s, busy: 100 %}}
protocol:
  restarts: 2
  steady: {{drift: 20 %, window: 500 ms}}
  min_duration: 2 s
  limit: 3 s
  foreign_load: 100 %
"""


def stats_of(server):
    return parse_triton_stats(server.get("/v2/models/double/stats"), "double")


def grpc_engine(server, name="values", datatype="FP32", shape=(1, 4), **options):
    inputs = (TensorInput(name=name, datatype=datatype, shape=shape),)
    return KserveEngine(name="kserve", url=server.grpc_url, protocol="grpc", inputs=inputs, **options)


def grpc_inference(server, rows, *, model="double", **options):
    values = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
    return build_call(grpc_engine(server, shape=(rows, 4), **options), model, [NamedTensor("values", values)])


def drive_grpc(server, script, load, streamed=False):
    language = GrpcLanguage(streamed)
    return run_probe(LoadPlan(parse_target(server.grpc_url), PlainRotation(script), language, load, 60))


@pytest.mark.parametrize("binary", [True, False])
def test_triton_answers_over_grpc_and_its_statistics_account_for_it(triton, binary):
    before = stats_of(triton)
    script = (grpc_inference(triton, 1, binary=binary), grpc_inference(triton, 2, binary=binary))
    record = drive_grpc(triton, script, ClosedLoop(8, requests=200))
    assert record.counts()["ok"] == record.sent == 200
    done = triton_between(before, stats_of(triton))
    assert done["requests"] == 200
    assert done["inferences"] == 300
    assert done["total_ns"] / 200 / 1e9 < record.latency_s().mean()
    assert done["compute_infer_ns"] / 200 > 2e6
    told = parse_triton_stats(
        statistics_document(tell(grpc_engine(triton), "ModelStatistics", named_model("double", None))), "double"
    )
    assert told == stats_of(triton), "the same counters, whichever way they are asked for"


def test_triton_streams_as_many_answers_as_were_asked_for(triton):
    engine = grpc_engine(triton, "until", "INT32", (1,), stream=True)
    script = [build_call(engine, "count", [NamedTensor("until", np.array([n], dtype=np.int32))]) for n in (1, 5)]
    record = drive_grpc(triton, tuple(script), ClosedLoop(2, requests=20), streamed=True)
    assert record.counts()["ok"] == 20
    assert record.events.tolist() == [1, 5] * 10
    longer = record.events == 5
    # Its answers are two milliseconds apart at the server; a client cannot have seen the last one sooner.
    assert ((record.last_ns - record.sent_ns)[longer] >= 5 * 2e6).all()
    assert record.server_first_token_s().min() >= 0.002


def test_triton_takes_a_large_tensor_over_grpc(triton):
    values = np.ones((1, 1_000_000), dtype=np.float32)
    call = build_call(grpc_engine(triton, shape=values.shape), "double", [NamedTensor("values", values)])
    record = drive_grpc(triton, (call,), ClosedLoop(2, requests=6))
    assert record.counts()["ok"] == 6, record.notes
    assert record.bytes.min() > values.nbytes


def test_triton_faults_over_grpc_are_counted_and_quoted(triton):
    wrong = build_call(grpc_engine(triton), "double", [NamedTensor("absent", np.zeros((1, 4), dtype=np.float32))])
    script = (grpc_inference(triton, 1), grpc_inference(triton, 1, model="absent"), wrong)
    record = drive_grpc(triton, script, ClosedLoop(2, requests=30))
    assert record.counts()["ok"] == 10
    assert record.counts()["grpc_error"] == 20
    said = " ".join(record.notes)
    assert "gRPC status 5 NOT_FOUND" in said or "UNAVAILABLE" in said or "INVALID_ARGUMENT" in said
    assert "absent" in said


def test_a_grpc_client_of_others_reads_the_bundled_server(tmp_path):
    """Triton's own client (on gRPC's own library) finds in our server what it should: the two agree on the language."""
    program = """
import sys, numpy as np, tritonclient.grpc as grpc
client = grpc.InferenceServerClient(sys.argv[1])
assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("m")
assert client.get_server_metadata().name == "ground-truth"
assert client.get_model_metadata("m").outputs[0].datatype == "FP32"
value = grpc.InferInput("answers", [1, 1], "INT32")
value.set_data_from_numpy(np.array([[3]], dtype=np.int32))
for _ in range(50):
    assert client.infer("m", [value]).as_numpy("output").tolist() == [0.5]
answers = []
client.start_stream(lambda result, error: answers.append((result, error)))
client.async_stream_infer("m", [value])
client.stop_stream()
assert [error for _, error in answers] == [None] * 3, answers
assert client.get_inference_statistics("m").model_stats[0].inference_count == 51
print("agreed")
"""
    python = ROOT / ".servers" / "triton" / "bin" / "python"
    with running_server(Behaviour(ttft_ms=1)) as server:
        address = server.url.removeprefix("http://").removesuffix("/v1")
        done = subprocess.run(
            [python, "-c", program, address], capture_output=True, text=True, timeout=600, check=False
        )
        truth = server.stop()
    assert done.stdout.strip() == "agreed", done.stderr
    assert truth.count(ServedOutcome.OK) == 51


def test_a_contract_over_grpc_is_measured_with_the_servers_own_account(triton, tmp_path):
    (tmp_path / "contract.yaml").write_text(CONTRACT.format(url=triton.grpc_url))
    done = lynxbench_here("run", "contract.yaml", cwd=tmp_path)
    assert done.code in (0, 1), done.err
    (path,) = (path for path in (tmp_path / "results").iterdir() if path.is_dir())
    result = read_result(path)
    (figures,) = result.per_precision
    accounting = figures.load.accounting
    assert accounting.offered == accounting.ok > 0
    assert figures.load.server_counters["triton_requests"] >= accounting.ok
    serving = result.executor.layers[Layer.SERVING]
    assert serving["server_metadata"].value["name"] == "triton"
    assert serving["server_model"].value["outputs"] == [{"name": "number", "datatype": "INT32", "shape": [1]}]
    if figures.load.instrument.verdict == "good":
        first, whole = (figures.latency_ms[name] for name in ("time-to-first-token", "latency"))
        assert 2 <= first[0].estimate < whole[0].estimate
    assert lynxbench_here("verify", str(path), cwd=tmp_path).code == 0


def test_a_wrong_port_is_said_in_one_line(triton, tmp_path):
    (tmp_path / "contract.yaml").write_text(CONTRACT.format(url=triton.url))
    done = lynxbench_here("run", "contract.yaml", cwd=tmp_path)
    assert done.code == 4
    assert "gRPC port?" in done.err
