"""The five signs of a contract's results, of each machine by itself, as its history is."""

from dataclasses import replace

from lynxbench.compare.machine_series import MachineSeries
from lynxbench.compare.stack_signals import read_each_machine, read_signals
from lynxbench.model.history import Signals
from lynxbench.record.contract_machines import MachineNames
from lynxbench.record.histories import Past, record_of, split_machine


def signals_of(past: Past, named: str) -> Signals:
    """The signs of a contract, of each of its machines; `NAME@b` are those of one machine alone."""
    named, asked = split_machine(named)
    record = record_of(past, named)
    names = MachineNames(past.ledger, (), {result.result_id: result for result in record.results}, record.results)
    if not asked:
        records = record.by_machine(names.words)
        unsaid = len(record.results) - sum(len(each.results) for each in records)
        more = (f"{unsaid} results of further machines: {named}@MACHINE shows one",) if unsaid else ()
        return read_each_machine(records).model_copy(update={"left_out": more})
    own = tuple(names.of_machine(record.results, asked))
    others = tuple(result for result in record.results if result.instance_id != own[0].instance_id)
    return read_signals(replace(record, results=own, elsewhere=others, machine=names.words(MachineSeries(own))))
