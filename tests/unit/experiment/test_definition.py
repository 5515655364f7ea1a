from __future__ import annotations

import json
from pathlib import Path

import pytest

from lynxbench.errors import BadFile
from lynxbench.experiment.cells import plan_cells
from lynxbench.experiment.defining import bundled_experiments, parse_definition, read_definition
from lynxbench.experiment.definition import Definition
from served import served_contract

TEXT = """\
lynxbench_experiment: 1
name: threads-and-batch
question: Do threads and batch act on each other?
contract: embedding
response: throughput
smallest_effect: 5 %
restarts: 3
factors:
  - {name: threads, layer: system, sets: engine.threads, levels: [1, 2]}
  - {name: batch, layer: serving, sets: workload.batch, levels: [1, 8, 32], target: 8}
  - {name: precision, layer: application, sets: workload.precision, levels: [fp32, int8]}
infeasible:
  - {when: {batch: 32, precision: int8}, reason: the kernel takes at most 16 rows}
"""


def parsed(text: str = TEXT) -> Definition:
    return parse_definition(text, "x.yaml", Path())


def test_cells_are_contracts_with_the_levels_set() -> None:
    cells = plan_cells(parsed())
    assert len(cells) == 12
    last = next(one for one in cells if one.levels == {"threads": "2", "batch": "8", "precision": "int8"})
    assert last.contract is not None
    assert last.contract.engine.threads == 2  # type: ignore[union-attr]
    assert last.contract.workload.batch == 8
    assert [one.value for one in last.contract.workload.precisions] == ["int8"]
    assert last.contract.protocol.restarts == 3
    assert last.words == "threads 2, batch 8, precision int8"
    ruled = [one for one in cells if one.contract is None]
    assert {one.reason for one in ruled} == {"the kernel takes at most 16 rows"}
    assert len(ruled) == 2


def test_a_level_that_makes_no_contract_is_an_infeasible_cell_with_its_reason() -> None:
    text = TEXT.replace("sets: engine.threads, levels: [1, 2]", "sets: engine.graph, levels: [eager, sideways]")
    ruled = [one for one in plan_cells(parsed(text)) if one.contract is None and "sideways" in one.levels.values()]
    assert len(ruled) == 6
    assert any("engine" in one.reason for one in ruled)


def test_the_id_follows_meaning_and_the_canonical_form_reads_back() -> None:
    same = parsed(TEXT.replace("restarts: 3", "restarts:   3 # three"))
    assert same.definition_id == parsed().definition_id
    assert parsed(TEXT.replace("restarts: 3", "restarts: 4")).definition_id != same.definition_id
    again = Definition.model_validate_json(json.dumps(same.canonical()))
    assert again == same


def test_the_target_is_the_last_level_unless_said() -> None:
    assert [factor.target_index for factor in parsed().factors] == [1, 1, 1]
    assert parsed(TEXT.replace(", target: 8", "")).factors[1].target_index == 2


