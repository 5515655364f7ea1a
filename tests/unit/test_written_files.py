"""Every kind of file that people write is read alike: a mistake gives one line with file, line, key and remedy."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lynxbench.cli.main import main
from lynxbench.contract.loader import CONTRACT, parse_contract
from lynxbench.decide.catalogue import CATALOGUE, parse_catalogue
from lynxbench.decide.claiming import lint_claim
from lynxbench.decide.demonstrating import demo_results
from lynxbench.decide.offers import PLAN, parse_offers
from lynxbench.errors import BadFile, ExitCode
from lynxbench.executor.declaration import SITE, parse_declaration
from lynxbench.experiment.defining import EXPERIMENT, parse_definition
from lynxbench.model.document import Document
from lynxbench.model.file_problems import PATTERN_WORDS
from lynxbench.model.strict_file import FileForm
from lynxbench.run.machine_servers import SERVERS, parse_servers
from lynxbench.server.provider_settings import PROVIDER, parse_provider

FORMS: tuple[FileForm[Document], ...] = (CONTRACT, SITE, EXPERIMENT, PLAN, CATALOGUE, SERVERS, PROVIDER)  # type: ignore[assignment]
SOUND: dict[str, str] = {
    "contract": (Path(__file__).parents[1] / "data" / "contracts" / "sound.yaml").read_text(encoding="utf-8"),
    "site": """\
lynxbench: 1
procurement:
  price: 250000
  currency: EUR
facility:
  cooling: liquid
  pue: 1.2
declared:
  serving: {replicas: 3}
""",
    "experiment": """\
lynxbench_experiment: 1
name: threads
question: Do threads matter?
contract: callable-example
smallest_effect: 5 %
restarts: 3
factors:
  - {name: threads, layer: system, sets: engine.threads, levels: [1, 2]}
""",
    "plan": """\
lynxbench: 1
energy_price: 0.21 EUR/kWh
pue: 1.25
candidates:
  - name: A100 today
    result: RESULT
    own: {price: 14000 EUR, life: 4 years, residual: 10 %}
    rent: 1.45 EUR/h
""",
    "catalogue": """\
lynxbench: 1
devices:
  x1:
    title: Example X1
    dense: {bf16: 500}
    memory_gb: 96
    memory: 3.0
    link: 64
    board_w: 500
    native: [bf16]
    released: 2026
    sources: [{what: all, where: sheet}]
""",
    "servers": """\
lynxbench_servers: 1
servers:
  llama:
    command: [llama-server, --port, "{port}"]
    kind: llamacpp
    within: 5 min
""",
    "sign-in": """\
lynxbench_sign_in: 1
issuer: https://login.example/realms/company
client_id: lynxbench
name: Example
groups:
  - {group: bench-readers, team: ml-platform, may: [read]}
clock_skew: 30 s
""",
    "claim": """\
