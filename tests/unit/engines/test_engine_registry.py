"""Engines are found by name, plugins by entry point, and what is missing is said in one line."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from lynxbench.engines import engine_registry as registry
from lynxbench.errors import CannotRun
from lynxbench.model.contract import CallableEngine, OnnxEngine, PluginEngine


def plugin_spec() -> PluginEngine:
    return PluginEngine(name="plugin", plugin="mine")


def register(monkeypatch: pytest.MonkeyPatch, *entries: EntryPoint) -> None:
    def fake(group: str, name: str | None = None) -> list[EntryPoint]:
        return [e for e in entries if e.group == group and name in (None, e.name)]

    monkeypatch.setattr(registry, "entry_points", fake)


def entry(value: str, name: str = "mine") -> EntryPoint:
    return EntryPoint(name=name, value=value, group=registry.ENTRY_POINT_GROUP)


def test_built_in_engines_are_named_as_contracts_name_them() -> None:
    assert registry.load_engine(CallableEngine(name="callable")).name == "callable"
    assert registry.load_engine(OnnxEngine(name="onnx")).name == "onnx"


def test_missing_runtime_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CannotRun, match=r"engine onnx: .*pip install 'lynxbench\[onnx\]'"):
        registry.load_engine(OnnxEngine(name="onnx"))


def test_engine_whose_module_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "onnx", "lynxbench_no_such_engine:engine")
    with pytest.raises(CannotRun, match="lynxbench_no_such_engine is missing"):
        registry.load_engine(OnnxEngine(name="onnx"))


def test_plugin_is_loaded_by_entry_point(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lynx_plugin_ok.py").write_text(
        "class E:\n"
        "    name = 'mine'\n"
        "    def available(self): return None\n"
        "    def estimate(self, job): return None\n"
        "    def open(self, job): raise NotImplementedError\n"
        "def engine(): return E()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    register(monkeypatch, entry("lynx_plugin_ok:engine"))
    assert registry.load_engine(plugin_spec()).name == "mine"
    assert registry.registered_plugins() == ("mine",)


def test_unknown_plugin_lists_the_registered_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, entry("json:loads", name="other"))
    with pytest.raises(CannotRun, match=r"'mine'.*registered: other"):
        registry.load_engine(plugin_spec())


def test_plugin_registered_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, entry("a:engine"), entry("b:engine"))
    with pytest.raises(CannotRun, match=r"registered twice \(a:engine, b:engine\)"):
        registry.load_engine(plugin_spec())


@pytest.mark.parametrize(
    ("value", "said"),
    [("lynx_absent_module:engine", "cannot be loaded: ModuleNotFoundError"), ("collections:OrderedDict", "lacks name")],
)
def test_broken_plugin_is_one_line(monkeypatch: pytest.MonkeyPatch, value: str, said: str) -> None:
    register(monkeypatch, entry(value))
    with pytest.raises(CannotRun, match=said) as caught:
        registry.load_engine(plugin_spec())
    assert "\n" not in str(caught.value)


def test_loading_an_engine_imports_nothing_heavy() -> None:
    code = (
        "import sys; from lynxbench.engines.engine_registry import load_engine; "
        "from lynxbench.model.contract import OnnxEngine, CallableEngine; "
        "load_engine(OnnxEngine(name='onnx')); load_engine(CallableEngine(name='callable')); "
        "sys.exit(' '.join(m for m in ('torch', 'onnx', 'onnxruntime', 'transformers') if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
