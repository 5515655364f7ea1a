"""Site files: what is accepted, and one clear line for what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from lynxbench.errors import BadInput
from lynxbench.executor.declaration import parse_declaration, read_declaration
from lynxbench.model.executor import Status, Tier
from lynxbench.model.file_nodes import LARGEST_FILE_BYTES
from lynxbench.model.layers import Layer

FULL = f"""# our rack
lynxbench: 1
procurement:
  item: 8 x H100 node
  price: 250000
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
        ("", "f:1: is empty; begin it with `lynxbench: 1`"),
        ("- 1\n", "f:1: a site file is a mapping of keys, not a list; begin it with `lynxbench: 1`"),
        ("facility: {pue: 1.2}\n", "f:1: lynxbench: is missing; write `lynxbench: 1`"),
        ("lynxbench: 2\n", "f:1: lynxbench: must be 1, not 2"),
        (
            "lynxbench: 1\nprice: 3\n",
            "f:2: price: unknown key; known here: lynxbench, procurement, facility, demand, declared",
        ),
        ("lynxbench: 1\nsource: x\n", "f:2: source: unknown key; known here: lynxbench, procurement"),
        (
            "lynxbench: 1\nfacility:\n  pue: 1.1\n  zone: 1\n",
            "f:4: facility.zone: unknown key; known here: site, cooling",
        ),
        ("lynxbench: 1\nfacility:\n  cooled: air\n", "f:3: facility.cooled: unknown key; did you mean cooling?"),
        ("lynxbench: 1\nfacility:\n  pue: 0.8\n", "f:3: facility.pue: must be at least 1, not 0.8"),
        ("lynxbench: 1\nfacility:\n  pue: '1.2'\n", "f:3: facility.pue: must be a number, not '1.2'"),
        (
            "lynxbench: 1\nfacility:\n  inlet_c: 21\n  inlet_c: 22\n",
            "f:4: facility.inlet_c: key is written twice; the first is on line 3; keep one",
        ),
        ("lynxbench: 1\nfacility:\n  inlet_c: 200\n", "f:3: facility.inlet_c: must be at most 60, not 200"),
        ("lynxbench: 1\nfacility:\n  cooling: ice\n", "f:3: facility.cooling: 'ice' is not one of air, liquid"),
        ("lynxbench: 1\nprocurement:\n  price: -1\n", "f:3: procurement.price: must be at least 0, not -1"),
        ("lynxbench: 1\nprocurement:\n  price: .nan\n", "f:3: procurement.price: .nan is not a finite number"),
        ("lynxbench: 1\nprocurement:\n  price: 1e999\n", "f:3: procurement.price: is not a finite number"),
        ("lynxbench: 1\nprocurement:\n  price: 250_000\n", "f:3: procurement.price: 250_000 is an unusual spelling"),
        (
            "lynxbench: 1\nprocurement:\n  currency: euro\n",
            "f:3: procurement.currency: 'euro': write three capital letters of ISO 4217, such as EUR",
        ),
        (
            "lynxbench: 1\nprocurement:\n  purchased: 2026-02-30\n",
            "f:3: procurement.purchased: '2026-02-30' is not a day of the calendar; write for example '2026-01-31'",
        ),
        (
            "lynxbench: 1\nprocurement:\n  invoice_sha256: abc\n",
            "f:3: procurement.invoice_sha256: 'abc': write 64 lower-case hex digits",
        ),
        ('lynxbench: 1\nfacility:\n  site: "\\e[2J"\n', "f:3: facility.site: '\\x1b[2J': control characters"),
        ("lynxbench: 1\nprocurement: 3\n", "f:2: procurement: must be a mapping of keys, not 3"),
        (
            "lynxbench: 1\ndeclared:\n  gpu:\n    x: 1\n",
            "f:3: declared.gpu: unknown layer; use one of application, serv",
        ),
        ("lynxbench: 1\ndeclared:\n  sistem:\n    x: 1\n", "f:3: declared.sistem: unknown layer; did you mean system?"),
        (
            "lynxbench: 1\ndeclared:\n  system:\n    'Bad Name': 1\n",
            "f:4: declared.system.Bad Name: use lower-case letters, digits and '_'",
        ),
        (
            "lynxbench: 1\ndeclared:\n  system:\n    x: {y: 1}\n",
            "f:4: declared.system.x: must be true, false, a number, a text or a list, not a mapping",
        ),
        (
            "lynxbench: 1\ndeclared:\n  system:\n    x: [a, [b]]\n",
            "f:4: declared.system.x.1: must be true, false, a number or a text, not a list",
        ),
        (
            f"lynxbench: 1\ndeclared:\n  system:\n    x: {'y' * 2001}\n",
            "f:4: declared.system.x: must have at most 2000 characters",
        ),
        ("lynxbench: 1\ndeclared:\n  system:\n    api_key: abc\n", "f:4: declared.system.api_key: looks like a secret"),
        (
            "lynxbench: 1\ndeclared:\n  system:\n    hub: https://a:b@c\n",
            "f:4: declared.system.hub: looks like a secret",
        ),
        (
            "lynxbench: 1\ndeclared:\n  system:\n    hubs: [x, https://a:b@c]\n",
            "f:4: declared.system.hubs: looks like a",
        ),
        (
            "lynxbench: 1\ndeclared:\n  system:\n    big: 99999999999999999999\n",
            "f:4: declared.system.big: 99999999999999999999 is too large a number; the largest is 9007199254740991",
        ),
        ("lynxbench: 1\nfacility: {pue: !!python/object:os.system x}\n", "f:2: facility.pue: the tag"),
        ("lynxbench: 1\nfacility: {pue: 1\n", "f:2: is not YAML"),
        ("lynxbench: 1\n\tfacility: 2\n", "f:2: a tab is used to indent; YAML wants spaces"),
        ("lynxbench: 1\n? [a]\n: 1\n", "f:2: a key must be a plain word"),
        ("lynxbench: 1\n---\nlynxbench: 1\n", "f:2: a second document starts here"),
        ("x: " + "[" * 60 + "]" * 60, "f:1: x: is nested deeper than 24 levels"),
        ("lynxbench: 1 #" + "x" * LARGEST_FILE_BYTES, "f:1: is larger than 1 MiB; a site file is not"),
        ("lynxbench: \x00\n", "f:1: character U+0000 is not allowed in YAML"),
    ],
)
def test_a_bad_file_gives_one_line_with_file_line_and_key(text: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_declaration(text, "f")
    message = str(caught.value)
    assert said in message
    assert message.startswith("f:")
    assert message.isprintable()
    assert len(message) < 400


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no such file"):
        read_declaration(tmp_path / "missing.yaml")
    binary = tmp_path / "site.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match=r"is binary, not text"):
        read_declaration(binary)
    binary.write_bytes(b"lynxbench: 1\n# \xff\n")
    with pytest.raises(BadInput, match=r"site\.yaml:2: is not UTF-8"):
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
