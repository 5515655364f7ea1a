"""The suite: what ranking gives, and how fast it is."""

import numpy as np
import pytest
from ranking_bench import rank_batch
from scoring.ranking import rank


def test_every_row_has_a_place() -> None:
    assert sorted(rank(np.eye(48, dtype=np.float32))) == list(range(48))


@pytest.mark.lynxbench(restarts=5, min_duration="1 s", limit="3 s", budget="5 %")
def test_ranking_speed(lynxbench) -> None:
    lynxbench(rank_batch)
