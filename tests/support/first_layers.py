"""A language model's GGUF file cut down to its first layers: answers are other ones, serving them is the same.

Reading a prompt costs a server next to nothing then. Where the answers themselves are looked at, the whole model stays.
"""

from __future__ import annotations

import struct
from pathlib import Path

LAYERS = 2
NUMBER_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Of a value in a GGUF header by its kind; 8 is a text and 9 a list."""
TEXT, LIST = 8, 9
MOSTLY_Q8_0 = 7
"""As `general.file_type` has it: the table of tokens outweighs two layers."""
ALIGNMENT = 32


def write_first_layers(whole: Path, folder: Path, layers: int = LAYERS) -> Path:
    """The model's vocabulary, its table of tokens and so many of its layers, as another file."""
    data = bytearray(whole.read_bytes())
    tensors, keys = struct.unpack_from("<QQ", data, 8)
    at = 24
    for _ in range(keys):
        name, at = _text(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        at += 4
        if name.endswith(".block_count"):
            struct.pack_into("<I", data, at, layers)
        if name == "general.file_type":
            struct.pack_into("<I", data, at, MOSTLY_Q8_0)
        at = _after(data, at, kind)
    header_end = at
    described: list[tuple[str, bytes, int]] = []
    for _ in range(tensors):
        start = at
        name, at = _text(data, at)
        (dimensions,) = struct.unpack_from("<I", data, at)
        at += 4 + 8 * dimensions + 4
        described.append((name, bytes(data[start:at]), struct.unpack_from("<Q", data, at)[0]))
        at += 8
    body = at + -at % ALIGNMENT
    ends = [offset for _, _, offset in described[1:]] + [len(data) - body]
    infos, numbers, kept = bytearray(), bytearray(), 0
    for (name, description, offset), end in zip(described, ends, strict=True):
        if name.startswith("blk.") and int(name.split(".")[1]) >= layers:
            continue
        infos += description + struct.pack("<Q", len(numbers))
        numbers += data[body + offset : body + end]  # each begins at a multiple of the alignment, and so the next one
        kept += 1
    header = data[:8] + struct.pack("<QQ", kept, keys) + data[24:header_end] + infos
    cut = folder / f"SmolLM2-first-{layers}-layers.Q8_0.gguf"
    cut.write_bytes(header + bytes(-len(header) % ALIGNMENT) + numbers)
    return cut


def _text(data: bytearray, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", data, at)
    return data[at + 8 : at + 8 + length].decode(), at + 8 + length


def _after(data: bytearray, at: int, kind: int) -> int:
    """Where a value of this kind ends."""
    if kind == TEXT:
        return at + 8 + int(struct.unpack_from("<Q", data, at)[0])
    if kind != LIST:
        return at + NUMBER_BYTES[kind]
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner != TEXT:
        return at + NUMBER_BYTES[inner] * int(count)
    for _ in range(count):
        at += 8 + int(struct.unpack_from("<Q", data, at)[0])
    return at
