"""What a saturation search on a stationary queue takes, by what its probes were for, beside the rule before this one.

    python benchmarks/search_seconds.py [--searches 12] [--first-seed 81000] [--only M/M/8]

The queues are the 14 of saturation.py and the 12 of further_queues.py; the completion-rate ceiling is wrong by 2 %
(standard deviation). Seconds are those of the simulated servers, and in shares of the mean seconds that the rule of
commit bd80959 took on the same queue (search_seconds.json: its searches, and their seconds by kind of probe). A ratio
is of mean seconds; several queues are put together by the geometric mean. Exit code 1 where that is above 1.2.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from further_queues import FURTHER
from lynxbench.load.saturation import find_saturation
from lynxbench.load.saturation_result import Saturation
from saturation import SERVERS
from simulated_queues import Queue, Server

BEFORE_FILE = Path(__file__).with_name("search_seconds.json")
MOST_TIME = 1.2
KINDS = ("scouts", "at the claim", "above it", "below it")


def search(server: Server, seed: int) -> Saturation:
    """One search, with random numbers of its own."""
    rng = np.random.default_rng((seed, 1))
    ceiling = server.servers * rng.normal(1, 0.02)
    return find_saturation(lambda rate: Queue(server, rate, rng), ceiling, server.bound)


def by_kind(found: Saturation) -> dict[str, float]:
    """Seconds of the probes by where they lay; claims that were lost lie above the one that is printed."""
    seconds = dict.fromkeys(KINDS, 0.0)
    claim = found.passed_per_s or 0.0
    for probe in found.probes:
        place = "at the claim" if probe.rate_per_s == claim else "above it" if probe.rate_per_s > claim else "below it"
        seconds["scouts" if probe.scout else place] += probe.seconds
    return seconds


def ratio_of(server: Server, seeds: range, before: dict[str, float]) -> float:
    """One line: the ratio of mean seconds, and what each kind of probe took of the seconds before."""
    found = [search(server, seed) for seed in seeds]
    whole_s = sum(before.values())
    shares = {kind: float(np.mean([by_kind(each)[kind] for each in found])) / whole_s for kind in KINDS}
    ratio = sum(shares.values())
    widths = [each.failed_per_s / each.passed_per_s - 1 for each in found if each.failed_per_s and each.passed_per_s]
    columns = "".join(f"{before[kind] / whole_s:>8.2f} →{shares[kind]:>5.2f}" for kind in KINDS)
    print(f"{server.name:<22}{ratio:>6.2f}{columns}{np.median(widths or [np.nan]):>8.1%}", flush=True)
    return ratio


def main() -> int:
    """Print the table; 1 where a set of queues takes more than is promised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=12)
    parser.add_argument("--first-seed", type=int, default=81000)
    parser.add_argument("--only", default="", help="queues whose name holds this")
    options = parser.parse_args()
    before = json.loads(BEFORE_FILE.read_text())["queues"]
    seeds, together = range(options.first_seed, options.first_seed + options.searches), []
    print(f"{'queue':<22}{'ratio':>6}" + "".join(f"{kind:>15}" for kind in KINDS) + f"{'width':>8}")
    for name, servers in (("the 14 queues", SERVERS), ("12 further queues", FURTHER)):
        wanted = [server for server in servers if options.only in server.name]
        ratios = [ratio_of(server, seeds, before[server.name]["seconds"]) for server in wanted]
        if ratios:
            together.append(float(np.exp(np.mean(np.log(ratios)))))
            print(f"{name + ', together':<22}{together[-1]:>6.2f}", flush=True)
    return int(any(ratio > MOST_TIME for ratio in together))


if __name__ == "__main__":
    sys.exit(main())
