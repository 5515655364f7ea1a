"""`lynxbench verify PACK`: a procurement pack by itself, years later, without a server."""

from __future__ import annotations

from pathlib import Path

PACK_SUFFIX = ".lynxpack"


def is_pack(path: Path) -> bool:
    """Whether a path is meant as a pack; a run folder or a result document is not."""
    return path.is_file() and path.suffix == PACK_SUFFIX


def verify_pack_file(path: Path, as_json: bool) -> None:
    """Print what holds; EvidenceInvalid where anything does not."""
    import os

    from lynxbench.cli.naming import print_document
    from lynxbench.decide.packing import verify_pack
    from lynxbench.model.canonical import short

    found = verify_pack(path, os.environ)
    if as_json:
        print_document(
            {
                "holds": True,
                "title": found.pack.title,
                "decisions": [one.sentence for one in found.pack.decisions],
                "results": list(found.pack.cites),
                "entries": found.entries,
                "signed_by": list(found.teams),
                "origin": found.origin,
            }
        )
        return
    print(f"pack holds: {found.pack.title}")
    for one in found.pack.decisions:
        print(f"  {one.kind}: {one.sentence}")
    names = ", ".join(short(name) for name in found.pack.cites)
    print(f"  {found.entries} signed entries by {', '.join(found.teams)}, each with its proof; results {names}")
