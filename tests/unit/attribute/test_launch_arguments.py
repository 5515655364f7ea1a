"""Launch arguments however they are written."""

import pytest

from lynxbench.attribute.read.launch_arguments import number_of, parse_arguments, slots_of


def test_options_switches_and_values_are_told_apart() -> None:
    words = ["python3", "-m", "vllm.entrypoints.openai.api_server", "--max_num_seqs=4", "--enforce-eager", "--dtype"]
    words += [
        "bfloat16",
        "--dtype",
        "float32",
        "--port",
        "8000",
        "--seed",
        "-1",
        "--speculative-config",
        '{"a": "--b"}',
    ]
    options = parse_arguments(words)
    assert options["max-num-seqs"] == "4"
    assert options["enforce-eager"] == ""
    assert options["dtype"] == "float32", "the last one counts"
    assert options["seed"] == "-1", "a negative number is a value"
    assert options["speculative-config"] == '{"a": "--b"}'


def test_nothing_is_made_of_nothing() -> None:
    assert parse_arguments([]) == {}
    assert parse_arguments(["llama-server", "model.gguf"]) == {}


@pytest.mark.parametrize(
    ("text", "number"), [("8192", 8192.0), ("8k", 8000.0), ("8K", 8192.0), ("", None), ("auto", None), ("k", None)]
)
def test_numbers_of_options(text: str, number: float | None) -> None:
    assert number_of({"max-num-batched-tokens": text}, "max-num-batched-tokens") == number


@pytest.mark.parametrize(
    ("server", "words", "slots"),
    [
        ("vllm", "vllm serve m --max-num-seqs 256", 256),
        ("vllm", "vllm serve m --max_num_seqs=1k", 1000),
        ("vllm", "vllm serve m", None),
        ("vllm", "vllm serve m --max-num-seqs 256 --data-parallel-size 2", None),
        ("vllm", "vllm serve m --max-num-seqs 256 --data-parallel-size 1", 256),
        ("vllm", "vllm serve m --max-num-seqs 0", None),
        ("vllm", "vllm serve m --max-num-seqs nonsense", None),
        ("vllm", "llama-server --parallel 8", None),
        ("llamacpp", "llama-server -np 8", 8),
        ("llamacpp", "llama-server --parallel=8", 8),
        ("sglang", "python -m sglang.launch_server --max-running-requests 32", 32),
        ("sglang", "python -m sglang.launch_server --max-running-requests 32 --dp-size 4", None),
        ("generic", "vllm serve m --max-num-seqs 256", None),
        ("vllm", "", None),
    ],
)
def test_how_many_a_server_works_on_is_taken_from_its_own_words_alone(
    server: str, words: str, slots: int | None
) -> None:
    assert slots_of(server, words.split()) == slots
