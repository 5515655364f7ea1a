"""Functions to measure before bringing one's own: `lynxbench.workload.examples:solve_dense` and others beside it."""

import time

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

SIDE = 256
"""2/3·n³ ≈ 11 million operations: one to a few milliseconds on one current core."""
SYSTEMS = 4
LARGEST_RESIDUAL = 1e-5
"""A backward stable solve in float32 (unit roundoff 6e-8) leaves ‖Ax−b‖ / (‖A‖‖x‖) near n·6e-8 at worst."""


class DenseSolve:
    """Solves seeded dense systems in turn and checks each answer's residual, as a simulation's inner loop does."""

    unit = "solve"

    def __init__(self) -> None:
        self._systems: list[tuple[Array, Array]] = []

    def setup(self, precision: str = "fp32", seed: int = 0) -> None:
        """Make the systems, once; only fp32 is offered because LAPACK has no narrower solver."""
        if precision != "fp32":
            raise ValueError(f"solve_dense runs in fp32; {precision} has no LAPACK solver")
        random = np.random.default_rng(seed)
        # A random matrix with a raised diagonal is well conditioned, so the residual check has a sharp bound.
        raised = np.float32(np.sqrt(SIDE)) * np.eye(SIDE, dtype=np.float32)
        self._systems = [
            (
                random.standard_normal((SIDE, SIDE), dtype=np.float32) + raised,
                random.standard_normal(SIDE, dtype=np.float32),
            )
            for _ in range(SYSTEMS)
        ]

    def __call__(self, index: int) -> Array:
        """Solve one system; an answer that does not solve it is an error, not a fast result."""
        if not self._systems:
            self.setup()
        matrix, right = self._systems[index % SYSTEMS]
        solution = np.linalg.solve(matrix, right)
        residual = np.linalg.norm(matrix @ solution - right) / (np.linalg.norm(matrix) * np.linalg.norm(solution))
        if not residual <= LARGEST_RESIDUAL:
            raise ArithmeticError(f"system {index % SYSTEMS}: residual {residual:.2e} is above {LARGEST_RESIDUAL:.0e}")
        return solution


solve_dense = DenseSolve()

INDEXED, WIDTH, QUERIES, NEAREST = 2048, 384, 64, 10
"""An index of 3 MB: about half a millisecond a query on one current core."""


class NearestTen:
    """The ten nearest of an index to each query in turn, as a retrieval service's inner loop finds them."""

    unit = "lookup"

    def __init__(self) -> None:
        self._index = self._queries = np.empty((0, WIDTH), dtype=np.float32)

    def setup(self, seed: int = 0) -> None:
        """Make the index and the queries, once: unit vectors as wide as a small sentence encoder's."""
        random = np.random.default_rng(seed)
        for name, many in (("_index", INDEXED), ("_queries", QUERIES)):
            vectors = random.standard_normal((many, WIDTH), dtype=np.float32)
            setattr(self, name, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

    def __call__(self, index: int) -> Array:
        """The rows nearest to one query, nearest first, and how near they are."""
        if not len(self._index):
            self.setup()
        near = self._index @ self._queries[index % QUERIES]
        ten = np.argpartition(near, -NEAREST)[-NEAREST:]
        ten = ten[np.argsort(-near[ten], kind="stable")]
        return np.concatenate((ten.astype(np.float32), near[ten]))


nearest_ten = NearestTen()

PERIOD_NS = 4_000_000
FARTHEST_BEHIND_NS = 1_000_000_000


class PacedLookup(NearestTen):
    """A lookup every 4 ms, as a service that is asked 250 times a second: it waits until the next one is due.

    An iteration is the wait and the lookup. One that is late is followed by the next at once, so the rate says whether
    the pace was held; after more than a second behind the times that were missed are given up.
    """

    def __init__(self) -> None:
        super().__init__()
        self._due_ns = 0

    def __call__(self, index: int) -> Array:
        """Wait until the lookup is due, then make it."""
        now_ns = time.perf_counter_ns()
        self._due_ns = max(self._due_ns + PERIOD_NS, now_ns - FARTHEST_BEHIND_NS) if self._due_ns else now_ns
        if self._due_ns > now_ns:
            time.sleep((self._due_ns - now_ns) / 1e9)
        return super().__call__(index)


paced_lookup = PacedLookup()

MILLISECOND_NS = 1_000_000


def one_millisecond() -> None:
    """Hold the CPU until one millisecond has passed: a known truth for the harness's own error."""
    clock = time.perf_counter_ns
    until = clock() + MILLISECOND_NS
    while clock() < until:
        pass
