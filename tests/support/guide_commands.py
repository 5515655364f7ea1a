"""The commands that a page shows in its fences, taken apart as a shell takes them; and the real parser, for those
that are not executed."""

from __future__ import annotations

import argparse
import re
import runpy
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from typer.core import TyperGroup
from typer.main import get_command

from lynxbench.cli.main import app

LANGUAGES = ("", "sh")
"""Of fences that hold commands; what a command prints is in a `text` fence, or below a `$`."""
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"(^|\s+)#\s.*$")
_INLINE = re.compile(r"`(lynxbench [^`]*)`")
_ASSIGNMENT = re.compile(r"[A-Z_]+=.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GuideCommand:
    """One line of a fence, as it is written, without its comment."""

    page: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A program with its words, the variables before it and the file that its output goes to."""

    words: tuple[str, ...]
    variables: dict[str, str]
    output: str | None = None


def read_commands(page: Path) -> list[GuideCommand]:
    """What a page tells its reader to type, in its order."""
    found = []
    for fence in _FENCE.finditer(page.read_text(encoding="utf-8")):
        if fence["language"] in LANGUAGES:
            indent = len(fence["indent"])
            lines = [line[indent:] for line in fence["body"].replace("\\\n", " ").splitlines()]
            if any(line.startswith("$ ") for line in lines):
                lines = [line[2:] for line in lines if line.startswith("$ ")]
            texts = (" ".join(_COMMENT.sub("", line).split()) for line in lines)
            found += [GuideCommand(page.name, text) for text in texts if text]
    return found


def read_inline(page: Path) -> list[GuideCommand]:
    """Commands that stand in a sentence."""
    return [GuideCommand(page.name, text) for text in _INLINE.findall(page.read_text(encoding="utf-8"))]


def take_apart(text: str) -> Iterator[SimpleCommand]:
    """The commands of a line, one after the other; they are joined by `&&` alone."""
    words: list[str] = []
    for word in _words(text):
        if word == "&&":
            yield _simple(words)
            words = []
        else:
            words.append(word)
    yield _simple(words)


def _words(text: str) -> list[str]:
    scanner = shlex.shlex(text, posix=True, punctuation_chars="&>")
    scanner.whitespace_split, scanner.commenters = True, ""
    return list(scanner)


def _simple(words: Sequence[str]) -> SimpleCommand:
    rest, variables, output = list(words), {}, None
    if rest[0] == "export":
        return SimpleCommand((), dict(word.split("=", 1) for word in rest[1:]))
    while _ASSIGNMENT.fullmatch(rest[0]):
        name, _, variables[name] = rest.pop(0).partition("=")
    if len(rest) > 2 and rest[-2] == ">":
        output = rest[-1]
        rest = rest[:-2]
    return SimpleCommand(tuple(rest), variables, output)


def parse_only(words: Sequence[str], *, whole: bool = True) -> None:
    """Let the real parser read a command without carrying it out; `whole`: with all that the command needs."""
    command: Any = get_command(app)
    parent, rest = None, [word for word in words if word != "--help"]
    while True:
        try:
            context = command.make_context(command.name, rest, parent=parent)
        except Exception as error:
            if not whole and type(error).__name__ == "MissingParameter":
                return
            raise
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        if not isinstance(context.command, TyperGroup) or not rest:
            return
        _, command, rest = context.command.resolve_command(context, rest)
        parent = context


class _Read(Exception):
    """The words were understood; nothing is carried out."""


def parse_tool(file: Path, words: Sequence[str]) -> None:
    """Let the parser of a tool of the repository read its words; SystemExit where it does not know one."""
    parse = argparse.ArgumentParser.parse_args

    def read(parser: argparse.ArgumentParser) -> None:
        parse(parser)
        raise _Read

    with (
        mock.patch.object(sys, "argv", [str(file), *words]),
        mock.patch.object(argparse.ArgumentParser, "parse_args", read),
        suppress(_Read),
    ):
        runpy.run_path(str(file), run_name="__main__")
