"""The result as one JSON text for other programs."""

import json

from lynxbench.model.canonical import plain_json
from lynxbench.model.result import Result
from lynxbench.visible import visible_json


def render_json(result: Result) -> str:
    """One JSON document; NaN and infinities, which JSON lacks, become null, and what is not seen is escaped."""
    text = json.dumps(plain_json(result.document()), ensure_ascii=False, allow_nan=False, indent=2)
    return visible_json(text) + "\n"
