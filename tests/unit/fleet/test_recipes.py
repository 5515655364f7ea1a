"""The recipes are linted: shell that parses, manifests that hold together, and options that exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from command_tree import find_command

RECIPES = Path(__file__).parents[3] / "docs" / "recipes"
SLURM, KUBERAY = RECIPES / "slurm-fleet.sbatch", RECIPES / "kuberay-fleet.yaml"
SBATCH = {"job-name", "nodes", "ntasks-per-node", "exclusive", "time", "output"}
SRUN = {"--overlap", "--nodes", "--ntasks", "--nodelist"}


@pytest.fixture(scope="module")
def ray_options() -> dict[str, set[str]]:
    """What Ray's own command line accepts; asked in a process of its own."""
    code = (
        "import json\nfrom ray.scripts.scripts import cli\n"
        "print(json.dumps({n: sorted({o for p in c.params for o in (*p.opts, *p.secondary_opts)})"
        " for n, c in cli.commands.items()}))"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return {name: set(options) for name, options in json.loads(done.stdout.splitlines()[-1]).items()}


def commands_in(text: str, program: str) -> list[list[str]]:
    """Every call of a program in a shell text, with its line continuations joined."""
    joined = re.sub(r"\\\n\s*", " ", "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")))
    found = re.findall(rf"(?:^|[\s;\"(]){program} ((?:[^\n;&>\"]|\"[^\"\n]*\")*)", joined)
    return [shlex.split(one.replace("\\", " ")) for one in found]


def check_lynxbench(words: list[str]) -> None:
    command, words = find_command(words)
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    used = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert used, words
    assert used <= known, used - known


def test_the_slurm_recipe_parses_and_its_options_exist(ray_options: dict[str, set[str]]) -> None:
    text = SLURM.read_text()
    assert subprocess.run(["bash", "-n", str(SLURM)], check=False).returncode == 0
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", str(SLURM)], check=True)
    directives = re.findall(r"^#SBATCH --([a-z-]+)", text, re.MULTILINE)
    assert set(directives) == SBATCH
    assert "--exclusive" in text
    assert "set -euo pipefail" in text
    calls = commands_in(text, "ray")
    assert {call[0] for call in calls} == {"start", "health-check"}
    for name, *words in calls:
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= ray_options[name], (name, used - ray_options[name])
    starts = [words for name, *words in calls if name == "start"]
    assert all("--block" in words and "--disable-usage-stats" in words for words in starts)
    for words in commands_in(text, "srun"):
        own = [word.partition("=")[0] for word in words]
        own = own[: next((i for i, word in enumerate(own) if not word.startswith("--")), len(own))]
        assert set(own) <= SRUN, own
    (run,) = commands_in(text, "lynxbench")
    check_lynxbench(run)


def test_the_kuberay_manifest_holds_together(ray_options: dict[str, set[str]]) -> None:
    document = YAML(typ="safe").load(KUBERAY.read_text())
    assert (document["apiVersion"], document["kind"]) == ("ray.io/v1", "RayJob")
    spec = document["spec"]
    assert spec["shutdownAfterJobFinishes"] is True
    program, *words = shlex.split(spec["entrypoint"])
    assert program == "lynxbench"
    check_lynxbench(words)
    cluster = spec["rayClusterSpec"]
    head, (workers,) = cluster["headGroupSpec"], cluster["workerGroupSpecs"]
    assert head["rayStartParams"]["num-cpus"] == "0", "the driver's node must not be measured"
    assert workers["replicas"] == workers["minReplicas"] == workers["maxReplicas"]
    assert f"--wait-for {workers['replicas']}" in spec["entrypoint"]
    for group in (head, workers):
        for name, value in group["rayStartParams"].items():
            assert f"--{name}" in ray_options["start"], name
            assert isinstance(value, str), f"{name}: KubeRay wants text"
        (container,) = group["template"]["spec"]["containers"]
        assert container["resources"]["requests"] == container["resources"]["limits"]
        tag = container["image"].rpartition(":")[2]
        assert re.fullmatch(r"\d+\.\d+\.\d+", tag), container["image"]
        assert {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"} in container["env"]
        mounted = {one["name"] for one in container.get("volumeMounts", ())}
        assert mounted == {one["name"] for one in group["template"]["spec"].get("volumes", ())}
    labels = workers["template"]["metadata"]["labels"]
    (term,) = workers["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["labelSelector"]["matchLabels"] == labels
    assert term["topologyKey"] == "kubernetes.io/hostname"


def test_the_how_to_shows_both_recipes() -> None:
    text = (RECIPES.parent / "how-to" / "fleet.md").read_text()
    assert "slurm-fleet.sbatch" in text
    assert "kuberay-fleet.yaml" in text
    for words in commands_in("\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)), "lynxbench"):
        if any(word.startswith("--") for word in words):
            check_lynxbench(words)
