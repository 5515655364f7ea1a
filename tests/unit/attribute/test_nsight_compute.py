"""Nsight Compute's CSV in both of its forms, with known truth; what is printed around it, numbers of all locales."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from attributed import attribute, is_doubted, is_open, refusal, took
from lynxbench.model.attribution import Category

GEMM, NORM = "ampere_bf16_gemm_128x128(Params<float, 4>)", "void layer_norm_kernel<float>(float*, int)"
PLANTED = [(GEMM, 60.0, 82.0, 31.0), (NORM, 30.0, 12.0, 88.0), ("void copy_kernel(char*)", 10.0, 1.0, 2.0)]
"""Kernel, microseconds, percent of the arithmetic peak, percent of the memory peak."""
ABOUT = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size")
WHERE = (*ABOUT, "Device", "CC")
RAW = (
    "gpu__time_duration.sum",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
)
BANNER = '==PROF== Connected to process 7 (python)\nstep 1, loss 3.4\n==PROF== Profiling "gemm" - 0: 100% - 9 passes\n'


def quoted(rows: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return out.getvalue()


def about(number: int, kernel: str) -> list[object]:
    return [number, 7, "python", "127.0.0.1", kernel, 1, 7, "(256, 1, 1)", "(64, 1, 1)", 0, "9.0"]


def raw_text(launches: Sequence[tuple[str, float, float, float]], *, extra: Sequence[str] = ()) -> str:
    units = [""] * len(WHERE) + ["us", "%", "%"]
    rows = [[*about(i, name), *figures] for i, (name, *figures) in enumerate(launches)]
    return quoted([[*WHERE, *RAW, *extra], units, *rows])


def details_text(launches: Sequence[tuple[str, float, float, float]], *, say: Callable[[float], str] = str) -> str:
    rows: list[list[object]] = [[*WHERE, "Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name"]]
    section = "GPU Speed Of Light Throughput"
    for i, (name, us, arithmetic, memory) in enumerate(launches):
        for metric, unit, value in (
            ("DRAM Frequency", "hz", 2_619_000_000.0),
            ("Duration", "us", us),
            ("Compute (SM) Throughput", "%", arithmetic),
            ("Memory Throughput", "%", memory),
            ("DRAM Throughput", "%", memory / 2),
        ):
            rows.append([*about(i, name), section, metric, unit, say(value), ""])
        rows.append([*about(i, name), "Memory Workload Analysis", "Memory Throughput", "byte/s", say(9.9e11), ""])
        rows.append([*about(i, name), "SpeedOfLight", "", "", "", "SOLBottleneck"])
    return quoted(rows)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "out.log"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("form", [raw_text, details_text])
def test_both_pages_say_which_kernel_takes_most_and_what_binds_it(
    form: Callable[..., str], write: Callable[[str], Path]
) -> None:
    said = attribute(write(BANNER + form(PLANTED) + "==PROF== Disconnected from process 7\n"))
    is_open(said)
    assert said.wall_ms_per_step == pytest.approx(0.1)
    by_name = {operator.name: operator for operator in said.operators}
    assert by_name[GEMM].share == pytest.approx(0.6)
    assert (by_name[GEMM].category, by_name[GEMM].efficiency) == (Category.COMPUTE, pytest.approx(0.82))
    assert (by_name[NORM].category, by_name[NORM].efficiency) == (Category.MEMORY_BANDWIDTH, pytest.approx(0.88))
    assert by_name["void copy_kernel(char*)"].efficiency is None, "a unit that hardly works says nothing"
    assert "measures each kernel by itself" in said.sentence
    assert any("counters of 3 launches decide" in line for line in said.evidence)
    assert any("by counters, 82% of their ceiling" in line for line in said.evidence)
    assert not any("0 GFLOP/s" in line for line in said.evidence)


def test_however_near_its_ceiling_a_kernel_is_the_step_is_not_called_hardware_bound(
    write: Callable[[str], Path],
) -> None:
    is_open(attribute(write(raw_text([(GEMM, 50.0, 99.0, 20.0)] * 4))))


def test_launches_of_one_kernel_are_weighed_by_their_time(write: Callable[[str], Path]) -> None:
    said = attribute(write(raw_text([(GEMM, 90.0, 80.0, 10.0), (GEMM, 10.0, 30.0, 10.0)])))
    assert said.operators[0].efficiency == pytest.approx(0.75)


def test_kernels_that_repeat_are_steps(write: Callable[[str], Path]) -> None:
    said = attribute(write(raw_text(PLANTED * 5)))
    assert said.steps == 4
    assert said.wall_ms_per_step == pytest.approx(0.1)


@pytest.mark.parametrize(("unit", "factor"), [("nsecond", 1e3), ("ns", 1e3), ("msecond", 1e-3), ("second", 1e-6)])
def test_units_are_read(unit: str, factor: float, write: Callable[[str], Path]) -> None:
    text = raw_text([(name, us * factor, a, m) for name, us, a, m in PLANTED]).replace('"us"', f'"{unit}"')
    assert attribute(write(text)).wall_ms_per_step == pytest.approx(0.1)


def test_thousands_are_grouped(write: Callable[[str], Path]) -> None:
    text = details_text([(GEMM, 1_234.5, 70.25, 20.5)], say=lambda value: f"{value:,.2f}")
    assert took(attribute(write(text)))[GEMM] == pytest.approx(1.2345)


def test_a_decimal_comma_is_seen_by_what_only_it_explains(write: Callable[[str], Path]) -> None:
    """In this locale `117.344` is a hundred thousand."""

    def comma(value: float) -> str:
        return f"{value:,.2f}".translate(str.maketrans(",.", ".,")).removesuffix(",00")

    said = attribute(write(details_text([(GEMM, 117_344.0, 65.77, 20.5)], say=comma)))
    assert took(said)[GEMM] == pytest.approx(117.344)
    assert said.operators[0].efficiency == pytest.approx(0.6577)


def test_numbers_of_two_locales_are_refused(write: Callable[[str], Path]) -> None:
    text = raw_text(PLANTED).replace('"82.0"', '"82,05"').replace('"88.0"', '"88.05"')
    assert "LC_ALL=C" in refusal(write(text))


def test_metrics_that_a_device_lacks_leave_the_ceiling_open(write: Callable[[str], Path]) -> None:
    said = attribute(write(raw_text(PLANTED).replace('"82.0"', '"n/a"')))
    by_name = {operator.name: operator for operator in said.operators}
    assert by_name[GEMM].efficiency is None
    assert by_name[NORM].efficiency == pytest.approx(0.88)


def test_sections_with_one_throughput_of_dram_are_used(write: Callable[[str], Path]) -> None:
    text = raw_text(PLANTED).replace("gpu__compute_memory_throughput", "dram__throughput")
    assert attribute(write(text)).operators[1].category is Category.MEMORY_BANDWIDTH


DAMAGED: dict[str, str] = {
    "cut inside a row": raw_text(PLANTED * 3)[:-20],
    "a launch without its time": raw_text(PLANTED).replace('"30.0"', '"n/a"'),
    "negative": raw_text(PLANTED).replace('"30.0"', '"-30.0"'),
    "not a number": raw_text(PLANTED).replace('"30.0"', '"nan"'),
    "endless": raw_text(PLANTED).replace('"30.0"', '"inf"'),
    "beyond any clock": raw_text(PLANTED).replace('"30.0"', '"1e300"'),
    "short rows": raw_text(PLANTED) + '"9","7"\n',
    "a field without end": raw_text(PLANTED) + '"9","' + "x" * 2_000_000,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_tables_blame_nobody(name: str, write: Callable[[str], Path]) -> None:
    is_doubted(write(DAMAGED[name]))


def test_kernels_without_any_time_are_refused(write: Callable[[str], Path]) -> None:
    assert "gpu__time_duration" in refusal(write(raw_text(PLANTED).replace("gpu__time_duration.sum", "launch__waves")))
    assert "gpu__time_duration" in refusal(write(raw_text(PLANTED).replace('"us"', '"fortnight"')))
    assert "gpu__time_duration" in refusal(write(quoted([WHERE])))


def test_a_summary_over_launches_is_refused(write: Callable[[str], Path]) -> None:
    head = ("Process ID", "Kernel Name", "Invocations", "Section Name", "Metric Name", "Metric Unit", "Average")
    assert "--print-summary" in refusal(write(quoted([head, (1, GEMM, 2, "s", "Duration", "us", "2")])))


def test_bytes_that_are_no_text_do_not_crash(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(b"\xff\xfe\x00" + raw_text(PLANTED).encode() + b"\x00\xff")
    is_doubted(path)
