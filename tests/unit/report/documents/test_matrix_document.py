"""Several results at once: a sound pair has the ratio that `compare` gives, an unsound one its rules and no number."""

from itertools import combinations

from compared import make_contract, make_result
from lynxbench.model.comparison import Comparison
from lynxbench.model.result import Result
from lynxbench.record.comparing_results import compare_sides, side_of
from lynxbench.report import words
from lynxbench.report.doc import Section, Table, plain_text
from lynxbench.report.documents.matrix_document import compose_matrix
from lynxbench.report.render_html import HtmlRenderer
from lynxbench.report.render_terminal import render_terminal

LONGER = {
    "task": "embed",
    "model": {"source": "preset", "name": "small"},
    "precisions": ["fp32"],
    "input_tokens": {"distribution": "fixed", "value": 128},
}
SLOWER = (90.0, 90.2, 89.8, 90.1, 89.9)


def held(results: list[Result]) -> tuple[list[str], dict[tuple[str, str], Comparison]]:
    names = [result.result_id for result in results]
    sides = [side_of(result) for result in results]
    pairs = combinations(range(len(results)), 2)
    return names, {(names[i], names[j]): compare_sides(sides[i], sides[j]) for i, j in pairs}


def test_each_pair_has_its_ratio_or_its_rules() -> None:
    results = [
        make_result(started_at="2026-01-01T00:00:00+00:00"),
        make_result(started_at="2026-01-01T01:00:00+00:00", run_means=SLOWER),
        make_result(started_at="2026-01-01T02:00:00+00:00", contract=make_contract(workload=LONGER)),
    ]
    names, comparisons = held(results)
    report = compose_matrix(names, comparisons)
    sections = {block.name: block for block in report.blocks if isinstance(block, Section)}
    (table,) = sections["matrix"].blocks
    assert isinstance(table, Table)
    cells = [[plain_text(cell) for cell in row[1:]] for row in table.rows]
    assert cells[1][0] == "·"
    for (row, column), pair in {(0, 0): (0, 1), (0, 1): (0, 2), (1, 1): (1, 2)}.items():
        comparison = comparisons[names[pair[0]], names[pair[1]]]
        if comparison.refused:
            assert cells[row][column].startswith("refused")
            assert "%" not in cells[row][column]
        else:
            assert comparison.effect is not None
            assert cells[row][column].startswith(words.change_text(comparison.effect))
    assert any(comparison.refused for comparison in comparisons.values())
    assert not all(comparison.refused for comparison in comparisons.values())
    assert "AC" in render_terminal(report, width=160)
    page = HtmlRenderer(site=True).blocks(report.blocks)
    assert f'href="/compare?a={names[0]}&amp;b={names[1]}"' in page
