"""The difference of two executors: what differs is seen, what is equal or long is folded."""

from lynxbench.model.executor import FieldChange, Tier
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.report.documents.executors_document import SHOWN_ROWS, difference_layers
from lynxbench.report.render_html import HtmlRenderer


def change(name: str, before: object, after: object) -> FieldChange:
    return FieldChange(layer=Layer.SYSTEM, name=name, tier=Tier.CONFIGURATION, before=before, after=after)


def rendered(changes: list[FieldChange], equal: dict[Layer, list[str]] | None = None) -> str:
    return HtmlRenderer(site=True).blocks([difference_layers(changes, lambda layer: DEFAULT_OWNERS[layer], equal)])


def test_many_fields_are_folded_after_the_first() -> None:
    page = rendered([change(f"field_{place:03}", place, place + 1) for place in range(200)])
    seen, _, folded = page.partition(f"{200 - SHOWN_ROWS} fields more that differ")
    assert folded
    assert seen.count("<tr>") == SHOWN_ROWS + 1
    assert folded.count("<tr>") == 200 - SHOWN_ROWS + 1, "nothing is left out"


def test_equal_fields_are_counted_and_named_when_unfolded() -> None:
    page = rendered([change("kernel", "6.1", "6.8")], {Layer.SYSTEM: ["glibc", "governor"]})
    assert "1 field of 3" in page
    assert "2 fields equal" in page
    assert "glibc, governor" in page


def test_long_values_show_where_they_differ() -> None:
    flags = " ".join(f"--flag-{place}=on" for place in range(40))
    page = rendered([change("command", f"{flags} --seed=1 {flags}", f"{flags} --seed=2 {flags}")])
    assert "--seed=1" in page
    assert "--seed=2" in page
    assert "--flag-3=" not in page
    same = rendered([change("command", flags, flags + flags)])
    assert "--flag-39=on--flag-0=on" in same
