"""The pass with a server's own profiler: what is kept, what it comes to, and why where it comes to nothing."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from lynxbench.attribute.profiled_server import MOST_OUTSIDE
from lynxbench.contract.loader import parse_contract
from lynxbench.errors import LynxbenchError
from lynxbench.executor.server import CapturedServer
from lynxbench.load.load_record import read_record
from lynxbench.model.executor import measured
from lynxbench.model.layers import Layer
from lynxbench.model.result import RULES
from lynxbench.model.server_profile import ServerKernels
from lynxbench.run import profile_pass
from lynxbench.run.profile_pass import await_traces, conclude_profile, kernel_line, profile_server
from profiled_servers import TRACE, profiled_thread
from served import served_contract

CLOSED = "{process: closed, concurrency: 2}"


def run_of(folder, url, arrival=CLOSED, duration="1 s", wait="20 s"):
    engine = f"dialect: vllm\nprofile: {{duration: {duration}, wait: {wait}}}"
    text = served_contract(url, arrival=arrival, engine=engine).replace("precisions: [fp32]", "precisions: [bf16]")
    return SimpleNamespace(path=folder, registration=SimpleNamespace(contract=parse_contract(text, "test")))


def server_at(traces):
    command = ["vllm", f"--profiler-config.torch_profiler_dir={traces}"]
    return CapturedServer({Layer.SERVING: {"server_command": measured(command, "test")}}, {}, None, True)


def profiled(folder, how="good", server=None, **options):
    """A pass against the stand-in, and what it came to."""
    traces = folder / "traces"
    with profiled_thread(traces, how) as url:
        run = run_of(folder, url, **options)
        profile_server(run, run.registration.contract, server or server_at(traces), None, None)
    return run, conclude_profile(run, RULES)


def test_a_trace_of_the_pass_is_judged_with_its_owner_and_not_asked_for_again(tmp_path):
    run, kernels = profiled(tmp_path)
    assert kernels.missing == ""
    assert kernels.attribution.layer is Layer.RUNTIME
    assert kernels.attribution.owner == "ML platform engineering"
    assert kernels.join.outside <= MOST_OUTSIDE
    assert kernels.offered == len(read_record(tmp_path / "profile" / "record.npz"))
    assert kernels.ok > 0
    assert [trace.file for trace in kernels.traces] == ["profile/trace-0.json.gz"]
    line = kernel_line(kernels)
    assert line.startswith("kernels of the server (its own profiler in a pass of")
    assert line.endswith("layer runtime → ML platform engineering")
    profile_server(run, run.registration.contract, server_at(tmp_path), None, None)  # nobody listens there any more
    assert conclude_profile(run, RULES) == kernels, "whoever verifies finds the same"


def test_the_load_of_the_pass_is_the_contracts_own():
    def load(arrival, rate=None, arrivals=None):
        contract = run_of(None, "http://127.0.0.1:9/v1", arrival).registration.contract
        return profile_pass._load(contract, 2.0, rate, arrivals)

    assert load(CLOSED).concurrency == 2
    assert load("{process: saturating, concurrency: 4}").concurrency == 4
    searched = load("{process: saturating, concurrency: 4}", rate=100.0)
    assert 120 < len(searched.offsets_ns) < 290
    assert 120 < len(load("{process: poisson, rate: 100 /s}").offsets_ns) < 290
    assert searched.offsets_ns.max() < 2e9


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("absent", "the server has no /start_profile: start it with --profiler-config"),
        ("failing", 'POST /start_profile: status 500 {"error":"no profiler in this build"}'),
    ],
)
def test_without_a_verdict_there_is_one_reason(tmp_path, how, said):
    _, kernels = profiled(tmp_path, how)
    assert kernels.missing.startswith(said)
    assert kernels.attribution is None
    assert kernel_line(kernels) == f"kernels of the server: not seen: {kernels.missing}"


def test_a_server_that_writes_nothing_is_waited_for_only_so_long(tmp_path):
    _, kernels = profiled(tmp_path, "silent", duration="100 ms", wait="100 ms")
    assert kernels.missing == "the server wrote no trace into traces within 0.1 s"


def test_nothing_that_goes_wrong_costs_the_run(tmp_path):
    run = run_of(tmp_path, "http://127.0.0.1:9/v1")
    profile_server(run, run.registration.contract, server_at(tmp_path), None, None)
    kernels = conclude_profile(run, RULES)
    assert kernels.missing
    assert kernels.attribution is None


def test_nobody_asked_for_it(tmp_path):
    run = run_of(tmp_path, "http://127.0.0.1:9/v1")
    plain = parse_contract(served_contract("http://127.0.0.1:9/v1"), "test")
    unasked = SimpleNamespace(path=tmp_path, registration=SimpleNamespace(contract=plain))
    profile_server(unasked, plain, server_at(tmp_path), None, None)
    assert conclude_profile(unasked, RULES) is None
    assert not (tmp_path / "profile").exists()
    assert conclude_profile(run, RULES) == ServerKernels(missing="the pass was not made")


def test_too_much_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(profile_pass, "MOST_BYTES", 1000)
    with pytest.raises(LynxbenchError, match=r"say a shorter engine\.profile\.duration"):
        profile_pass._keep([TRACE], tmp_path)
    assert not list(tmp_path.glob("trace-*"))


def test_traces_are_taken_once_they_no_longer_grow(tmp_path):
    old, new, other = (tmp_path / name for name in ("old.json", "new.json.gz", "notes.txt"))
    old.write_text("{}")
    before = profile_pass._files_in(tmp_path)
    moments = iter(range(100))
    sizes = iter([b"", b"a", b"ab", b"abc"])

    def sleep(_):
        other.write_text("x")
        if (more := next(sizes, None)) is not None:
            new.write_bytes(more)

    assert await_traces(tmp_path, before, 50, lambda: next(moments), sleep) == [new]
    assert new.read_bytes() == b"abc"
    assert await_traces(tmp_path, profile_pass._files_in(tmp_path), 0, lambda: 1, sleep) == []


def test_plain_traces_are_packed_the_same_every_time(tmp_path):
    plain = tmp_path / "t.pt.trace.json"
    plain.write_bytes(gzip.decompress(TRACE.read_bytes()))
    hashes = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (kept,) = profile_pass._keep([plain], tmp_path / name)
        hashes.add(kept.sha256)
        assert json.loads(gzip.decompress((tmp_path / name / Path(kept.file).name).read_bytes()))["traceEvents"]
    assert len(hashes) == 1


def test_only_servers_with_a_profiler_are_asked_for_it():
    text = served_contract("http://127.0.0.1:9/v1", engine="dialect: llamacpp\nprofile: {duration: 1 s}")
    with pytest.raises(
        Exception, match=r"dialect llamacpp has no request that starts a profiler \(these have: vllm, sg"
    ):
        parse_contract(text, "test")
