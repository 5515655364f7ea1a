"""The committed reference page is the one the schema gives."""

from __future__ import annotations

from pathlib import Path

from lynxbench.contract.contract_reference import render_reference
from lynxbench.contract.diff import RULES
from lynxbench.contract.explain import explained_keys

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "contract.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_reference(), (
        "renew it: python -m lynxbench.contract.contract_reference > docs/reference/contract.md"
    )


def test_every_key_and_every_rule_is_on_the_page() -> None:
    page = render_reference()
    for name, key in explained_keys().items():
        assert f"| `{name.partition('.')[2]}` |" in page
        assert key.says in page, name
    for path, rule in RULES.items():
        assert f"| `{path}` |" in page
        assert rule.reason in page
