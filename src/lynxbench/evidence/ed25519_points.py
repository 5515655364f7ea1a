"""Which 32 bytes are an honest Ed25519 public key (RFC 8032, edwards25519).

Libraries accept keys of small order, under which one signature holds for many messages, and second spellings of the
same point. Both are refused here, by arithmetic and not by a list.
"""

from functools import lru_cache
from typing import Final

PRIME: Final = 2**255 - 19
ORDER: Final = 2**252 + 27742317777372353535851937790883648493
"""Order of the group that honest keys live in."""
_D: Final = -121665 * pow(121666, -1, PRIME) % PRIME
_SQRT_MINUS_ONE: Final = pow(2, (PRIME - 1) // 4, PRIME)

Point = tuple[int, int, int, int]
_IDENTITY: Final[Point] = (0, 1, 1, 0)


@lru_cache(maxsize=1024)
def public_key_problem(raw: bytes) -> str | None:
    """Why the bytes are no honest public key, or None when they are one."""
    if len(raw) != 32:
        return f"{len(raw)} bytes, a public key has 32"
    y, sign = int.from_bytes(raw, "little") & (2**255 - 1), raw[31] >> 7
    if y >= PRIME:
        return "a second spelling of another key (its coordinate is not reduced)"
    x = _recover_x(y)
    if x is None:
        return "not a point of the curve"
    if x == 0 and sign:
        return "a second spelling of another key (zero has no sign)"
    if x % 2 != sign:
        x = PRIME - x
    point = (x, y, 1, x * y % PRIME)
    if _is_identity(_times(8, point)):
        return "a point of small order: anybody can sign for it"
    if not _is_identity(_times(ORDER, point)):
        return "outside the prime-order group; no honest key is"
    return None


def _recover_x(y: int) -> int | None:
    """A square root of (y² − 1) / (d y² + 1), or None (RFC 8032, 5.1.3)."""
    u, v = (y * y - 1) % PRIME, (_D * y * y + 1) % PRIME
    x = u * pow(v, 3, PRIME) * pow(u * pow(v, 7, PRIME), (PRIME - 5) // 8, PRIME) % PRIME
    if v * x * x % PRIME == u:
        return x
    if v * x * x % PRIME == PRIME - u:
        return x * _SQRT_MINUS_ONE % PRIME
    return None


def _add(left: Point, right: Point) -> Point:
    """Complete addition in extended coordinates (RFC 8032, 5.1.4)."""
    x1, y1, z1, t1 = left
    x2, y2, z2, t2 = right
    a, b = (y1 - x1) * (y2 - x2) % PRIME, (y1 + x1) * (y2 + x2) % PRIME
    c, d = 2 * t1 * t2 * _D % PRIME, 2 * z1 * z2 % PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME)


def _times(scalar: int, point: Point) -> Point:
    total = _IDENTITY
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point = _add(point, point)
        scalar >>= 1
    return total


def _is_identity(point: Point) -> bool:
    x, y, z, _ = point
    return x % PRIME == 0 and (y - z) % PRIME == 0
