"""`lynxbench contract`: parse, call, render, exit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lynxbench.cli.contract_command import app
from lynxbench.contract.loader import bundled_names, parse_contract, read_bundled
from lynxbench.contract.schema import contract_schema
from lynxbench.errors import BadFile, BadInput, ExitCode

DATA = Path(__file__).parents[2] / "data" / "contracts"
SOUND = DATA / "sound.yaml"


def invoke(*arguments: str | Path) -> tuple[int, str, str]:
    answer = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer.exit_code, answer.stdout, answer.stderr


def test_new_writes_a_contract_that_checks(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    code, out, _ = invoke("new", file, "--task", "embed", "--name", "ours")
    assert code == 0
    assert str(file) in out
    assert invoke("check", file)[0] == 0
    assert parse_contract(file.read_text(encoding="utf-8")).name == "ours"


def test_new_never_overwrites_unasked(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("precious", encoding="utf-8")
    with pytest.raises(BadInput, match="exists already; name another file, or add --force"):
        invoke("new", file)
    assert file.read_text(encoding="utf-8") == "precious"
    code, out, _ = invoke("new", file, "--force", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["contract_id"] == parse_contract(file.read_text(encoding="utf-8")).contract_id


def test_new_says_where_it_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be written: No such file or directory"):
        invoke("new", tmp_path / "nowhere" / "ours.yaml")


def test_new_writes_nothing_when_an_option_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    code, _, err = invoke("new", file, "--task", "dance")
    assert code == ExitCode.BAD_INPUT
    assert "'dance' is not one of 'generate'" in err
    assert not file.exists()


def test_check_says_ok_with_the_id() -> None:
    code, out, err = invoke("check", SOUND, "quickstart")
    assert code == 0
    assert err == ""
    assert out.splitlines()[1] == f"quickstart: ok  quickstart  {read_bundled('quickstart').contract_id}"


def test_check_goes_on_after_a_wrong_one() -> None:
    wrong = DATA / "malformed" / "restarts-zero.yaml"
    code, out, err = invoke("check", wrong, SOUND)
    assert code == ExitCode.BAD_INPUT
    assert err == f"{wrong}:22: protocol.restarts: must be at least 1, not 0\n"
    assert out.startswith(f"{SOUND}: ok")


def test_check_as_json_is_one_document() -> None:
    wrong = DATA / "malformed" / "restarts-zero.yaml"
    code, out, _ = invoke("check", wrong, SOUND, "--json")
    assert code == ExitCode.BAD_INPUT
    document = json.loads(out)
    assert document["ok"] is False
    assert document["contracts"][0] == {
        "file": str(wrong),
        "ok": False,
        "problem": "must be at least 1, not 0",
        "line": 22,
        "key": "protocol.restarts",
    }
    assert document["contracts"][1]["ok"] is True


def test_show_resolves_defaults_and_states_the_id() -> None:
    contract = read_bundled("embedding")
    code, out, _ = invoke("show", "embedding")
    assert code == 0
    assert out.splitlines()[0] == f"# embedding · contract {contract.contract_id}"
    assert "restarts: 5" in out
    assert parse_contract(out) == contract


def test_show_as_json_can_be_read_back(tmp_path: Path) -> None:
    code, out, _ = invoke("show", "quickstart", "--json")
    assert code == 0
    file = tmp_path / "shown.json"
    file.write_text(out, encoding="utf-8")
    assert invoke("diff", "quickstart", file)[0] == 0


def test_show_of_nothing_is_an_error_of_ours() -> None:
    with pytest.raises(BadFile, match="no such file") as caught:
        invoke("show", "nothing")
    assert caught.value.exit_code == ExitCode.BAD_INPUT


@pytest.mark.parametrize(
    ("old", "new", "code", "verdict", "words"),
    [
        ("limit: 90 s", "limit: 1.5 min", 0, "comparable", "COMPARABLE: the same contract in meaning"),
        ("restarts: 5", "restarts: 3", 1, "comparable with differences", "protocol.restarts: 5 -> 3"),
        ("batch: 1", "batch: 8", 3, "incomparable", "workload.batch: 1 -> 8"),
    ],
)
def test_diff_exits_by_what_the_differences_do(
    tmp_path: Path, old: str, new: str, code: int, verdict: str, words: str
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(SOUND.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    plain = invoke("diff", SOUND, other)
    assert plain[0] == code
    assert words in plain[1]
    assert plain[1].startswith(verdict.upper())
    as_json = invoke("diff", SOUND, other, "--json")
    assert as_json[0] == code
    document = json.loads(as_json[1])
    assert document["comparability"] == verdict
    assert all(d["reason"] and d["effect"] in ("breaks comparability", "does not") for d in document["differences"])


def test_diff_of_long_values_stays_readable() -> None:
    code, out, _ = invoke("diff", "quickstart", "embedding")
    assert code == ExitCode.REFUSED
    assert max(map(len, out.splitlines())) < 200


@pytest.mark.parametrize("arguments", [("schema",), ("schema", "--json")])
def test_schema_is_json_either_way(arguments: tuple[str, ...]) -> None:
    assert json.loads(invoke(*arguments)[1]) == contract_schema()


def test_list_names_the_bundled_ones() -> None:
    assert [line.split()[0] for line in invoke("list")[1].splitlines()] == list(bundled_names())
    document = json.loads(invoke("list", "--json")[1])
    assert [row["name"] for row in document["contracts"]] == list(bundled_names())


def test_the_module_imports_nothing_heavy() -> None:
    heavy = ["numpy", "torch", "sqlalchemy", "rich"]
    code = f"import sys, lynxbench.cli.contract_command; print([m for m in {heavy} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def production_log(folder: Path, name: str, seed: int, longer: float = 1.0) -> Path:
    import numpy as np

    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(0.2, 1500))
    prompts = np.maximum(1, np.round(longer * 300 * np.exp(0.8 * rng.standard_normal(1500)))).astype(int)
    answers = np.maximum(1, np.round(150 * np.exp(0.5 * rng.standard_normal(1500)))).astype(int)
    rows = zip(arrivals, prompts, answers, strict=True)
    file = folder / name
    file.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(f"{a:.4f},{p},{o}\n" for a, p, o in rows))
    return file


def test_new_from_a_log_fits_the_workload_and_states_how_well(tmp_path: Path) -> None:
    file = tmp_path / "chat.yaml"
    options = (
        "--from-log",
        production_log(tmp_path, "log.csv", 1),
        "--model",
        "served:chat",
        "--url",
        "http://gpu:9000/v1",
    )
    code, out, _ = invoke("new", file, *options)
    assert code == 0
    assert out.startswith("like production in 8 of 8 dimensions")
    text = file.read_text(encoding="utf-8")
    assert "# Fitted to a log of 1500 requests" in text
    assert str(tmp_path) not in text
    contract = parse_contract(text)
    assert contract.engine.name == "openai"
    assert contract.workload.input_tokens is not None
    assert contract.workload.input_tokens.distribution == "lognormal"
    assert contract.workload.arrival.process == "poisson"


def test_check_against_a_log_says_when_production_has_moved_on(tmp_path: Path) -> None:
    file = tmp_path / "chat.yaml"
    invoke("new", file, "--from-log", production_log(tmp_path, "log.csv", 1))
    code, out, _ = invoke("check", file, "--against-log", production_log(tmp_path, "later.csv", 2))
    assert code == 0
    assert "like production in 8 of 8" in out
    code, out, _ = invoke(
        "check", file, "--json", "--against-log", production_log(tmp_path, "longer.csv", 3, longer=1.6)
    )
    assert code == ExitCode.VERDICT_NO
    likeness = json.loads(out)["contracts"][0]["likeness"]
    assert likeness["verdict"] == "differs"
    assert next(d["name"] for d in likeness["dimensions"] if d["verdict"] == "differs") == "input lengths"


def test_a_log_that_cannot_be_used_writes_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("arrival,input_tokens\n1,two\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"log\.csv:2: input_tokens is 'two', not a number"):
        invoke("new", tmp_path / "chat.yaml", "--from-log", log)
    assert not (tmp_path / "chat.yaml").exists()


def test_an_address_needs_a_server(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--url goes with a server"):
        invoke("new", tmp_path / "chat.yaml", "--url", "http://gpu:9000/v1")
