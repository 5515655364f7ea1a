"""The third floor: exclusive time held against ceilings and least work, to a bottleneck, a bound and a gain."""
