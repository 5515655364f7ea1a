"""A tokenizer that needs no model hub: a word is a token. Peers want one to make prompts and to count."""

from __future__ import annotations

import json
from pathlib import Path

WORDS = 2000


def write_tokenizer(folder: Path) -> Path:
    """Write it in the form that `AutoTokenizer.from_pretrained` reads; the folder."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"<unk>": 0, "<s>": 1, "</s>": 2, "the": 3}
    words.update({f"word{number}": number for number in range(len(words), WORDS)})
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "unk_token": "<unk>",
                "bos_token": "<s>",
                "eos_token": "</s>",
                "model_max_length": 32768,
            }
        )
    )
    return folder
