"""Decisions through the real command line, on the worked example's results and on files of the user's own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from command_line import CommandRun, lynxbench_here
from lynxbench.decide.demonstrating import demo_results
from lynxbench.errors import ExitCode
from teams import copied_run

CLAIMS = Path(__file__).resolve().parents[1] / "data" / "claims"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example's three results, and a home of its own."""
    folder = tmp_path_factory.mktemp("decide")
    for name, result in zip(("today", "tested", "decode"), demo_results(), strict=True):
        (folder / "results").mkdir(exist_ok=True)
        (folder / "results" / f"{name}.result.json").write_text(result.model_dump_json(by_alias=True))
    return folder


def call(here: Path, *arguments: str) -> CommandRun:
    return lynxbench_here(
        *arguments,
        cwd=here,
        HOME=str(here / "home"),
        XDG_DATA_HOME=str(here / "home" / "data"),
        XDG_CONFIG_HOME=str(here / "home" / "config"),
        LYNXBENCH_LEDGER=str(here / "ledger"),
        PATH=os.environ["PATH"],
    )


TODAY, TESTED, DECODE = (f"results/{name}.result.json" for name in ("today", "tested", "decode"))


@pytest.mark.slow
def test_the_demo_makes_a_pack_whose_signatures_hold_and_whose_figures_cannot_be_verified(here: Path) -> None:
    done = call(here, "demo", "decisions", "-o", "demo", "--no-pdf", "--json")
    assert done.code == ExitCode.DONE, done.err
    made = json.loads(done.out)
    assert [one["kind"] for one in made["decisions"]] == ["purchase", "whatif", "capacity", "cost", "precision"]
    page = Path(here / made["html"]).read_text(encoding="utf-8")
    assert "Do not buy h200 yet: fix the software first." in page
    assert "every figure in it is invented" in page
    verified = call(here, "verify", made["pack"], "--json")
    assert verified.code == ExitCode.CANNOT_VERIFY, verified.err
    said = json.loads(verified.out)
    assert (said["holds"], said["verdict"]) == (False, "cannot be verified"), "invented figures have no samples"
    assert {one["verdict"] for one in said["verifications"]} == {"cannot be verified"}
    forged = here / "forged.lynxpack"
    data = bytearray((here / made["pack"]).read_bytes())
    place = data.find(b"1.71")
    data[place : place + 4] = b"9.71"
    forged.write_bytes(data)
    assert call(here, "verify", str(forged)).code == ExitCode.EVIDENCE_INVALID


def test_purchase_over_a_folder_and_the_line_without_a_diagnostic(here: Path) -> None:
    done = call(
        here, "decide", "purchase", "--proposed", "h200", "--from", "results", "--for", "chat-example", "--json"
    )
    assert done.code == ExitCode.VERDICT_NO, done.err  # nobody signed what lies in a folder
    decision = json.loads(done.out)
    assert decision["supported"] == "undecided"
    assert decision["sentence"].startswith("held back, 3 of 5 answered: ")
    assert "lynxbench results import" in decision["because"]
    assert [one["answered"] for one in decision["answers"]] == [True, False, True, True, False]
    assert "nobody is blamed" in decision["answers"][1]["says"]
    alone = call(here, "decide", "purchase", DECODE, "--proposed", "h200")
    assert alone.code == ExitCode.VERDICT_NO
    assert "this decision is being made without a diagnostic" in alone.out


def test_naming_who_remeasures_records_the_follow_up(here: Path) -> None:
    done = call(here, "decide", "purchase", TODAY, "--proposed", "h200", "--remeasured-by", "ML platform", "--json")
    assert done.code == ExitCode.VERDICT_NO, done.err  # held back: to promise a measurement is no verdict
    change = json.loads(done.out)["recorded"]["change_id"]
    assert change
    closed = call(here, "change", "measure", change[:12], TODAY, TESTED, "--json")
    assert closed.code == ExitCode.VERDICT_NO, closed.err  # 3 % more, where the estimate had promised at least 10 %
    assert json.loads(closed.out)["verdict"] in ("less than expected", "no effect")


