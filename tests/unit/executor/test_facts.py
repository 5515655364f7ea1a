"""Engine facts as fields."""

from __future__ import annotations

import pytest

from lynxbench.errors import BadInput
from lynxbench.executor.facts import fields_from_facts
from lynxbench.model.executor import Status
from lynxbench.model.layers import Layer


def test_keys_name_layer_and_field() -> None:
    fields = fields_from_facts(
        {"application.model_sha256": "ab" * 32, "runtime.options.threads": 2, "application.max_new_tokens": 128},
        "torch",
    )
    assert fields[Layer.APPLICATION]["model_sha256"].value == "ab" * 32
    assert fields[Layer.APPLICATION]["max_new_tokens"].value == 128
    assert fields[Layer.RUNTIME]["options.threads"].value == 2
    assert fields[Layer.RUNTIME]["options.threads"].source == "torch"


@pytest.mark.parametrize("key", ["model", "warp.core", "application.", ".x", ""])
def test_a_key_without_a_layer_is_refused(key: str) -> None:
    with pytest.raises(BadInput, match=r"names no layer; write it as layer\.name"):
        fields_from_facts({key: 1}, "plug-in")


@pytest.mark.parametrize("value", ["https://u:p@host/v1", {"headers": ["Bearer abc"]}])
def test_credentials_are_withheld(value: object) -> None:
    field = fields_from_facts({"serving.base_url": value}, "openai")[Layer.SERVING]["base_url"]  # type: ignore[dict-item]
    assert field.status is Status.UNREADABLE
    assert field.value is None
    assert "withheld" in field.source


def test_numbers_beyond_json_become_text() -> None:
    assert fields_from_facts({"application.seed": 2**63}, "x")[Layer.APPLICATION]["seed"].value == str(2**63)
