"""What a rerun would execute is known, shown and bounded before any of it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from command_line import QUICK_CONTRACT, SPINNING
from compared import make_result
from lynxbench.contract.loader import parse_contract
from lynxbench.errors import BadResult, CannotRun, EvidenceInvalid, Refused
from lynxbench.evidence.documents import read_result
from lynxbench.model.canonical import content_id
from lynxbench.model.result import Result
from lynxbench.model.surroundings import Surroundings
from lynxbench.model.verification import VerificationReport, cannot, fails, holds
from lynxbench.record.rerun_plan import RerunPlan, plan_rerun, render_plan
from served import served_contract

HELD = VerificationReport("", (holds("figures"),))


def planned(
    result: Result,
    folder: Path,
    report: VerificationReport = HELD,
    python: Path | None = None,
    send_key: str | None = None,
) -> RerunPlan:
    return plan_rerun(result, folder, report, {}, python, send_key)


def _result(text: str = QUICK_CONTRACT) -> Result:
    return make_result(contract=parse_contract(text))


def _calling(target: str) -> Result:
    return _result(QUICK_CONTRACT.replace("spinning:spin", target))


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the reader's own, with the function that the contract names."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "spinning.py").write_text(SPINNING)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def theirs(tmp_path: Path, spin_run: Path) -> Path:
    """A stranger's folder, whose registration a test may change."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    for name in ("result.json", "registration.json"):
        (folder / name).write_bytes((spin_run / name).read_bytes())
    return folder


def _registering(folder: Path, **surroundings: object) -> Result:
    file = folder / "registration.json"
    registration = json.loads(file.read_text())
    file.write_text(json.dumps({**registration, "surroundings": surroundings}))
    return read_result(folder)


def test_the_plan_names_the_file_and_whether_it_is_the_originals(mine: Path, theirs: Path) -> None:
    result = read_result(theirs)
    plan = planned(result, theirs)
    assert plan.executes == f"spinning:spin from {mine / 'spinning.py'}, the same file as the original's"
    assert (plan.around, plan.left_out, plan.registered) == (None, (), True)
    (mine / "spinning.py").write_text(SPINNING + "\n")
    assert "another file than the original's" in planned(result, theirs).executes


def test_the_plan_shows_contract_surroundings_and_what_is_left_out(mine: Path, theirs: Path) -> None:
    hostile = {"LD_PRELOAD": "/tmp/evil.so", "PYTHONPATH": "/tmp", "MALLOC_ARENA_MAX": "1"}
    plan = planned(_registering(theirs, environment=hostile), theirs)
    assert plan.around == Surroundings(environment={"MALLOC_ARENA_MAX": "1"})
    assert plan.left_out == ("LD_PRELOAD", "PYTHONPATH")
    shown = render_plan(plan)
    assert "left out: LD_PRELOAD, PYTHONPATH (" in shown
    assert "MALLOC_ARENA_MAX=1" in shown
    assert "/tmp/evil.so" not in shown
    assert '"target": "spinning:spin"' in shown
    document = json.loads(json.dumps(plan.document()))
    assert document["left_out"] == ["LD_PRELOAD", "PYTHONPATH"]
    assert document["contract"]["name"] == "spin"


def test_an_interpreter_of_a_document_is_never_started_and_one_of_yours_is(mine: Path, theirs: Path) -> None:
    result = _registering(theirs, interpreter=sys.executable)
    with pytest.raises(CannotRun, match="never started: name one of yours with --python"):
        planned(result, theirs)
    plan = planned(result, theirs, python=Path(sys.executable))
    assert plan.around == Surroundings(interpreter=sys.executable)
    assert "which you named" in render_plan(plan)
    with pytest.raises(CannotRun, match="no program there"):
        planned(result, theirs, python=mine / "spinning.py")


def test_a_registration_of_another_run_is_no_part_of_it(mine: Path, theirs: Path) -> None:
    registration = json.loads((theirs / "registration.json").read_text())
    (theirs / "registration.json").write_text(json.dumps({**registration, "run_id": "spin-20200101T000000-abcdef"}))
    with pytest.raises(BadResult, match="two different runs"):
        planned(read_result(theirs), theirs)


def test_surroundings_that_nobody_knows_are_said_to_be_unknown(mine: Path, theirs: Path) -> None:
    (theirs / "registration.json").unlink()
    plan = planned(read_result(theirs), theirs)
    assert not plan.registered
    assert "is not known: registration.json is not here" in render_plan(plan)


def test_what_its_own_samples_refute_is_not_executed_and_what_is_not_recomputed_is_said(
    mine: Path, theirs: Path
) -> None:
    refuted = VerificationReport("", (holds("figures"), fails("fp32 throughput", "stated 10, recomputed 1")))
    with pytest.raises(EvidenceInvalid, match="fp32 throughput: does not hold: stated 10, recomputed 1"):
        planned(read_result(theirs), theirs, refuted)
    bare = planned(read_result(theirs), theirs, VerificationReport("", (cannot("figures", "samples.npz is not here"),)))
    assert "the original cannot be verified" in render_plan(bare)
    assert bare.document()["original"] == "cannot be verified"
    assert "the original holds" in render_plan(planned(read_result(theirs), theirs))