@pytest.mark.parametrize(
    ("change", "line", "key", "says"),
    [
        (("restarts: 3", "restarts: 0"), 7, "restarts", "at least 1"),
        (("restarts: 3", "restart: 3"), 7, "restart", "did you mean restarts?"),
        (("contract: embedding", "contract: embeding"), 4, "contract", "no bundled contract"),
        (("contract: embedding", "contract: 3"), 4, "contract", "a name, a file or a mapping"),
        (("response: throughput", "response: speed"), 5, "response", "throughput, or latency"),
        (("smallest_effect: 5 %", "smallest_effect: 5"), 6, "smallest_effect", "has no unit"),
        (("layer: system", "layer: kernel"), 9, "factors.0.layer", "is not one of"),
        (("sets: engine.threads", "sets: protocol.restarts"), 9, "factors.0.sets", "engine.KEY, workload.KEY"),
        (("levels: [1, 2]", "levels: [1]"), 9, "factors.0.levels", "at least 2"),
        (("levels: [1, 2]", "levels: [1, 1]"), 9, "factors.0.levels.1", "stands twice"),
        (("sets: engine.threads, ", ""), 9, "factors.0.levels.0", "add `sets`"),
        (("name: batch", "name: threads"), 10, "factors.1.name", "stands twice"),
        (("sets: workload.batch", "sets: engine.threads"), 10, "factors.1.sets", "set by factor threads already"),
        (("target: 8", "target: 9"), 10, "factors.1.target", "is not one of the changed levels"),
        (("when: {batch: 32", "when: {rows: 32"), 13, "infeasible.0.when", "no factor is called rows"),
        (("when: {batch: 32", "when: {batch: 33"), 13, "infeasible.0.when.batch", "33 is no level of batch"),
        (("factors:", "design: {kind: fractional}\nfactors:"), 8, "design", "two levels each"),
        (("factors:", "server: {command: [serve], ready: x}\nfactors:"), 8, "server", "has no server"),
        (("factors:", "lanes: [{cpus: [0]}, {cpus: [0, 1]}]\nfactors:"), 8, "lanes.1.cpus", "disturb each other"),
        (("sets: engine.threads", "sets: server.flag"), 9, "factors.0.sets", "no {flag} in server.command"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_file_line_and_key(change: tuple[str, str], line: int, key: str, says: str) -> None:
    text = TEXT.replace(*change, 1)
    with pytest.raises(BadFile) as refused:
        parsed(text)
    assert refused.value.file == "x.yaml"
    assert (refused.value.line, refused.value.key) == (line, key)
    assert says in refused.value.problem


def test_several_precisions_need_a_factor() -> None:
    text = TEXT[: TEXT.index("  - {name: precision")]
    with pytest.raises(BadFile, match=r"x\.yaml:4: contract: lists several precisions"):
        parsed(text)


def test_a_wrong_contract_inside_keeps_its_place() -> None:
    text = TEXT.replace("contract: embedding", "contract:\n  lynxbench: 1\n  nome: x")
    with pytest.raises(BadFile, match=r"x\.yaml:6: contract\.nome"):
        parsed(text)


def test_files_that_are_no_experiment_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="bundled are"):
        read_definition("nothing-here")
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(BadFile, match="a mapping of keys"):
        read_definition(tmp_path / "list.yaml")
    (tmp_path / "none.yaml").write_text(TEXT.replace("contract: embedding\n", ""))
    with pytest.raises(BadFile, match="contract: is missing: a contract's name, its file, or the contract itself"):
        read_definition(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff\n")
    with pytest.raises(BadFile, match="UTF-8"):
        read_definition(tmp_path / "latin.yaml")


def test_generators_are_read_by_name() -> None:
    text = TEXT.replace("levels: [1, 8, 32], target: 8", "levels: [1, 8]").replace("batch: 32", "batch: 8")
    design = parsed(
        text.replace("factors:", "design: {kind: fractional, generators: [precision = threads * batch]}\nfactors:")
    )
    assert len(design.plan().cells) == 4
    with pytest.raises(BadFile, match="is not `factor = factor"):
        parsed(
            text.replace("factors:", "design: {kind: fractional, generators: [precision = threads]}\nfactors:").replace(
                "= threads]", "= dreads * batch]"
            )
        )


def test_bundled_experiments_can_be_read_and_planned() -> None:
    assert {"cpu-threads-graph-batch", "gpu-precision-graph-batch"} <= set(bundled_experiments())
    for name in bundled_experiments():
        cells = plan_cells(read_definition(name).definition)
        assert all(cell.contract is not None for cell in cells)
        assert len({cell.contract.contract_id for cell in cells if cell.contract}) == len(cells)


LAUNCHING = """\
lynxbench_experiment: 1
name: slots
question: What are slots worth?
contract: one.yaml
factors:
  - {name: slots, layer: serving, sets: engine.serve.arguments.max-slots, levels: [1, 4]}
  - {name: eager, layer: runtime, sets: engine.serve.arguments.eager, levels: [true, false]}
  - {name: threads, layer: system, sets: environment.OMP_NUM_THREADS, levels: [1, 2]}
"""


def test_launch_arguments_and_the_servers_variables_are_factors(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(served_contract("http://127.0.0.1:1/v1", engine="serve: {server: tiny}"))
    cells = plan_cells(parse_definition(LAUNCHING, "x.yaml", tmp_path))
    made = [(cell.contract.engine.serve.arguments, cell.environment) for cell in cells if cell.contract]  # type: ignore[union-attr]
    assert len(made) == 8
    assert made[0] == ({"max-slots": 1, "eager": True}, {"OMP_NUM_THREADS": "1"})
    assert made[-1] == ({"max-slots": 4, "eager": False}, {"OMP_NUM_THREADS": "2"})
    both = LAUNCHING + "server: {command: [serve], ready: 'http://127.0.0.1:1/'}\n"
    with pytest.raises(BadFile, match="the contract starts its server already"):
        parse_definition(both, "x.yaml", tmp_path)
    (tmp_path / "one.yaml").write_text(served_contract("http://127.0.0.1:1/v1"))
    with pytest.raises(BadFile, match=r"the contract starts no server; give it engine\.serve"):
        parse_definition(LAUNCHING, "x.yaml", tmp_path)