def test_capacity_shows_the_naive_plan_beside_it(here: Path) -> None:
    done = call(
        here, "decide", "capacity", TODAY, "--demand", "200 requests/s", "--mean-demand", "90 requests/s",
        "--claimed", "9000 tokens/s", "--failures", "1", "--headroom", "10 %", "--period", "1 min", "--json",
    )  # fmt: skip
    assert done.code == ExitCode.VERDICT_NO, done.err  # the figures stand, held back: nobody signed them
    plan = json.loads(done.out)
    assert plan["sentence"].startswith("held back, ")
    assert plan["proposed"]["nodes"] > plan["naive"]["nodes"]
    assert plan["naive"]["periods_met"] == 0
    assert plan["naive"]["per_node_per_s"] == pytest.approx(9000 / 118)


def test_capacity_takes_demand_from_a_log(here: Path) -> None:
    rows = ["arrival_s,prompt_tokens"] + [f"{i * 0.02:.3f},10" for i in range(40_000)]
    (here / "log.csv").write_text("\n".join(rows))
    done = call(
        here, "decide", "capacity", TODAY, "--demand-log", "log.csv", "--growth", "100 %", "--period", "1 min", "--json"
    )
    assert done.code == ExitCode.VERDICT_NO, done.err
    assert json.loads(done.out)["demand"]["planned_per_s"] == pytest.approx(100, rel=0.02)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("capacity", TODAY, "--demand", "200 tokens/s"), ExitCode.BAD_INPUT, "requests/s"),
        (("capacity", TODAY), ExitCode.BAD_INPUT, "no demand"),
        (("capacity", DECODE, "--demand", "9 requests/s"), ExitCode.REFUSED, "never from a peak"),
        (("capacity", TODAY, "--demand", "9 requests/s", "--nameplate", "3 kWh"), ExitCode.BAD_INPUT, "energy"),
        (("cost", TODAY, "--price", "9 EUR", "--rent", "2 USD/h"), ExitCode.REFUSED, "EUR and USD"),
        (("cost", TODAY, TESTED, "--rent", "2 EUR/h", "--rank"), ExitCode.REFUSED, "objective"),
        (("cost", TODAY, "--rent", "2 $/h"), ExitCode.BAD_INPUT, "USD"),
        (("cost", TODAY, "--energy-price", "3 EUR/W"), ExitCode.BAD_INPUT, "--energy-price"),
        (("whatif", TODAY, "--hardware", "h20"), ExitCode.BAD_INPUT, "catalogue"),
        (("whatif", TODAY, "--fix", "magic"), ExitCode.BAD_INPUT, "--fix"),
        (("whatif", TODAY), ExitCode.BAD_INPUT, "--hardware"),
        (("precision", "--from", "nowhere"), ExitCode.BAD_INPUT, "nowhere"),
        (("pack", TODAY, "-o", "x.lynxpack"), ExitCode.BAD_INPUT, "decide"),
    ],
)
def test_mistakes_end_in_one_line_and_the_documented_code(
    here: Path, arguments: tuple[str, ...], code: ExitCode, said: str
) -> None:
    done = lynxbench_here("decide", *arguments, cwd=here, LYNXBENCH_LEDGER=str(here / "ledger"))
    assert done.code == code
    assert said in done.err
    assert done.err.startswith("lynxbench: ")
    assert done.err.count("\n") == 1


def test_cost_from_a_plan_file_in_three_regimes(here: Path) -> None:
    (here / "plan.yaml").write_text(
        "lynxbench: 1\nenergy_price: 0.21 EUR/kWh\npue: 1.25\ncandidates:\n"
        f"  - {{name: A100, result: {TODAY}, own: {{price: 14000 EUR, life: 4 years}}, rent: 1.45 EUR/h}}\n"
        f"  - {{name: H200, result: {TESTED}, own: {{price: 32000 EUR, life: 4 years}}}}\n"
    )
    done = call(here, "decide", "cost", "--plan", "plan.yaml", "--utilisation", "60 %", "--regimes", "--json")
    assert done.code == ExitCode.VERDICT_NO, done.err  # held back: nobody signed what lies in a folder
    report = json.loads(done.out)
    orders = {one["regime"]: one["order"][0] for one in report["rankings"]}
    assert orders["cost"].startswith("A100")
    assert orders["throughput"].startswith("H200")
    assert not any(one["asked"] for one in report["rankings"])
    assert report["candidates"][0]["break_even"]["use_share"] < 1


