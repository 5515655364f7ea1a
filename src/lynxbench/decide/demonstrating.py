"""A worked example: a software-bound chat service, a proposed swap, two precisions. Invented, and it says so.

Its results lie in `data/example`, invented figures in the exact form of measured ones, and go the way of measured ones:
sealed, recorded, contested, decided, packed. They are signed by a key that is made for them and thrown away, every
entry says that it is invented, and no other ledger takes them. The latency curve was drawn from a simulated queue of
24 slots with gamma service of half a second (0.42 s to the first token), so that capacity has something true to find.
"""

import tempfile
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path

from lynxbench import __version__
from lynxbench.decide.capacity import CapacityDemand, plan_capacity
from lynxbench.decide.cost import CostQuestion, PricedOption, report_cost
from lynxbench.decide.deciding import Gathered, ask_purchase, incomparable, read_catalogue
from lynxbench.decide.demand import declare_demand
from lynxbench.decide.packing import MadePack, pack_into
from lynxbench.decide.precision_choice import decide_precisions
from lynxbench.decide.tenure import Owning, Terms
from lynxbench.evidence.documents import RESULT_FILE, parse_result
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.keys import HOME_VARIABLE, SigningKey
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.location import OpenLedger, locate, open_ledger
from lynxbench.ledger.result_standings import standings
from lynxbench.ledger.result_summary import summary_of
from lynxbench.model.contract import Regime
from lynxbench.model.entries import Blob, ContractAgreed, ResultContested, Role, RunRegistered
from lynxbench.model.packs import PackedDecision
from lynxbench.model.quantities import parse_quantity
from lynxbench.model.result import Result
from lynxbench.record.recording import seal

INVENTED = "A worked example: every figure in it is invented. Nobody measured these machines."
PACK_NAME = "decision.lynxpack"
EXAMPLE_TEAM = "worked-example"
DEMAND_PER_S, MEAN_PER_S = 260.0, 110.0


def make_demo(folder: Path, pdf: bool = True) -> tuple[MadePack, tuple[PackedDecision, ...]]:
    """Record the example in a ledger of its own, decide from it, and write the pack into a folder.

    Keys, trust list and ledger live in a folder that goes with it: nobody's name stands behind invented figures.
    """
    with tempfile.TemporaryDirectory(prefix="lynxbench-demo-") as temporary:
        environment = {HOME_VARIABLE: temporary}
        keyring = Keyring(environment=environment)
        key = keyring.create(EXAMPLE_TEAM, EXAMPLE_TEAM, (Role.RUNNER,), datetime.now(UTC))
        location = locate(None, environment)
        assert location is not None
        with open_ledger(location, environment, create=True, example=True) as ledger:
            return demonstrate(ledger, key, keyring.trust, folder, pdf)


def demonstrate(
    ledger: OpenLedger, key: SigningKey, trust: TrustList, folder: Path, pdf: bool = True
) -> tuple[MadePack, tuple[PackedDecision, ...]]:
    """The example in a ledger that takes examples."""
    today, tested, decode = results = demo_results()
    for result in results:
        _record(ledger, result, key)
    doubt = "the test instance stood in another rack, 31 °C at its inlet; ours is at 24 °C"
    ledger.log.append(seal(ResultContested(result_id=tested.result_id, reason=doubt), key, invented=True))
    known = standings(ledger.log, [result.result_id for result in results], trust)
    decisions = decide_demo(Gathered((today, tested, decode), known))
    title = "Should the chat service move to H200?"
    return pack_into(ledger, decisions, folder / PACK_NAME, title, key, trust, INVENTED, pdf), decisions


def decide_demo(gathered: Gathered) -> tuple[PackedDecision, ...]:
    """The five kinds of decision over the example's three results."""
    today, tested, decode = gathered.results
    catalogue = read_catalogue(None)
    served = Gathered((today, tested), gathered.standings)
    purchase, whatif = ask_purchase(served, catalogue, proposed="h200", remeasured_by="ML platform", due="2027-03-31")
    assert whatif is not None
    demand = declare_demand(DEMAND_PER_S, 0.3, MEAN_PER_S)
    plan = plan_capacity(today, CapacityDemand(demand=demand, headroom=0.1, failures=1, claimed_per_s=75.0, pue=1.25))
    energy = parse_quantity("0.21 EUR/kWh")
    terms = {
        "A100 today": Terms(_owning("14000 EUR"), parse_quantity("1.45 EUR/h"), energy, 1.25),
        "H200 proposed": Terms(_owning("32000 EUR"), parse_quantity("3.10 EUR/h"), energy, 1.25),
    }
    results = dict(zip(terms, (today, tested), strict=True))
    chosen = [PricedOption(name, results[name], price) for name, price in terms.items()]
    cost = report_cost(
        chosen,
        CostQuestion(
            demand_per_s=DEMAND_PER_S,
            objective=Regime.COST,
            regimes=True,
            incomparable=incomparable([(option.name, option.result) for option in chosen]),
        ),
    )
    return purchase, whatif, plan, cost, decide_precisions([decode])


@cache
def demo_results() -> tuple[Result, Result, Result]:
    """Today's service, the same on a test instance, and two precisions of its decode step."""
    return _example("today"), _example("tested"), _example("decode")


def _example(name: str) -> Result:
    data = (resources.files("lynxbench.decide") / "data" / "example" / f"{name}.json").read_bytes()
    return parse_result(data, f"{name}.json").model_copy(update={"lynxbench_version": __version__}).sealed()


def _owning(price: str) -> Owning:
    return Owning(parse_quantity(price), parse_quantity("4 years"), 0.1, parse_quantity("700 EUR/year"))


def _record(ledger: OpenLedger, result: Result, key: SigningKey) -> None:
    """A result as a run would record it: contract, announcement, then the result with its document."""
    data = result.model_dump_json(by_alias=True).encode()
    nonce = result.result_id[:32]
    blob = Blob(name=RESULT_FILE, sha256=ledger.blobs.put(data), size_bytes=len(data))
    registered = RunRegistered(
        run_id=result.run_id,
        nonce=nonce,
        contract_id=result.contract_id,
        executor_id=result.executor_id,
        processes_planned=5,
    )
    agreed = ContractAgreed(contract_id=result.contract_id, contract=result.contract)
    ledger.log.append_all(
        [
            seal(agreed, key, invented=True),
            seal(registered, key, invented=True),
            seal(summary_of(result, nonce=nonce, attempts=5), key, (blob,), invented=True),
        ]
    )
