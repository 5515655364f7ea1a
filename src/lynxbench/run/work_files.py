"""The files that a contract's work comes from, read before anything is asked: what is wrong with one is said first."""

from lynxbench.errors import BadInput
from lynxbench.model.contract import Contract
from lynxbench.model.serving import CacheState, OpenAiEngine
from lynxbench.model.workload import ReplayArrival
from lynxbench.run.client_job import read_trace
from lynxbench.workload.answer_checks import read_check
from lynxbench.workload.prompt_files import read_prompt_file
from lynxbench.workload.session_files import read_sessions


def read_work_files(contract: Contract) -> None:
    """Read every one once; BadInput says what is wrong with the first that is."""
    workload, engine = contract.workload, contract.engine
    traced = isinstance(engine, OpenAiEngine) and engine.cache is CacheState.TRACED
    if isinstance(workload.arrival, ReplayArrival):
        trace = read_trace(contract)
        if trace is not None and trace.prefixes is None and traced and workload.prompts is None:
            raise BadInput(f"{workload.arrival.path}: has no hash_ids, which engine.cache traced needs; say avoided")
    if workload.prompts is not None and workload.is_sessions:
        recorded = read_sessions(workload.prompts.file, workload.prompts.sha256)
        if traced and recorded.sessions[0].calls[0].prompt is not None:
            raise BadInput(f"{workload.prompts.file}: texts share what they share; engine.cache traced is for hash_ids")
    elif workload.prompts is not None:
        read_prompt_file(workload.prompts.file, workload.prompts.form, workload.prompts.sha256)
    if workload.answers is not None:
        read_check(workload.answers)
