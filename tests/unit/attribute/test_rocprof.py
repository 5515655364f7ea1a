"""rocprofv3's tables and its JSON document, written as documented, with known truth."""

from __future__ import annotations

import copy
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attributed import analyse, attribute, is_doubted, is_open, refusal, took
from lynxbench.model.attribution import Bound, Category
from lynxbench.model.layers import Layer

BASE_NS = 8_819_330_200_067_564
GEMM, NORM = "Cijk_Ailk_Bljk_BBS_BH_MT128x128x32", "void rms_norm_kernel<float>(float*, float const*, int)"
STEP = ((GEMM, 0, 600), (NORM, 600, 700), ("__amd_rocclr_copyBuffer", 900, 1_000))
"""Kernel, begin and end in microseconds: 60 % a product, 20 % nothing."""
HEAD = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","Workgroup_Size_X","Grid_Size_X"'
)
OLD_HEAD = HEAD.replace('"Stream_Id",', "").replace('"LDS_Block_Size","Scratch_Size",', '"Private_Segment_Size",')


def kernel_rows(steps: int = 6, *, agent: str = '"Agent 4"', scale: float = 1.0) -> list[str]:
    rows = []
    for step in range(steps):
        for i, (name, begin, end) in enumerate(STEP):
            at = [BASE_NS + int((1_000 * step + us) * 1_000 * scale) for us in (begin, end)]
            where = f'"KERNEL_DISPATCH",{agent},1,0,69,{i},{i},"{name}",{step * 3 + i + 1}'
            rows.append(f"{where},{at[0]},{at[1]},0,0,64,1024")
    return rows


def table(rows: list[str], head: str = HEAD) -> str:
    return "\n".join([head, *rows]) + "\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[object], Path]:
    def write(content: object) -> Path:
        path = tmp_path / "results"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def test_kernels_of_a_table_get_their_shares_and_gaps_stay_open(write: Callable[..., Path]) -> None:
    said = attribute(write(table(kernel_rows())))
    is_open(said)
    assert said.steps == 5
    assert said.wall_ms_per_step == pytest.approx(1.0)
    assert said.operators[0].name == GEMM
    assert said.shares[Category.COMPUTE] == pytest.approx(0.6, abs=0.001)
    assert said.shares[Category.MEMORY_BANDWIDTH] == pytest.approx(0.2, abs=0.001)
    assert said.shares[Category.UNATTRIBUTED] == pytest.approx(0.2, abs=0.001)
    assert "why the device idled is not known" in said.sentence
    assert "--output-format json" in said.next_step


def test_older_tables_have_other_columns(write: Callable[..., Path]) -> None:
    rows = [row.replace('"Agent 4",1,0,', "4,1,").replace(",0,0,64,1024", ",0,64,1024") for row in kernel_rows()]
    assert attribute(write(table(rows, OLD_HEAD))).shares[Category.COMPUTE] == pytest.approx(0.6, abs=0.001)


def test_of_several_devices_the_one_that_worked_most_is_shown(write: Callable[..., Path]) -> None:
    rows = [*kernel_rows(), *kernel_rows(agent='"Agent 5"', scale=2.0)]
    said = attribute(write(table(rows)))
    assert said.wall_ms_per_step == pytest.approx(2.0)
    assert any("2 agents worked" in line and "Agent 5" in line for line in said.evidence)


def test_a_table_of_copies(write: Callable[..., Path]) -> None:
    head = '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id",'
    head += '"Start_Timestamp","End_Timestamp"'
    rows = []
    for i in range(5):
        at = BASE_NS + i * 1_000_000
        rows.append(f'"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",0,1,0,{at},{at + 400_000}')
        rows.append(f'"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_HOST",1,0,0,{at + 500_000},{at + 600_000}')
    said = attribute(write("\n".join([head, *rows])))
    is_open(said)
    assert said.shares[Category.TRANSFER] == pytest.approx(0.5, abs=0.02)
    assert set(took(said)) == {"Memcpy HtoD", "Memcpy DtoH"}


