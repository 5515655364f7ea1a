"""The examples under deploy/ can be read by what they are for, and call commands that exist."""

from __future__ import annotations

import configparser
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from ruamel.yaml import YAML

from chart_rendering import Chart
from command_tree import find_command
from lynxbench import __version__
from lynxbench.server.provider_settings import parse_provider

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


# --- the chart --------------------------------------------------------------------------------------------------------

CHART = DEPLOY / "helm" / "lynxbench"
SIGN_IN = """\
lynxbench_sign_in: 1
issuer: https://login.example
client_id: lynxbench
groups:
  - {group: bench, team: ml-platform, may: [read]}
"""


def usual_values() -> dict[str, Any]:
    values: dict[str, Any] = read_yaml(CHART / "values.yaml")
    return values


def test_the_charts_values_fit_their_schema_and_secrets_do_not() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    Draft7Validator.check_schema(schema)
    check = Draft7Validator(schema)
    check.validate(usual_values())
    wrong = [
        {"ledger": "postgresql://lynxbench:hunter2@postgres/lynxbench"},  # a password belongs into the secret
        {"ledger": "sqlite:////data/ledger.sqlite"},
        {"origin": "http://bench.example"},
        {"proxies": 0},
        {"replicas": 3},
        {"administrator": {"name": "ada", "team": "ml"}},
    ]
    assert [check.is_valid(usual_values() | change) for change in wrong] == [False] * len(wrong)


def test_the_chart_is_of_this_version() -> None:
    about = read_yaml(CHART / "Chart.yaml")
    assert (about["apiVersion"], about["name"], about["appVersion"]) == ("v2", "lynxbench", __version__)


def values_of(signing_in: bool) -> dict[str, Any]:
    values = usual_values()
    if signing_in:
        values["oidc"] = {"file": SIGN_IN, "clientSecret": "lynxbench-oidc"}
        values |= {"publicRead": True, "pullSecrets": ["registry"], "nodeSelector": {"disk": "fast"}}
        values["storage"]["existingClaim"] = "kept"
        values["ingress"]["annotations"] = {"example.com/size": "300m"}
    return values


@pytest.fixture
def helm(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Helm itself, with a home of its own."""
    program = shutil.which("helm", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("Helm is not among the packages of this kind of machine")

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        own = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        return subprocess.run([program, *words], env=own, capture_output=True, text=True, timeout=300, check=False)

    return call


@pytest.mark.parametrize("signing_in", [False, True])
def test_helm_lints_the_chart_and_renders_what_the_tests_do(
    helm: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, signing_in: bool
) -> None:
    values, file = values_of(signing_in), tmp_path / "values.json"
    file.write_text(json.dumps(values))
    linted = helm("lint", "--strict", str(CHART), "--values", str(file))
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "0 chart(s) failed" in linted.stdout
    assert "[WARNING]" not in linted.stdout
    made = helm("template", "bench", str(CHART), "--values", str(file))
    assert made.returncode == 0, made.stderr
    documents = [document for document in YAML(typ="safe").load_all(made.stdout) if document is not None]
    assert {document["kind"]: document for document in documents} == Chart(CHART, values).documents()


def test_helm_refuses_values_that_the_schema_refuses(helm: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    refused = helm("lint", str(CHART), "--set", "ledger=postgresql://lynxbench:hunter2@postgres/lynxbench")
    assert refused.returncode == 1
    assert "ledger" in refused.stdout + refused.stderr


@pytest.mark.parametrize("signing_in", [False, True])
def test_what_the_chart_comes_to(signing_in: bool) -> None:
    made = Chart(CHART, values_of(signing_in)).documents()
    usual = {"Deployment", "Service", "Ingress"}
    assert set(made) == usual | ({"ConfigMap"} if signing_in else {"PersistentVolumeClaim"})
    pod = made["Deployment"]["spec"]["template"]
    assert made["Service"]["spec"]["selector"] == made["Deployment"]["spec"]["selector"]["matchLabels"]
    assert pod["metadata"]["labels"] == made["Service"]["spec"]["selector"]
    (server,), setup = pod["spec"]["containers"], pod["spec"]["initContainers"]
    parse_command(server["args"])
    assert ("--oidc" in server["args"], "--public-read" in server["args"]) == (signing_in, signing_in)
    assert server["image"] == f"registry.example/lynxbench:{__version__}"
    there = {volume["name"] for volume in pod["spec"]["volumes"]}
    for container in (server, *setup):
        assert {mount["name"] for mount in container["volumeMounts"]} <= there
        held = container["securityContext"]
        assert (held["readOnlyRootFilesystem"], held["allowPrivilegeEscalation"]) == (True, False)
        assert held["capabilities"] == {"drop": ["ALL"]}
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    first = next(container for container in setup if container["name"] == "administrator")["command"][-1]
    listing, adding = first.split(" || ")
    parse_command(shlex.split(listing.split(" | ")[0])[1:])
    parse_command(shlex.split(adding)[1:])
    secrets = [one for container in (server, *setup) for one in container.get("env", ()) if "valueFrom" in one]
    assert {one["name"] for one in secrets} == {"LYNXBENCH_PASSWORD"} | (
        {"LYNXBENCH_OIDC_SECRET"} if signing_in else set()
    )
    if signing_in:
        assert parse_provider(made["ConfigMap"]["data"]["sign-in.yaml"], "sign-in.yaml").client_id == "lynxbench"
        assert "kept" in str(pod["spec"]["volumes"])


def test_a_template_that_is_wrong_is_found(tmp_path: Path) -> None:
    for wrong in ("{{ if .Values.origin }}x", "{{ end }}", "{{ .Values.orign }}", "{{ upper .Values.origin }}"):
        folder = tmp_path / str(abs(hash(wrong)))
        (folder / "templates").mkdir(parents=True)
        (folder / "Chart.yaml").write_text("appVersion: '1'\n")
        (folder / "templates" / "x.yaml").write_text(f"kind: {wrong}\n")
        with pytest.raises((AssertionError, KeyError)):
            Chart(folder, usual_values()).documents()
