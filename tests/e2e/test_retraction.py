"""A retracted result stands as retracted wherever it is shown, and nothing is concluded from it any more."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from pyarrow.parquet import read_table

from lynxbench.evidence.documents import read_result
from lynxbench.model.result import Result
from lynxbench.record.recalling import result_document
from teams import Team, copied_run, kept_bundle, make_team, trusts

REASON = "the fan was broken"
WORDS = f"retracted by crew: {REASON}"


class Bench:
    """A team whose ledger has two results of one contract, one of them retracted."""

    def __init__(self, team: Team, runs: Path, gone: Result, kept: Result) -> None:
        self.team = team
        self.runs = runs
        self.gone = gone
        self.kept = kept


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, spin_run: Path) -> Bench:
    """A run of their own that they retract, and another team's result of the same contract."""
    where = tmp_path_factory.mktemp("runs")
    gone = read_result(copied_run(spin_run, where))
    team = make_team("crew", tmp_path_factory.mktemp("crew"))
    team.ask("results", "import", str(where / gone.run_id), "--own")
    bundle, card = kept_bundle(where)
    team.ask("key", "trust", str(card))
    (other,) = team.ask("results", "import", str(bundle))["results"]
    with team.open() as ledger:
        kept = result_document(ledger, other)
    assert kept.contract_id == gone.contract_id
    done = team.run("retract", gone.result_id[:12], "--reason", REASON)
    assert done.code == 0, done.err
    return Bench(team, where, gone, kept)


def test_lists_and_its_own_page_say_so(bench: Bench) -> None:
    rows = {one["result_id"]: one for one in bench.team.ask("results", "list")["results"]}
    assert rows[bench.gone.result_id]["standing"]["summary"] == "retracted"
    assert rows[bench.gone.result_id]["standing"]["retracted"][0]["text"] == REASON
    assert rows[bench.kept.result_id]["standing"]["summary"] != "retracted"
    lines = bench.team.run("results", "list").out.splitlines()
    assert [line.rstrip().endswith("retracted") for line in lines if bench.gone.result_id[:12] in line] == [True]
    assert "retracted" not in next(line for line in lines if bench.kept.result_id[:12] in line)
    shown = bench.team.run("results", "show", bench.gone.result_id[:12])
    assert WORDS in shown.out
    assert WORDS in bench.team.run("report", bench.gone.result_id[:12]).out
    for form in ("md", "html"):
        assert WORDS in bench.team.run("report", str(bench.runs / bench.gone.run_id), "--format", form).out


@pytest.mark.parametrize("source", ["ledger", "folders", "both"])
def test_a_history_leaves_it_out_by_name_with_who_and_why(bench: Bench, source: str, tmp_path: Path) -> None:
    named = bench.gone.contract_id[:12]
    where = () if source == "ledger" else ("--from", str(bench.runs))
    if source == "folders":  # another label: not the ledger's contract any more, and the same in meaning
        text = (tmp_path / "other.json").resolve()
        other = bench.gone.contract.model_copy(update={"question": "In other words?"})
        text.write_text(json.dumps(other.canonical()))
        named = str(text)
    page = tmp_path / "page.html"
    found = json.loads(bench.team.run("history", named, *where, "--html", str(page), "--json").out)
    left = [] if source == "folders" else [bench.kept.result_id]
    assert [one["result_id"] for one in found["points"]] == left
    assert found["left_out"] == [f"{bench.gone.result_id[:12]}: {WORDS}"]
    assert WORDS in bench.team.run("history", named, *where).out
    assert WORDS in page.read_text()


def test_nothing_is_concluded_from_it(bench: Bench, tmp_path: Path) -> None:
    gone, kept = bench.gone.result_id[:12], bench.kept.result_id[:12]
    compared = bench.team.run("compare", gone, kept)
    assert compared.code == 3
    assert "R16" in compared.out
    assert REASON in compared.out
    verified = bench.team.run("verify", gone)
    assert verified.code == 5
    assert WORDS in verified.out + verified.err
    for name in (gone, str(bench.runs / bench.gone.run_id)):
        refused = bench.team.run("decide", "precision", name)
        assert refused.code == 3, refused.out + refused.err
        assert f"was retracted: {REASON}" in refused.err
    signs = bench.team.ask("signals", bench.gone.contract_id[:12], "--from", str(bench.runs))
    assert bench.gone.result_id[:12] not in json.dumps(signs)


@pytest.mark.parametrize("form", ["csv", "openmetrics", "parquet"])
def test_exports_carry_it(bench: Bench, form: str, tmp_path: Path) -> None:
    out = tmp_path / form
    names = [bench.gone.result_id, bench.kept.result_id]
    done = bench.team.run("results", "export", *names, "--format", form, "-o", str(out))
    assert done.code == 0, done.err
    if form == "openmetrics":
        lines = [line for line in out.read_text().splitlines() if bench.gone.result_id in line]
        assert lines
        assert all('standing="retracted"' in line for line in lines)
        return
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(out.read_text())))
    else:
        rows = read_table(out).to_pylist()
    said = {row["result_id"]: row["standing"] for row in rows}
    assert said.pop(bench.gone.result_id) == "retracted"
    assert "retracted" not in said.values()


def test_a_bundle_takes_the_retraction_along(bench: Bench, tmp_path: Path) -> None:
    bundle = tmp_path / "out.lynx"
    assert bench.team.run("results", "export", bench.gone.result_id, "-o", str(bundle)).code == 0
    other = make_team("bravo", tmp_path / "bravo")
    trusts(other, bench.team)
    other.ask("key", "trust", str(bench.runs / "kept-card.json"))  # who agreed the contract is in it too
    other.ask("results", "import", str(bundle))
    (one,) = other.ask("results", "list")["results"]
    assert one["standing"]["summary"] == "retracted"
    assert other.ask("history", bench.gone.contract_id)["left_out"] == [f"{bench.gone.result_id[:12]}: {WORDS}"]
