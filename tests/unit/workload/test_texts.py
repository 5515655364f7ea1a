from __future__ import annotations

import hashlib

from lynxbench.workload.texts import (
    HELD_OUT,
    POLARITY,
    PROMPTS,
    bundled_sha256,
    read_bundled,
    read_held_out,
    read_polarity,
    read_prompts,
)


def test_hashes_are_of_the_bytes() -> None:
    for name in (HELD_OUT, POLARITY, PROMPTS):
        assert bundled_sha256(name) == hashlib.sha256(read_bundled(name)).hexdigest()


def test_prompts_and_held_out_text_do_not_overlap() -> None:
    held_out = {sentence.strip() for sentence in read_held_out().split(".") if len(sentence) > 30}
    assert len(held_out) > 50
    assert not any(sentence in read_prompts() for sentence in held_out)


def test_polarity_is_balanced_in_both_halves_and_has_no_twins() -> None:
    sentences = read_polarity()
    assert len(sentences) == 400
    assert len({sentence.text for sentence in sentences}) == 400
    for is_test in (False, True):
        half = [sentence.label for sentence in sentences if sentence.is_test is is_test]
        assert len(half) == 200
        assert sum(half) == 100


def test_the_licence_notice_travels_with_the_sentences() -> None:
    assert b"C.J. Hutto" in read_bundled("polarity.LICENSE.txt")
