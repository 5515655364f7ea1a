"""What is laid over a history: the other precisions and the documents, from wherever the results are."""

from pathlib import Path

import pytest

from compared import make_contract, make_precision, make_result
from lynxbench.errors import BadInput
from lynxbench.evidence.documents import write_result
from lynxbench.evidence.trust import TrustList
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.record.histories import Past, history_of, whole_history
from recording_teams import make_team, record

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


def laid_out(folder: Path, *results: Result) -> Path:
    """Results as runs leave them."""
    for number, result in enumerate(results):
        (folder / str(number)).mkdir(parents=True)
        write_result(folder / str(number) / "result.json", result)
    return folder


@pytest.mark.parametrize("reasons", [("the executor changed during the run: framework.torch",), ()])
def test_what_makes_all_of_a_run_doubtful_makes_its_point_doubtful(tmp_path: Path, reasons: tuple[str, ...]) -> None:
    """Found: only the doubts of a precision were asked for, and such a run counted as sound."""
    doubt = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=reasons)
    result = make_result(validity=doubt)
    from_folder = history_of(Past(None, TrustList(), [laid_out(tmp_path / "runs", result)]), "compared", None)
    team = make_team("ml-platform", tmp_path)
    ledger = team.open()
    recorded = record(ledger, result, team.key)
    from_ledger = history_of(Past(ledger, team.keyring.trust), recorded.contract_id, None)
    ledger.log.close()
    assert [len(history.points) for history in (from_folder, from_ledger)] == [1, 1]
    assert [history.sound for history in (from_folder, from_ledger)] == [0, 0]


def test_a_doubt_of_another_precision_is_none_of_this_one(tmp_path: Path) -> None:
    doubt = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("foreign load",))
    whole = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("bf16: foreign load",))
    figures = (make_precision(), make_precision(Precision.BF16, validity=doubt))
    result = make_result(contract=make_contract(workload=BOTH), per_precision=figures, validity=whole)
    past = Past(None, TrustList(), [laid_out(tmp_path, result)])
    assert [history_of(past, "compared", each).sound for each in (Precision.FP32, Precision.BF16)] == [1, 0]


def test_two_contracts_of_one_name_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    """Found: `no such file, and no bundled contract of this name`, of a name that two contracts had."""
    first, second = make_result(), make_result(contract=make_contract(question="Another one?"))
    past = Past(None, TrustList(), [laid_out(tmp_path, first, second)])
    with pytest.raises(BadInput, match="2 contracts have this name; name one by its id") as refused:
        history_of(past, "compared", None)
    for result in (first, second):
        assert result.contract_id[:12] in str(refused.value)
        assert history_of(past, result.contract_id[:12], None).points


def test_folders_of_which_nothing_can_be_read_say_why(tmp_path: Path) -> None:
    """Found: the contract was said not to be there."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "result.json").write_text("{}")
    with pytest.raises(BadInput, match=r"no result in the given folders can be read: .*result\.json"):
        history_of(Past(None, TrustList(), [tmp_path]), "compared", None)