model: llama-3.1-8b-instruct
throughput: 2400 tokens/s
precision: fp8
concurrency: 64
""",
}
PARSERS: dict[str, Callable[[str, str], object]] = {
    "contract": parse_contract,
    "site": parse_declaration,
    "experiment": lambda text, file: parse_definition(text, file, Path()),
    "plan": parse_offers,
    "catalogue": parse_catalogue,
    "servers": parse_servers,
    "sign-in": parse_provider,
    "claim": lint_claim,
}
LONGEST_WAIT_S = 5.0
"""A hostile file may not hold the reader up; the slowest here needs well under a second."""
Mistake = tuple[str, str, int, str, str]
"""What is written in place of what in a sound file; the line and key that must be named, and what must be said."""
MISTAKES: dict[str, dict[str, Mistake]] = {
    "contract": {
        "unknown key": ("batch:", "batches:", 13, "workload.batches", "did you mean batch?"),
        "wrong type": ("restarts: 5", "restarts: five", 22, "protocol.restarts", "a whole number, not 'five'"),
        "wrong unit": ("limit: 90 s", "limit: 90 W", 25, "protocol.limit", "use one of ns, us, µs, ms, s"),
        "missing unit": ("limit: 90 s", "limit: 90", 25, "protocol.limit", "90 has no unit; use one of ns"),
        "out of range": ("restarts: 5", "restarts: 0", 22, "protocol.restarts", "must be at least 1, not 0"),
        "missing key": ("name: sound\n", "", 2, "name", "is missing: short name: lower-case letters"),
        "duplicate key": ("batch: 1", "batch: 1\n  batch: 2", 14, "workload.batch", "the first is on line 13"),
        "not one of": ("regime: throughput", "regime: put", 5, "regime", "not one of latency, throughput, cost"),
    },
    "site": {
        "unknown key": ("cooling:", "coling:", 6, "facility.coling", "did you mean cooling?"),
        "wrong type": ("pue: 1.2", "pue: low", 7, "facility.pue", "must be a number, not 'low'"),
        "wrong unit": ("250000", "250000 EUR", 3, "procurement.price", "must be a number, not '250000 EUR'"),
        "out of range": ("pue: 1.2", "pue: 0.2", 7, "facility.pue", "must be at least 1, not 0.2"),
        "missing key": ("lynxbench: 1\n", "", 1, "lynxbench", "is missing; write `lynxbench: 1`"),
        "duplicate key": ("pue: 1.2", "pue: 1.2\n  pue: 1.3", 8, "facility.pue", "the first is on line 7"),
        "not one of": ("liquid", "liqid", 6, "facility.cooling", "did you mean liquid?"),
    },
    "experiment": {
        "unknown key": ("restarts:", "restart:", 6, "restart", "did you mean restarts?"),
        "wrong type": ("restarts: 3", "restarts: [3]", 6, "restarts", "a whole number, not a list"),
        "wrong unit": ("5 %", "5 s", 5, "smallest_effect", "unit 's' does not fit here; use one of %"),
        "missing unit": ("5 %", "5", 5, "smallest_effect", "5 has no unit; use one of %, such as '5 %'"),
        "out of range": ("restarts: 3", "restarts: 300", 6, "restarts", "must be at most 100, not 300"),
        "missing key": (", layer: system", "", 8, "factors.0.layer", "is missing: the layer that it belongs to"),
        "misspelt contract": ("contract:", "contact:", 4, "contact", "did you mean contract?"),
        "duplicate key": ("restarts: 3", "restarts: 3\nname: x", 7, "name", "the first is on line 2"),
        "not one of": ("layer: system", "layer: gpu", 8, "factors.0.layer", "is not one of application"),
        "level without its name": (
            "[1, 2]", "[1, {sets: {}}]", 8, "factors.0.levels.1.name", "is missing: how the level is called",
        ),
        "list as a level": (
            "[1, 2]", "[1, [2]]", 8, "factors.0.levels.1", "a number, a text or a mapping of keys, not a list",
        ),
        "mistake in the contract inside": (
            "contract: callable-example", "contract: {lynxbench: 1, nome: x}", 4, "contract.nome", "did you mean name?",
        ),
    },
    "plan": {
        "unknown key": ("rent:", "rental:", 8, "candidates.0.rental", "did you mean rent?"),
        "wrong type": ("pue: 1.25", "pue: much", 3, "pue", "must be a number, not 'much'"),
        "wrong unit": ("1.45 EUR/h", "1.45 EUR", 8, "candidates.0.rent", "is EUR; write for example '12 EUR/h'"),
        "missing unit": (
            "1.45 EUR/h", "1.45", 8, "candidates.0.rent", "1.45 has no unit; write for example '12 EUR/h'",
        ),
        "out of range": ("pue: 1.25", "pue: 12", 3, "pue", "must be at most 5, not 12"),
        "missing key": ("    result: RESULT\n", "", 5, "candidates.0.result", "is missing: a result by its path"),
        "duplicate key": ("pue: 1.25", "pue: 1\npue: 2", 4, "pue", "the first is on line 3"),
        "not one of": ("rent: 1.45 EUR/h", "precision: bf15", 8, "candidates.0.precision", "did you mean bf16?"),
    },
    "catalogue": {
        "unknown key": ("board_w:", "board:", 9, "devices.x1.board", "did you mean board_w?"),
        "wrong type": ("link: 64", "link: fast", 8, "devices.x1.link", "must be a number, not 'fast'"),
        "wrong unit": ("link: 64", "link: 64 GB/s", 8, "devices.x1.link", "must be a number, not '64 GB/s'"),
        "out of range": ("memory: 3.0", "memory: 0", 7, "devices.x1.memory", "must be above 0, not 0"),
        "missing key": ("    memory: 3.0\n", "", 3, "devices.x1.memory", "is missing: terabytes a second of the"),
        "duplicate key": ("link: 64", "link: 64\n    link: 63", 9, "devices.x1.link", "the first is on line 8"),
        "unknown precision": ("{bf16: 500}", "{bf17: 500}", 5, "devices.x1.dense.bf17", "did you mean bf16?"),
    },
    "servers": {
        "unknown key": ("command:", "comand:", 4, "servers.llama.comand", "did you mean command?"),
        "wrong type": (
            '[llama-server, --port, "{port}"]', "serve", 4, "servers.llama.command", "must be a list, not 'serve'",
        ),
        "wrong unit": ("5 min", "5 W", 6, "servers.llama.within", "use one of ns, us, µs, ms, s"),
        "missing unit": ("5 min", "5", 6, "servers.llama.within", "5 has no unit; use one of ns"),
        "out of range": ("5 min", "0 s", 6, "servers.llama.within", "must be above 0 s, not '0 s'"),
        "missing key": (
            '    command: [llama-server, --port, "{port}"]\n', "", 3, "servers.llama.command", "is missing: the words",
        ),
        "duplicate key": ("within: 5 min", "within: 5 min\n    within: 1 s", 7, "servers.llama.within", "is on line 6"),
        "not one of": ("llamacpp", "lamacpp", 5, "servers.llama.kind", "did you mean llamacpp?"),
    },
    "sign-in": {
        "unknown key": ("client_id:", "clientid:", 3, "clientid", "did you mean client_id?"),
        "wrong type": ("[read]", "read", 6, "groups.0.may", "must be a list, not 'read'"),
        "wrong unit": ("30 s", "30 W", 7, "clock_skew", "use one of ns, us, µs, ms, s"),
        "missing unit": ("30 s", "30", 7, "clock_skew", "30 has no unit; use one of ns"),
        "out of range": ("30 s", "10 min", 7, "clock_skew", "must be at most 300 s, not '10 min'"),
        "missing key": ("client_id: lynxbench\n", "", 1, "client_id", "is missing: under which name the provider"),
        "duplicate key": ("name: Example", "name: Example\nname: x", 5, "name", "the first is on line 4"),
        "not one of": ("[read]", "[reed]", 6, "groups.0.may.0", "did you mean read?"),
        "plain http": ("https:", "http:", 2, "issuer", "write https://NAME; plain http is for this machine alone"),
        "no team": ("ml-platform", "ML Platform", 6, "groups.0.team", "is no team name: use lower-case words"),
    },
    "claim": {
        "duplicate key": ("precision: fp8", "precision: fp8\nmodel: b", 4, "model", "the first is on line 1"),
    },
}  # fmt: skip


def _broken(kind: str, mistake: Mistake) -> str:
    old, new, *_ = mistake
    assert SOUND[kind].count(old) == 1, old
    return SOUND[kind].replace(old, new)


def _refusal(kind: str, text: str) -> BadFile:
    started = time.process_time()
    with pytest.raises(BadFile) as caught:
        PARSERS[kind](text, "f.yaml")
    assert time.process_time() - started < LONGEST_WAIT_S
    error = caught.value
    where = f"f.yaml:{error.line}:" + (f" {error.key}:" if error.key else "")
    assert str(error) == f"{where} {error.problem}"
    assert str(error).isprintable(), "one line, and nothing that moves a terminal's cursor"
    assert len(str(error)) < 400
    assert error.exit_code == ExitCode.BAD_INPUT
    assert error.__cause__ is None, "the reader is not shown the validator's own words"
    return error


@pytest.mark.parametrize("kind", SOUND)
def test_the_files_they_differ_from_are_sound(kind: str) -> None:
    PARSERS[kind](SOUND[kind], "f.yaml")


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, mistakes in MISTAKES.items() for name in mistakes])
def test_a_mistake_is_named_with_its_line_its_key_and_what_would_be_right(kind: str, name: str) -> None:
    _, _, line, key, says = MISTAKES[kind][name]
    error = _refusal(kind, _broken(kind, MISTAKES[kind][name]))
    assert (error.line, error.key) == (line, key)
    assert says in error.problem


def test_every_kind_is_tried_with_every_mistake() -> None:
    usual = {"unknown key", "wrong type", "wrong unit", "out of range", "missing key", "duplicate key"}
    for kind in SOUND.keys() - {"claim"}:  # a claim may say anything
        assert usual <= MISTAKES[kind].keys()


@pytest.mark.parametrize("kind", SOUND)
@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("\tx: 1\n", "a tab is used to indent; YAML wants spaces"),
        (" x: 1\n", "; align the keys"),
        ("x: [1, 2\n", "; close what is opened here"),
        ("x: 'y\n", "; close what is opened here"),
        ("x\n", "; write `key: value`"),
        ("x: @y\n", "; quote what is meant as text"),
        ("---\nx: 1\n", "a second document starts here"),
        ("x: !!python/object:os.system y\n", "the tag tag:yaml.org,2002:python/object:os.system has no meaning"),
        ("<<: {x: 1}\n", "merge keys (<<) are not part of YAML 1.2"),
        ("x: .inf\n", ".inf is not a finite number"),
        ("x: 0x10\n", "0x10 is an unusual spelling of a number; write plain digits, or quote it as text"),
        ("x: 1_000\n", "1_000 is an unusual spelling of a number; write plain digits, or quote it as text"),
        ("x: 007\n", "007 has leading zeros; write 7, or quote it as text"),
        ("x: 99999999999999999999\n", "is too large a number; the largest is 9007199254740991, or quote it as text"),
        ('x: "\\ud800"\n', "half of a character"),
        ("x: \x07\n", "character U+0007 is not allowed in YAML"),
        ("? [x]\n: 1\n", "a key must be a plain word"),
        ("x: *y\n", "alias *y names no anchor above it"),
        ("x: &x [*x]\n", "alias *x stands inside what it names"),
        ("x: " + "[" * 60 + "]" * 60 + "\n", "x: is nested deeper than 24 levels"),
    ],
)  # fmt: skip
def test_hostile_and_careless_yaml_is_refused_at_its_line(kind: str, more: str, says: str) -> None:
    error = _refusal(kind, SOUND[kind] + more)
    assert error.line is not None
    assert error.line >= SOUND[kind].count("\n")
    assert says in str(error)


@pytest.mark.parametrize("kind", SOUND)
def test_a_file_that_expands_without_bound_is_refused(kind: str) -> None:
    laughs = "".join(f"x{i}: &x{i} [{', '.join([f'*x{i - 1}' if i else 'ha'] * 10)}]\n" for i in range(8))
    assert "expands to more than 150000 values" in _refusal(kind, SOUND[kind] + laughs).problem
    assert "is larger than 1 MiB" in _refusal(kind, SOUND[kind] + "# " + "x" * (1 << 20)).problem


@pytest.mark.parametrize("kind", sorted(SOUND.keys() - {"claim"}))
@pytest.mark.parametrize(("text", "says"), [("", "is empty; "), ("- 1\n", "is a mapping of keys, not a list; ")])
def test_a_file_without_keys_says_how_to_begin_one(kind: str, text: str, says: str) -> None:
    form = dict(zip(SOUND, FORMS, strict=False))[kind]
    assert f"{says}{form.begin}" in _refusal(kind, text).problem


def test_every_pattern_that_a_value_can_miss_is_put_into_words() -> None:
    def patterns(part: object) -> set[str]:
        if isinstance(part, dict):
            own = {part["pattern"]} if isinstance(part.get("pattern"), str) and "examples" not in part else set()
            return own.union(*(patterns(value) for value in part.values()), part.get("patternProperties", {}))
        return set().union(*map(patterns, part)) if isinstance(part, list) else set()

    assert set().union(*(patterns(form.schema) for form in FORMS)) == set(PATTERN_WORDS)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: str(form.noun))
def test_every_required_key_says_what_it_wants(form: FileForm[Document]) -> None:
    parts = {form.document.__name__: form.schema, **form.schema.get("$defs", {})}
    if form is EXPERIMENT:  # its contract is read as a contract
        parts = {name: part for name, part in parts.items() if name not in CONTRACT.schema["$defs"] | {"Contract": 0}}
    for name, part in parts.items():
        for key in part.get("required", ()):
            value = part["properties"][key]
            assert "const" in value or value.get("description"), f"{name}.{key}"


COMMANDS: dict[str, tuple[str, ...]] = {
    "contract": ("contract", "check", "FILE"),
    "site": ("executor", "--declare", "FILE"),
    "experiment": ("experiment", "run", "FILE"),
    "plan": ("decide", "cost", "--plan", "FILE"),
    "catalogue": ("decide", "whatif", "RESULT", "--hardware", "x1", "--catalogue", "FILE"),
    "claim": ("claim", "FILE"),
}


@pytest.mark.parametrize("kind", COMMANDS)
def test_the_command_ends_in_one_line_and_exit_code_2(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LYNXBENCH_LEDGER", "none")
    mistake = MISTAKES[kind]["duplicate key"]
    Path("file.yaml").write_text(_broken(kind, mistake), encoding="utf-8")
    Path("result.json").write_text(json.dumps(demo_results()[0].document()), encoding="utf-8")
    words = {"FILE": "file.yaml", "RESULT": "result.json"}
    monkeypatch.setattr(sys, "argv", ["lynxbench", *(words.get(word, word) for word in COMMANDS[kind])])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == ExitCode.BAD_INPUT
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert f"file.yaml:{mistake[2]}: {mistake[3]}: key is written twice; {mistake[4]}; keep one" in line
