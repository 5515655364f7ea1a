"""What people see."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lynxbench.executor.capture import capture_host
from lynxbench.executor.compatibility import check_compatibility
from lynxbench.executor.executor_conditions import notable_conditions
from lynxbench.executor.host import Host
from lynxbench.executor.native_precisions import precision_table
from lynxbench.model.executor import Tier, difference
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.report.documents.executors_document import compose_difference, compose_executor
from lynxbench.report.render_terminal import render_terminal


def test_every_layer_with_its_owner(make_host: Callable[..., Host], fake_nvml: Callable[..., Any]) -> None:
    taken = capture_host(host=make_host(), nvml=fake_nvml, plugins=())
    report = compose_executor(taken, check_compatibility(taken), notable_conditions(taken), precision_table(taken))
    text = render_terminal(report, width=100, colour=True)
    for layer in Layer:
        assert layer.value.upper() in text
        assert DEFAULT_OWNERS[layer] in text
    assert taken.executor_id[:12] in text
    assert "NVIDIA H100 80GB HBM3 x 8" in text
    assert re.search(r"\x1b\[2m[^\x1b]*unreadable: not declared", text)
    assert "power_limit_enforced_w is 650" in " ".join(text.split())
    assert "known after a run" in text
    assert "tensor cores of capability 9.0 take fp8" in text
    plain = render_terminal(report, width=100).splitlines()
    names = [line for line in plain if line.startswith("  gpu_") and len(line.split()[0]) <= 28]
    assert len(names) > 5
    assert (
        len({len(line) - len(line[2:].lstrip("abcdefghijklmnopqrstuvwxyz_0123456789").lstrip()) for line in names}) == 1
    )
    assert max(map(len, plain)) <= 100


def test_difference_names_layer_and_owner(make_host: Callable[..., Host], fake_nvml: Callable[..., Any]) -> None:
    host = make_host()
    one = capture_host(host=host, nvml=fake_nvml, plugins=())
    other = fake_nvml(nvmlDeviceGetEnforcedPowerLimit=lambda g: 700000)
    two = capture_host(host=host, nvml=lambda: other, plugins=())
    text = render_terminal(
        compose_difference(difference(one, two, [Tier.CONFIGURATION]), ("a.json", "here")), width=120
    )
    assert text.startswith("1 field in 1 layer differ: a.json → here")
    assert "owner: hardware engineering" in text
    assert any(line.split()[:3] == ["gpu_power_limit_enforced_w[3]", "650", "700"] for line in text.splitlines())
    assert render_terminal(compose_difference((), ("a", "b")), width=120) == "no difference between a and b\n"