DAMAGED_TABLES: dict[str, str] = {
    "cut inside a row": table(kernel_rows())[:-40],
    "ends before starts": table(kernel_rows()).replace(str(BASE_NS + 600_000), str(BASE_NS - 5), 1),
    "stamps beyond any clock": table(kernel_rows()).replace(str(BASE_NS + 1_600_000), "9" * 30),
    "thousands of digits": table(kernel_rows()).replace(str(BASE_NS + 1_600_000), "9" * 5_000),
    "words for stamps": table(kernel_rows()).replace(str(BASE_NS + 1_600_000), '"soon"'),
    "negative stamps": table(kernel_rows()).replace(str(BASE_NS + 1_600_000), "-7"),
    "short rows": table([*kernel_rows(), '"KERNEL_DISPATCH",1']),
}


@pytest.mark.parametrize("name", DAMAGED_TABLES)
def test_damaged_tables_blame_nobody(name: str, write: Callable[..., Path]) -> None:
    is_doubted(write(DAMAGED_TABLES[name]))


def test_tables_without_work_of_a_device_are_refused(write: Callable[..., Path]) -> None:
    assert "holds no work" in refusal(write(table([])))
    calls = '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    assert "kernel trace" in refusal(write(calls + '"HIP_RUNTIME_API","hipMalloc",7,7,1,100,200\n'))


# --- the document -----------------------------------------------------------------------------------------------------

OPERATIONS = [
    {"kind": "NONE", "operations": []},
    {"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel", "hipMemcpy", "hipDeviceSynchronize"]},
    {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
]


def record(begin: float, end: float, call: int, **more: Any) -> dict[str, Any]:
    at = {"start_timestamp": BASE_NS + int(begin * 1_000), "end_timestamp": BASE_NS + int(end * 1_000)}
    return {"size": 64, "thread_id": 11, "correlation_id": {"internal": call, "external": 0}, **at, **more}


