"""The result as one JSON text for other programs."""

import json
import math
from collections.abc import Mapping

from lynxbench.model.result import Result


def render_json(result: Result) -> str:
    """One JSON document; NaN and infinities, which JSON lacks, become null."""
    return json.dumps(_finite(result.document()), ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
