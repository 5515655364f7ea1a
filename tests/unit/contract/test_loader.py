"""Where contracts come from: text, files, bundled names, stored documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lynxbench.contract.loader import (
    bundled_names,
    parse_contract,
    parse_document,
    read_bundled,
    read_bundled_text,
    read_contract,
)
from lynxbench.errors import BadFile
from lynxbench.model.contract import Contract
from lynxbench.model.file_nodes import LARGEST_FILE_BYTES
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.workload import Task

SOUND = (Path(__file__).parents[2] / "data" / "contracts" / "sound.yaml").read_text(encoding="utf-8")

BUNDLED_IDS = {
    "callable-example": "5f24373d6c0a48f1acb0afdd720414158a070f2eee9a6dec8ab4eb7aa8f4ac71",
    "chat-demo": "e8c96fed9fc294262b092286ddb58c8ef5239fd0a7493946f0b3898d065d8687",
    "chat-serving": "e89c5cdac7f48a96ed6b7ff3a50262b725f066d84ff263eebdc312a6bfbbfc53",
    "embedding": "5965caccef1ba97915c89b147b41473508248044edb0bcfbc1108d2906af7a16",
    "embedding-gpu": "8a854c50d788a92129763ae257273324d85195910ac2e943e8f9406994691a16",
    "llm-chat": "9c5a4fa20ed7be220a1b35052291ac7dc804d78d7e058dd4681c9651e260f912",
    "llm-decode": "e750c12e8605b4c9a675a04ff856718d2db4bd1c72b4f5f88f88b2f99e182eb4",
    "llm-decode-64": "724150de26e1c976550291ee7691f295b504520150b63e3131f6f4f5e67bf1f1",
    "llm-decode-8": "00f557e9afe2ce6160cba502568ac7633e664ecc3b3d098566e9a1a4883e39f2",
    "llm-decode-eager": "67aa3fa0aca5b09948794816f8db9bcc37c4aea0d47cf706b0c8367b90b954be",
    "llm-decode-weights": "e96c3040a0ad0e1b061c9b595ee3b43495d8babb108c91d46f480213e9159c46",
    "llm-prefill": "484cb1371e54a5d6191bfcd64e0ccd9b467b34412e2c20fa64fd4efb0b703497",
    "quickstart": "d584f3ad1f9be727ef2cdb9dee76f2ff2297ab5ba6a7f5b25418284a044c577b",
    "stress": "f5580498714aa5a3c52c7a1c8fd3ad427d9d3eff12f2c02cfbcd39216097bcce",
    "training-step": "666415564cadfd73892579d703a5f27df960f86b9eff5e310c4261387efc28ff",
    "training-step-gpu": "4828a8ee62801ec525be71392d8d29da60157342d3cc335a8e688a228e8c2d4e",
    "vision-gpu": "ae019e381ba9f1017d8722189df154b700fec3c5c810a24b53d5af57e7fe9df3",
}
"""Old results point to these ids. One that changes unasked means that an old contract now means something else.
Where a bundled contract is changed on purpose, take the new id from `lynxbench contract list --json`."""


def test_bundled_contracts_keep_their_ids() -> None:
    assert {name: read_bundled(name).contract_id for name in bundled_names()} == BUNDLED_IDS


def test_a_bare_name_finds_the_file_that_is_called_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports say `lynxbench run NAME`, and a file is usually called after its contract."""
    monkeypatch.chdir(tmp_path)
    own = SOUND.replace(f"name: {parse_contract(SOUND).name}", "name: own", 1)
    Path("own.yaml").write_text(own, encoding="utf-8")
    Path("quickstart.yaml").write_text(own, encoding="utf-8")
    assert read_contract("own").name == "own"
    assert read_contract("quickstart").name == "quickstart", "a bundled name means the bundled contract"
    Path("own").write_text(own.replace("name: own", "name: nearer", 1), encoding="utf-8")
    assert read_contract("own").name == "nearer", "the file itself comes first"
    with pytest.raises(BadFile, match="no such file"):
        read_contract("other")


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_contracts_are_examples_of_the_style(name: str) -> None:
    contract, text = read_bundled(name), read_bundled_text(name)
    assert contract.name == name
    assert len(contract.agreed) >= 2
    assert contract.question.endswith("?")
    assert text.startswith(f"# {name}: ")
    assert max(map(len, text.splitlines())) <= 120
    again = Contract.model_validate_json(json.dumps(contract.canonical()))
    assert again == contract
    assert again.contract_id == contract.contract_id


def test_quickstart_states_its_looser_limits() -> None:
    protocol = read_bundled("quickstart").protocol
    assert (protocol.restarts, protocol.steady.drift, protocol.steady.window_s) == (3, 0.05, 0.5)
    assert (protocol.min_duration_s, protocol.limit_s, protocol.emulated_limit_s) == (9, 11, 20)
    header = read_bundled_text("quickstart").split("lynxbench: 1")[0]
    assert "restarts 3 instead of 5" in header
    assert "drift 5 % instead of 1 %" in header


