"""A Llama of a few hundred thousand random weights and a tokenizer of our words: a folder that servers can load."""

from __future__ import annotations

from pathlib import Path

from lynxbench.workload.texts import read_prompts

WORDS = 500
HIDDEN, LAYERS, HEADS, LENGTH = 64, 2, 2, 2048


def write_tiny_llama(folder: Path) -> Path:
    """Write it; the same every time."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = ["<unk>", "<s>", "</s>", *dict.fromkeys(read_prompts().split())][:WORDS]
    tokenizer = Tokenizer(WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", model_max_length=LENGTH
    )
    wrapped.chat_template = "{% for message in messages %}{{ message.content }} {% endfor %}"
    wrapped.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=HIDDEN * HEADS,
        intermediate_size=4 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=LENGTH,
        bos_token_id=1,
        eos_token_id=2,
        dtype="float32",
    )
    LlamaForCausalLM(config).save_pretrained(folder, safe_serialization=True)
    return folder