def document(copy_us: int = 600, product_us: int = 300) -> dict[str, Any]:
    """Each step copies its input, multiplies, and is a millisecond long."""
    calls, kernels, copies, marks, messages = [], [], [], [], []
    for step in range(6):
        at, call = 1_000 * step, 10 * step + 1
        calls.append(record(at + 1, at + copy_us, call, kind=1, operation=1))
        device = {"src_agent_id": {"handle": 1}, "dst_agent_id": {"handle": 2}, "bytes": 8_000_000}
        copies.append(record(at + 5, at + copy_us, call, kind=2, operation=1, **device))
        calls.append(record(at + copy_us + 1, at + copy_us + 6, call + 1, kind=1, operation=0))
        info = {"agent_id": {"handle": 2}, "queue_id": {"handle": 1}, "kernel_id": 16, "dispatch_id": step}
        begin = at + copy_us + 8
        kernels.append(record(begin, begin + product_us, call + 1, kind=0, operation=0, dispatch_info=info))
        marks.append(record(at, at + 999, call + 2, kind=0, operation=0))
        messages.append({"key": call + 2, "value": f"step#{step}"})
    process = {
        "metadata": {"pid": 7, "init_time": 1, "fini_time": 2, "command": ["./app"]},
        "agents": [
            {"id": {"handle": 1}, "type": 1, "name": "cpu", "product_name": "EPYC"},
            {"id": {"handle": 2}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X"},
        ],
        "strings": {"buffer_records": OPERATIONS, "marker_api": messages},
        "kernel_symbols": [{"kernel_id": 16, "kernel_name": f"{GEMM}.kd", "formatted_kernel_name": GEMM}],
        "callback_records": {"counter_collection": []},
        "buffer_records": {
            "kernel_dispatch": kernels,
            "hip_api": calls,
            "hsa_api": [],
            "marker_api": marks,
            "memory_copy": copies,
        },
    }
    return {"rocprofiler-sdk-tool": [process]}


def test_a_document_with_the_host_s_calls_gets_a_verdict(write: Callable[..., Path]) -> None:
    analysis = analyse(write(document()))
    said = analysis.attribution
    assert (said.bottleneck, said.bound, said.layer) == (Category.TRANSFER, Bound.SOFTWARE, Layer.APPLICATION)
    assert said.shares[Category.TRANSFER] == pytest.approx(0.6, abs=0.02)
    assert took(said)[GEMM] == pytest.approx(0.3, rel=0.01)
    assert said.evidence[0].startswith("4 steps (annotated steps")
    assert analysis.detail.device == "AMD Instinct MI300X"
    assert analysis.detail.movements[0].bytes_per_s == pytest.approx(8e6 / 595e-6, rel=0.01)


def test_one_process_may_stand_without_its_list(write: Callable[..., Path]) -> None:
    (process,) = document()["rocprofiler-sdk-tool"]
    assert attribute(write({"rocprofiler-sdk-tool": process})).bottleneck is Category.TRANSFER


def test_a_document_without_calls_leaves_gaps_open(write: Callable[..., Path]) -> None:
    found = document()
    found["rocprofiler-sdk-tool"][0]["buffer_records"]["hip_api"] = []
    said = attribute(write(found))
    is_open(said)
    assert "the calls of the host were not recorded" in said.sentence
    assert said.shares[Category.UNATTRIBUTED] == pytest.approx(0.1, abs=0.02)


def buffers(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    found = copy.deepcopy(document())
    change(found["rocprofiler-sdk-tool"][0]["buffer_records"])
    return found


def cut_ids(records: dict[str, Any]) -> None:
    for each in records["kernel_dispatch"]:
        each["correlation_id"] = {"internal": 0, "external": 0}


def call_late(records: dict[str, Any]) -> None:
    for each in records["hip_api"]:
        each.update(start_timestamp=BASE_NS + 10**9, end_timestamp=BASE_NS + 10**9 + 5)


DAMAGED_DOCUMENTS: dict[str, object] = {
    "cut": json.dumps(document())[:-300],
    "cut short": json.dumps(document())[:90],
    "nested without end": '{"rocprofiler-sdk-tool": ' + "[" * 100_000,
    "words for stamps": buffers(lambda b: b["kernel_dispatch"][0].update(start_timestamp="soon")),
    "stamps beyond any clock": buffers(lambda b: b["kernel_dispatch"][1].update(end_timestamp=10**40)),
    "ends before starts": buffers(lambda b: b["memory_copy"][1].update(end_timestamp=5)),
    "no stamps": buffers(lambda b: b["kernel_dispatch"][0].pop("start_timestamp")),
    "calls that launched nothing": buffers(lambda b: b["kernel_dispatch"].clear() or b["memory_copy"].clear()),
    "work that no call launched": buffers(cut_ids),
    "effects before causes": buffers(call_late),
    "a list for a document": {"rocprofiler-sdk-tool": [[]]},
    "an empty process": {"rocprofiler-sdk-tool": [{}]},
    "no process": {"rocprofiler-sdk-tool": []},
}


@pytest.mark.parametrize("name", DAMAGED_DOCUMENTS)
def test_damaged_documents_blame_nobody(name: str, write: Callable[..., Path]) -> None:
    is_doubted(write(DAMAGED_DOCUMENTS[name]))


def test_numbers_that_point_nowhere_are_unknown_and_not_an_error(write: Callable[..., Path]) -> None:
    found = buffers(lambda b: b["hip_api"][0].update(kind=99, operation=-4))
    found["rocprofiler-sdk-tool"][0]["kernel_symbols"] = []
    assert "kernel 16" in took(attribute(write(found)))


def test_a_host_that_serves_several_devices_is_blamed_for_none(write: Callable[..., Path]) -> None:
    found = document()
    records = found["rocprofiler-sdk-tool"][0]["buffer_records"]
    others = copy.deepcopy(records["kernel_dispatch"])
    for number, each in enumerate(others):
        each["dispatch_info"]["agent_id"] = {"handle": 3}
        each["correlation_id"]["internal"] = 1_000 + number
        at = 1_000 * number + 700
        records["hip_api"].append(record(at, at + 5, 1_000 + number, kind=1, operation=0))
    records["kernel_dispatch"] += others
    said = attribute(write(found))
    is_open(said)
    assert said.shares[Category.TRANSFER] == pytest.approx(0.6, abs=0.02)
    assert "several devices" in said.sentence
    assert any("2 agents worked" in line and "device 2" in line for line in said.evidence)


def test_a_database_of_rocprofv3_says_what_to_record(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE rocpd_kernel_dispatch_0000 (id, start, end)")
    database.close()
    assert "--output-format json" in refusal(path)
