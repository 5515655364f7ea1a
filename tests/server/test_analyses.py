"""Experiments, tunings and fleet runs on the shared page, in the API and between machines; and the contest's form."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest

from analysed import fleet_results, planted_fleet, sign_in_ledger
from command_line import lynxbench_here
from hosted import Caller, World, hidden, trust_all
from lynxbench.errors import EvidenceInvalid
from lynxbench.ledger.analysis_entries import check_analysis
from lynxbench.ledger.bundle import export_bundle
from lynxbench.ledger.location import open_ledger
from lynxbench.model.analyses import AnalysisDocument
from lynxbench.model.entries import Concluded
from lynxbench.model.experiment import ExperimentDocument
from lynxbench.model.fleet import FleetReport
from lynxbench.model.tuning import TuningDocument
from lynxbench.record.recalling_analyses import analysis_document, named_analysis
from lynxbench.report.render_html import HtmlRenderer
from lynxbench.server.pages.analyses_page import compose_analysis
from lynxbench.server.rights import API
from recording_teams import make_team, record

SECTION = re.compile(r"<section.*?</section>", re.DOTALL)


def document_of(world: World, name: str) -> AnalysisDocument:
    logged = named_analysis(world.server.ledger, world.analyses[name])
    assert logged is not None
    return analysis_document(world.server.ledger, logged)


def page_of(world: World, name: str) -> str:
    place = "fleet" if name == "fleet" else "experiments"
    found = world.caller("reader").get(f"/{place}/{world.analyses[name]}")
    assert found.status == 200
    return found.text


@pytest.mark.parametrize("name", ["experiment", "tuning", "fleet"])
def test_a_page_shows_what_the_command_line_shows(world: World, name: str) -> None:
    document = document_of(world, name)
    ids = {
        ExperimentDocument: {"cube", "effects-plot", "interaction-0", "interaction-2", "owners", "together", "blocks"},
        TuningDocument: {"sides", "search-plot", "evidence"},
        FleetReport: {"instances-plot-fp32", "apart-fp32", "units"},
    }[type(document)]
    main = HtmlRenderer(site=True).blocks(compose_analysis(document).blocks)
    text = page_of(world, name)
    assert all(f'id="{one}"' in text for one in ids)
    shown = re.sub(r'<a href="[^"]*" download aria-label="[^"]*">Plot as SVG</a>', "", text)
    sections = SECTION.findall(main)
    assert len(sections) >= 3
    assert [one for one in sections if one not in shown] == []
    for drawn in re.findall(r'href="([^"]*/plots/[^"]*\.svg)"', text):
        picture = world.caller("reader").get(drawn)
        assert (picture.status, picture.headers["content-type"]) == (200, "image/svg+xml")
        assert picture.text.startswith("<svg")


def test_owners_sentences_and_outlying_nodes_stand_on_their_pages(world: World) -> None:
    experiment = document_of(world, "experiment")
    assert isinstance(experiment, ExperimentDocument)
    assert experiment.analysis is not None
    assert len(experiment.analysis.owners) == 3
    text = unescape(page_of(world, "experiment"))
    assert all(one.sentence in text for one in experiment.analysis.owners)
    fleet = unescape(page_of(world, "fleet"))
    assert "gpu_power_limit_enforced_w: [700] elsewhere, [400] here" in fleet
    assert "node-9: node lost no heartbeat" in fleet


def test_lists_lead_to_pages_and_doubts_about_cells_are_said(world: World) -> None:
    reader = world.caller("reader")
    listed = reader.get("/experiments").text
    for name in ("experiment", "tuning", "served experiment", "hostile experiment"):
        assert f'href="/experiments/{world.analyses[name]}"' in listed
    assert f'href="/fleet/{world.analyses["fleet"]}"' in reader.get("/fleet").text
    text = page_of(world, "experiment")
    assert "1 of its 8 results are in doubt" in text
    assert "the inlet air was 9 K warmer" in text
    assert "all 8 results that it is made from stand" in page_of(world, "fleet")
    assert reader.get(f"/fleet/{world.analyses['experiment']}").status == 404
    assert reader.get("/experiments/nothing-here").status == 404
    assert reader.get(f"/experiments/{world.analyses['experiment'][:12]}").status == 200


def test_served_cells_say_that_no_accuracy_was_measured(world: World) -> None:
    text = page_of(world, "served experiment")
    verdict = next(one for one in SECTION.findall(text) if 'id="verdict"' in one)
    assert "no accuracy measured for served cells" in verdict
    assert "no accuracy measured" not in page_of(world, "experiment")


def test_texts_of_strangers_stay_text(world: World) -> None:
    for address in (f"/experiments/{world.analyses['hostile experiment']}", "/experiments"):
        found = world.caller("reader").get(address)
        assert "<script>alert" not in found.text
        assert "<img src=x" not in found.text
        assert "&lt;script&gt;alert" in found.text
        assert "script-src 'self'" in found.headers["content-security-policy"]
        assert "unsafe" not in found.headers["content-security-policy"]


def test_a_document_whose_values_do_not_fit_together_is_a_page_and_no_error(world: World) -> None:
    experiment = document_of(world, "experiment")
    assert isinstance(experiment, ExperimentDocument)
    broken = tuple(cell.model_copy(update={"levels": {"elsewhere": "1"}}) for cell in experiment.cells)
    odd = experiment.model_copy(update={"cells": broken, "experiment_id": "odd"})
    name = sign_in_ledger(world.server.ledger, odd, world.team.key, world.results[:8], [b"{}", b"{}"])
    world.server.arrived()
    found = world.caller("reader").get(f"/experiments/{name}")
    assert found.status == 200
    assert "It cannot be drawn: " in found.text
    assert world.caller("reader").get(f"/experiments/{name}/report.html").status == 404
    assert world.caller("reader").get(f"{API}/analyses/{name}").status == 200


def test_files_are_the_command_lines_own(world: World) -> None:
    reader, name = world.caller("reader"), world.analyses["experiment"]
    report = reader.get(f"/experiments/{name}/report.html")
    assert report.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in report.headers["content-security-policy"]
    found = reader.get(f"/experiments/{name}/analysis.json")
    assert ExperimentDocument.model_validate_json(found.body) == document_of(world, "experiment")
    assert reader.get(f"/experiments/{name}/state.json").status == 404
    api = reader.get(f"{API}/analyses/{name}").json()
    assert api.pop("analysis_id") == name
    assert ExperimentDocument.model_validate_json(json.dumps(api)) == document_of(world, "experiment")
    listed = reader.get(f"{API}/analyses?kind=fleet").json()["analyses"]
    assert {one["analysis_id"] for one in listed} >= {world.analyses["fleet"]}
    assert {one["kind"] for one in listed} == {"fleet"}


def test_an_analysis_is_pushed_pulled_and_made_again_elsewhere(world: World, tmp_path: Path) -> None:
    team = world.team
    with open_ledger(team.location, team.environment, create=True) as ledger:
        measured = [
            record(ledger, one.model_copy(update={"run_id": f"{one.run_id}-own"}), team.key) for one in fleet_results(5)
        ]
        report, state = planted_fleet(measured)
        name = sign_in_ledger(ledger, report, team.key, measured, [state.model_dump_json(by_alias=True).encode()])
    address = {"LYNXBENCH_SERVER": f"http://127.0.0.1:{world.port}", "LYNXBENCH_TOKEN": world.tokens["submitter"]}
    pushed = lynxbench_here("push", name[:12], "--json", cwd=tmp_path, **team.environment, **address)
    assert pushed.code == 0, pushed.err
    assert len(json.loads(pushed.out)["results"]) == 5
    assert world.caller("reader").get(f"/fleet/{name}").status == 200

    puller = make_team("fleet-puller", tmp_path)
    trust_all(world, puller)
    reading = {**puller.environment, **address, "LYNXBENCH_TOKEN": world.tokens["reader"]}
    pulled = lynxbench_here("pull", name[:12], cwd=tmp_path, **reading)
    assert pulled.code == 0, pulled.err
    verified = lynxbench_here("verify", name[:12], "--json", cwd=tmp_path, **puller.environment)
    assert verified.code == 5, "its results are planted: the files that they bring are of no measurement"
    lines = {one["name"]: one["outcome"] for one in json.loads(verified.out)["checks"]}
    assert lines["per precision"] == lines["verdict"] == lines["signatures"] == "holds"
    assert lines["analysis id"] == "holds"
    assert lines["figures"] == "cannot be recomputed"


def test_a_bundle_with_a_wrong_or_partial_analysis_is_refused(world: World, tmp_path: Path) -> None:
    ledger = world.server.ledger
    logged = named_analysis(ledger, world.analyses["experiment"])
    assert logged is not None
    entry, body = logged.entry, logged.entry.body
    assert isinstance(body, Concluded)
    blobs = {blob.sha256: ledger.blobs.get(blob.sha256) for blob in entry.blobs}
    check_analysis(entry, set(body.cites), blobs, "b")
    with pytest.raises(EvidenceInvalid, match="comes without result"):
        check_analysis(entry, set(body.cites[1:]), blobs, "b")
    flattered = body.model_copy(update={"word": "decomposable"})
    with pytest.raises(EvidenceInvalid, match="says what its analysis does not"):
        check_analysis(entry.model_copy(update={"body": flattered}), set(body.cites), blobs, "b")
    fewer = body.model_copy(update={"cites": body.cites[1:]})
    with pytest.raises(EvidenceInvalid, match="says what its analysis does not"):
        check_analysis(entry.model_copy(update={"body": fewer}), set(body.cites), blobs, "b")
    with pytest.raises(EvidenceInvalid, match="must bring"):
        check_analysis(entry.model_copy(update={"blobs": entry.blobs[:1]}), set(body.cites), blobs, "b")
    forged = blobs[body.analysis_id].replace(b"not decomposable", b"decomposable")
    with pytest.raises(EvidenceInvalid, match="another analysis"):
        check_analysis(entry, set(body.cites), {**blobs, body.analysis_id: forged}, "b")
    alone = tmp_path / "alone.lynx"
    done = export_bundle(
        ledger, list(body.cites[:3]), alone, world.server.signing_key(), world.server.trust, datetime.now(UTC)
    )
    whole = export_bundle(
        ledger, list(body.cites), alone, world.server.signing_key(), world.server.trust, datetime.now(UTC)
    )
    assert whole.blobs - done.blobs > 5, "the analysis travels when all its cells do"


# --- contesting -------------------------------------------------------------------------------------------------------


def signed_in(world: World, name: str) -> Caller:
    caller = Caller(world.port)
    assert caller.sign_in(name).status == 303
    world.calm()
    return caller


def test_the_form_prepares_a_contest_that_the_team_signs(world: World, tmp_path: Path) -> None:
    result, other = world.results[5], world.results[6]
    before = world.server.ledger.log.head().size
    contester = signed_in(world, "contester")
    address = f"/results/{result.result_id}/contest"
    assert f'href="{address}"' in contester.get(f"/results/{result.result_id}").text
    reason = 'it isn\'t $(steady) `at all`; the fan "failed"\nat noon & <b>nobody</b> saw'
    sent = {"csrf": hidden(contester.get(address).text), "reason": reason, "cites": other.result_id[:12]}
    page = contester.form(address, sent)
    assert page.status == 200
    assert "<b>nobody</b>" not in page.text
    assert world.server.ledger.log.head().size == before, "a form signs nothing"
    lines = [unescape(line) for line in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", page.text, re.DOTALL)]
    commands = [shlex.split(line) for line in lines]
    assert [one[1] for one in commands] == ["pull", "pull", "contest", "push"]
    assert commands[2][4] == " ".join(reason.split()), "a shell gives the reason back as it was written"

    team = make_team("doubting", tmp_path)
    trust_all(world, team)
    keys = {"LYNXBENCH_TOKEN": world.tokens["administrator"]}
    for one in commands[:3]:
        done = lynxbench_here(*one[1:], cwd=tmp_path, **team.environment, **keys)
        assert done.code == 0, done.err
    shown = lynxbench_here("results", "show", result.result_id, "--json", cwd=tmp_path, **team.environment)
    said = json.loads(shown.out)["standing"]["contested"]
    assert said[-1]["text"] == " ".join(reason.split())
    noted = [one for one in world.server.audit.list(None, 20) if one.action == "prepare contest"]
    assert noted[0].who.startswith("contester")


def test_the_form_refuses_forgeries_strangers_and_nonsense(world: World) -> None:
    address = f"/results/{world.results[5].result_id}/contest"
    contester = signed_in(world, "contester")
    csrf = hidden(contester.get(address).text)
    assert contester.form(address, {"reason": "no"}).status == 403
    assert contester.form(address, {"csrf": csrf, "reason": "no"}, Origin="https://evil.example").status == 403
    for fields in (
        {"reason": " \n "},
        {"reason": "x" * 4001},
        {"reason": "a\x00b"},
        {"reason": "no", "cites": "feedfeed"},
    ):
        page = contester.form(address, {"csrf": csrf, **fields})
        assert page.status == 422
        assert 'role="alert"' in page.text
    reader = signed_in(world, "reader")
    assert reader.get(address).status == 403
    assert Caller(world.port).get(address).status == 303
    assert contester.get("/results/feedfeedfeed/contest").status == 404
    hostile = contester.form(address, {"csrf": csrf, "reason": "</textarea><script>alert(1)</script>"})
    assert "<script>alert" not in hostile.text
