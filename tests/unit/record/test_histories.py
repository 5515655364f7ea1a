"""What is laid over a history: the other precisions and the documents, from wherever the results are."""

from pathlib import Path

from compared import make_contract, make_precision, make_result
from lynxbench.evidence.documents import write_result
from lynxbench.evidence.trust import TrustList
from lynxbench.model.precision import Precision
from lynxbench.record.histories import Past, history_of, whole_history

BOTH = {
    "task": "embed",
    "model": {"source": "preset", "name": "small"},
    "precisions": ["fp32", "bf16"],
    "input_tokens": {"distribution": "fixed", "value": 64},
}


def test_the_other_precisions_and_the_documents_come_with_a_history(tmp_path: Path) -> None:
    contract = make_contract(workload=BOTH)
    made = []
    for day in (1, 2, 3):
        figures = (make_precision(), make_precision(Precision.BF16))
        stamp = f"2026-11-0{day}T00:00:00+00:00"
        made.append(make_result(contract=contract, per_precision=figures, started_at=stamp))
        (tmp_path / str(day)).mkdir()
        write_result(tmp_path / str(day) / "result.json", made[-1])
    past = Past(None, TrustList(), [tmp_path])
    history = history_of(past, contract.contract_id, Precision.BF16)
    others, documents = whole_history(past, contract.contract_id, history)
    assert [other.precision for other in others] == [Precision.FP32]
    assert len(others[0].points) == len(history.points) == 3
    assert {document.result_id for document in documents} == {result.result_id for result in made}
