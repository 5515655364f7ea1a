"""Conditions that explain different scores on the same hardware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lynxbench.executor.capture import capture_host
from lynxbench.executor.executor_conditions import notable_conditions
from lynxbench.executor.host import Host
from lynxbench.model.executor import Executor, measured
from lynxbench.model.layers import Layer


def test_a_troubled_node_is_described(make_host: Callable[..., Host], fake_nvml: Callable[..., Any]) -> None:
    host = make_host(environ={"CUDA_LAUNCH_BLOCKING": "1"}, affinity={0, 1, 2})
    found = {
        (finding.subject, finding.reason)
        for finding in notable_conditions(capture_host(host=host, nvml=fake_nvml, plugins=()))
    }
    assert ("device limit", "gpu 3: gpu_power_limit_enforced_w is 650, gpu_power_limit_default_w is 700") in found
    assert ("devices of this node differ", "gpu_power_limit_enforced_w: 650.0, 700.0") in found
    assert ("clocks held down", "gpu 3: software power cap, software thermal") in found
    assert ("device shared", "gpu 7: other processes hold it") in found
    assert ("CPU time limit", "the control group grants 1.5 CPUs' time of 3 visible ones") in found
    assert ("CPU affinity", "this process may use 3 of 4 CPUs") in found
    assert {"link below its maximum", "frequency governor", "NUMA balancing", "blocking launches"} <= {
        s for s, _ in found
    }


def test_a_link_read_warm_decides_over_an_idle_one() -> None:
    def fields(warm: int) -> Executor:
        return Executor(
            layers={
                Layer.ACCELERATOR: {
                    "gpu_pcie_generation_max": measured([5], "t"),
                    "gpu_pcie_generation_now": measured([1], "t"),
                    "gpu_pcie_generation_warm": measured([warm], "t"),
                }
            }
        )

    assert notable_conditions(fields(5)) == ()
    (finding,) = notable_conditions(fields(3))
    assert finding.reason == "gpu 0: PCIe generation 3 of 5 after warm-up"


def test_mixed_libraries_are_noticed() -> None:
    runtime = {
        "cudnn_origin": measured("mixed", "t"),
        "openmp_libraries": measured(["libgomp.so.1", "a/libomp.so"], "t"),
    }
    subjects = [finding.subject for finding in notable_conditions(Executor(layers={Layer.RUNTIME: runtime}))]
    assert subjects == ["mixed cuDNN", "several thread pools"]


def test_a_quiet_machine_has_none() -> None:
    assert notable_conditions(Executor(layers={})) == ()
