"""Three new users and their first question each: is `lynxbench quick` an answer within two minutes on two cores?

    python benchmarks/first_hour.py [--only NAME] [--guides]

An SRE points at a llama.cpp server (`make servers`), an ML engineer at a model folder, an ONNX file and a function, a
buyer at a trace. Every question has a folder and a home of its own, so that nothing is there that an earlier one left.
Afterwards each does what the answer names: checks and plans the contract that was written, verifies the result. Prints
a row a command; exit 1 where one of them took too long or ended with another exit code than it should.

`--guides` carries out those commands of the guides that take minutes, as they are written, and that the test of all
guides (tests/e2e/test_howto_commands.py) only plans or parses; they have no bar but their exit code.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from experiments import CONTRACT, WORK
from lynxbench.workload.model_packages import locate_packaged
from real_servers import llamacpp_server

WITHIN_S = 120
CORES = 2
TRACE = Path(__file__).resolve().parents[1] / "tests" / "data" / "traces" / "pageable_h2d.json.gz"
FUNCTION = """\
import numpy as np

weights = np.random.default_rng(0).standard_normal((512, 512)).astype("float32")

def score(index):
    batch = np.random.default_rng(index).standard_normal((64, 512)).astype("float32")
    return batch @ weights
"""
"""The one of the guide to measuring one's own function."""
HEADLINES = ("Quick look:", "Where the time goes")


@contextmanager
def server(_: Path) -> Iterator[str]:
    """A real llama.cpp server with SmolLM2-135M."""
    with llamacpp_server() as running:
        yield running.url


@contextmanager
def model_folder(here: Path) -> Iterator[str]:
    """MiniLM as one has it after a download: configuration, tokenizer and safetensors in one folder."""
    shutil.copytree(locate_packaged("all-minilm-l6-v2").folder, here / "all-MiniLM-L6-v2")
    yield "all-MiniLM-L6-v2"


@contextmanager
def onnx_file(here: Path) -> Iterator[str]:
    """MiniLM with 8-bit weights."""
    shutil.copy(locate_packaged("minilm-int8-onnx").weights, here / "minilm-int8.onnx")
    yield "minilm-int8.onnx"


@contextmanager
def function(here: Path) -> Iterator[str]:
    """A scoring step of one's own."""
    (here / "jobs.py").write_text(FUNCTION, encoding="utf-8")
    yield "jobs:score"


@contextmanager
def trace(here: Path) -> Iterator[str]:
    """What somebody recorded on a GPU."""
    shutil.copy(TRACE, here)
    yield TRACE.name


@dataclass(frozen=True)
class FirstQuestion:
    """Who points at what, and whether something is measured: a trace was measured by somebody else."""

    user: str
    prepare: Callable[[Path], AbstractContextManager[str]]
    measures: bool = True


QUESTIONS = {
    "llama.cpp server": FirstQuestion("SRE", server),
    "model folder": FirstQuestion("ML engineer", model_folder),
    "ONNX file": FirstQuestion("ML engineer", onnx_file),
    "function": FirstQuestion("ML engineer", function),
    "trace": FirstQuestion("buyer", trace, measures=False),
}


@contextmanager
def demo_server(here: Path) -> Iterator[str]:
    """What the guide starts in terminal 1, on the port that it names."""
    command = [sys.executable, "-m", "lynxbench", "demo-server"]
    with subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield ""
        process.terminate()


@contextmanager
def tunable(here: Path) -> Iterator[str]:
    """A contract with one knob that makes the step five times as fast."""
    plain = CONTRACT.replace("\n  ", "\n").removeprefix("  ")
    knobs = "optimisation:\n  division: bounded\n  knobs: {environment.work_wide: [0, 1]}\n  trials: 2\n"
    (here / "contract.yaml").write_text(plain + knobs, encoding="utf-8")
    (here / "working.py").write_text(WORK, encoding="utf-8")
    yield ""


@contextmanager
def nothing(_: Path) -> Iterator[str]:
    """A fresh folder."""
    yield ""


