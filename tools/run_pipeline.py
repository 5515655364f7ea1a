"""Carry out a composite GitHub Action, or a job of a GitLab template, on this machine, as a runner would.

    python tools/run_pipeline.py .github/actions/ci/action.yml --set inputs.fail-on=doubt --set inputs.base=HEAD~1
    python tools/run_pipeline.py deploy/gitlab-ci.yml --job lynxbench --set CI_MERGE_REQUEST_DIFF_BASE_SHA=HEAD~1

It stands in the folder of the project. Of GitHub's expressions it knows names, quoted words, `==`, `!=`, `&&`, `||` and
brackets; of a composite action, steps that `run` in bash. The exit code is that of the first step that fails.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_TOKEN = re.compile(r"\s*(?:(\|\||&&|==|!=|\(|\))|'((?:[^']|'')*)'|([A-Za-z_][\w.-]*))")
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
"""How GitHub starts `shell: bash`."""


class Unknown(Exception):
    """Something that this runner does not know how to do."""


def main() -> int:
    """Read, carry out, end as the pipeline would."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--job", help="a GitLab template's job")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a context value or variable")
    options = parser.parse_args()
    given = dict(pair.partition("=")[::2] for pair in options.set)
    document = YAML(typ="safe").load(options.file.read_text(encoding="utf-8"))
    if options.job is not None:
        return run_job(document[options.job], given, os.environ)
    return run_action(document, options.file.parent, given, os.environ)


def run_action(
    action: Mapping[str, Any], folder: Path, given: Mapping[str, str], environment: Mapping[str, str]
) -> int:
    """The steps of a composite action, one after the other; after a failure only what asks for it."""
    if action["runs"]["using"] != "composite":
        raise Unknown(f"an action that is {action['runs']['using']}")
    context = {"github.action_path": str(folder.resolve()), **given}
    for name, value in action.get("inputs", {}).items():
        context.setdefault(f"inputs.{name}", filled(str(value.get("default", "")), context))
    code = 0
    with tempfile.TemporaryDirectory(prefix="lynxbench-pipeline-") as place:
        for number, step in enumerate(action["runs"]["steps"]):
            condition = str(step.get("if", "true"))
            if code or not truth(evaluated(condition, {**context, "true": "true"})):
                continue
            output = Path(place) / f"output-{number}"
            output.touch()
            values = {name: filled(str(value), context) for name, value in step.get("env", {}).items()}
            code = _run(step, {**environment, "GITHUB_OUTPUT": str(output), **values})
            for line in output.read_text(encoding="utf-8").splitlines():
                name, _, value = line.partition("=")
                context[f"steps.{step.get('id', number)}.outputs.{name}"] = value
    return code


def run_job(job: Mapping[str, Any], given: Mapping[str, str], environment: Mapping[str, str]) -> int:
    """The script of a GitLab job in one shell, as its runner does."""
    variables = {name: str(value) for name, value in job.get("variables", {}).items()}
    script = "\n".join([*job.get("before_script", []), *job["script"]])
    return subprocess.run([*BASH, "-c", script], env={**environment, **variables, **given}, check=False).returncode


def filled(text: str, context: Mapping[str, str]) -> str:
    """A text with its expressions replaced."""
    return _EXPRESSION.sub(lambda match: evaluated(match[1], context), text)


def evaluated(expression: str, context: Mapping[str, str]) -> str:
    """What an expression comes to; a name that has no value is empty, as on GitHub."""
    tokens = _tokens(expression)
    value, rest = _either(tokens, context)
    if rest:
        raise Unknown(f"the expression {expression!r} beyond {rest[0][1]!r}")
    return value


def truth(value: str) -> bool:
    """Whether a value lets a step run."""
    return value not in ("", "false", "0")


def _run(step: Mapping[str, Any], environment: Mapping[str, str]) -> int:
    if "run" not in step or step.get("shell") != "bash":
        raise Unknown(f"a step without `run` in bash: {step.get('name', step)}")
    with tempfile.NamedTemporaryFile("w", suffix=".sh", encoding="utf-8") as script:
        script.write(step["run"])
        script.flush()
        return subprocess.run([*BASH, script.name], env=dict(environment), check=False).returncode


Tokens = list[tuple[str, str]]


def _tokens(expression: str) -> Tokens:
    tokens, at = [], 0
    while expression[at:].strip():
        match = _TOKEN.match(expression, at)
        if match is None:
            raise Unknown(f"the expression {expression!r} at {expression[at:]!r}")
        sign, word, name = match.groups()
        tokens.append(("sign", sign) if sign else ("name", name) if name else ("word", word.replace("''", "'")))
        at = match.end()
    return tokens


def _either(tokens: Tokens, context: Mapping[str, str]) -> tuple[str, Tokens]:
    value, tokens = _both(tokens, context)
    while tokens[:1] == [("sign", "||")]:
        other, tokens = _both(tokens[1:], context)
        value = value if truth(value) else other
    return value, tokens


def _both(tokens: Tokens, context: Mapping[str, str]) -> tuple[str, Tokens]:
    value, tokens = _equal(tokens, context)
    while tokens[:1] == [("sign", "&&")]:
        other, tokens = _equal(tokens[1:], context)
        value = other if truth(value) else value
    return value, tokens


def _equal(tokens: Tokens, context: Mapping[str, str]) -> tuple[str, Tokens]:
    value, tokens = _single(tokens, context)
    if tokens[:1] in ([("sign", "==")], [("sign", "!=")]):
        other, rest = _single(tokens[1:], context)
        return str((value == other) is (tokens[0][1] == "==")).lower(), rest
    return value, tokens


def _single(tokens: Tokens, context: Mapping[str, str]) -> tuple[str, Tokens]:
    if not tokens:
        raise Unknown("an expression that ends too soon")
    (kind, text), rest = tokens[0], tokens[1:]
    if kind == "word":
        return text, rest
    if kind == "name":
        return context.get(text, ""), rest
    if text != "(":
        raise Unknown(f"an expression with {text!r} where a value should be")
    value, rest = _either(rest, context)
    if rest[:1] != [("sign", ")")]:
        raise Unknown("an expression with an open bracket")
    return value, rest[1:]


if __name__ == "__main__":
    sys.exit(main())
