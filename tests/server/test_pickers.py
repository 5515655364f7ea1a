"""Where a page asks which result, contract or executor, it offers them by name, without any script."""

from __future__ import annotations

import re

import pytest

from hosted import World

OPTION = re.compile(r'<option value="([0-9a-f]{12})">([^<]+)</option>')


def offered(world: World, path: str, name: str, *ids: str) -> dict[str, str]:
    """What the input `name` of a page offers, each by its words, once these are among them."""
    page = world.shown(path, *(f'<option value="{whole[:12]}">' for whole in ids))
    field = re.search(rf'<input[^>]*\bname="{name}"[^>]*>', page)
    assert field is not None, page
    assert f'list="offered-{name}"' in field[0]
    datalist = re.search(rf'<datalist id="offered-{name}">(.*?)</datalist>', page, re.DOTALL)
    assert datalist is not None
    return dict(OPTION.findall(datalist[1]))


@pytest.mark.parametrize("name", ["a", "b"])
def test_results_are_picked_by_contract_machine_and_moment(world: World, name: str) -> None:
    known = world.caller("reader").get("/api/v1/results").json()["results"]
    picks = offered(world, "/compare", name, *(result["result_id"] for result in known[:10]))
    for result in known[:10]:
        words = picks[result["result_id"][:12]]
        assert words.startswith(f"{result['contract_name']} · ")
        assert f"host {result['machine']}" in words
        assert result["started_at"][:10] in words
    # what is picked is what the address takes
    first, second = list(picks)[:2]
    assert world.caller("reader").get(f"/compare?a={first}&b={second}").status == 200


def test_contracts_and_executors_narrow_a_list_by_name(world: World) -> None:
    known = world.caller("reader").get("/api/v1/results").json()["results"]
    contracts = offered(world, "/results", "contract", *(result["contract_id"] for result in known[:10]))
    executors = offered(world, "/results", "executor", *(result["executor_id"] for result in known[:10]))
    for result in known[:10]:
        assert contracts[result["contract_id"][:12]] == result["contract_name"]
        assert executors[result["executor_id"][:12]]
    pick, name = next(iter(contracts.items()))
    narrowed = world.caller("reader").get(f"/results?contract={pick}").text
    assert name in narrowed


def test_a_pair_that_cannot_be_compared_is_asked_for_again_with_the_same_offer(world: World) -> None:
    answer = world.caller("reader").get("/compare?a=nothing-of-that-name&b=last")
    assert answer.status == 404
    assert '<datalist id="offered-a">' in answer.text
    assert offered(world, "/executors/diff", "a") == offered(world, "/executors/diff", "b")


def test_what_a_stranger_calls_a_machine_or_a_contract_is_text(world: World) -> None:
    """The golden case `hostile` is in this ledger: its words reach the offer as words."""
    page = world.caller("reader").get("/compare").text
    inside = "".join(re.findall(r"<datalist[^>]*>(.*?)</datalist>", page, re.DOTALL))
    assert set(re.findall(r"<(/?[a-z]+)", inside)) <= {"option", "/option"}


def test_one_result_by_several_names_is_asked_for_again(world: World) -> None:
    name = world.results[0].result_id
    answer = world.caller("reader").get(f"/compare?r={name}&r={name[:12]}&r=sha256:{name}")
    assert answer.status == 404
    assert "one and the same" in answer.text
