"""What several rooms' tests share: a real, small run through the command line, and how tests are dealt out."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

import disturbed
from command_line import QUICK_CONTRACT, SPINNING, CommandRun, lynxbench

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

# A shell starts background jobs with SIGINT ignored, and children inherit it: an interrupting test would test nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Four processes share two cores: threads that have no work sleep, as those that spin would take a core from the others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# How long an example takes is the machine's affair.
hypothesis.settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any-machine")

pytest_runtest_makereport = disturbed.pytest_runtest_makereport
pytest_runtest_protocol = disturbed.pytest_runtest_protocol

SHARING = ("tests/server/", "tests/unit/ledger/")
"""Rooms whose tests share a server that is started once: they stay in one process …"""
ALONE = (
    "tests/server/test_agents.py",
    "tests/server/test_deployment.py",
    "tests/server/test_every_page.py",
    "tests/server/test_intake.py",
    "tests/server/test_judging_rounds.py",
    "tests/server/test_newer_kinds.py",
    "tests/server/test_page_process.py",
    "tests/server/test_page_words.py",
    "tests/server/test_passwords.py",
    "tests/server/test_plain_http.py",
    "tests/server/test_recompute_process.py",
    "tests/server/test_recomputed.py",
    "tests/server/test_remarks.py",
    "tests/server/test_rivals.py",
    "tests/server/test_short_lived_keys.py",
    "tests/server/test_touching.py",
    "tests/server/test_witnessing.py",
)
"""… but for files with servers of their own, and one that is long enough to be worth another: each may go elsewhere."""
LONG = (
    "tests/server/test_every_page.py",
    "tests/server/test_agents.py",
    "tests/server/test_recomputed.py",
    "tests/server/test_recompute_process.py",
    "tests/unit/engines/test_torch_attention.py",
    "tests/e2e/test_experiment.py",
    "tests/e2e/test_real_servers.py",
    "tests/e2e/test_real_server_contracts.py",
    "tests/e2e/test_run.py",
    "tests/e2e/test_serving.py",
    "tests/e2e/test_fleet_dispatch.py",
    "tests/e2e/test_fleet.py",
    "tests/e2e/test_wheel.py",
    "tests/e2e/test_howto_commands.py",
    "tests/unit/engines/test_torch_engine.py",
    "tests/unit/run/test_intervening.py",
    "tests/unit/test_pytest_plugin.py",
    "tests/e2e/test_ledger.py",
    "tests/e2e/test_compare.py",
    "tests/e2e/test_launched_servers.py",
    "tests/unit/stats/test_changepoints.py",
    "tests/unit/stats/test_composition.py",
    "tests/e2e/test_notebooks.py",
    "tests/unit/watch/test_regressions.py",
)
"""Files that take half a minute and more, working or waiting: no process is left alone with one of them at the end."""


def file_of(nodeid: str) -> str:
    """The file that a test is in."""
    return nodeid.partition("::")[0]


def scope_of(nodeid: str) -> str:
    """What a process takes at a time: the whole room where its tests share something, otherwise the file."""
    file = file_of(nodeid)
    return file if file in ALONE else next((room for room in SHARING if file.startswith(room)), file)


# What collecting brings in stays to the end: the garbage collector need not walk through it again and again.
gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is long begins first, so that it does not end long after the others; a room in one process is longest."""
    first = {file: place for place, file in enumerate(LONG)}
    items.sort(key=lambda item: (scope_of(item.nodeid) not in SHARING, first.get(file_of(item.nodeid), len(LONG))))


def pytest_collection_finish() -> None:
    """From here on garbage is collected again; what was brought in is left out of it."""
    gc.collect()
    gc.freeze()
    gc.enable()


class Thaw:
    """What a probe in the tests' own process does when it ends, to all that was imported here: it is undone."""

    def __init__(self) -> None:
        self.happened = False
        self._unfreeze = gc.unfreeze

    def __call__(self) -> None:
        self.happened = True
        self._unfreeze()

    def undo(self) -> None:
        if self.happened:
            self.happened = False
            gc.freeze()


gc.unfreeze = thaw = Thaw()


def pytest_runtest_teardown() -> None:
    """The garbage collector need not walk through it before every later probe."""
    thaw.undo()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """A process takes a file at a time, or a whole room where its tests share something; none of them is split."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return ByFile(config, log)


@pytest.fixture(scope="session", autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keys, trust and ledger of the tests, never those of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LYNXBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        for name in ("LYNXBENCH_LEDGER", "LYNXBENCH_BLOBS", "LYNXBENCH_KEY"):
            patch.delenv(name, raising=False)
        # Hundreds of processes are started from here: each would compile the package again where this is set.
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture(scope="session")
def spin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a quick contract and the function it names."""
    folder = tmp_path_factory.mktemp("spin")
    (folder / "spin.yaml").write_text(QUICK_CONTRACT)
    (folder / "spinning.py").write_text(SPINNING)
    return folder


@pytest.fixture(scope="session")
def spin_command(spin_folder: Path) -> CommandRun:
    """The command that ran the quick contract, as a program asks for it."""
    done = lynxbench("run", "spin.yaml", "--json", cwd=spin_folder)
    assert done.code == 0, done.err
    return done


@pytest.fixture(scope="session")
def spin_run(spin_folder: Path, spin_command: CommandRun) -> Path:
    """The folder of a finished run of the quick contract."""
    (folder,) = (spin_folder / "results").iterdir()
    return folder
