"""The whole capture: real machine, fake machines, plug-in probes, declarations."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest

from lynxbench.errors import BadInput
from lynxbench.executor.capture import capture_host
from lynxbench.executor.declaration import parse_declaration
from lynxbench.executor.engine_facts import fields_from_facts
from lynxbench.executor.host import Host
from lynxbench.model.executor import Executor, Status, Tier, measured
from lynxbench.model.layers import Layer

MakeHost = Callable[..., Host]


def no_nvml() -> Any:
    raise OSError("no library")


def test_this_machine_is_captured_quickly_and_twice_alike() -> None:
    started = time.process_time()  # what others do to the machine meanwhile is not ours
    first = capture_host()
    assert time.process_time() - started < 2
    second = capture_host()
    assert first.executor_id == second.executor_id
    assert first.instance_id == second.instance_id
    assert set(first.layers) == set(Layer)
    assert first.get(Layer.ACCELERATOR, "cpu_threads")
    assert first.get(Layer.SYSTEM, "kernel")


def test_no_framework_is_imported() -> None:
    code = (
        "import sys; from lynxbench.executor.capture import capture_host; capture_host();"
        "print([m for m in ('torch', 'numpy', 'scipy', 'transformers', 'onnxruntime') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=1800)
    assert done.stdout.strip() == "[]"


def test_identical_machines_share_the_configuration_and_not_the_instance(
    make_host: MakeHost, fake_nvml: Callable[..., Any]
) -> None:
    one = make_host()
    files = {p.relative_to(one.root).as_posix(): p.read_text() for p in one.root.rglob("*") if p.is_file()}
    files |= {
        "etc/machine-id": "ffff0000ffff0000ffff0000ffff0000",
        "proc/sys/kernel/hostname": "node-18.example",
        "proc/loadavg": "9.0 9.0 9.0 1/1 1",
        "proc/uptime": "5.0 5.0",
        "proc/meminfo": files["proc/meminfo"].replace("2113568768", "2113569000"),
        "proc/cpuinfo": files["proc/cpuinfo"].replace("2000.112", "3800.000"),
        "sys/class/hwmon/hwmon0/temp1_input": "90000",
        "sys/bus/pci/devices/0000:18:00.0/current_link_speed": "32.0 GT/s PCIe",
    }
    other = fake_nvml(
        nvmlDeviceGetUUID=lambda g: f"GPU-other-{g}",
        nvmlDeviceGetSerial=lambda g: f"99{g}",
        nvmlDeviceGetTemperature=lambda g, s: 80,
        nvmlDeviceGetClockInfo=lambda g, k: 1980,
        nvmlDeviceGetCurrPcieLinkGeneration=lambda g: 1,
        nvmlDeviceGetComputeRunningProcesses=lambda g: [],
    )
    a = capture_host(host=one, nvml=fake_nvml, plugins=())
    b = capture_host(host=make_host(files), nvml=lambda: other, plugins=())
    assert a.executor_id == b.executor_id
    assert a.instance_id != b.instance_id
    assert a.tier_id(Tier.STATE) != b.tier_id(Tier.STATE)


def test_a_document_round_trips(make_host: MakeHost, fake_nvml: Callable[..., Any]) -> None:
    taken = capture_host(host=make_host(), nvml=fake_nvml, plugins=())
    again = Executor.model_validate_json(json.dumps(taken.model_dump(mode="json")))
    assert again == taken
    assert again.executor_id == taken.executor_id


def test_an_empty_machine_never_raises(make_host: MakeHost) -> None:
    taken = capture_host(host=make_host({}), nvml=no_nvml, plugins=())
    assert taken.layers[Layer.SYSTEM]["kernel"].status is Status.UNREADABLE
    assert taken.executor_id


@pytest.fixture
def plugin_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("acme_probes")
    monkeypatch.setitem(sys.modules, "acme_probes", module)
    return module


def plug(function: str) -> EntryPoint:
    return EntryPoint(name="acme", value=f"acme_probes:{function}", group="lynxbench.probes")


def test_an_installed_package_adds_a_probe(make_host: MakeHost, plugin_module: ModuleType) -> None:
    plugin_module.read = lambda: {  # type: ignore[attr-defined]
        "accelerator": {"acme_chips": measured(4, "acme-smi"), "cpu_model": measured("mine", "acme-smi")},
        Layer.SYSTEM: {"acme_driver": measured(2**60, "acme-smi")},
    }
    taken = capture_host(host=make_host(), nvml=no_nvml, plugins=[plug("read")])
    assert taken.get(Layer.ACCELERATOR, "acme_chips") == 4
    assert taken.get(Layer.ACCELERATOR, "cpu_model") == "Intel(R) Xeon(R) Platinum 8480C"
    assert taken.get(Layer.ACCELERATOR, "acme_cpu_model") == "mine"
    assert taken.get(Layer.SYSTEM, "acme_driver") == str(2**60)
    assert taken.executor_id


@pytest.mark.parametrize(
    "answer", [{"warp": {}}, {"system": {"x": 3}}, None, "text"], ids=["no layer", "no field", "nothing", "text"]
)
def test_a_bad_probe_is_one_unreadable_field(make_host: MakeHost, plugin_module: ModuleType, answer: object) -> None:
    plugin_module.read = lambda: answer  # type: ignore[attr-defined]
    taken = capture_host(host=make_host(), nvml=no_nvml, plugins=[plug("read"), plug("missing")])
    field = taken.layers[Layer.ACCELERATOR]["probe_acme"]
    assert field.status is Status.UNREADABLE
    assert field.source.startswith("probe acme (acme_probes:")


def test_entry_points_are_found_when_installed(
    make_host: MakeHost, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path_factory.mktemp("site")
    (site / "acme_real.py").write_text(
        "from lynxbench.model.executor import measured\n"
        "def read():\n    return {'accelerator': {'acme_real': measured('yes', 'acme')}}\n"
    )
    info = site / "acme_real-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-real\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lynxbench.probes]\nreal = acme_real:read\n")
    monkeypatch.syspath_prepend(str(site))
    taken = capture_host(host=make_host(), nvml=no_nvml)
    assert taken.get(Layer.ACCELERATOR, "acme_real") == "yes"


def test_a_declaration_never_replaces_a_measurement(make_host: MakeHost) -> None:
    declared = parse_declaration(
        "lynxbench: 1\n"
        "procurement: {price: 250000, currency: EUR}\n"
        "facility: {cooling: liquid, inlet_c: 24}\n"
        "declared:\n  accelerator: {cpu_model: Abacus, memory_speed_mts: 5600, bmc: '1.2'}\n"
    )
    bare = capture_host(host=make_host(), nvml=no_nvml, plugins=())
    taken = capture_host(declared, host=make_host(), nvml=no_nvml, plugins=())
    fields = taken.layers[Layer.ACCELERATOR]
    assert fields["cpu_model"].value == "Intel(R) Xeon(R) Platinum 8480C"
    assert fields["declared_cpu_model"].value == "Abacus"
    assert fields["memory_speed_mts"].status is Status.DECLARED
    assert fields["bmc"].value == "1.2"
    assert taken.get(Layer.PROCUREMENT, "price") == 250000
    assert bare.layers[Layer.PROCUREMENT]["price"].status is Status.UNREADABLE
    assert taken.executor_id != bare.executor_id  # cooling and modules change what a machine does


def test_a_price_alone_does_not_change_the_executor(make_host: MakeHost) -> None:
    dear = parse_declaration("lynxbench: 1\nprocurement: {price: 1, currency: EUR}\ndemand: {slo: p99 under 1 s}\n")
    host = make_host()
    with_price = capture_host(dear, host=host, nvml=no_nvml, plugins=())
    without = capture_host(host=host, nvml=no_nvml, plugins=())
    assert with_price.executor_id == without.executor_id
    assert with_price.instance_id == without.instance_id


# --- what an engine says of itself ---


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
