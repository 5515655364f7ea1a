"""`run --intervene`: alone, with a word, and with a wrong one."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from lynxbench.cli.run_command import app
from lynxbench.errors import BadInput, CannotRun
from lynxbench.model.interventions import ArgumentChange, InterventionChoice, InterventionScope
from lynxbench.run import pipeline


@pytest.mark.parametrize(
    ("arguments", "contract", "scope"),
    [
        ([], "quickstart", None),
        (["quickstart"], "quickstart", None),
        (["--intervene"], "quickstart", InterventionScope.VERDICT),
        (["--intervene", "quickstart"], "quickstart", InterventionScope.VERDICT),
        (["quickstart", "--intervene"], "quickstart", InterventionScope.VERDICT),
        (["quickstart", "--intervene", "all"], "quickstart", InterventionScope.ALL),
        (["--intervene", "verdict", "quickstart"], "quickstart", InterventionScope.VERDICT),
        (["--intervene=all", "quickstart"], "quickstart", InterventionScope.ALL),
        (["--intervene", "--json"], "quickstart", InterventionScope.VERDICT),
        (["--intervene", "engine.serve.arguments.a=2", "quickstart"], "quickstart", ArgumentChange({"a": 2})),
    ],
)
def test_a_bare_option_means_the_verdict(
    arguments: list[str], contract: str, scope: InterventionChoice | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def stop(
        agreed: Any, out: Any, declaration: Any, progress: Any, intervening: Any, *more: Any, **options: Any
    ) -> None:
        seen.extend((agreed.name, intervening))
        raise CannotRun("stopped here")

    monkeypatch.setattr(pipeline, "run_contract", stop)
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, CannotRun), result.output
    assert seen == [contract, scope]


def test_another_word_is_refused() -> None:
    result = CliRunner().invoke(app, ["quickstart", "--intervene=some"])
    assert isinstance(result.exception, BadInput)
    assert "--intervene 'some': say verdict, all, or a launch argument with its value" in str(result.exception)
