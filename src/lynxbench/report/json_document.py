"""The result as one JSON text for other programs."""

import json

from lynxbench.model.canonical import plain_json
from lynxbench.model.result import Result


def render_json(result: Result) -> str:
    """One JSON document; NaN and infinities, which JSON lacks, become null."""
    return json.dumps(plain_json(result.document()), ensure_ascii=False, allow_nan=False, indent=2) + "\n"
