"""Everything a result states, recomputed."""
