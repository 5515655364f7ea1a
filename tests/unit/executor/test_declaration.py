"""Site files: what is accepted, and one clear line for what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from lynxbench.errors import BadInput
from lynxbench.executor.declaration import parse_declaration, read_declaration
from lynxbench.model.executor import Status, Tier
from lynxbench.model.layers import Layer

FULL = f"""# our rack
lynxbench: 1
procurement:
  item: 8 x H100 node
  price: 250_000
  currency: EUR
  purchased: 2026-03-31
  invoice_sha256: {"ab" * 32}
  contract: C-1
facility:
  cooling: liquid
  inlet_c: 24.5
  power_price_per_kwh: 0.21
  currency: EUR
  pue: 1.2
  rack_limit_kw: 40
demand:
  forecast: doubles until 2027
  slo: p99 time to first token under 500 ms
  seasonality: weekdays
declared:
  system:
    bios_profile: performance
  serving:
    replicas: 3
    zones: [a, b]
"""


def test_everything_stated_becomes_a_declared_field(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(FULL)
    fields = read_declaration(file).fields()
    assert set(fields) == {Layer.PROCUREMENT, Layer.FACILITY, Layer.DEMAND, Layer.SYSTEM, Layer.SERVING}
    assert fields[Layer.PROCUREMENT]["price"].value == 250000
    assert fields[Layer.PROCUREMENT]["purchased"].value == "2026-03-31"
    assert fields[Layer.SERVING]["zones"].value == ["a", "b"]
    everything = [field for named in fields.values() for field in named.values()]
    assert {field.status for field in everything} == {Status.DECLARED}
    assert {field.source for field in everything} == {"declared in site.yaml"}
    assert fields[Layer.PROCUREMENT]["price"].tier is Tier.STATE
    assert fields[Layer.FACILITY]["cooling"].tier is Tier.CONFIGURATION


def test_the_smallest_file() -> None:
    assert parse_declaration("lynxbench: 1\n").fields() == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f:1: the file is empty; begin it with `lynxbench: 1`"),
        ("- 1\n", "f:1: must be keys with values; begin it with `lynxbench: 1`"),
        ("facility: {pue: 1.2}\n", "lynxbench: missing; write `lynxbench: 1`"),
        ("lynxbench: 2\n", "f:1: lynxbench: Input should be 1; it is 2"),
        (
            "lynxbench: 1\nprice: 3\n",
            "f:2: price: unknown key; known here: lynxbench, procurement, facility, demand, declared",
        ),
        ("lynxbench: 1\nsource: x\n", "f:2: source: unknown key; known here: lynxbench, procurement"),
        (
            "lynxbench: 1\nfacility:\n  pue: 1.1\n  puh: 1\n",
            "f:4: facility.puh: unknown key; known here: site, cooling",
        ),
        (
            "lynxbench: 1\nfacility:\n  pue: 0.8\n",
            "f:3: facility.pue: Input should be greater than or equal to 1; it is 0.8",
        ),
        ("lynxbench: 1\nfacility:\n  pue: '1.2'\n", "f:3: facility.pue: Input should be a valid number; it is '1.2'"),
        ("lynxbench: 1\nfacility:\n  inlet_c: 21\n  inlet_c: 22\n", "f:4: facility.inlet_c: written twice; keep one"),
        (
            "lynxbench: 1\nfacility:\n  inlet_c: 200\n",
            "f:3: facility.inlet_c: Input should be less than or equal to 60",
        ),
        ("lynxbench: 1\nfacility:\n  cooling: ice\n", "f:3: facility.cooling: Input should be 'air', 'liquid'"),
        (
            "lynxbench: 1\nprocurement:\n  price: -1\n",
            "f:3: procurement.price: Input should be greater than or equal to 0",
        ),
        ("lynxbench: 1\nprocurement:\n  price: .nan\n", "f:3: '.nan' cannot be recorded as a number"),
        ("lynxbench: 1\nprocurement:\n  price: 1e999\n", "f:3: '1e999' cannot be recorded as a number"),
        ("lynxbench: 1\nprocurement:\n  currency: euro\n", "f:3: procurement.currency: must be three capital letters"),
        (
            "lynxbench: 1\nprocurement:\n  purchased: 2026-02-30\n",
            "f:3: procurement.purchased: '2026-02-30' is not a day",
        ),
        (
            "lynxbench: 1\nprocurement:\n  invoice_sha256: abc\n",
            "f:3: procurement.invoice_sha256: must be 64 lower-case hex",
        ),
        ("lynxbench: 1\nprocurement: 3\n", "f:2: procurement: "),
        (
            "lynxbench: 1\ndeclared:\n  gpu:\n    x: 1\n",
            "f:3: declared.gpu: not a layer; use one of application, serving",
        ),
        ("lynxbench: 1\ndeclared:\n  system:\n    'Bad Name': 1\n", "f:4: declared.system.Bad Name: "),
        ("lynxbench: 1\ndeclared:\n  system:\n    x: {y: 1}\n", "f:4: declared.system.x: "),
        ("lynxbench: 1\ndeclared:\n  system:\n    api_key: abc\n", "f:4: declared: system.api_key looks like a secret"),
        (
            "lynxbench: 1\ndeclared:\n  system:\n    hub: https://a:b@c\n",
            "f:4: declared: system.hub looks like a secret",
        ),
        (
            "lynxbench: 1\ndeclared:\n  system:\n    big: 99999999999999999999\n",
            "f:4: declared: system.big is beyond 2**53",
        ),
        ("lynxbench: 1\na: &x 1\nb: *x\n", "f:2: anchors and aliases are not allowed"),
        ("lynxbench: 1\nfacility: {pue: !!python/object:os.system x}\n", "f:2: tag"),
        ("lynxbench: 1\nfacility: {pue: 1\n", "not YAML"),
        ("lynxbench: 1\n\tfacility: 2\n", "f:2: not YAML"),
        ("lynxbench: 1\n? [a]\n: 1\n", "f:2: a key must be a plain word"),
        ("lynxbench: 1\n---\nlynxbench: 1\n", "not YAML"),
        ("x: " + "[" * 60 + "]" * 60, "nested more than 16 deep"),
        ("lynxbench: 1 #" + "x" * 300_000, "larger than 256 KiB"),
        ("lynxbench: \x00\n", "not YAML"),
    ],
)
def test_a_bad_file_gives_one_line_with_file_line_and_key(text: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_declaration(text, "f")
    message = str(caught.value)
    assert said in message
    assert message.startswith("f:")
    assert "\n" not in message
    assert len(message) < 400


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot be read: No such file"):
        read_declaration(tmp_path / "missing.yaml")
    binary = tmp_path / "site.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match=r"not UTF-8"):
        read_declaration(binary)


def test_the_example_in_the_guide_is_accepted() -> None:
    guide = Path(__file__).parents[3] / "docs" / "how-to" / "declare-a-site.md"
    example = guide.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    fields = parse_declaration(example).fields()
    assert {layer: len(named) for layer, named in fields.items()} == {
        Layer.PROCUREMENT: 10,
        Layer.FACILITY: 8,
        Layer.DEMAND: 6,
        Layer.SYSTEM: 1,
        Layer.SERVING: 1,
    }