def test_precision_and_whatif_in_a_terminal(here: Path) -> None:
    precision = call(here, "decide", "precision", DECODE)
    assert precision.code == ExitCode.VERDICT_NO, precision.err
    assert precision.out.startswith("held back, ")
    assert "go: int8-weight-only" not in precision.out, "nobody signed it"
    assert "KV cache" in precision.out
    whatif = call(here, "decide", "whatif", TODAY, "--hardware", "h200", "--with-fix")
    assert whatif.code == ExitCode.VERDICT_NO, whatif.err
    assert whatif.out.startswith("held back, ")
    assert "estimate, bound: undetermined" in " ".join(whatif.out.split()), "nobody signed it, so nobody is blamed"
    assert "Five assumptions" in whatif.out


def test_claims_from_files_text_and_standard_input(here: Path) -> None:
    done = call(here, "claim", str(CLAIMS / "vllm.json"), "--from", "results", "--json")
    assert done.code == ExitCode.VERDICT_NO
    missing = ["device and count", "precision", "stack versions", "warm-up", "accuracy", "power"]
    assert json.loads(done.out)["missing"] == missing
    text = call(here, "claim", "--text", "Up to 4x faster inference.")
    assert text.code == ExitCode.VERDICT_NO
    assert text.out.startswith("grade F")
    both = call(here, "claim", "x", "--text", "y")
    assert both.code == ExitCode.BAD_INPUT


@pytest.mark.slow
def test_a_measured_run_goes_into_a_pack_from_the_ledger_and_from_its_folder(tmp_path: Path, spin_run: Path) -> None:
    folder = copied_run(spin_run, tmp_path / "results")
    stranger = copied_run(spin_run, tmp_path / "strangers")
    assert call(tmp_path, "results", "import", str(folder), "--own").code == ExitCode.DONE
    asked = call(tmp_path, "decide", "purchase", "--proposed", "h200", "--for", "spin", "--no-record", "--json")
    assert asked.code == ExitCode.VERDICT_NO, asked.err
    (tmp_path / "purchase.json").write_text(asked.out)
    for name, more in (("ledger", ()), ("folder", ("--from", "results"))):
        file = f"{name}.lynxpack"
        made = call(tmp_path, "decide", "pack", "purchase.json", "-o", file, "--no-pdf", *more)
        is_held_back = "held back" in (tmp_path / "purchase.json").read_text()
        assert made.code == (ExitCode.VERDICT_NO if is_held_back else ExitCode.DONE), made.err
        held = call(tmp_path, "verify", file)
        assert held.code == ExitCode.DONE, held.out + held.err
        assert held.out.startswith("pack holds: ")
        assert "without a diagnostic" in held.out
        assert "without a diagnostic" in (tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert "decisions were held against their results" in held.out
    edited = {**json.loads(asked.out), "supported": "purchase"}
    (tmp_path / "edited.json").write_text(json.dumps(edited))
    strays = call(tmp_path, "decide", "pack", "edited.json", "-o", "y.lynxpack", "--no-pdf", "--from", "results")
    assert strays.code == ExitCode.REFUSED
    assert "does not follow from its results: it supports the purchase" in strays.err
    assert not (tmp_path / "y.lynxpack").exists()
    name = json.loads(asked.out)["cites"][0]
    assert call(tmp_path, "contest", name[:12], "--reason", "the room was hot").code == ExitCode.DONE
    doubted = call(tmp_path, "verify", "ledger.lynxpack")
    assert doubted.code == ExitCode.DONE, doubted.out
    assert f"{name[:12]} by your ledger: contested by " in doubted.out
    assert call(tmp_path, "retract", name[:12], "--reason", "wrong model").code == ExitCode.DONE
    gone = call(tmp_path, "verify", "ledger.lynxpack")
    assert gone.code == ExitCode.EVIDENCE_INVALID, "a pack stays as it was made; the ledger knows what came after"
    assert "by your ledger: retracted by " in gone.out
    assert call(tmp_path, "verify", "ledger.lynxpack", "--ledger", "none").code == ExitCode.DONE
    refused = call(tmp_path, "decide", "pack", "purchase.json", "-o", "x.lynxpack", "--no-pdf", "--from", str(stranger))
    assert refused.code == ExitCode.REFUSED, "nobody signs a run that a stranger measured"
    assert "no key of yours" in refused.err
