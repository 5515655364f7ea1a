from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from lynxbench.errors import BadInput
from lynxbench.workload.gguf import build_config, build_tokenizer, convert_gguf, uninterleave

WIDTH, INNER, HEADS, KV_HEADS, VOCABULARY = 32, 64, 4, 2, 300


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYNXBENCH_CACHE", str(tmp_path / "cache"))


def write_tiny(path: Path, seed: int = 0) -> dict[str, np.ndarray]:
    """A one-layer Llama in GGUF, written by the gguf package itself."""
    random = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCABULARY)
    alphabet = sorted(byte_alphabet())
    merged = alphabet[65] + alphabet[66]
    extra = [f"<extra{number}>" for number in range(VOCABULARY - len(alphabet) - 2)]
    tokens = [*alphabet, merged, *extra, "<|end|>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (VOCABULARY - 1) + [3])
    writer.add_token_merges([f"{alphabet[65]} {alphabet[66]}"])
    shapes = {
        "token_embd": (VOCABULARY, WIDTH), "output_norm": (WIDTH,),
        "blk.0.attn_norm": (WIDTH,), "blk.0.ffn_norm": (WIDTH,),
        "blk.0.attn_q": (WIDTH, WIDTH), "blk.0.attn_k": (WIDTH // 2, WIDTH), "blk.0.attn_v": (WIDTH // 2, WIDTH),
        "blk.0.attn_output": (WIDTH, WIDTH), "blk.0.ffn_gate": (INNER, WIDTH), "blk.0.ffn_up": (INNER, WIDTH),
        "blk.0.ffn_down": (WIDTH, INNER),
    }  # fmt: skip
    tensors = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    for name, values in tensors.items():
        writer.add_tensor(f"{name}.weight", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def byte_alphabet() -> list[str]:
    from tokenizers import pre_tokenizers

    return list(pre_tokenizers.ByteLevel.alphabet())


def interleave(rows: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to q and k."""
    width = rows.shape[0] // heads // 2
    return rows.reshape(heads, 2, width, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


@pytest.mark.parametrize("heads", [1, 3, 9])
def test_uninterleave_undoes_llama_cpp(heads: int) -> None:
    rows = np.random.default_rng(heads).standard_normal((heads * 8, 5)).astype(np.float32)
    assert np.array_equal(uninterleave(interleave(rows, heads), heads), rows)
    assert not np.array_equal(interleave(rows, heads), rows)


def test_conversion_keeps_every_value_and_restores_the_row_order(tmp_path: Path) -> None:
    stored = write_tiny(tmp_path / "m.gguf")
    folder = convert_gguf(tmp_path / "m.gguf")
    weights = load_file(folder / "model.safetensors")
    assert np.array_equal(
        weights["model.layers.0.self_attn.q_proj.weight"], uninterleave(stored["blk.0.attn_q"], HEADS)
    )
    assert np.array_equal(
        weights["model.layers.0.self_attn.k_proj.weight"], uninterleave(stored["blk.0.attn_k"], KV_HEADS)
    )
    assert np.array_equal(weights["model.layers.0.mlp.down_proj.weight"], stored["blk.0.ffn_down"])
    assert len(weights) == len(stored)
    config = json.loads((folder / "config.json").read_text())
    assert config["rms_norm_eps"] == 1e-5
    assert config["tie_word_embeddings"] is True
    assert config["num_key_value_heads"] == KV_HEADS


def test_a_second_call_finds_the_first_ones_folder(tmp_path: Path) -> None:
    write_tiny(tmp_path / "m.gguf")
    folder = convert_gguf(tmp_path / "m.gguf")
    made_ns = (folder / "model.safetensors").stat().st_mtime_ns
    assert convert_gguf(tmp_path / "m.gguf") == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == made_ns


def test_another_file_gets_another_folder(tmp_path: Path) -> None:
    write_tiny(tmp_path / "a.gguf", seed=1)
    write_tiny(tmp_path / "b.gguf", seed=2)
    assert convert_gguf(tmp_path / "a.gguf") != convert_gguf(tmp_path / "b.gguf")


def test_racing_conversions_agree_and_leave_nothing_behind(tmp_path: Path) -> None:
    write_tiny(tmp_path / "m.gguf")
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(convert_gguf, [tmp_path / "m.gguf"] * 4))
    assert len(folders) == 1
    (folder,) = folders
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert len(load_file(folder / "model.safetensors")) == 11


def test_a_broken_conversion_leaves_no_folder_and_the_next_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tiny(tmp_path / "m.gguf")

    def interrupt(weights: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("safetensors.numpy.save_file", interrupt)
        with pytest.raises(KeyboardInterrupt):
            convert_gguf(tmp_path / "m.gguf")
    assert list((tmp_path / "cache" / "gguf").iterdir()) == []
    assert (convert_gguf(tmp_path / "m.gguf") / "config.json").is_file()


def test_a_folder_without_its_mark_is_made_again(tmp_path: Path) -> None:
    write_tiny(tmp_path / "m.gguf")
    folder = convert_gguf(tmp_path / "m.gguf")
    (folder / "complete").unlink()
    (folder / "model.safetensors").write_bytes(b"half")
    assert convert_gguf(tmp_path / "m.gguf") == folder
    assert len(load_file(folder / "model.safetensors")) == 11


def test_the_tokenizer_comes_back(tmp_path: Path) -> None:
    write_tiny(tmp_path / "m.gguf")
    tokenizer = Tokenizer.from_file(str(convert_gguf(tmp_path / "m.gguf") / "tokenizer.json"))
    ids = tokenizer.encode("year 1984!<|end|>").ids
    assert ids[-1] == VOCABULARY - 1
    assert tokenizer.decode(ids, skip_special_tokens=False) == "year 1984!<|end|>"


def test_bad_files_give_one_line(tmp_path: Path) -> None:
    (tmp_path / "no.gguf").write_bytes(b"not a model at all, but long enough to be looked at")
    with pytest.raises(BadInput, match=r"no\.gguf is not a GGUF file"):
        convert_gguf(tmp_path / "no.gguf")
    with pytest.raises(BadInput, match="is not a file"):
        convert_gguf(tmp_path / "absent.gguf")
    with pytest.raises(BadInput, match="architecture 'mamba' is not known"):
        build_config({"general.architecture": "mamba"}, tied=True)
    with pytest.raises(BadInput, match=r"lacks llama\.attention\.head_count"):
        build_config({"general.architecture": "llama"}, tied=True)
    with pytest.raises(BadInput, match="tokenizer 'llama' cannot be rebuilt"):
        build_tokenizer({"tokenizer.ggml.model": "llama"})
