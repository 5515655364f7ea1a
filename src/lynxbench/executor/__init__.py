"""Capture of the nine layers that produce a number, field by field; CUDA compatibility; precisions."""

from lynxbench.executor.capture import capture_host
from lynxbench.executor.compatibility import CudaStack, Finding, FindingVerdict, check_compatibility, check_cuda
from lynxbench.executor.conditions import notable_conditions
from lynxbench.executor.declaration import Declaration, parse_declaration, read_declaration
from lynxbench.executor.document import executor_document, parse_executor, read_executor
from lynxbench.executor.facts import fields_from_facts
from lynxbench.executor.precisions import PrecisionSupport, precision_table
from lynxbench.executor.process import capture_process

__all__ = [
    "CudaStack",
    "Declaration",
    "Finding",
    "FindingVerdict",
    "PrecisionSupport",
    "capture_host",
    "capture_process",
    "check_compatibility",
    "check_cuda",
    "executor_document",
    "fields_from_facts",
    "notable_conditions",
    "parse_declaration",
    "parse_executor",
    "precision_table",
    "read_declaration",
    "read_executor",
]
