"""Lists, histories, names and standing, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from ledgers import NOW, key_of, recorded, registered, sealed, sha, trusting
from lynxbench.errors import BadInput, NotFound
from lynxbench.evidence.statement import open_entry
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger import result_standings
from lynxbench.ledger.log import Ledger, Logged
from lynxbench.ledger.names import find_id, machine_letters
from lynxbench.ledger.queries import Wanted, entries_about, find_result, find_run, history, list_results, open_runs
from lynxbench.ledger.result_standings import disputed, standings, voice_of
from lynxbench.model.entries import (
    EntryKind,
    RerunVerdict,
    ResultContested,
    ResultRerun,
    ResultRetracted,
    ResultVerified,
    RunAbandoned,
)
from lynxbench.model.precision import Precision
from lynxbench.model.result import ValidityVerdict

ALPHA, BRAVO, STRANGER = key_of("alpha"), key_of("bravo"), key_of("stranger")
TRUST = trusting(ALPHA, BRAVO)


def _started(day: int) -> str:
    return f"2026-11-{day:02d}T00:00:00+00:00"


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    bodies = [
        recorded("a", started_at=_started(3)),
        recorded("b", started_at=_started(1), precisions=(Precision.FP32, Precision.INT8), estimate=50),
        recorded("c", contract="other", executor="big", started_at=_started(2), validity=ValidityVerdict.VOID),
        registered("d"),
        registered("e"),
        RunAbandoned(run_id="run-e", nonce="ne", contract_id=sha("contract"), attempts=1, reason="stopped"),
    ]
    with Ledger(url, blobs="somewhere") as opened:
        opened.append(sealed(registered("a"), ALPHA, _started(3)))
        opened.append_all([sealed(body, ALPHA) for body in bodies])
        yield opened


def _names(ledger: Ledger, **wanted: object) -> list[str]:
    return [one.run_id.removeprefix("run-") for one in list_results(ledger, Wanted(**wanted))]  # type: ignore[arg-type]


def test_lists_are_newest_first_and_narrowed(ledger: Ledger) -> None:
    assert _names(ledger) == ["a", "c", "b"]
    assert _names(ledger, limit=1) == ["a"]
    assert _names(ledger, contract=sha("contract")) == ["a", "b"]
    assert _names(ledger, contract=sha("other")[:6]) == ["c"]
    assert _names(ledger, executor=sha("big")) == ["c"]
    assert _names(ledger, precision="int8") == ["b"]
    assert _names(ledger, precision="fp32", contract=sha("contract")) == ["a", "b"]
    assert _names(ledger, validity="void") == ["c"]
    assert _names(ledger, since_s=int((NOW - timedelta(days=13, hours=9)).timestamp())) == ["a", "c"]
    assert _names(ledger, since_s=int((NOW + timedelta(days=1)).timestamp())) == []


def test_what_is_listed_is_what_was_recorded(ledger: Ledger) -> None:
    one = list_results(ledger, Wanted(precision="int8"))[0]
    body = recorded("b", started_at=_started(1), precisions=(Precision.FP32, Precision.INT8), estimate=50)
    assert [figure.precision for figure in one.figures] == ["fp32", "int8"]
    assert one.figures[1].throughput == body.per_precision[1].throughput
    assert one.figures[1].run_means == body.per_precision[1].run_means
    assert one.layer_ids == {layer.value: name for layer, name in body.layer_ids.items()}
    assert (one.weights, one.bottleneck, one.attempts) == (body.weights, "compute", 5)


def test_a_history_is_oldest_first(ledger: Ledger) -> None:
    assert [one.run_id for one in history(ledger, sha("contract"))] == ["run-b", "run-a"]
    assert history(ledger, sha("nothing")) == []


def test_runs_without_an_end_are_known(ledger: Ledger) -> None:
    assert [one.run_id for one in open_runs(ledger)] == ["run-d"]
    assert open_runs(ledger, sha("other")) == []
    assert len(find_run(ledger, "run-e", EntryKind.ABANDONED)) == 1
    assert find_result(ledger, "0" * 64) is None


def test_an_end_counts_whatever_the_order(ledger: Ledger) -> None:
    ledger.append_all([sealed(recorded("f"), ALPHA), sealed(registered("f"), ALPHA)])
    ledger.append_all([sealed(registered("g"), ALPHA), sealed(recorded("g"), ALPHA)])
    ledger.append(sealed(recorded("h"), ALPHA))
    ledger.append(sealed(registered("h"), ALPHA))
    ledger.append(sealed(registered("i", contract="other"), ALPHA))
    assert [one.run_id for one in open_runs(ledger)] == ["run-d", "run-i"]
    assert [one.run_id for one in open_runs(ledger, sha("other"))] == ["run-i"]
    ledger.database.migrate("0002")
    ledger.database.migrate()
    assert [one.run_id for one in open_runs(ledger)] == ["run-d", "run-i"], "the entries rebuild it"


def test_a_unique_beginning_names_a_result(ledger: Ledger) -> None:
    full = sha("result a")
    for text in (full, full[:4], f"sha256:{full[:12]}…", full[:9].upper()):
        assert find_id(ledger, text, "result") == full
    assert find_id(ledger, sha("other")[:8], "contract") == sha("other")
    for text in ("abc", "xyzxyz", "../..", full[:4] + "zz", ""):
        with pytest.raises(BadInput, match="at least 4"):
            find_id(ledger, text, "result")
    with pytest.raises(BadInput, match="begins so"):
        find_id(ledger, "00000000", "result")
    with pytest.raises(BadInput, match="no contract"):
        find_id(ledger, full[:12], "contract")


def test_an_ambiguous_beginning_is_refused(ledger: Ledger) -> None:
    twin = recorded("z").model_copy(update={"result_id": sha("result a")[:10] + "0" * 54})
    ledger.append(sealed(twin, ALPHA))
    with pytest.raises(BadInput, match="give more digits"):
        find_id(ledger, sha("result a")[:8], "result")
    assert find_id(ledger, sha("result a"), "result") == sha("result a")


def test_standing_follows_what_was_said_and_by_whom(ledger: Ledger) -> None:
    a, b = sha("result a"), sha("result b")
    before = standings(ledger, [a, b], TRUST)
    assert before[a].registered
    assert not before[b].registered
    assert before[a].signed_by == ("alpha",)
    assert (before[a].short, disputed(ledger, sha("contract"), TRUST)) == ("recorded", {})
    for body, key in (
        (ResultVerified(result_id=a, holds=True, checks=("figures: holds",)), BRAVO),
        (ResultVerified(result_id=a, holds=False, checks=()), STRANGER),
        (ResultRetracted(result_id=a, reason="not mine to take back"), BRAVO),
        (ResultRerun(result_id=a, rerun_id=b, verdict=RerunVerdict.REPRODUCED, effects={}), BRAVO),
    ):
        ledger.append(sealed(body, key))
    found = standings(ledger, [a], TRUST)[a]
    assert [one.by for one in found.verified] == ["bravo"]
    assert found.refuted == found.retracted == (), "a stranger's word counts for nothing; another team cannot retract"
    assert found.short == "reproduced"
    ledger.append(sealed(ResultContested(result_id=a, reason="shared cores", cites=(b,)), STRANGER))
    assert "contested by unknown key" in standings(ledger, [a], TRUST)[a].words[0]
    ledger.append(sealed(ResultRetracted(result_id=a, reason="broken fan"), ALPHA))
    last = disputed(ledger, sha("contract"), TRUST)
    assert set(last) == {a}
    assert last[a].short == "retracted"
    assert last[a].words[0] == "retracted by alpha: broken fan"
    assert {one.entry.body.kind for one in entries_about(ledger, [a], [EntryKind.CONTEST])} == {EntryKind.CONTEST}


def test_an_old_verification_that_recomputed_nothing_is_none_and_says_so(ledger: Ledger) -> None:
    a = sha("result a")
    old = ("manifest: cannot be recomputed: manifest.json is not here", "result id: holds", "contract id: holds")
    ledger.append(sealed(ResultVerified(result_id=a, holds=True, checks=old), BRAVO))
    found = standings(ledger, [a], TRUST)[a]
    assert (found.verified, found.short) == ((), "recorded")
    assert "not verified: bravo found nothing wrong and recomputed no figure" in found.words
    ledger.append(sealed(ResultVerified(result_id=a, holds=True, checks=("figures: holds",)), BRAVO))
    found = standings(ledger, [a], TRUST)[a]
    assert (found.short, [remark.by for remark in found.verified]) == ("verified", ["bravo"])
    assert not any("not verified" in words for words in found.words)


@pytest.mark.parametrize("few", [0, 1, 2000])
def test_disputed_results_are_found_whichever_way_is_quicker(
    ledger: Ledger, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_standings, "FEW", few)
    a = sha("result a")
    elsewhere = recorded("y").model_copy(update={"contract_id": sha("another contract")})
    ledger.append(sealed(elsewhere, ALPHA))
    for name, reason in ((a, "shared cores"), (a, "hot room"), (elsewhere.result_id, "cold room")):
        ledger.append(sealed(ResultContested(result_id=name, reason=reason, cites=()), BRAVO))
    assert set(disputed(ledger, sha("contract"), TRUST)) == {a}
    assert set(disputed(ledger, sha("another contract"), TRUST)) == {elsewhere.result_id}
    assert disputed(ledger, sha("no such contract"), TRUST) == {}


def test_a_reader_who_trusts_nobody_is_told(ledger: Ledger) -> None:
    found = standings(ledger, [sha("result a")], TrustList())[sha("result a")]
    assert found.short == "untrusted"
    assert "signed by nobody you trust" in found.words


def test_a_key_revoked_since_is_told(ledger: Ledger) -> None:
    later = TRUST.revoking(ALPHA.keyid, "stolen", NOW + timedelta(days=36500))
    found = standings(ledger, [sha("result a")], later)[sha("result a")]
    assert (found.signed_by, found.revoked_signers, found.short) == (("alpha",), ("alpha",), "key revoked")
    sooner = TRUST.revoking(ALPHA.keyid, "stolen", NOW)
    assert standings(ledger, [sha("result a")], sooner)[sha("result a")].short == "untrusted"


def test_an_early_date_in_the_entry_does_not_help_a_stolen_key() -> None:
    trust = TRUST.revoking(ALPHA.keyid, "stolen", NOW + timedelta(hours=1))
    envelope = sealed(registered("run-a"), ALPHA)
    early = Logged(0, NOW.isoformat(), envelope, open_entry(envelope))
    assert voice_of(early, trust).teams == ("alpha",)
    late = replace(early, logged_at=(NOW + timedelta(hours=2)).isoformat())
    assert voice_of(late, trust).teams == ()


def test_results_have_names(ledger: Ledger) -> None:
    """`last`, `last~1`, a contract's name, and machines by letters in the order of their first results."""
    listed = list_results(ledger, Wanted(limit=None))
    ids = list(dict.fromkeys(result.result_id for result in listed))
    assert len(ids) > 2, "otherwise this shows nothing"
    assert find_id(ledger, "last", "result") == ids[0]
    assert [find_id(ledger, f"last~{back}", "result") for back in range(len(ids))] == ids
    named = [result for result in listed if result.contract_name == listed[0].contract_name]
    assert find_id(ledger, named[0].contract_name, "result") == named[0].result_id
    letters = machine_letters(ledger)
    first_seen = list(dict.fromkeys(r.instance_id for r in sorted(listed, key=lambda r: r.seq)))
    assert list(letters) == first_seen
    assert list(letters.values())[:1] == ["a"]
    for result in {r.instance_id: r for r in reversed(listed)}.values():
        here = [r for r in listed if r.instance_id == result.instance_id]
        assert find_id(ledger, f"last@{letters[result.instance_id]}", "result") == here[0].result_id
        assert find_id(ledger, f"last@{result.instance_id[:12]}", "result") == here[0].result_id
    assert find_id(ledger, "last", "contract") == listed[0].contract_id
    assert find_id(ledger, "last", "executor") == listed[0].executor_id
    for text, says in (
        (f"last~{len(ids)}", "at least 4"),
        ("nobody", "at least 4"),
        ("last@zz", "no machine zz; results here are of machines a"),
        ("last~", "at least 4"),
        ("last@", "at least 4"),
        ("last~1~2", "at least 4"),
        ("../last", "at least 4"),
    ):
        with pytest.raises(NotFound, match=says):
            find_id(ledger, text, "result")
    with pytest.raises(NotFound, match="at least 4"):
        find_id(ledger, "last", "change")


def test_letters_go_on_after_z(ledger: Ledger) -> None:
    for place in range(30):
        ledger.append(sealed(recorded(f"machine-{place}", instance=f"instance {place}"), ALPHA))
    letters = list(machine_letters(ledger).values())
    assert letters[:3] == ["a", "b", "c"]
    assert "aa" in letters
    assert len(set(letters)) == len(letters)
