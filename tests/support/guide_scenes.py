"""What a reader of each guide has before its first command: the files it speaks of, results, another team, a server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from analysed import fleet_results
from command_line import PAUSING, QUICK_CONTRACT, CommandRun, lynxbench_here
from experiments import EXPERIMENT, WORK
from hosted import PASSWORD
from lynxbench.decide.demonstrating import demo_results
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.location import locate, open_ledger
from lynxbench.model.analyses import conclude
from lynxbench.model.experiment import ExperimentDocument
from lynxbench.model.result import Result
from recording_teams import record

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
HOW_TO = ROOT / "docs" / "how-to"
TEAM, OTHER = "ml-platform", "infrastructure-sre"
READY_WITHIN_S = 600.0


@dataclass
class Scene:
    """A folder to stand in, a home, and what the names on the page stand for here."""

    folder: Path
    stands_for: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    home: str = "home"
    addresses: list[str] = field(default_factory=list)
    """Of servers that were started."""
    running: ExitStack = field(default_factory=ExitStack)

    def there(self) -> Scene:
        """Somebody else in the same folder, with a home of their own."""
        return replace(self, home="there")

    def start(self, *words: str, ready: str) -> tuple[subprocess.Popen[str], str]:
        """A command that goes on until it is stopped, once it says that it is there; and the line that says so."""
        return self.running.enter_context(_listening(self, *words, ready=ready))

    def ask(self, *words: str, **variables: str) -> CommandRun:
        """A command in this process, in the folder and the home of the scene."""
        own = {"LYNXBENCH_HOME": str(self.folder / self.home), **self.variables, **variables}
        return lynxbench_here(*words, cwd=self.folder, **own)

    def said(self, *words: str) -> str:
        """What a command prints that has to succeed."""
        done = self.ask(*words)
        assert done.code == 0, f"{words}: {done.err}"
        return done.out

    def meant(self, text: str) -> str:
        """A word of the page with what it stands for here; ids stand alone or between other words' signs."""
        for name, here in self.stands_for.items():
            text = re.sub(rf"(?<![\w…]){re.escape(name)}(?!\w)", lambda _, here=here: here, text)
        return text

    def put(self, name: str, source: Path | str) -> None:
        """A file of the reader's."""
        if isinstance(source, Path):
            shutil.copy(source, self.folder / name)
        else:
            (self.folder / name).write_text(source, encoding="utf-8")

    def recorded(self, *results: Result) -> list[str]:
        """Results in the reader's ledger, signed by the reader's team; the beginnings of their ids."""
        environment = {"LYNXBENCH_HOME": str(self.folder / self.home)}
        where = locate(None, environment)
        assert where is not None
        key = Keyring(environment=environment).keys.open(TEAM)
        with open_ledger(where, environment, create=True) as ledger:
            return [record(ledger, result, key).result_id[:12] for result in results]


UNHURRIED = (
    QUICK_CONTRACT.replace("drift: 20 %, window: 20 ms", "drift: 20 %, window: 400 ms")
    .replace("min_duration: 400 ms", "min_duration: 3 s")
    .replace("limit: 600 ms", "limit: 4 s")
)
"""Longer pauses for longer: beside them the lateness of a crowded machine is no drift."""


def open_bench(folder: Path) -> Scene:
    """A team's fresh home after its first two runs of one contract."""
    scene = Scene(folder)
    scene.put("contract.yaml", UNHURRIED)
    scene.put("spinning.py", PAUSING.replace("0.01", "0.1"))
    scene.said("key", "new", TEAM, "--team", TEAM)
    for name in ("before", "after"):
        known = set(_runs(folder))
        scene.said("run", "contract.yaml")
        (run,) = set(_runs(folder)) - known
        result = json.loads((run / "result.json").read_text())
        shutil.copytree(run, folder / "results" / name)
        scene.stands_for["9c1e" if name == "before" else "77ab"] = result["result_id"][:12]
        scene.stands_for["3f9a"] = result["contract_id"][:12]
    return scene


def _runs(folder: Path) -> list[Path]:
    return sorted((folder / "results").glob("spin-*"))


@contextmanager
def scene_of(page: str, bench: Scene, folder: Path) -> Iterator[Scene]:
    """The reader's own copy of the bench, with what the page takes for granted; what was started ends with it."""
    shutil.copytree(bench.folder, folder)
    scene = Scene(folder, dict(bench.stands_for))
    with scene.running:
        _SCENES.get(page, lambda _: None)(scene)
        yield scene


def written_on(page: str, begins: str) -> str:
    """The YAML or Python of a page whose text begins like this, without the indent of its fence."""
    text = (HOW_TO / page).read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```\w+\n({re.escape(begins)}.*?)^```", text, re.DOTALL | re.MULTILINE)
    return str(found)