# --- the function ----------------------------------------------------------------------------------------------------


def test_code_in_the_results_folder_is_not_executed_where_it_is_the_current_one(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (theirs / "spinning.py").write_text(SPINNING)
    monkeypatch.chdir(theirs)
    with pytest.raises(Refused, match="go to a folder of your own"):
        planned(read_result(theirs), theirs)
    (theirs / "attempts").mkdir()
    (theirs / "registration.json").unlink()
    monkeypatch.chdir(theirs / "attempts")
    with pytest.raises(Refused, match="go to a folder of your own"):
        planned(_calling("lynxbench.workload.examples:one_millisecond"), theirs)


@pytest.mark.parametrize("with_init", [False, True])
@pytest.mark.parametrize("linked", [False, True])
def test_code_in_the_results_folder_is_not_reached_by_a_dotted_name(
    theirs: Path, monkeypatch: pytest.MonkeyPatch, with_init: bool, linked: bool
) -> None:
    deep = theirs / "attempts" / "more"
    deep.mkdir(parents=True)
    (deep / "spinning.py").write_text("raise SystemExit('executed')")
    if with_init:
        for folder in (theirs, theirs / "attempts", deep):
            (folder / "__init__.py").write_text("raise SystemExit('executed')")
    (theirs / "registration.json").unlink()
    name = "theirs"
    if linked:
        name = "shortcut"
        (theirs.parent / name).symlink_to(theirs)
    monkeypatch.chdir(theirs.parent)
    with pytest.raises(Refused, match="code of a result is not executed"):
        planned(_calling(f"{name}.attempts.more.spinning:spin"), theirs)


@pytest.mark.parametrize(
    "target", ["os:fork", "os:abort", "shutil:rmtree", "subprocess:call", "code:interact", "__main__:main"]
)
def test_pythons_own_functions_are_no_workload(mine: Path, tmp_path: Path, target: str) -> None:
    with pytest.raises(Refused, match="Python's own library"):
        planned(_calling(target), tmp_path / "theirs")


@pytest.mark.parametrize("target", ["nowhere:spin", "spinning.deeper:spin"])
def test_a_function_that_is_not_here_cannot_be_run(mine: Path, tmp_path: Path, target: str) -> None:
    with pytest.raises(CannotRun, match="no module"):
        planned(_calling(target), tmp_path / "theirs")


def test_an_installed_function_is_found_without_importing_it(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "lynxbench.workload.examples", raising=False)
    plan = planned(_calling("lynxbench.workload.examples:one_millisecond"), tmp_path / "theirs")
    assert plan.executes.startswith("lynxbench.workload.examples:one_millisecond from ")
    assert "lynxbench.workload.examples" not in sys.modules


# --- a server --------------------------------------------------------------------------------------------------------


def _served_plan(send_key: str | None, theirs: Path) -> RerunPlan:
    text = served_contract("http://collector.example:8000/v1", engine="api_key_env: AWS_SECRET_ACCESS_KEY")
    return planned(_result(text), theirs, send_key=send_key)


@pytest.mark.parametrize("named", [None, "", "OPENAI_API_KEY", "aws_secret_access_key"])
def test_a_variable_that_nobody_named_is_not_sent_to_a_documents_server(tmp_path: Path, named: str | None) -> None:
    with pytest.raises(Refused, match=r"your \$AWS_SECRET_ACCESS_KEY to http://collector.example:8000/v1"):
        _served_plan(named, tmp_path / "theirs")


def test_one_that_was_named_is_and_the_plan_says_so(tmp_path: Path) -> None:
    plan = _served_plan("AWS_SECRET_ACCESS_KEY", tmp_path / "theirs")
    assert "sends the value of $AWS_SECRET_ACCESS_KEY" in plan.executes
    free = planned(_result(served_contract("http://127.0.0.1:1/v1")), tmp_path / "theirs")
    assert free.executes.endswith("and sends no key")


# --- what is shown ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["\u202egnp.exe", "\u2028holds", "a\tb\nREPRODUCED"])
def test_no_text_of_the_document_can_pass_for_a_line_of_ours(mine: Path, tmp_path: Path, text: str) -> None:
    contract = parse_contract(QUICK_CONTRACT).model_copy(update={"question": text})
    result = make_result(contract=contract)
    shown = render_plan(planned(result, tmp_path / "theirs"))
    assert shown.isascii()
    assert "\t" not in shown
    assert not any(line.startswith(("REPRODUCED", "holds")) for line in shown.splitlines())
    assert content_id(contract.canonical())[:8] in shown  # type: ignore[arg-type]
