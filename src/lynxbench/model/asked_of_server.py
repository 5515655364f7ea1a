"""Which kinds of work a server with the OpenAI interface can be asked for, and which keys go together then."""

from lynxbench.model.fields import refuse
from lynxbench.model.serving import CacheState, OpenAiEngine
from lynxbench.model.workload import SERVED_TASKS, ReplayArrival, Task, Workload

OPENAI_TASKS = (Task.GENERATE, Task.EMBED, *SERVED_TASKS)
OTHER_FORMS = ("responses", "messages")
"""Endpoints that generate in forms of their own."""


def refuse_unasked(engine: OpenAiEngine, workload: Workload, *, accuracy: bool) -> None:
    """Keys of the engine against those of the workload."""
    if workload.task in SERVED_TASKS and (
        engine.turns > 1 or engine.cache not in (CacheState.AVOIDED, CacheState.ALLOWED)
    ):
        refuse(f"task {workload.task} asks single requests; say turns: 1 and cache avoided or allowed", "engine")
    if workload.task is not Task.GENERATE and engine.endpoint in OTHER_FORMS:
        refuse(f"{engine.endpoint} is a form of task generate, not of {workload.task}", "engine.endpoint")
    if engine.endpoint in OTHER_FORMS and workload.answers is not None:
        refuse(f"forms of answers are asked for in endpoint chat, not {engine.endpoint}", "workload.answers")
    if engine.endpoint in OTHER_FORMS and accuracy:
        refuse("labelled prompts and greedy sets are asked in endpoints chat and completions", "accuracy")
    if workload.prompts is not None and engine.turns > 1:
        refuse("prompts of a file have their own turns; say turns: 1", "engine.turns")
    if workload.models and engine.turns > 1:
        refuse("several models are asked single requests, or sessions of a file; say turns: 1", "engine.turns")
    if engine.cache is CacheState.SHARED and (workload.prompts or workload.task is not Task.GENERATE):
        refuse("a set share is for prompts that are made up to a length, not for a file's", "engine.cache")
    traced = isinstance(workload.arrival, ReplayArrival) or workload.is_sessions
    if engine.cache is CacheState.TRACED and not traced:
        refuse("traced needs a trace: arrival replay, or prompts of form sessions", "engine.cache")
