"""No decision has its strongest word while evidence that it rests on falls short, or its contract is not agreed."""

from __future__ import annotations

import json
from functools import cache
from itertools import cycle, pairwise
from pathlib import Path

import pytest

from command_line import lynxbench_here
from lynxbench.decide import packing
from lynxbench.decide.deciding import Gathered, ask_purchase, read_catalogue
from lynxbench.decide.decision_gate import HELD_BACK, hold_back, is_held_back
from lynxbench.decide.demonstrating import decide_demo, demo_results
from lynxbench.decide.packing import MadePack
from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.documents import write_result
from lynxbench.model.agreement import TeamAgreement, TeamSignature
from lynxbench.model.decisions import PrecisionDecision, PurchaseDecision, WhatIf
from lynxbench.model.evidence_gate import Lack
from lynxbench.model.packs import PackedDecision
from lynxbench.model.result import INVENTED_FIGURES, Result
from lynxbench.model.standing import Standing
from planted import OF_EVIDENCE, OF_STANDING, TEAM, hardware_bound, signed, stands
from recording_teams import record
from teams import make_team

TEAMS = ("alpha", "bravo")
WORDS = "not agreed (1 of 2; missing: bravo)"


@cache
def asking() -> tuple[Result, ...]:
    """The example's results under contracts that name two teams."""
    asked = []
    for result in demo_results():
        contract = result.contract.model_copy(update={"teams": TEAMS})
        measured = tuple(words for words in result.assumptions if words != INVENTED_FIGURES)
        update = {"contract": contract, "contract_id": contract.contract_id, "assumptions": measured}
        asked.append(result.model_copy(update=update).sealed())
    return tuple(asked)


def standings(*signed: str, late: tuple[str, ...] = ()) -> dict[str, Standing]:
    signatures = tuple(
        TeamSignature(team=team, at="2026-01-01T00:00:00+00:00", seq=0, in_time=team not in late)
        for team in (*signed, *late)
    )
    agreement = TeamAgreement(teams=TEAMS, signatures=signatures)
    names = [result.result_id for result in asking()]
    return {name: Standing(result_id=name, signed_by=TEAMS, registered=True, agreement=agreement) for name in names}


@cache
def free() -> tuple[PackedDecision, ...]:
    """What is decided where everybody agreed."""
    return decide_demo(Gathered(asking(), standings("alpha", "bravo")))


def test_full_agreement_changes_nothing() -> None:
    known = standings("alpha", "bravo")
    for decision in free():
        assert hold_back(decision, asking(), known) == decision
        assert not is_held_back(decision)
    before = decide_demo(Gathered(demo_results(), signed(*demo_results())))
    assert [decision.sentence for decision in before] == [decision.sentence for decision in free()]


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (standings("alpha"), WORDS),
        (standings("alpha", late=("bravo",)), "agreed after the run (1 of 2 before it; late: bravo)"),
        ({}, "not agreed (0 of 2; missing: alpha, bravo; no ledger"),
    ],
    ids=["missing", "late", "no ledger"],
)
def test_every_kind_is_held_back(known: dict[str, Standing], words: str) -> None:
    for decision in free():
        held = hold_back(decision, asking(), known)
        assert is_held_back(held)
        assert words in held.sentence
        assert "lynxbench contract agreement" in held.sentence, "the next step is named"
        assert any(words in caution for caution in held.cautions)
        assert hold_back(held, asking(), known) == held, "held back once, whoever reads it again"


def test_a_purchase_is_undecided_and_declares_no_change() -> None:
    (purchase,) = [decision for decision in free() if isinstance(decision, PurchaseDecision)]
    assert purchase.supported != "undecided", "otherwise this shows nothing"
    assert purchase.follow_up is not None
    held = hold_back(purchase, asking(), standings("alpha"))
    assert held.supported == "undecided"
    assert held.follow_up is None
    assert purchase.because not in held.sentence


def test_nothing_is_a_go() -> None:
    (precision,) = [decision for decision in free() if isinstance(decision, PrecisionDecision)]
    assert "go" in [line.verdict for line in precision.lines], "otherwise this shows nothing"
    held = hold_back(precision, asking(), standings("alpha"))
    assert "go" not in [line.verdict for line in held.lines]
    assert [line.throughput for line in held.lines] == [line.throughput for line in precision.lines]
    assert not held.sentence.startswith("go")


def test_a_decision_that_only_says_it_is_held_back_is_not_believed() -> None:
    (purchase,) = [decision for decision in free() if isinstance(decision, PurchaseDecision)]
    forged = purchase.model_copy(update={"sentence": f"{HELD_BACK}, says its file"})
    held = hold_back(forged, asking(), standings("alpha"))
    assert held.supported == "undecided"
    assert any(WORDS in caution for caution in held.cautions)


