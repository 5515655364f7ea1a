"""What a pack does without its extra, and with files that are no decisions."""

from __future__ import annotations

import builtins
import json
from importlib import resources
from pathlib import Path

import pytest

from lynxbench.decide.deciding import Gathered, ask_purchase, read_catalogue
from lynxbench.decide.demonstrating import demo_results
from lynxbench.decide.packing import NO_PDF, MadePack, read_decision, render_pdf
from lynxbench.errors import BadInput


def test_without_the_extra_there_is_no_pdf_and_a_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name.startswith("weasyprint"):
            raise ImportError(name)
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    assert render_pdf("<p>x</p>") is None
    made = MadePack(tmp_path, tmp_path, tmp_path, None, pdf_wanted=True, results=1, entries=1, team="t")
    assert NO_PDF in made.lines()
    assert "lynxbench[pdf]" in NO_PDF


def test_with_the_extra_it_is_one() -> None:
    try:
        import weasyprint  # noqa: F401
    except OSError:
        pytest.skip("weasyprint's system libraries are missing: install Debian's libpango-1.0-0 and libpangoft2-1.0-0")
    # Every pack has cautions; their marker in the real style once was one that the printer could not lay out.
    style = (resources.files("lynxbench.report") / "style.css").read_text(encoding="utf-8")
    page = f'<style>{style}</style><main><section><ul class="cautions"><li><bdi>x</bdi></li></ul></section></main>'
    printed = render_pdf(page)
    assert printed is not None
    assert printed.startswith(b"%PDF")


def test_a_decision_reads_back_and_anything_else_is_refused(tmp_path: Path) -> None:
    today, tested, _ = demo_results()
    decision, _ = ask_purchase(Gathered((today, tested)), read_catalogue(None), proposed="h200")
    file = tmp_path / "decision.json"
    body = json.loads(decision.model_dump_json())
    file.write_text(json.dumps({**body, "recorded": {"seq": 3}}))
    assert read_decision(file) == decision
    for wrong in ("", "[]", "{}", '{"kind": "purchase"}', json.dumps({**body, "more": 1}), "[" * 100_000):
        file.write_text(wrong)
        with pytest.raises(BadInput, match="decide"):
            read_decision(file)
    with pytest.raises(BadInput):
        read_decision(tmp_path / "nowhere.json")
