"""What a machine's own file says is executed; what documents say is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lynxbench.errors import BadInput, CannotRun, Refused
from lynxbench.model.launching import ServerLaunch
from lynxbench.run.machine_servers import (
    MachineServer,
    command_line,
    parse_servers,
    read_server,
    refuse_foreign_arguments,
)
from lynxbench.tables import read_table

FILE = """\
lynxbench_servers: 1
servers:
  llama:
    command: ["{python}", /opt/serve.py, --port, "{port}", --model, m.gguf]
    kind: llamacpp
    environment: {LLAMA_API_KEY: abcdefgh}
    within: 5 min
    allows: [slot-prompt-similarity]
"""


def launch(**arguments: object) -> ServerLaunch:
    return ServerLaunch.model_validate(
        {"server": "llama", "arguments": {name.replace("_", "-"): value for name, value in arguments.items()}}
    )


def llama() -> MachineServer:
    return parse_servers(FILE).servers["llama"]


def test_a_server_is_found_by_its_name_in_the_machines_own_file(tmp_path: Path) -> None:
    home = {"LYNXBENCH_HOME": str(tmp_path)}
    with pytest.raises(CannotRun, match=r"this machine has no .*servers\.yaml; write into it what 'llama' is"):
        read_server("llama", home)
    (tmp_path / "servers.yaml").write_text(FILE)
    assert read_server("llama", home).within_s == 300.0
    with pytest.raises(CannotRun, match=r"'vllm' is none of the servers in .*: llama"):
        read_server("vllm", home)


def test_a_contracts_arguments_stand_behind_the_machines_words() -> None:
    words = command_line(llama(), launch(parallel=4, flash_attn="on"), 8123)
    assert words == [
        *(sys.executable, "/opt/serve.py", "--port", "8123", "--model", "m.gguf"),
        *("--flash-attn", "on", "--parallel", "4"),
    ]
    assert command_line(llama(), launch(), 1, "/other/python")[0] == "/other/python"
    with pytest.raises(BadInput, match=r"engine\.serve\.arguments\.model: servers\.yaml sets it"):
        command_line(llama(), launch(model="other"), 1)


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "/etc"},
        {"host": "0.0.0.0"},
        {"chat_template_file": "x"},
        {"parallel": "/tmp/x"},
        {"lora": "evil.gguf"},
    ],
)
def test_a_strangers_document_may_only_tune(arguments: dict[str, object]) -> None:
    refuse_foreign_arguments(llama(), launch(parallel=4, cache_type_k="q8_0", slot_prompt_similarity=0.1))
    with pytest.raises(Refused, match="which a document may not set; where it is meant, list"):
        refuse_foreign_arguments(llama(), launch(**arguments))


def test_a_server_of_no_known_kind_takes_no_arguments_of_strangers() -> None:
    unknown = llama().model_copy(update={"kind": None})
    refuse_foreign_arguments(unknown, launch(slot_prompt_similarity=0.1))
    with pytest.raises(Refused):
        refuse_foreign_arguments(unknown, launch(parallel=4))


def test_nothing_on_the_list_loads_code_or_opens_a_place() -> None:
    table = read_table("model/server_arguments.toml")
    listed = {name for kind in ("vllm", "sglang", "llamacpp") for name in table[kind]["harmless"]}
    for part in ("remote-code", "path", "file", "url", "host", "port", "plugin", "middleware", "template", "lora"):
        assert not [name for name in listed if part in name], part
