"""What every stored document is: strict, frozen, without unknown keys."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A frozen record that refuses keys it does not know."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, ser_json_inf_nan="null", protected_namespaces=()
    )
