"""The kernels of a server, in words."""

from pathlib import Path

from compared import make_attribution
from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.profiled_server import declared_ceilings
from lynxbench.model.evidence_gate import Lack, Shortfall, without_blame
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision
from lynxbench.model.server_profile import KernelJoin, ServerKernels
from lynxbench.report.doc import Tone
from lynxbench.report.documents.kernel_facts import MOST_OPERATORS, kernel_table, kernel_text
from lynxbench.run.profile_pass import kernel_line

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


def test_kernels_of_a_run_that_carries_no_blame_name_nobody() -> None:
    """Found: the report of a doubtful run blamed a team by its kernels, two lines below `nobody is blamed`."""
    attribution = make_attribution(sentence="software-bound: launches take 60 % of a step")
    join = KernelJoin(busy=0.93, outside=0.01, requests=12, work_ms_per_request=3.0)
    kernels = ServerKernels(duration_s=2.0, join=join, attribution=attribution, device="NVIDIA H200")
    assert "layer " in kernel_text(kernels).content
    doubt = Shortfall(Lack.DOUBTFUL, "bf16 of abc is doubtful (stalls)", "run it again")
    text = kernel_text(kernels, (doubt,)).content
    assert "nobody is blamed, because bf16 of abc is doubtful" in text
    assert "layer " not in text
    assert "software-bound" not in text
    line = kernel_line(kernels)
    assert "software-bound" in line
    shown = without_blame(attribution.model_copy(update={"evidence": ("a share", line)}), (doubt,)).evidence
    assert shown[0] == "a share"
    assert shown[1].endswith("93% of the time with a request open")
