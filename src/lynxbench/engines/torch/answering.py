"""A loaded language model that is asked labelled prompts: greedy texts, and how likely each choice is."""

from importlib import import_module

import torch

from lynxbench.engines.torch.language_tasks import next_token
from lynxbench.engines.torch.task_work import Loaded
from lynxbench.errors import BadInput, CannotRun
from lynxbench.workload.task_files import LabelledPrompt


class ModelAnswerer:
    """Asks the model that was measured, outside of the timed window and without its compiled step."""

    def __init__(self, loaded: Loaded) -> None:
        if loaded.tokenizer is None:
            raise CannotRun("accuracy.task: this model has no tokenizer.json; labelled prompts cannot be asked")
        self._loaded, self._caches = loaded, import_module("transformers.cache_utils")
        ends = loaded.model.config.eos_token_id
        self._ends = frozenset(ends if isinstance(ends, list) else [ends])

    def texts(self, prompts: list[LabelledPrompt], tokens: int) -> list[str | None]:
        """Greedy answers, ended by the end of text or by the first empty line."""
        return [self._text(self._ids(_plain(prompt)), tokens) for prompt in prompts]

    def choose(self, prompts: list[LabelledPrompt], tokens: int) -> tuple[str, list[int | None]]:
        """The choice whose tokens are likeliest after the prompt."""
        places: list[int | None] = []
        for prompt in prompts:
            text = _plain(prompt)
            gap = "" if text[-1:].isspace() else " "
            sums = [self._logprob(self._ids(text), self._ids(text + gap + choice)) for choice in prompt.choices]
            places.append(max(range(len(sums)), key=sums.__getitem__))
        return "log-probability of each choice after the prompt", places

    def _text(self, ids: list[int], tokens: int) -> str:
        cache = self._caches.DynamicCache(config=self._loaded.model.config)
        said: list[int] = []
        token = torch.tensor([ids], device=self._loaded.device)
        with torch.inference_mode():
            while len(said) < tokens:
                token = next_token(self._loaded.model, token, cache)
                if (number := int(token)) in self._ends:
                    break
                said.append(number)
        text: str = self._loaded.tokenizer.decode(said)  # type: ignore[union-attr]
        return text.strip().partition("\n\n")[0]

    def _logprob(self, context: list[int], whole: list[int]) -> float:
        """Of the tokens after those that both share."""
        pairs = zip(context, whole, strict=False)
        shared = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(context), len(whole)))
        with torch.inference_mode():
            logits = self._loaded.model(input_ids=torch.tensor([whole], device=self._loaded.device)).logits[0].float()
        scores = torch.log_softmax(logits[shared - 1 : -1], dim=-1)
        targets = torch.tensor(whole[shared:], device=scores.device)
        return float(scores.gather(1, targets[:, None]).sum())

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._loaded.tokenizer.encode(text).ids  # type: ignore[union-attr]
        return ids


def _plain(prompt: LabelledPrompt) -> str:
    if prompt.messages:
        raise BadInput("accuracy.task: messages need a server's chat template; write prompt (text) for engine torch")
    return prompt.prompt