@dataclass(frozen=True)
class Guide:
    """Commands of a page that take minutes, in its order, and how each may end."""

    prepare: Callable[[Path], AbstractContextManager[str]]
    commands: tuple[tuple[str, tuple[int, ...]], ...]


# Exit code 1: Optuna draws, and may draw the baseline twice. 6: unproven, where others kept the machine busy.
GUIDES = {
    "measure-a-server": Guide(demo_server, (("run chat-demo", (0,)), ("quick http://127.0.0.1:8000", (0,)))),
    "tune": Guide(tunable, (("tune contract.yaml", (0,)), ("tune contract.yaml --search tpe", (0, 1)))),
    "fleet": Guide(nothing, (("fleet run callable-example --nodes 3", (0,)),)),
    "README": Guide(nothing, (("run quickstart", (0,)), ("run quickstart", (0,)), ("compare last~1 last", (0, 6)))),
}


@dataclass(frozen=True)
class Row:
    """One command and how it ended."""

    user: str
    asked: str
    seconds: float
    code: int
    answer: str
    within_s: float
    ends: tuple[int, ...]

    @property
    def met(self) -> bool:
        """Whether it was answered in time, with an exit code that it may have."""
        return self.code in self.ends and self.seconds <= self.within_s


def ask(user: str, folder: Path, *words: str, within_s: float = WITHIN_S, ends: tuple[int, ...] = (0,)) -> Row:
    """One command, as its user types it."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "lynxbench", *words],
        cwd=folder,
        env={**os.environ, "LYNXBENCH_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - began
    asked, said = f"lynxbench {' '.join(words)}", (_answer(done.stdout) or done.stderr or "-").splitlines()
    row = Row(user, asked, seconds, done.returncode, said[0] if done.stdout else said[-1], within_s, ends)
    mark = "" if row.met else "MISSED  "
    print(f"{user:<16} {asked:<58} {seconds:>6.1f} s  exit {row.code}  {mark}{row.answer}", flush=True)
    return row


def _answer(text: str) -> str:
    """What follows the question and its context; all of it where the answer comes first."""
    _, between, rest = text.partition("\n\n")
    return rest if between and text.startswith(HEADLINES) else text


def play(question: FirstQuestion) -> list[Row]:
    """The question in a fresh folder and home, and what its answer says to do next."""
    with tempfile.TemporaryDirectory(prefix="lynxbench-first-hour-") as name:
        folder = Path(name)
        with question.prepare(folder) as target:
            rows = [ask(question.user, folder, "quick", target)]
            if question.measures and rows[0].code == 0:
                written = sorted(path.name for path in folder.glob("*.yaml"))
                short = next(file for file in written if file.startswith("quick-"))
                rows.append(ask(question.user, folder, "contract", "check", *written))
                rows.append(ask(question.user, folder, "run", short.removesuffix(".yaml"), "--plan"))
                rows.append(ask(question.user, folder, "verify", "last"))
    return rows


def follow(page: str, guide: Guide) -> list[Row]:
    """The long commands of a page, in a fresh folder and home."""
    with tempfile.TemporaryDirectory(prefix="lynxbench-guide-") as name, guide.prepare(Path(name)):
        return [ask(page, Path(name), *text.split(), within_s=math.inf, ends=ends) for text, ends in guide.commands]


def main() -> None:
    """Play all of them; exit 1 where one misses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=(*QUESTIONS, *GUIDES))
    parser.add_argument("--guides", action="store_true", help="the guides' long commands instead of the questions")
    chosen = parser.parse_args()
    only, guides = chosen.only, chosen.guides or chosen.only in GUIDES
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    os.sched_setaffinity(0, cores)
    print(f"on {len(cores)} cores, load {os.getloadavg()[0]:.1f} before; bar {WITHIN_S} s and exit code 0\n")
    if guides:
        rows = [row for page, guide in GUIDES.items() if only in (None, page) for row in follow(page, guide)]
    else:
        rows = [row for name, question in QUESTIONS.items() if only in (None, name) for row in play(question)]
    missed = [row.asked for row in rows if not row.met]
    print(f"\n{len(rows) - len(missed)} of {len(rows)} met" + (f"; missed: {'; '.join(missed)}" if missed else ""))
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
