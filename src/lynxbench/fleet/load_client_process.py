"""A fresh client whose load is sent from many hosts: `python -m lynxbench.fleet.load_client_process FOLDER`."""

from collections.abc import Iterator
from contextlib import contextmanager

from lynxbench.fleet.cluster import choose, connected
from lynxbench.fleet.fleet_load import FleetProbe
from lynxbench.load.plan import LoadPlan
from lynxbench.run.client_job import ClientHost, ClientJob
from lynxbench.run.client_work import ask


@contextmanager
def probe_on_fleet(job: ClientJob, plan: LoadPlan, hosts: list[ClientHost]) -> Iterator[FleetProbe]:
    """The load on clients of the job's fleet."""
    assert job.fleet is not None
    with connected(job.fleet.address) as fleet:
        nodes, _ = choose(fleet.nodes(), job.fleet.nodes)
        with FleetProbe(plan, fleet, nodes) as probe:
            yield probe
            hosts += probe.clients()


if __name__ == "__main__":
    ask(probe_on_fleet)
