"""`lynxbench verify PACK`: a procurement pack by itself, years later, without a server."""

from __future__ import annotations

import os
from pathlib import Path

from lynxbench.cli.answers import answer
from lynxbench.decide.packing import VerifiedPack, verify_pack
from lynxbench.model.canonical import short


def verify_pack_file(path: Path, as_json: bool) -> None:
    """Print what holds; EvidenceInvalid where anything does not."""
    verified = verify_pack(path, os.environ)
    answer(
        as_json,
        lambda: {
            "holds": True,
            "title": verified.pack.title,
            "decisions": [decision.sentence for decision in verified.pack.decisions],
            "results": list(verified.pack.cites),
            "entries": verified.entries,
            "signed_by": list(verified.teams),
            "origin": verified.origin,
        },
        lambda: _text(verified),
    )


def _text(verified: VerifiedPack) -> str:
    lines = [f"  {decision.kind}: {decision.sentence}\n" for decision in verified.pack.decisions]
    names = ", ".join(short(name) for name in verified.pack.cites)
    signed = (
        f"  {verified.entries} signed entries by {', '.join(verified.teams)}, each with its proof; results {names}\n"
    )
    return "".join([f"pack holds: {verified.pack.title}\n", *lines, signed])
