"""A finished run as it arrives from its node, hashed again before anybody reads it."""

import io
import shutil
import tarfile
from pathlib import Path

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.manifest import differences, read_manifest
from lynxbench.fleet.node_work import Parcel


def unpack(parcel: Parcel, into: Path) -> Path:
    """The folder as it was sealed on its node: every file is hashed again against the manifest made there."""
    if Path(parcel.run_id).name != parcel.run_id:
        raise EvidenceInvalid(f"{parcel.run_id!r} is no name of a run")
    with tarfile.open(fileobj=io.BytesIO(parcel.archive)) as archive:
        archive.extractall(into, filter="data")
    folder = into / parcel.run_id
    manifest = read_manifest(folder)
    changed = None if manifest is None else differences(folder, manifest)
    if manifest is None or changed:
        shutil.rmtree(folder, ignore_errors=True)
        what = f"{changed[0].path} changed" if changed else "its manifest is missing"
        raise EvidenceInvalid(f"{parcel.run_id}: {what} on the way from its node")
    return folder
