"""A fresh client whose load is sent from many hosts: `python -m lynxbench.fleet.load_client_process FOLDER`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lynxbench.fleet.cluster import choose, connected
from lynxbench.fleet.load_clients import FleetProbe
from lynxbench.load.plan import LoadPlan
from lynxbench.run.client.__main__ import main
from lynxbench.run.client.client_job import ClientHost, ClientJob


@contextmanager
def probe_on_fleet(job: ClientJob, plan: LoadPlan, hosts: list[ClientHost]) -> Iterator[FleetProbe]:
    """The load on clients of the job's fleet."""
    assert job.fleet is not None
    with connected(job.fleet.address) as fleet:
        nodes, _ = choose(fleet.nodes(), job.fleet.nodes)
        with FleetProbe(plan, fleet, nodes) as probe:
            yield probe
            hosts += [
                ClientHost(
                    process=client.part,
                    node=client.node,
                    clock_offset_ns=client.offset_ns,
                    clock_bound_ns=client.bound_ns,
                    lost=client.lost,
                )
                for client in probe.clients()
            ]


if __name__ == "__main__":
    main(probe_on_fleet)
