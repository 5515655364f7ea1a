"""The wheel as others get it: built, installed into an environment of its own, and used from there alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import psutil
import pytest

from lynxbench.https import request
from teams import kept_bundle

ROOT = Path(__file__).resolve().parents[2]
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
EXTRAS = "server,oidc,postgres"
"""What the image has (deploy/Containerfile)."""
SIGN_IN = """\
lynxbench_sign_in: 1
issuer: http://127.0.0.1:9
client_id: lynxbench
groups:
  - {group: bench, team: ml-platform, may: [read]}
"""


class Installed:
    """A clean environment with the wheel in it."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder, self.wheel, self.python = folder, wheel, folder / "venv" / "bin" / "python"
        self._uv("venv", "--quiet", "--python", sys.executable, str(folder / "venv"))

    def install(self, extras: str = "") -> None:
        given = f"lynxbench{f'[{extras}]' if extras else ''} @ {self.wheel.as_uri()}"
        constraint = ("--constraint", str(ROOT / "constraints.txt"))
        self._uv("pip", "install", "--quiet", "--python", str(self.python), *constraint, given)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.folder / "venv" / "bin" / "lynxbench"), *words]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=1800, check=False
        )

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of this process's own Python is on the way."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LYNXBENCH"))}
        return kept | {"LYNXBENCH_HOME": str(self.folder / "home"), "LYNXBENCH_PASSWORD": "a long enough password"}

    def _uv(self, *words: str) -> None:
        beside = Path(sys.executable).parent / "uv"
        uv = str(beside) if beside.exists() else shutil.which("uv")
        assert uv is not None, "uv is needed, as `make setup` installs it"
        done = subprocess.run([uv, *words], capture_output=True, text=True, timeout=1800, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    made = Installed(tmp_path_factory.mktemp("clean"), wheel)
    made.install()
    return made


def test_it_says_what_the_project_says(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = Parser().parsestr(archive.read(next(name for name in names if name.endswith("/METADATA"))).decode())
    assert set(about.get_all("Provides-Extra") or ()) == set(project["optional-dependencies"])
    needed = [line for line in about.get_all("Requires-Dist") or () if "extra ==" not in line]
    assert len(needed) == len(project["dependencies"])
    assert all(name.startswith(("lynxbench/", "lynxbench-")) for name in names)
    files = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "lynxbench").rglob("*") if path.is_file()}
    carried = {name for name in files if "__pycache__" not in name and not name.endswith(".pyc")}
    assert carried - set(names) == set(), "every file of the package travels"


@pytest.mark.slow
def test_without_extras_it_works_and_says_what_a_server_needs(installed: Installed) -> None:
    bundle, card = kept_bundle(installed.folder)
    for words in (("key", "trust", str(card)), ("results", "import", str(bundle)), ("contract", "check", "quickstart")):
        done = installed.run(*words)
        assert done.returncode == 0, done.stderr
    (result,) = json.loads(installed.run("results", "list", "--json").stdout)["results"]
    verified = installed.run("verify", result["result_id"])
    assert verified.returncode == 0, verified.stdout + verified.stderr
    refused = installed.run("serve")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert re.fullmatch(r"lynxbench: .* pip install 'lynxbench\[server\]'\n", refused.stderr)


@pytest.mark.slow
def test_with_extras_it_serves(installed: Installed) -> None:
    installed.install("server")
    (installed.folder / "sign-in.yaml").write_text(SIGN_IN)
    listening = ("serve", "--port", "0", "--origin", "http://127.0.0.1:8420", "--oidc", "sign-in.yaml")
    refused = installed.run(*listening)
    assert refused.returncode == 2
    assert "--oidc needs Authlib; pip install 'lynxbench[oidc]'" in refused.stderr
    installed.install(EXTRAS)
    scopes = ("--team", "ml-platform", "--scopes", "read,administer")
    added = installed.run("serve", "user", "add", "ada", *scopes)
    assert added.returncode == 0, added.stderr
    command = [str(installed.folder / "venv" / "bin" / "lynxbench"), "serve", "--port", "0", "--oidc", "sign-in.yaml"]
    command += ["--origin", "http://127.0.0.1:8420", "--quiet"]
    with subprocess.Popen(
        command, cwd=installed.folder, env=installed.environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            line = ""
            while "ledger" not in line:
                line = process.stderr.readline()
                assert line, "the server ended"
            port = port_of(process.pid)
            page = request("GET", f"http://127.0.0.1:{port}/signin", timeout_s=600)
            assert page.status == 200
            assert b"Sign in with your company" in page.body
            assert request("GET", f"http://127.0.0.1:{port}/readyz", timeout_s=600).status == 200
        finally:
            process.terminate()


def port_of(process: int) -> int:
    """Where a process listens, by the kernel's own account."""
    (port,) = [each.laddr.port for each in psutil.Process(process).net_connections("tcp") if each.status == "LISTEN"]
    return int(port)
