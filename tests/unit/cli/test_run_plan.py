"""How long a run takes is said before it, and a contract is cut to the time that there is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import QUICK_CONTRACT, lynxbench_here
from lynxbench.cli.progress import most_s, usual_s
from lynxbench.cli.run_plan import fit_within, plan_run
from lynxbench.contract.loader import parse_contract, read_bundled
from lynxbench.errors import BadInput
from lynxbench.model.contract import FEWEST_WINDOWS
from lynxbench.run.inprocess_run import plan_of
from rolled_runs import endurance_contract

SPIN = parse_contract(QUICK_CONTRACT)


def test_the_plan_counts_processes_and_time() -> None:
    plan = plan_run(SPIN)
    assert (plan.processes, plan.restarts, plan.precisions, plan.searches) == (2, 2, ("fp32",), False)
    assert plan.at_most_s == pytest.approx(12 + 0.6 + 12 + 12 + 0.6)
    assert plan.about_s == pytest.approx(plan.at_most_s - 2 * 0.1)
    served = plan_run(read_bundled("chat-demo"))
    assert served.processes == served.restarts + served.searches


@pytest.mark.parametrize("within", ["10m", "10 min", "600 s", "0.2 h"])
def test_a_contract_that_fits_stays_as_it_is(within: str) -> None:
    assert fit_within(SPIN, within) is SPIN


@pytest.mark.parametrize("name", ["quickstart", "chat-demo", "chat-serving"])
@pytest.mark.parametrize("share", [0.95, 0.8])
def test_a_longer_one_is_cut_and_is_another_contract(name: str, share: float) -> None:
    whole = read_bundled(name)
    allowed_s = plan_run(whole).at_most_s * share
    fitted = fit_within(whole, f"{allowed_s:.1f} s")
    assert plan_run(fitted).at_most_s <= allowed_s + 1
    assert fitted.contract_id != whole.contract_id
    protocol = fitted.protocol
    assert protocol.min_duration_s <= protocol.limit_s < whole.protocol.limit_s
    assert protocol.min_duration_s >= FEWEST_WINDOWS * protocol.steady.window_s
    assert protocol.restarts == whole.protocol.restarts, "what an interval rests on is not cut"


def test_too_little_time_says_how_much_is_needed() -> None:
    with pytest.raises(BadInput, match=r"--within 3 s: 2 processes need .* at least"):
        fit_within(SPIN, "3 s")
    with pytest.raises(BadInput, match="--within"):
        fit_within(SPIN, "soon")


def test_the_command_says_it_and_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "spin.yaml").write_text(QUICK_CONTRACT)
    home = str(tmp_path / "home")
    said = lynxbench_here("run", "spin.yaml", "--plan", "--json", cwd=tmp_path, LYNXBENCH_HOME=home)
    assert said.code == 0, said.err
    assert json.loads(said.out)["contract_id"] == SPIN.contract_id
    text = lynxbench_here("run", "spin.yaml", "--plan", cwd=tmp_path, LYNXBENCH_HOME=home)
    assert "nothing was done" in text.out
    assert not (tmp_path / "results").exists()
    assert not Path(home).exists()


def test_an_endurance_run_is_planned_as_long_as_it_is_and_not_cut_short() -> None:
    endures = endurance_contract("12 h")
    assert fit_within(endures, "13 h") is endures
    with pytest.raises(BadInput, match="in one piece"):
        fit_within(endures, "1 h")
    (slot,) = plan_of(endures)
    assert 43_200 < usual_s(endures, slot) == most_s(endures, slot) < 43_300
