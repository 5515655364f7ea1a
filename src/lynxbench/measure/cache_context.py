"""What a server's prefix cache did against what it could have done: in points, and explained before it is blamed."""

from lynxbench.model.load_figures import CacheRecord, ExpectedCache
from lynxbench.model.serving import CacheState

LARGEST_HIT_MISS = 0.02
"""Of the input tokens: a server's counted hits are within two points of what the requests share, or it is said."""
MADE_ALIKE = (CacheState.SHARED, CacheState.TRACED)


def judge_cache(cache: CacheRecord) -> list[str]:
    """Reasons to doubt that the cache met what was asked for."""
    doubts = []
    if cache.reset.startswith("not emptied"):
        doubts.append(f"the prefix cache was to be emptied between runs and was {cache.reset}")
    if cache.expected is None:
        return doubts
    if cache.counted_share is None:
        doubts.append(
            f"requests share {cache.expected.share:.1%} of their input; the server does not say what its cache gave"
        )
    elif abs(cache.counted_share - cache.expected.share) > LARGEST_HIT_MISS:
        doubts.append(explain_hits(cache.expected, cache.counted_share))
    return doubts


def explain_hits(expected: ExpectedCache, counted: float) -> str:
    """The difference in points, and what usually makes it."""
    points = 100 * (counted - expected.share)
    told = f"{counted:.1%} of the input came from the server's cache, the requests share {expected.share:.1%}"
    told = f"{told} ({points:+.1f} points)"
    if points > 0:
        return f"{told}: the server had seen these beginnings before, or its template is common to all requests"
    computed = 100 * expected.in_flight_share
    waiting = (
        f"{computed:.1f} points were being computed for another request at that moment; " if computed >= 0.1 else ""
    )
    evicted = f"a cache of less than {expected.distinct_tokens:,} tokens evicts"
    return f"{told}: {waiting}{evicted}, and blocks that a prompt does not fill are not kept"
