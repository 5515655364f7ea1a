"""Our own client as a program like the others': `python -m peers.lynxbench_client URL CASE SECONDS REPORT`.

It does what a load run does, with the driver's defaults, and writes what the record says.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lynxbench.engines.openai import OpenAiLanguage, Service, build_body, build_request
from lynxbench.load.driver import run_probe
from lynxbench.load.plan import ClosedLoop, LoadPlan, OpenLoop, TicketTimeouts, parse_target
from lynxbench.load.response_reading import PlainRotation
from peers.cases import ALL, IDLE_LIMIT_S


def main(url: str, name: str, seconds: float, report: Path) -> None:
    """Run the case and write the report."""
    (case,) = (case for case in ALL if case.name == name)
    service = Service(url=url, model="mock")
    script = PlainRotation((build_request(service, build_body(service, "hello there", case.tokens)),))
    target, language = parse_target(url), OpenAiLanguage()
    if case.rate_per_s:
        from lynxbench.load.send_schedule import constant

        offsets = constant(case.rate_per_s, (case.requests or 0) / case.rate_per_s)
        plan = LoadPlan(target, script, language, OpenLoop(offsets), case.limit_s, preconnect=64)
    else:
        stamped = case.name.startswith(("stamps", "role"))
        load = ClosedLoop(
            case.concurrency,
            requests=None if stamped else case.requests,
            ramp_up_s=0.36 if stamped else 0.0,  # one request's length: no lockstep of streams that started together
        )
        limit = seconds if load.requests is None else case.limit_s
        plan = LoadPlan(target, script, language, load, limit, timeouts=TicketTimeouts(idle_s=IDLE_LIMIT_S))
    record = run_probe(plan)

    import numpy as np

    from lynxbench.load.instrument import judge

    first, gaps, verdict = record.first_token_s() * 1e3, record.gaps(), judge(record)
    clean = gaps.seconds[gaps.clean] * 1e3
    late = record.lateness_ns() / 1e6
    counts = {kind: count for kind, count in record.counts().items() if count}
    found = {
        "ttft_mean_ms": float(first.mean()),
        "ttft_p99_ms": float(np.quantile(first, 0.99)),
        "itl_mean_ms": float(gaps.seconds.mean() * 1e3) if len(gaps.seconds) else None,
        "itl_median_ms": float(np.median(clean)) if len(clean) else None,
        "ok": counts.get("ok", 0),
        "failed": len(record) - counts.get("ok", 0),
        "extra": {
            "counts": counts,
            "events": int(record.events.sum()),
            "output_tokens": int(record.output_tokens[record.output_tokens > 0].sum()),
            "ttft_from_write_mean_ms": float(record.server_first_token_s().mean() * 1e3),
            "ttft_from_write_p99_ms": float(np.quantile(record.server_first_token_s(), 0.99) * 1e3),
            "late_mean_ms": float(late.mean()),
            "late_p99_ms": float(np.quantile(late, 0.99)),
            "coalesced_share": record.coalesced_share,
            "busiest_share": verdict.busiest_share,
            "wait_share": verdict.wait_share,
            "void": verdict.void,
            "reasons": list(verdict.reasons),
            "stop_reason": record.stop_reason,
        },
    }
    report.write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]))
