"""Every malformed contract gives one line that names file, line and key and says what would be right; exit code 2.

The files are in tests/data/contracts/malformed, what each must say is in tests/data/contracts/malformed.json.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lynxbench.cli.contract_command import app
from lynxbench.contract.loader import read_contract
from lynxbench.errors import BadFile, ExitCode

DATA = Path(__file__).parents[2] / "data" / "contracts"
EXPECTED = json.loads((DATA / "malformed.json").read_text(encoding="utf-8"))
LONGEST_S = 5.0
"""Of processor time: a hostile file may not hold the reader up; the slowest here needs well under a second."""


def test_there_are_many_and_all_are_described() -> None:
    assert {path.name for path in (DATA / "malformed").iterdir()} == set(EXPECTED)
    assert len(EXPECTED) >= 90


def test_the_sound_contract_they_differ_from_is_sound() -> None:
    assert read_contract(DATA / "sound.yaml").name == "sound"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_one_line_with_file_line_and_key(name: str) -> None:
    file, expected = DATA / "malformed" / name, EXPECTED[name]
    started = time.process_time()
    with pytest.raises(BadFile) as caught:
        read_contract(file)
    assert time.process_time() - started < LONGEST_S
    error = caught.value
    assert (error.line, error.key) == (expected["line"], expected["key"])
    assert expected["says"] in error.problem
    line = str(error)
    assert line.startswith(f"{file}:{error.line}: ")
    assert line.isprintable(), "one line, and nothing that moves a terminal's cursor"
    assert len(line) < len(str(file)) + 300
    assert error.exit_code == ExitCode.BAD_INPUT
    assert error.__cause__ is None, "the reader is not shown the validator's own words"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_command_ends_in_exit_code_2_without_a_traceback(name: str) -> None:
    answer = CliRunner().invoke(app, ["check", str(DATA / "malformed" / name)])
    assert answer.exit_code == ExitCode.BAD_INPUT
    assert answer.stdout == ""
    assert len(answer.stderr.splitlines()) == 1
    assert EXPECTED[name]["says"] in answer.stderr
    assert "Traceback" not in answer.output
