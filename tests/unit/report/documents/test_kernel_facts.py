"""The kernels of a server, in words."""

from pathlib import Path

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.profiled_server import declared_ceilings
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision
from lynxbench.model.server_profile import KernelJoin, ServerKernels
from lynxbench.report.doc import Tone
from lynxbench.report.documents.kernel_facts import MOST_OPERATORS, kernel_table, kernel_text

TRACE = Path(__file__).parents[3] / "data" / "traces" / "naive_attention.json.gz"


def test_what_was_not_seen_says_why_and_shows_no_table():
    kernels = ServerKernels(missing="the server has no /start_profile")
    text = kernel_text(kernels)
    assert text.content == "not seen: the server has no /start_profile"
    assert text.style is Tone.WARN
    assert not kernel_table(kernels).rows


def test_kernels_have_an_owner_and_are_said_to_be_of_a_pass_of_their_own():
    attribution = attribute_trace(
        TRACE,
        ceilings=declared_ceilings("NVIDIA H200"),
        precision=Precision.BF16,
        unprofiled_step_ms=None,
        owner=DEFAULT_OWNERS.__getitem__,
    )
    join = KernelJoin(busy=0.93, outside=0.01, requests=12, work_ms_per_request=3.0)
    kernels = ServerKernels(duration_s=2.0, join=join, attribution=attribution, device="NVIDIA H200")
    text = kernel_text(kernels).content
    assert "93" in text
    assert "12" in text
    assert "layer runtime → ML platform engineering" in text
    assert "no figure of the load" in text
    rows = kernel_table(kernels).rows
    assert 1 <= len(rows) <= MOST_OPERATORS
    assert rows[0][0] == attribution.operators[0].name
