"""What the ground-truth server makes of prompts: words counted as tokens, and a prefix cache by blocks of words."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any


def prompt_words(body: bytes) -> list[str]:
    """The words of a request's prompt or messages; a part that is no text counts as one."""
    asked = json.loads(body)
    given = asked.get("messages", asked.get("input", asked.get("prompt")))
    turns = given if isinstance(given, list) else [given]
    contents = [turn.get("content") if isinstance(turn, dict) else turn for turn in turns]
    words: list[str] = []
    for content in contents:
        parts: list[Any] = content if isinstance(content, list) else [content]
        for part in parts:
            text = part.get("text") if isinstance(part, dict) else part
            words += text.split() if isinstance(text, str) else ["\0"]
    return words


class BlockCache:
    """Whole blocks that prompts began with; the one that was not used for longest goes first where it is full."""

    def __init__(self, block: int, capacity: int | None) -> None:
        self._block, self._capacity = block, capacity
        self._held: OrderedDict[int, None] = OrderedDict()

    def look_up(self, words: list[str]) -> int:
        """Words of a prompt's leading blocks that were there; then all of its whole blocks are."""
        found, chain, leading = 0, 0, True
        for end in range(self._block, len(words) + 1, self._block):
            chain = hash((chain, *words[end - self._block : end]))
            leading = leading and chain in self._held
            found += self._block if leading else 0
            self._held[chain] = None
            self._held.move_to_end(chain)
        while self._capacity is not None and len(self._held) > self._capacity:
            self._held.popitem(last=False)
        return found

    def empty(self) -> None:
        """Forget everything."""
        self._held.clear()