def test_quickstart_asks_for_what_the_tutorial_promises() -> None:
    contract = read_contract("quickstart")
    assert contract.workload.task is Task.GENERATE
    assert contract.workload.precisions == (Precision.FP32, Precision.BF16, Precision.INT8)
    assert contract.objective.slo[0].at_most_s == 0.25
    assert "owners:" in read_bundled_text("quickstart")
    assert set(contract.owners) == set(Layer)


def test_a_bare_bundled_name_means_the_bundled_one_wherever_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quickstart").write_text(SOUND, encoding="utf-8")
    assert read_contract("quickstart").name == "quickstart"
    assert read_contract("./quickstart").name == "sound"


def test_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "contract.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + SOUND.replace("\n", "\r\n").encode())
    assert read_contract(file) == parse_contract(SOUND)


def test_small_aliases_are_allowed() -> None:
    text = SOUND.replace("{distribution: fixed, value: 32}", "&length {distribution: fixed, value: 16}").replace(
        "output_tokens: {distribution: fixed, value: 16}", "output_tokens: *length"
    )
    workload = parse_contract(text).workload
    assert workload.input_tokens == workload.output_tokens


def test_yaml_1_2_reads_yes_as_a_word_and_an_unquoted_day_as_text() -> None:
    contract = parse_contract(SOUND.replace('"2026-01-31"', "2026-01-31").replace("Is every line right?", "yes"))
    assert contract.question == "yes"
    assert contract.agreed[0].date == "2026-01-31"


def test_surrounding_blanks_of_a_text_are_no_meaning() -> None:
    block = SOUND.replace("question: Is every line right?", "question: |\n  Is every line right?\n")
    assert parse_contract(block).contract_id == parse_contract(SOUND).contract_id


def test_a_stored_document_gives_its_contract_back(tmp_path: Path) -> None:
    contract = parse_contract(SOUND)
    file = tmp_path / "result.json"
    stored = {"contract_id": contract.contract_id, "contract": contract.canonical(), "result_id": "x"}
    file.write_text(json.dumps(stored), encoding="utf-8")
    assert read_contract(file) == contract
    assert parse_document(json.dumps(contract.canonical())) == contract


def test_a_stored_contract_that_was_changed_is_refused() -> None:
    contract = parse_contract(SOUND)
    changed = {**contract.canonical(), "name": "other"}
    with pytest.raises(BadFile, match="is not the id of the contract beside it"):
        parse_document(json.dumps({"contract_id": contract.contract_id, "contract": changed}))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1]", "a key `contract` is needed"),
        ('{"contract": 3}', "must be a mapping of keys, not a whole number"),
        ('{"contract": {"lynxbench": NaN}}', "NaN is not JSON"),
        ('{"contract": {"lynxbench": 1e999}}', "beyond what a number can hold"),
        ('{"contract": {"lynxbench": 99999999999999999999}}', "too large"),
        ('{"contract": {"\\ud800": 1}}', "surrogate"),
        ('{"contract": ' + "[" * 60 + "]" * 60 + "}", "nested deeper"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_stored_documents_are_read_as_strictly(text: str, says: str) -> None:
    with pytest.raises(BadFile, match=says) as caught:
        parse_document(text, "stored.json")
    assert str(caught.value).startswith("stored.json:1: ")


def test_too_large_a_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_bytes(b"# x\n" * (LARGEST_FILE_BYTES // 4 + 1))
    with pytest.raises(BadFile, match="larger than 1 MiB"):
        read_contract(file)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("quikstart", "did you mean quickstart"),
        ("nowhere.yaml", "bundled are callable-example, chat-demo, chat-serving, embedding"),
        (".", "is a folder"),
        ("nul\0.yaml", "cannot be read"),
        ("n" * 5000, "cannot be read"),
    ],
)
def test_what_is_not_there_is_named(name: str, says: str) -> None:
    with pytest.raises(BadFile, match=says) as caught:
        read_contract(name)
    assert str(caught.value).isprintable()


def test_an_unreadable_bundled_name_lists_the_readable_ones() -> None:
    with pytest.raises(BadFile, match="there are callable-example, chat-demo"):
        read_bundled_text("../loader")


def test_a_long_recorded_length_list_is_read(tmp_path: Path) -> None:
    lengths = ", ".join(str(1 + i % 900) for i in range(5000))
    text = SOUND.replace("{distribution: fixed, value: 32}", f"{{distribution: empirical, values: [{lengths}]}}")
    length = parse_contract(text).workload.input_tokens
    assert length is not None
    assert length.distribution == "empirical"
    assert len(length.values) == 5000