def test_a_result_that_is_not_cited_holds_nothing_back() -> None:
    today, _, decode = asking()
    (precision,) = [decision for decision in free() if isinstance(decision, PrecisionDecision)]
    known = {**standings("alpha", "bravo"), today.result_id: standings("alpha")[today.result_id]}
    assert hold_back(precision, (today, decode), known) == precision


def test_the_command_says_it_and_exits_with_1(tmp_path: Path) -> None:
    decode = asking()[2]
    write_result(tmp_path / "result.json", decode)
    done = lynxbench_here(
        "decide", "precision", "--from", ".", "--json", cwd=tmp_path, LYNXBENCH_HOME=str(tmp_path / "home")
    )
    assert done.code == 1, done.err
    document = json.loads(done.out)
    assert document["sentence"].startswith(HELD_BACK)
    assert "go" not in [line["verdict"] for line in document["lines"]]
    (tmp_path / "free").mkdir()
    write_result(tmp_path / "free" / "result.json", demo_results()[2])
    home = str(tmp_path / "home")
    unsigned = lynxbench_here("decide", "precision", "--from", "free", cwd=tmp_path, LYNXBENCH_HOME=home)
    assert unsigned.code == 1
    assert "nobody whom you trust signed it" in unsigned.out
    assert "lynxbench results import" in unsigned.out, "the next step is named"


# --- packs ------------------------------------------------------------------------------------------------------------


def packed(where: Path) -> tuple[MadePack, dict[str, str]]:
    """A pack of decisions that were taken as if everybody had agreed, over results under a contract nobody signed."""
    team = make_team("alpha", where / "home")
    key = team.keyring.keys.open("alpha")
    with team.open() as ledger:
        results = tuple(record(ledger, result, key) for result in asking())
        agreed = TeamAgreement(teams=())
        known = {name: stands.model_copy(update={"agreement": agreed}) for name, stands in signed(*results).items()}
        decisions = decide_demo(Gathered(results, known))
        made = packing.pack_into(ledger, decisions, where / "p.lynx", "", key, team.keyring.trust, pdf=False)
    return made, team.environment


def test_a_pack_asks_again_whatever_the_decisions_say(tmp_path: Path) -> None:
    made, environment = packed(tmp_path)
    assert len(made.held_back) == 5
    assert all("missing: alpha, bravo" in sentence for sentence in made.held_back)
    assert made.document()["held_back"] == list(made.held_back)
    assert "missing: alpha, bravo" in made.html.read_text()
    verified = packing.verify_pack(made.bundle, environment)
    assert all(is_held_back(decision) for decision in verified.pack.decisions)


def test_a_pack_that_was_made_without_asking_does_not_verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(packing, "hold_back", lambda decision, *_: decision)
        made, environment = packed(tmp_path)
    assert made.held_back == ()
    with pytest.raises(EvidenceInvalid, match="not agreed before the run"):
        packing.verify_pack(made.bundle, environment)


# --- evidence that falls short ---------------------------------------------------------------------------------------

STRONG = ("supports the purchase", "go: ", "software first")


def faster(tested: Result) -> Result:
    """The test instance at twice today's saturation."""
    figures = tested.per_precision[0]
    assert figures.load is not None
    assert figures.load.saturation is not None
    pair = figures.load.saturation.model_copy(update={"passed_per_s": 90.0, "failed_per_s": 94.0})
    load = figures.load.model_copy(update={"saturation": pair})
    return tested.model_copy(update={"per_precision": (figures.model_copy(update={"load": load}),)})


def bought(today: Result, tested: Result, known: dict[str, Standing]) -> PurchaseDecision:
    return ask_purchase(Gathered((today, tested), known), read_catalogue(None), proposed="h200", remeasured_by=TEAM)[0]


def test_sound_evidence_carries_a_purchase(today: Result, tested: Result) -> None:
    """Otherwise the planted cases below would show nothing."""
    today, tested = hardware_bound(today), faster(tested)
    decision = bought(today, tested, signed(today, tested))
    assert decision.supported == "purchase"
    assert not is_held_back(decision)


@pytest.mark.parametrize("name", OF_EVIDENCE)
@pytest.mark.parametrize("where", ["today", "tested"])
def test_no_planted_evidence_supports_a_purchase(today: Result, tested: Result, name: str, where: str) -> None:
    lack, plant = OF_EVIDENCE[name]
    today, tested = hardware_bound(today), faster(tested)
    if where == "today":
        today = plant(today)
    else:
        tested = plant(tested)
    decision = bought(today, tested, signed(today, tested))
    if where == "tested" and lack is Lack.WEAK:
        assert decision.supported == "purchase", "a test instance is asked for its speed, not for a cause"
        return
    assert decision.supported == "undecided"
    assert is_held_back(decision)
    assert not any(word in decision.sentence for word in STRONG)
    assert "lynxbench" in decision.because, "the next step is named"


