"""The examples under deploy/ can be read by what they are for, and call commands that exist."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from command_tree import find_command

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def read_yaml(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text())


def parse_command(words: list[str]) -> None:
    """Parsed by the real command line, and not carried out."""
    command, rest = find_command(words)
    assert len(rest) < len(words)
    command.make_context("lynxbench", rest)


def test_compose_has_both_services_and_no_password() -> None:
    found = read_yaml(DEPLOY / "compose.yaml")
    assert set(found["services"]) == {"database", "server"}
    server = found["services"]["server"]
    assert server["depends_on"]["database"]["condition"] == "service_healthy"
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])
    assert "password" not in str(found).lower().replace("password_file", "")
    parse_command([word for word in server["command"] if "${" not in word] + ["https://bench.example"])


def test_the_cronjob_forbids_overlap_and_asks_once() -> None:
    found = read_yaml(DEPLOY / "kubernetes" / "agent-cronjob.yaml")
    assert (found["kind"], found["apiVersion"]) == ("CronJob", "batch/v1")
    assert found["spec"]["concurrencyPolicy"] == "Forbid"
    (container,) = found["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert "--once" in container["args"]
    token = next(one for one in container["env"] if one["name"] == "LYNXBENCH_TOKEN")
    assert "secretKeyRef" in token["valueFrom"]
    parse_command(container["args"])


@pytest.mark.parametrize("name", ["lynxbench-server.service", "lynxbench-agent.service"])
def test_units_call_the_program(name: str) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "systemd" / name)
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/lynxbench")
    parse_command(words)
    assert "TOKEN" not in (DEPLOY / "systemd" / name).read_text().replace("# LYNXBENCH_TOKEN", "")


def test_the_image_runs_as_nobody_special() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    assert "\nUSER lynxbench\n" in text
    assert text.index("USER lynxbench") < text.index("ENTRYPOINT")
    assert "ADD http" not in text
