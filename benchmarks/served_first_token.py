"""What makes the first token of a vLLM come later under one client than under another: one thing changed at a time.

    python3 benchmarks/served_first_token.py --vllm DIR --out OUT [--within 420] [--rounds 2] [--turns 2] [--searches 0]
        [--alone 138] [--together 2]

One bf16 server of Llama 3.1 8B's shape, prompts of 327 tokens that nobody asked before. In this order, each as long as
time is left: both clients with one in flight, where --alone asks for shorter answers than usual, so that there are more
of them; so many searches as served_reference.py has them; `vllm bench serve` and a `lynxbench run` that starts
together, 64 in flight, in turns whose order changes; one request in flight in each of WAYS, in rounds, each round in an
order of its own; both clients with one in flight, where --alone is not given; and 64 in flight once more with the first
requests spread. Both clients ask greedily, for as many requests and as many tokens. For each: the client's median time
to the first token, and the server's own means. `first_token.json` is written anew after each. Exit 4 where no server
starts, 1 where nothing was measured.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from served_reference import (
    CLOSED,
    FIRST_TOKEN_BAR_MS,
    INPUT,
    MODEL,
    OUTPUT,
    ROOT,
    SATURATION,
    SEARCH_S,
    Servers,
    between,
    own_client,
    searched_for,
    seen_by,
)

from offline_node import Node, Step, carry_out, collect  # isort: skip  # served_reference knows where it is

PORT = 8000
READY_S = 240.0
BESIDE_STARTS_S = 3.0
ANSWER = 32
"""Tokens of an answer where ways are compared: a first token does not wait for what comes after it."""
RUN_S, BENCH_S = 60.0, 75.0
"""The most that one run of either client may take with all that is around it."""
ROUND_S = 30.0
SHORT = CLOSED.replace("min_duration: 20 s, limit: 24 s", "min_duration: 8 s, limit: 10 s").replace(
    "concurrency: {in_flight}", "concurrency: {in_flight}, start: {start}"
)
BESIDE = """\
import sys, time
from pathlib import Path
from lynxbench.measure.server_readings import ThreadReader
from lynxbench.measure.telemetry import ReadingsSampler, TelemetrySampler
from urllib.request import urlopen
what, file, port, server = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
class Metrics:
    def read(self):
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return {"bytes": float(len(answer.read()))}
readers = {"metrics": Metrics, "threads": lambda: ThreadReader(server)}
with TelemetrySampler(file) if what == "telemetry" else ReadingsSampler(file, [readers[what]()], 0.5):
    time.sleep(3600)
