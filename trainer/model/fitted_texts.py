"""Texts cut to what a model reads of them.

    (instruction, query) longer than the model's limit -> the end of the query goes, the instruction stays
    passage longer than the limit -> its end goes, so that passages that differ further on are one text

Cut by its end alone, a problem statement of 300 tokens would lose its instruction, and all instructions of a topic
would be one text with contrary labels. Price: long texts are tokenised once more. A template that begins with the
instruction keeps it anyway; a tokenizer without offsets (a slow one) leaves texts whole.
"""

from dataclasses import dataclass
from functools import cached_property

from transformers import PreTrainedTokenizerBase

from trainer.text_templates import TextTemplate

LEAST_QUERY = 4
"""A query keeps one token of so many of the limit, however long its instruction is."""


@dataclass(frozen=True)
class FittedTexts:
    """A template whose texts fit: pairs into `pair_tokens`, passages into `passage_tokens`, special tokens included."""

    template: TextTemplate
    tokenizer: PreTrainedTokenizerBase
    pair_tokens: int
    passage_tokens: int
    passage_tokenizer: PreTrainedTokenizerBase | None = None

    def format_pair(self, instruction: str, query: str) -> str:
        """The pair as its template joins it, its query cut where both are too long."""
        whole = self.template.format_pair(instruction, query)
        if not instruction or self.template.first_part == 0 or _surely_fits(whole, self.pair_tokens):
            return whole
        wanted = len(self.tokenizer(instruction, add_special_tokens=False)["input_ids"])
        room = max(self.pair_tokens // LEAST_QUERY, self.pair_tokens - wanted - self._around)
        return self.template.format_pair(instruction, cut(self.tokenizer, query, room, special=False))

    def format_passage(self, title: str, text: str) -> str:
        """The passage as its template joins it, cut where it is too long."""
        whole = self.template.format_passage(title, text)
        return cut(self.passage_tokenizer or self.tokenizer, whole, self.passage_tokens, special=True)

    @cached_property
    def _around(self) -> int:
        """Tokens of a pair that are neither instruction nor query, and one for the seam."""
        return len(self.tokenizer(self.template.format_pair("", ""))["input_ids"]) + 1


def cut(tokenizer: PreTrainedTokenizerBase, text: str, tokens: int, *, special: bool) -> str:
    """The text up to its last token of so many, `special` ones counted or not."""
    if _surely_fits(text, tokens) or not tokenizer.is_fast:
        return text
    spans = tokenizer(
        text, add_special_tokens=special, truncation=True, max_length=tokens, return_offsets_mapping=True
    )["offset_mapping"]
    return text[: max((end for _, end in spans), default=0)]


def _surely_fits(text: str, tokens: int) -> bool:
    """Whether the text has fewer bytes than there may be tokens, special ones aside."""
    return len(text.encode("utf-8", "replace")) + 8 <= tokens
