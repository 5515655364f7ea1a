"""What a search that did not end leaves behind and says."""

from __future__ import annotations

from pathlib import Path

from lynxbench.run.search_so_far import forget_so_far, keep_so_far, said_so_far
from served_figures import saturation


def test_the_newest_search_that_did_not_end_is_said(tmp_path: Path) -> None:
    assert said_so_far(tmp_path) == ""
    attempt = tmp_path / "attempts" / "000-01"
    attempt.mkdir(parents=True)
    keep_so_far(attempt, saturation())
    assert said_so_far(tmp_path) == "The search so far (412 s of probes) shows no rate that holds. "
    keep_so_far(attempt, saturation().model_copy(update={"at_least_per_s": 32.0}))
    assert "(412 s of probes): holds at least 32 requests/s, not shown beyond. " in said_so_far(tmp_path)
    forget_so_far(attempt)
    forget_so_far(attempt)
    assert said_so_far(tmp_path) == ""


def test_a_record_of_an_earlier_version_has_the_same_document() -> None:
    assert "at_least_per_s" not in saturation().model_dump(mode="json")