"""
"""One of the things that a run reads while it asks, by a process of its own and as often as a run does."""
READ = ("telemetry", "metrics", "threads")
WAYS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "plainly": ({}, ()),
    "as text": ({"prompt": "text"}, ()),
    "sampled": ({"temperature": 1.0}, ()),
    "min_tokens": ({"min_tokens": ANSWER}, ()),
    "cache salt": ({"cache_salt": "drawn"}, ()),
    "telemetry beside": ({}, ("telemetry",)),
    "/metrics beside": ({}, ("metrics",)),
    "threads beside": ({}, ("threads",)),
    "all of a run": ({"prompt": "text", "min_tokens": ANSWER}, READ),
}
"""By name: what the body has beside the usual (token ids, greedy, as many tokens as asked), and what is read beside."""
BROKEN = (OSError, ValueError, KeyError, http.client.HTTPException, subprocess.SubprocessError)
"""What a server or a client that fails looks like from here: said, and the rest goes on."""


@contextlib.contextmanager
def read_beside(what: tuple[str, ...], node: Node, server: int) -> Iterator[Callable[[], list[str]]]:
    """Readers in processes of their own; what is given says which of them read nothing."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ended:
        files = {name: Path(folder) / f"{name}.csv" for name in what}
        for name, file in files.items():
            command = [sys.executable, "-c", BESIDE, name, str(file), str(PORT), str(server)]
            child = subprocess.Popen(
                command, env=node.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            ended.callback(child.wait)
            ended.callback(child.kill)
        if what:
            time.sleep(BESIDE_STARTS_S)
        yield lambda: [name for name, file in files.items() if not file.exists() or file.read_bytes().count(b"\n") < 2]


class Prompts:
    """Texts of exactly so many tokens and their token ids, each given once."""

    def __init__(self, tokenizer: Path, seed: int) -> None:
        from tokenizers import Tokenizer

        self.tokenizer, self.rng = Tokenizer.from_file(str(tokenizer)), random.Random(seed)
        count = self.tokenizer.get_vocab_size()
        words = [(number, self.tokenizer.decode([number])) for number in range(count)]
        self.words = [number for number, word in words if word.strip().isascii() and word.strip().isalpha()]

    def draw(self) -> tuple[str, list[int]]:
        """Drawn words, joined and cut until text and ids say the same."""
        while True:
            text = self.tokenizer.decode(self.rng.choices(self.words, k=INPUT))
            ids = list(self.tokenizer.encode(text).ids)[:INPUT]
            text = self.tokenizer.decode(ids)
            if len(ids) == INPUT and list(self.tokenizer.encode(text).ids) == ids:
                return text, ids


def first_token_ms(connection: http.client.HTTPConnection, body: dict[str, Any]) -> tuple[float, float]:
    """One streamed request to its end; milliseconds to its first event, and to the first with text."""
    began, first, written = time.perf_counter(), 0.0, 0.0
    connection.request("POST", "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    while line := answer.readline():
        if not written and line.startswith(b"data: {"):
            now, choices = time.perf_counter(), json.loads(line[6:]).get("choices")
            first = first or (now if choices else 0.0)
            written = now if choices and choices[0].get("text") else 0.0
    if answer.status != 200 or not first:
        raise ValueError(f"answered {answer.status} without a token")
    return (first - began) * 1e3, ((written or first) - began) * 1e3


def asked(way: str, requests: int, prompts: Prompts, node: Node, server: int) -> dict[str, Any]:
    """So many requests one after the other, in one way, over one connection."""
    extra, beside = WAYS[way]
    usual = {"model": MODEL, "max_tokens": ANSWER, "ignore_eos": True, "temperature": 0.0, "stream": True}
    took = []
    with read_beside(beside, node, server) as unread:
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
        before = seen_by(PORT)
        for number in range(requests):
            text, ids = prompts.draw()
            body = usual | {"prompt": ids, "stream_options": {"include_usage": True}} | extra
            if "prompt" in extra:
                body["prompt"] = text
            if "cache_salt" in extra:
                body["cache_salt"] = f"{way} {number} {text[:20]}"
            took.append(first_token_ms(connection, body))
        said = between(before, seen_by(PORT))
        connection.close()
        missing = unread()
    events, texts = ([one[place] for one in took] for place in (0, 1))
    found = {"first_event_ms": round(median(events), 2), "first_text_ms": round(median(texts), 2), "server": said}
    return found | ({"read nothing": missing} if missing else {})


def all_requests(runs: Path, since: float) -> dict[str, float]:
    """What a run recorded of every request: its figures leave the first of them out, the other client leaves none."""
    import numpy as np

    records = [file for file in runs.rglob("record.npz") if file.stat().st_mtime >= since]
    if not records:
        return {}
    with np.load(records[0], allow_pickle=False) as record:
        good = (record["kind"] == 0) & (record["first_token_ns"] > 0)
        took = (record["first_token_ns"] - record["scheduled_ns"])[good] / 1e6
    return {"answered": len(took), "median": round(float(np.median(took)), 2)} if len(took) else {}


class Clients:
    """Both clients against the one server, and what each came to."""

    def __init__(self, node: Node, vllm: Path) -> None:
        self.node, self.vllm, self.steps = node, vllm, list[Step]()
        self.requests: dict[int, int] = {}
        """How many requests our last run sent, by how many in flight: the other client is asked for as many."""
        self.tokenizer = vllm / "vllm_model" / "tokenizer.json"
        self.contracts = node.state / "contracts"
        self.contracts.mkdir(parents=True, exist_ok=True)

    def searched(self, turn: int) -> dict[str, Any]:
        """A search for the saturation point."""
        path = self.contracts / f"vllm-saturation-{turn}.yaml"
        path.write_text(SATURATION.format(model=MODEL, tokenizer=self.tokenizer, input=INPUT, output=OUTPUT, port=PORT))
        self.steps.append(Step(str(path), SEARCH_S + 25))
        return dict(json.loads(searched_for(carry_out(self.node, self.steps[-1]))))

    def ours(self, turn: str, in_flight: int, start: str, output: int) -> dict[str, Any]:
        """A short closed loop, and of all its requests what the other client would say."""
        path = self.contracts / f"first-token-{in_flight}-{start}-{output}-{turn}.yaml"
        path.write_text(
            SHORT.format(
                model=MODEL, tokenizer=self.tokenizer, input=INPUT, output=output, name=path.stem, in_flight=in_flight,
                words=f"started {start}", precision="bf16", port=PORT, restarts=1, start=start,
            )
        )  # fmt: skip
        self.steps.append(Step(str(path), RUN_S))
        before, began = seen_by(PORT), time.time()
        document = carry_out(self.node, self.steps[-1])
        one = (document.get("per_precision") or [{}])[0]
        first = {p["percentile"]: p["estimate"] for p in one.get("latency_ms", {}).get("time-to-first-token", [])}
        said = between(before, seen_by(PORT))
        every = all_requests(self.node.state / "runs", began)
        self.requests[in_flight] = int(every.get("answered") or said["requests"] or in_flight)
        return {"median_ttft_ms": first.get(50), "of_all_ms": every, "status": self.steps[-1].status,
                "throughput": (one.get("throughput") or {}).get("estimate"), "server": said}  # fmt: skip

    def theirs(self, turn: int, in_flight: int, output: int) -> dict[str, Any]:
        """As many requests as ours, in whole waves."""
        waves = max(round(self.requests[in_flight] / in_flight), 1)
        limit_s, before = min(BENCH_S, self.node.left_s), seen_by(PORT)
        found = own_client(
            self.vllm, PORT, in_flight, waves * in_flight, self.node.out,
            seed=100 * in_flight + turn, limit_s=limit_s, output=output,
        )  # fmt: skip
        return found | {"server": between(before, seen_by(PORT))}


def later_ms(pairs: list[dict[str, Any]]) -> list[float]:
    """By how much our median over all requests is later than the other client's, turn by turn."""
    found = []
    for pair in pairs:
        own = pair.get("lynxbench", {}).get("of_all_ms", {}).get("median")
        beside = pair.get("vllm bench serve", {}).get("median_ttft_ms")
        found += [round(own - beside, 2)] if own and beside else []
    return found


def _pair(in_flight: int, start: str, output: int) -> str:
    """What a comparison is called: answers of the usual length are not named."""
    return f"{in_flight} in flight, {start}" + ("" if output == OUTPUT else f", {output} tokens out")


class Comparison:
    """What was found so far, written down after each thing that was measured."""

    def __init__(self, node: Node, server: subprocess.Popen[bytes]) -> None:
        self.node, self.server, self.found = node, server, dict[str, Any]()

    def lacks(self, seconds: float) -> str:
        """Why the next thing cannot be measured; empty where it can."""
        if self.server.poll() is not None:
            return f"the server ended with {self.server.returncode}"
        return f"{self.node.left_s:.0f} s left" if self.node.left_s < seconds else ""

    def keep(self, key: str, what: Any, name: str) -> None:
        """One line, and the whole file anew."""
        self.found.setdefault(key, []).append(what)
        self.node.say(f"{key}, {name}: {json.dumps(what)}")
        (self.node.out / "first_token.json").write_text(json.dumps(self.found, indent=1))

    def searches(self, clients: Clients, turns: int) -> None:
        """One after the other, as long as there is time for a whole one."""
        for turn in range(turns):
            if why := self.lacks(SEARCH_S):
                self.node.say(f"search {turn + 1} left out, {why}")
                return
            try:
                found = clients.searched(turn)
            except BROKEN as error:
                found = {"failed": f"{type(error).__name__}: {error}"[:300]}
            self.keep("saturation", found, f"search {turn + 1}")

    def pairs(self, clients: Clients, in_flight: int, start: str, turns: int, output: int = OUTPUT) -> None:
        """Both clients in turns; the first turn begins with ours, the next with the other."""
        key = _pair(in_flight, start, output)
        for turn in range(turns):
            if why := self.lacks(RUN_S):
                self.node.say(f"{key}: turn {turn + 1} left out, {why}")
                return
            pair: dict[str, Any] = {}
            ways: list[tuple[str, Callable[[], dict[str, Any]]]] = [
                ("lynxbench", lambda turn=turn: clients.ours(str(turn), in_flight, start, output)),  # type: ignore[misc]
                ("vllm bench serve", lambda turn=turn: clients.theirs(turn, in_flight, output)),  # type: ignore[misc]
            ]
            for name, measured in ways[:: -1 if turn % 2 else 1]:
                try:
                    pair[name] = measured()
                except BROKEN as error:
                    pair[name] = {"failed": f"{type(error).__name__}: {error}"[:300]}
            self.keep(key, pair, f"turn {turn + 1}")

    def rounds(self, prompts: Prompts, requests: int, rounds: int, until: float) -> None:
        """Every way once a round."""
        for number in range(rounds):
            for way in prompts.rng.sample(list(WAYS), len(WAYS)):
                why = self.lacks(ROUND_S / len(WAYS)) or ("its time is over" if time.monotonic() > until else "")
                if why:
                    self.node.say(f"round {number + 1}: {way} left out, {why}")
                    return
                try:
                    one = asked(way, requests, prompts, self.node, self.server.pid)
                except BROKEN as error:
                    one = {"failed": f"{type(error).__name__}: {error}"[:300]}
                self.keep(way, one, f"round {number + 1}")

    def conclude(self, in_flight: tuple[str, ...]) -> bool:
        """The two answers in a line each; whether there is one."""
        for way in WAYS:
            good = [one for one in self.found.get(way, []) if "first_event_ms" in one]
            if good:
                events = median(one["first_event_ms"] for one in good)
                prefills = [one["server"]["server_prefill_ms"] for one in good if one["server"]["server_prefill_ms"]]
                prefill = f"{median(prefills):.2f}" if prefills else "not told"
                self.node.say(
                    f"{way:17} first event {events:.2f} ms, server's prefill {prefill} ms, rounds {len(good)}"
                )
        later = {key: later_ms(self.found.get(key, [])) for key in in_flight}
        for key, each in later.items():
            holds = "holds" if each and abs(median(each)) <= FIRST_TOKEN_BAR_MS else "BREAKS"
            self.node.say(f"{key}: ours later by {each} ms: {holds if each else 'nothing to compare'}")
        return any(later.values()) or bool(self.found.get("saturation"))


def main() -> int:
    """The server, what matters most first, and what comes back."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--vllm", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--state", type=Path, default=ROOT / "carry" / "first-token")
    parser.add_argument("--site", type=Path, default=ROOT / "carry" / "site")
    parser.add_argument("--within", type=float, default=420, help="seconds for everything, the server's start included")
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--searches", type=int, default=0)
    parser.add_argument("--alone", type=int, default=OUTPUT, help="tokens of an answer with one in flight")
    parser.add_argument("--together", type=int, help="turns with 64 in flight; as many as --turns by default")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped then too
    node = Node(options.out, options.state, options.site, options.within)
    clients = Clients(node, options.vllm.resolve())
    try:
        return compared_on(Servers(options.vllm, options.out), node, clients, options)
    finally:
        collect(node, clients.steps)  # what was measured comes back, however this ends


def compared_on(servers: Servers, node: Node, clients: Clients, options: argparse.Namespace) -> int:
    """Everything that one server is asked."""
    with servers:
        began = time.monotonic()
        servers.start("bf16", PORT)
        prompts = Prompts(options.vllm / "vllm_model" / "tokenizer.json", seed=7)
        if not servers.answers("bf16", began + min(READY_S, node.left_s)):
            node.say("no server")
            return 4
        node.say(f"the server answered after {time.monotonic() - began:.0f} s")
        compared = Comparison(node, servers.running["bf16"][0])
        try:
            with contextlib.suppress(*BROKEN):
                asked("plainly", 4, prompts, node, compared.server.pid)  # what is compiled or laid out once is behind
            together = options.turns if options.together is None else options.together
            if options.alone != OUTPUT:
                compared.pairs(clients, 1, "together", options.turns, options.alone)
            compared.searches(clients, options.searches)
            compared.pairs(clients, 64, "together", together)
            compared.rounds(prompts, options.requests, options.rounds, time.monotonic() + ROUND_S * options.rounds)
            if options.alone == OUTPUT:
                compared.pairs(clients, 1, "together", options.turns)
            compared.pairs(clients, 64, "spread", min(1, together))
        finally:
            names = ((64, "together", OUTPUT), (1, "together", options.alone), (64, "spread", OUTPUT))
            answered = compared.conclude(tuple(_pair(*name) for name in names))
    return 0 if answered else 1


if __name__ == "__main__":
    sys.exit(main())
