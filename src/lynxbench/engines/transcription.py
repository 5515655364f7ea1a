"""Transcription: a sound file in, its words out. What is counted is seconds of sound.

The sound is made: a voice-like hum with syllables, the same on every machine. It is no speech, so a real model's words
mean nothing, and it may have none; whether that is an answer, the contract says.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import msgspec
import numpy as np

from lynxbench.engines.plain_reader import PlainReader
from lynxbench.load.response_reading import OUTPUT

BOUNDARY = "lynxbench-7d1f03a5c2e94b68"
OTHER_STARTS_S = 8
"""Clips begin at other places of one sound that is so much longer than the longest of them."""
SAMPLE_BYTES = 2
LETTERS_BYTES = 10
"""The first five samples of a clip, which are letters of its own where no two requests may be alike."""
ADDED_S, MISSED_S = 1.0, 0.1
"""How much longer and shorter a stated duration may be: servers round it up to whole seconds, never down."""


def make_sound(seconds: int, samples_per_s: int, seed: int) -> bytes:
    """So much of a hum, as 16-bit samples: harmonics of a wandering pitch, four syllables a second, a little noise."""
    random = np.random.default_rng(seed)
    at_s = np.arange(seconds * samples_per_s) / samples_per_s
    pitch = 120.0 + 25.0 * np.interp(at_s, np.arange(seconds + 1), random.uniform(-1, 1, seconds + 1))
    phase = 2 * np.pi * np.cumsum(pitch) / samples_per_s
    voice = sum(np.sin(harmonic * phase) / harmonic for harmonic in (1, 2, 3, 5, 8))
    syllables = 0.55 - 0.45 * np.cos(2 * np.pi * 4.0 * at_s)
    noise = 0.02 * random.standard_normal(len(at_s))
    samples = 9000.0 * (voice * syllables + noise)
    return bytes(np.clip(samples, -32_000, 32_000).astype("<i2").tobytes())


def wave_head(sound_bytes: int, samples_per_s: int) -> bytes:
    """The head of a WAV file: one channel of 16-bit samples."""
    form = ("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + sound_bytes, b"WAVE", b"fmt ", 16, 1, 1, samples_per_s)
    return struct.pack(*form, samples_per_s * SAMPLE_BYTES, SAMPLE_BYTES, 8 * SAMPLE_BYTES, b"data", sound_bytes)


def multipart(model: str, extra: Mapping[str, object]) -> tuple[bytes, bytes]:
    """What stands before and after the file in a request's body."""
    fields = {"model": model, "response_format": "json", "temperature": 0, **extra}
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{_word(value)}\r\n'
        for name, value in fields.items()
    ]
    file = 'Content-Disposition: form-data; name="file"; filename="sound.wav"\r\nContent-Type: audio/wav'
    return f"{''.join(parts)}--{BOUNDARY}\r\n{file}\r\n\r\n".encode(), f"\r\n--{BOUNDARY}--\r\n".encode()


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class SoundRotation:
    """Requests with clips of one sound, put together as they are sent: a copy of bytes, nothing is computed then."""

    stands_alone = True

    def __init__(
        self, head: bytes, around: tuple[bytes, bytes], seconds: Sequence[int], samples_per_s: int, *, seed: int
    ) -> None:
        """`head` is a request's head whose length of body is still 0."""
        self._seconds, self._a_second = tuple(seconds), samples_per_s * SAMPLE_BYTES
        self._sound = make_sound(max(seconds) + OTHER_STARTS_S, samples_per_s, seed)
        before, self._after = around
        self._before: dict[int, bytes] = {}
        for length in set(seconds):
            file = wave_head(length * self._a_second, samples_per_s)
            size = len(before) + len(file) + length * self._a_second + len(self._after)
            self._before[length] = (
                head.replace(b"Content-Length: 0\r\n", b"Content-Length: %d\r\n" % size, 1) + before + file
            )
        self._letters: Any = None
        self._run = 0

    def marked(self, letters: Any, run: int) -> SoundRotation:
        """The same requests, each with letters of its own (of a run and a number) in its first samples."""
        other = copy(self)
        other._letters, other._run = letters, run
        return other

    def of_run(self, run: int) -> SoundRotation:
        """The same requests as those of another run."""
        return self.marked(self._letters, run)

    def first(self, number: int) -> bytes:
        """The request, put together."""
        length = self._seconds[number % len(self._seconds)]
        start = number % (OTHER_STARTS_S * 100) * (self._a_second // 200) * SAMPLE_BYTES
        stop = start + length * self._a_second
        if self._letters is None:
            return b"".join((self._before[length], memoryview(self._sound)[start:stop], self._after))
        own = self._letters(self._run, number).encode()
        rest = memoryview(self._sound)[start + LETTERS_BYTES : stop]
        return b"".join((self._before[length], own, rest, self._after))

    def follow(self, number: int, answers: tuple[str, ...]) -> bytes | None:
        """Every request stands alone."""
        return None


# --- reading answers -------------------------------------------------------------------------------------------------


class _Usage(msgspec.Struct, gc=False):
    seconds: float | None = None


class _Answer(msgspec.Struct, gc=False):
    text: str | None = None
    duration: float | str | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Answer).decode


class TranscriptReader(PlainReader):
    """Reads one connection's answers; the seconds of each arrival's sound are known."""

    __slots__ = ("_may_be_empty", "_seconds")

    def __init__(self, seconds: Sequence[int], may_be_empty: bool, keep_text: bool) -> None:
        self._seconds, self._may_be_empty = seconds, may_be_empty
        super().__init__(keep_text)

    def event(self, data: bytes) -> int:
        """Answers are asked for whole; an event is read as one."""
        return self.body(data)

    def body(self, data: bytes, inference_header_bytes: int = -1) -> int:
        """One answer."""
        self.finished = True
        answer = _decode(data)
        if answer.error is not None:
            return self.fail(answer.error)
        if answer.text is None:
            raise ValueError("an answer without text")
        sent = self._seconds[self.number % len(self._seconds)]
        heard = _stated(answer)
        if heard is not None and not -MISSED_S <= heard - sent <= ADDED_S:
            return self.fail(f"it heard {heard:g} s of {sent} s of sound")
        if not answer.text.strip() and not self._may_be_empty:
            return self.fail("a transcript without words")
        if self._keep:
            self._texts.append(answer.text)
        self.output_tokens, self.answering = sent, True
        return OUTPUT


def _stated(answer: _Answer) -> float | None:
    """How long the server says that the sound was, where it says so."""
    if answer.usage is not None and answer.usage.seconds is not None:
        return answer.usage.seconds
    return None if answer.duration is None else float(answer.duration)


class TranscriptLanguage:
    """What makes readers for the driver; `seconds` of each prepared request, in turn."""

    def __init__(self, seconds: Sequence[int], *, may_be_empty: bool) -> None:
        self._seconds, self._may_be_empty = tuple(seconds), may_be_empty

    def reader(self, keep_text: bool) -> TranscriptReader:
        """A reader for one connection."""
        return TranscriptReader(self._seconds, self._may_be_empty, keep_text)
