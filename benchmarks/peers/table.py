"""The figures as tables: ratios first, then how far reports are from the truth."""

from __future__ import annotations

from typing import Any

Found = dict[str, dict[str, dict[str, Any]]]
EVENTS_TARGET = 6.0
"""Our events/s over vLLM bench's, at 64 tokens."""


def render(found: Found, targets: dict[str, float]) -> str:
    """Markdown."""
    parts = [
        _ratios(found.get("one_token"), "requests_per_s", "Streaming requests/s, 1 token, 64 open", targets),
        _ratios(found.get("64_tokens"), "events_per_s", "Events/s, 64 tokens, 64 open", {"vllm": EVENTS_TARGET}),
        _stamps(found),
        _open(found.get("open_loop_1000")),
        _faults(found.get("faults")),
        _starts(found),
    ]
    return "\n".join(part for part in parts if part)


def _table(title: str, head: list[str], rows: list[list[str]]) -> str:
    lines = [f"\n### {title}\n", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def _number(value: object, form: str = ",.0f") -> str:
    return format(value, form) if isinstance(value, int | float) else "–"


def _ratios(rows: dict[str, dict[str, Any]] | None, figure: str, title: str, targets: dict[str, float]) -> str:
    if not rows:
        return ""
    ours = rows.get("lynxbench", {})
    lines = []
    for name, row in rows.items():
        line = [name, _number(row.get(figure)), _number(row.get("requests_per_cpu_s"))]
        line += [_number(row.get("client_cpu_share"), ".0%"), _number(row.get("client_core_other_share"), ".0%")]
        theirs, target = row.get(figure), targets.get(name)
        if name == "lynxbench":
            line += ["1", "", ""]
        elif theirs and ours.get(figure):
            ratio = ours[figure] / theirs
            verdict = "" if target is None else f"{'met' if ratio >= target else 'MISSED'} (≥ {target:g})"
            by_cpu = None
            if row.get("requests_per_cpu_s") and ours.get("requests_per_cpu_s"):
                by_cpu = ours["requests_per_cpu_s"] / row["requests_per_cpu_s"]
            line += [_number(ratio, ",.3g"), _number(by_cpu, ",.3g"), verdict]
        else:
            line += ["–", "–", row.get("failure", "")]
        lines.append(line)
    head = [
        "client",
        "per s",
        "requests per CPU second",
        "client CPU",
        "other on its core",
        "ours / theirs",
        "by CPU",
        "",
    ]
    return _table(title, head, lines)


def _stamps(found: Found) -> str:
    lines = []
    for case in (*(f"stamps_{streams}" for streams in (1, 32, 128, 512)), "role_at_start"):
        for name, row in found.get(case, {}).items():
            if "ttft_mean_error_ms" not in row:
                lines.append([case, name, "–", "–", "–", "–", row.get("failure", "no figures")])
                continue
            extra = row["report"].get("extra") or {}
            notes = []
            if (row.get("stolen_ms") or 0) >= 10:
                notes.append(f"the hypervisor took {row['stolen_ms']:.0f} ms")
            if extra.get("coalesced_share"):
                notes.append(f"{extra['coalesced_share']:.2%} coalesced, said")
            if extra.get("void"):
                notes.append(f"void: {'; '.join(extra['reasons'])}")
            lines.append(
                [
                    *(
                        case,
                        name,
                        _number(row["ttft_mean_error_ms"], "+.2f"),
                        _number(row.get("ttft_p99_error_ms"), "+.2f"),
                    ),
                    _number(row.get("itl_mean_error"), "+.2%"),
                    _number(row.get("itl_median_ms"), ".2f"),
                    "; ".join(notes),
                ]
            )
    head = [
        "case",
        "client",
        "TTFT mean error ms",
        "p99 error ms",
        "ITL mean error",
        "ITL median ms (truth 10)",
        "note",
    ]
    return _table("Reported against true, 50 ms to the first token and 10 ms between", head, lines) if lines else ""


def _open(rows: dict[str, dict[str, Any]] | None) -> str:
    if not rows:
        return ""
    lines = [
        [
            *(name, _number(row.get("arrival_rate_per_s"), ",.1f"), _number(row.get("late_mean_ms"), ",.2f")),
            _number(row.get("late_p99_ms"), ",.2f"),
            _number(((row.get("report") or {}).get("extra") or {}).get("late_mean_ms"), ".3f"),
            row.get("failure") or row.get("cannot", ""),
        ]
        for name, row in rows.items()
    ]
    head = ["client", "arrivals/s at the server", "late by mean ms", "p99 ms", "own record, mean ms", ""]
    return _table("Open loop at 1000/s", head, lines)


def _faults(rows: dict[str, dict[str, Any]] | None) -> str:
    if not rows:
        return ""
    lines = []
    for name, row in rows.items():
        report = row.get("report") or {}
        said = (report.get("extra") or {}).get("counts") or {"ok": report.get("ok"), "failed": report.get("failed")}
        lines.append(
            [
                name,
                ", ".join(f"{kind} {count}" for kind, count in (row.get("truth") or {}).items()),
                ", ".join(f"{kind} {count}" for kind, count in said.items()) if report else "no report",
                _number(row.get("took_s"), ".1f"),
                row.get("failure", ""),
            ]
        )
    return _table("5 % dropped, 5 % HTTP 500, 1 % stalled", ["client", "truth", "reported", "took s", ""], lines)


def _starts(found: Found) -> str:
    lines = [
        [name, _number(row.get("first_request_s"), ".2f")]
        for name, row in found.get("one_token", {}).items()
        if "first_request_s" in row
    ]
    return _table("From the command to the first request at the server", ["client", "s"], lines) if lines else ""