def other_team(scene: Scene) -> None:
    """A home of another team beside the reader's, in which the reader's team is trusted."""
    scene.put("reader.json", scene.said("key", "export", TEAM))
    there = scene.there()
    there.said("key", "new", OTHER, "--team", OTHER)
    there.said("key", "trust", "reader.json")
    scene.put("other.json", there.said("key", "export", OTHER))
    scene.said("key", "trust", "other.json")


@contextmanager
def _listening(scene: Scene, *words: str, ready: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "lynxbench", *words],
        cwd=scene.folder,
        env={**os.environ, "LYNXBENCH_HOME": str(scene.folder / scene.home), **scene.variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    overdue = threading.Timer(READY_WITHIN_S, process.kill)
    overdue.start()
    try:
        assert process.stdout is not None
        heard: list[str] = []
        line = next((line for line in process.stdout if heard.append(line) or ready in line), None)  # type: ignore[func-returns-value]
        assert line is not None, f"{words} ended with code {process.wait()} before it was ready: {heard}"
        overdue.cancel()
        yield process, line
    finally:
        overdue.cancel()
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def production_log(seed: int, longer: float = 1.0) -> str:
    """Requests of an afternoon, as JSON lines."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(0.2, 1500))
    prompts = np.maximum(1, np.round(longer * 300 * np.exp(0.8 * rng.standard_normal(1500))))
    answers = np.maximum(1, np.round(150 * np.exp(0.5 * rng.standard_normal(1500))))
    rows = zip(arrivals.tolist(), prompts.tolist(), answers.tolist(), strict=True)
    return "".join(
        json.dumps({"arrival": a, "prompt_tokens": int(p), "output_tokens": int(o)}) + "\n" for a, p, o in rows
    )


# --- page by page ---------------------------------------------------------------------------------------------------


def _agree(scene: Scene) -> None:
    scene.put("chat.yaml", QUICK_CONTRACT + written_on("agree-on-a-contract.md", "teams:"))


def _trace(scene: Scene) -> None:
    for name in ("trace", "new", "old"):
        scene.put(f"{name}.json.gz", DATA / "traces" / "pageable_h2d.json.gz")
    scene.stands_for["results/…/result.json"] = "results/before/result.json"


def _buy(scene: Scene) -> None:
    today, tested, _ = (
        one.model_copy(update={"contract": one.contract.model_copy(update={"name": "chat-serving"}), "assumptions": ()})
        for one in demo_results()
    )
    scene.stands_for["RESULT"], proposed = scene.recorded(today, tested)
    plan = written_on("before-you-buy.md", "lynxbench: 1")
    scene.put("plan.yaml", plan.replace("5d02 ", f"{scene.stands_for['RESULT']} ").replace("77ab", proposed))


def _compare(scene: Scene) -> None:
    for name, measured in (("main", "before"), ("branch", "after")):
        shutil.copytree(scene.folder / "results" / measured, scene.folder / "results" / name)


def _log(scene: Scene) -> None:
    scene.put("requests.jsonl", production_log(1))
    scene.put("next-week.jsonl", production_log(2, longer=1.4))


def _site(scene: Scene) -> None:
    scene.put("site.yaml", written_on("declare-a-site.md", "lynxbench: 1"))
    scene.put("stored.json", scene.said("executor", "--json"))


def _fleet(scene: Scene) -> None:
    ids = scene.recorded(*fleet_results(hosts=4))
    scene.stands_for |= dict(zip(("9c1e", "77ab", "5d02", "a1f0"), ids, strict=True))


def _foreign(scene: Scene) -> None:
    scene.put("report.json", DATA / "foreign" / "vllm.json")
    scene.put("mlperf_log_summary.txt", DATA / "foreign" / "mlperf.txt")


def _claim(scene: Scene) -> None:
    scene.put("slide.txt", "Up to 3x faster inference on 8x H200.\n")
    scene.put("result.json", DATA / "claims" / "vllm.json")
    scene.put("mlperf_log_summary.txt", DATA / "claims" / "mlperf_summary.txt")
    scene.put("row.csv", DATA / "claims" / "mlperf_row.csv")


def _node(scene: Scene) -> None:
    published = ROOT / "results" / "h200"
    (scene.folder / "results" / "h200" / "bundles").mkdir(parents=True)
    scene.put("results/h200/bundles/embedding-gpu.bundle", published / "bundles" / "embedding-gpu.bundle")
    for card in (published / "keys").glob("*.json"):
        scene.put(card.name, card)
    scene.stands_for |= {"NAME": "embedding-gpu", "CARD": "c9fc9b16.json"}


def imported_result(scene: Scene, said: str) -> None:
    """The result that a bundle brought."""
    newest = json.loads(scene.said("results", "list", "--contract", "embedding-gpu", "--json"))["results"][0]
    scene.stands_for["RESULT"] = newest["result_id"][:12]


def _reproduce(scene: Scene) -> None:
    scene.said("results", "export", scene.stands_for["9c1e"], "-o", "published.lynx")


def _experiment(scene: Scene) -> None:
    scene.put("working.py", WORK)


def short_experiment(scene: Scene) -> None:
    """The reader's experiment, cut to seconds: two levels of one factor."""
    *lines, _ = EXPERIMENT.replace("name: work-cells", "name: mine").splitlines()
    scene.put("mine.yaml", "\n".join(lines) + "\n")


def ended_experiment(scene: Scene, said: str) -> None:
    """Its folder, and the id under which its analysis is in the ledger."""
    (folder,) = (scene.folder / "experiments").iterdir()
    document = ExperimentDocument.model_validate_json((folder / "analysis.json").read_text(encoding="utf-8"))
    scene.stands_for["experiments/mine-…"] = f"experiments/{folder.name}"
    scene.stands_for["51ab90"] = conclude(document, []).analysis_id[:12]


def _share(scene: Scene) -> None:
    other_team(scene)
    shutil.copytree(scene.folder / "results" / "before", scene.folder / "results" / "quickstart-20261115T090000-a1b2c3")


def _sign(scene: Scene) -> None:
    run = scene.folder / "results" / "quickstart-20261115T081500-a1b2c3"
    shutil.copytree(scene.folder / "results" / "before", run)
    for file in (scene.folder / "home" / "keys").glob(f"{TEAM}.*"):  # the page makes one of that name
        file.rename(file.with_name(f"first{file.suffix}"))
    (scene.folder / "home" / "signing-key").write_text("first\n", encoding="utf-8")
    scene.there().said("key", "new", OTHER, "--team", OTHER)


def lost_key(scene: Scene) -> None:
    """A key of the reader's own team on a laptop that is gone."""
    keyid = json.loads(scene.said("key", "new", "laptop", "--team", TEAM, "--json"))["keyid"]
    scene.stands_for["4c1f09"] = keyid[:12]


def _serve(scene: Scene) -> None:
    scene.variables["LYNXBENCH_PASSWORD"] = PASSWORD


def made_token(scene: Scene, said: str) -> None:
    """A token is shown once."""
    scene.stands_for["lynx_…"] = said.strip()


def _schedule(scene: Scene) -> None:
    scene.put("chat.yaml", QUICK_CONTRACT)
    scene.put("reader.json", scene.said("key", "export", TEAM))
    host = scene.there()
    host.said("serve", "user", "add", "ada", "--team", TEAM, "--scopes", "read,submit", "--no-password")
    host.said("serve", "key", "add", "reader.json")
    token = host.said("serve", "token", "add", "ada", "--scopes", "read,submit").strip()
    _, line = host.start("serve", "--port", "0", ready="ledger")
    address = next(word for word in line.split() if word.startswith("http://"))
    scene.variables |= {"LYNXBENCH_SERVER": address, "LYNXBENCH_TOKEN": token}


def declared_change(scene: Scene, said: str) -> None:
    """The id of a change that was declared."""
    scene.stands_for["CHANGE"] = said.split()[1]


def new_result(scene: Scene, said: str) -> None:
    """The results before and after a change, in the order in which they came."""
    name = "AFTER" if "BEFORE" in scene.stands_for else "BEFORE"
    newest = json.loads(scene.said("results", "list", "--json"))["results"][0]
    scene.stands_for[name] = newest["result_id"][:12]


def misspelt(scene: Scene) -> None:
    """The reader's contract with a key that there is not."""
    text = (scene.folder / "chat.yaml").read_text(encoding="utf-8")
    scene.put("whole.yaml", text)
    scene.put("chat.yaml", re.sub(r"^  batch: 1\b", "  batchsize: 1", text, count=1, flags=re.MULTILINE))


def changed_contract(scene: Scene) -> None:
    """The contract as it should be, and a new one with another batch."""
    text = (scene.folder / "whole.yaml").read_text(encoding="utf-8")
    scene.put("chat.yaml", text)
    scene.put("chat-new.yaml", re.sub(r"^  batch: 1\b", "  batch: 8", text, count=1, flags=re.MULTILINE))


def _size(scene: Scene) -> None:
    (scene.stands_for["RESULT"],) = scene.recorded(demo_results()[0])


_SCENES: dict[str, Callable[[Scene], None]] = {
    "agree-on-a-contract.md": _agree,
    "attribute-a-trace.md": _trace,
    "before-you-buy.md": _buy,
    "compare-two-results.md": _compare,
    "contract-from-a-log.md": _log,
    "declare-a-site.md": _site,
    "fleet.md": _fleet,
    "import-foreign-results.md": _foreign,
    "lint-a-claim.md": _claim,
    "measure-a-server.md": _log,
    "offline-gpu-node.md": _node,
    "reproduce-a-result.md": _reproduce,
    "run-an-experiment.md": _experiment,
    "schedule.md": _schedule,
    "serve.md": _serve,
    "share-results.md": _share,
    "sign-and-verify.md": _sign,
    "size-a-fleet.md": _size,
}