@pytest.mark.parametrize("name", OF_STANDING)
def test_no_planted_standing_supports_a_purchase(today: Result, tested: Result, name: str) -> None:
    today, tested = hardware_bound(today), faster(tested)
    decision = bought(today, tested, stands(name, today, tested))
    assert decision.supported == "undecided"
    assert is_held_back(decision)
    assert "lynxbench" in decision.because, "the next step is named"
    where = decision.answers[1]
    assert "nobody is blamed" in where.says
    assert not where.answered
    assert "-bound" not in where.says


@pytest.mark.parametrize(
    ("planted", "standing"),
    list(zip(pairwise([*OF_EVIDENCE, *list(OF_EVIDENCE)[:1]]), cycle(OF_STANDING), strict=False)),
    ids=lambda part: " and ".join(part) if isinstance(part, tuple) else part,
)
def test_two_shortfalls_under_a_planted_standing_say_no_more_than_one(
    today: Result, tested: Result, planted: tuple[str, str], standing: str
) -> None:
    first, second = (OF_EVIDENCE[name][1] for name in planted)
    today, tested = first(second(hardware_bound(today))), second(first(faster(tested)))
    decision = bought(today, tested, stands(standing, today, tested))
    shown = decision.model_dump_json()
    assert decision.supported == "undecided"
    assert is_held_back(decision)
    assert not any(word in decision.sentence for word in STRONG)
    assert "hardware engineering" not in shown, "nobody is blamed"
    assert "-bound →" not in shown


def test_one_unsigned_side_is_enough(today: Result, tested: Result) -> None:
    today, tested = hardware_bound(today), faster(tested)
    for known in (signed(today), signed(tested)):
        assert bought(today, tested, known).supported == "undecided"


def test_the_purchase_of_the_first_hour(today: Result) -> None:
    """Doubtful, weak, software-bound, signed by nobody trusted, no test instance: found to `support the purchase`."""
    first = OF_EVIDENCE["weak"][1](OF_EVIDENCE["foreign load"][1](today))
    known = stands("signed by a stranger", first)
    decision, _ = ask_purchase(Gathered((first,), known), read_catalogue(None), proposed="h200")
    assert decision.supported == "undecided"
    assert not decision.diagnosed
    assert "supports" not in decision.sentence
    assert "without a diagnostic" in decision.sentence
    answer = decision.answers[1]
    assert not answer.answered
    assert "ML platform" not in answer.says, "nobody is blamed"


@pytest.mark.parametrize("name", OF_EVIDENCE)
def test_every_kind_of_decision_is_held_back_on_planted_evidence(name: str) -> None:
    lack, plant = OF_EVIDENCE[name]
    results = tuple(map(plant, demo_results()))
    known = signed(*results)
    for decision in free_demo():
        held = hold_back(decision, results, known)
        rests_on_cause = isinstance(decision, PurchaseDecision | WhatIf)
        if lack is Lack.WEAK and not rests_on_cause:
            assert held == decision, "figures do not rest on a cause"
            continue
        assert is_held_back(held), decision.kind
        assert "lynxbench" in held.sentence, "the next step is named"
        assert any("; next: " in caution for caution in held.cautions)
        if isinstance(held, PrecisionDecision):
            assert {line.verdict for line in held.lines} & {"go", "no-go"} == set()


@pytest.mark.parametrize("name", OF_STANDING)
def test_every_kind_of_decision_is_held_back_on_a_planted_standing(name: str) -> None:
    for decision in free_demo():
        held = hold_back(decision, demo_results(), stands(name, *demo_results()))
        assert is_held_back(held), decision.kind
        assert "lynxbench" in held.sentence
        if isinstance(held, WhatIf):
            assert "software-bound" in decision.sentence, "otherwise this would show nothing"
            assert "-bound:" not in held.sentence
            assert held.fix is None or held.fix.owner is None


@cache
def free_demo() -> tuple[PackedDecision, ...]:
    """What is decided where nothing speaks against it."""
    results = demo_results()
    decisions = decide_demo(Gathered(results, signed(*results)))
    assert not any(map(is_held_back, decisions)), "otherwise the planted cases would show nothing"
    return decisions


def test_a_follow_up_stays_where_only_the_evidence_falls_short(today: Result, tested: Result) -> None:
    """To promise a measurement is no verdict; without agreement there is nothing to measure it by."""
    decision = bought(OF_EVIDENCE["foreign load"][1](today), tested, signed(today, tested))
    assert decision.follow_up is not None
