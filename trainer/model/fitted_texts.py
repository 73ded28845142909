"""Texts cut to what a model reads of them.

    (instruction, query) longer than the model's limit -> the end of the query goes, the instruction stays
    passage longer than the limit -> its end goes, so that passages that differ further on are one text

Cut by its end alone, a problem statement of 300 tokens would lose its instruction, and all instructions of a topic
would be one text with contrary labels. Price: long texts are tokenised once more. A template that begins with the
instruction keeps it anyway; a tokenizer without offsets (a slow one) leaves texts whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from transformers import PreTrainedTokenizerBase

from foil.trainer.text_templates import QueryPair, TextTemplate

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

    def format_pairs(self, pairs: Sequence[QueryPair]) -> list[str]:
        """The pairs as the template joins them, a query cut where the two are too long."""
        texts = self.template.format_pairs(pairs)
        cuttable = range(len(pairs)) if self.template.first_part == 1 else ()
        rows = [row for row in cuttable if pairs[row][0] and not _surely_fits(texts[row], self.pair_tokens)]
        if rows:
            instructions, queries = zip(*(pairs[row] for row in rows), strict=True)
            token_ids = self.tokenizer(list(instructions), add_special_tokens=False)["input_ids"]
            least = self.pair_tokens // LEAST_QUERY
            rooms = [max(least, self.pair_tokens - self._around - len(ids)) for ids in token_ids]
            for row, query in zip(rows, _cut(self.tokenizer, queries, rooms), strict=True):
                texts[row] = self.template.format_pair(pairs[row][0], query)
        return texts

    def format_passages(self, passages: Sequence[tuple[str, str]]) -> list[str]:
        """The passages, (title, text), as the template joins them, cut where they are too long."""
        texts, tokenizer = self.template.format_passages(passages), self.passage_tokenizer or self.tokenizer
        rows = [row for row, text in enumerate(texts) if not _surely_fits(text, self.passage_tokens)]
        room = max(1, self.passage_tokens - tokenizer.num_special_tokens_to_add())
        for row, text in zip(rows, _cut(tokenizer, [texts[row] for row in rows], [room] * len(rows)), strict=True):
            texts[row] = text
        return texts

    @cached_property
    def _around(self) -> int:
        """Tokens of a pair that are neither instruction nor query, and one for the seam."""
        return len(self.tokenizer(self.template.format_pair("", ""))["input_ids"]) + 1


def of_cross_encoder(template: TextTemplate, tokenizer: PreTrainedTokenizerBase, tokens: int) -> FittedTexts:
    """For a model that reads a pair and a passage together: a pair with an instruction has half of its tokens."""
    return FittedTexts(template, tokenizer, tokens // 2, tokens)


def _cut(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], rooms: Sequence[int]) -> list[str]:
    """Each text up to the last token that it has room for."""
    if not texts or not tokenizer.is_fast:
        return list(texts)
    spans = tokenizer(
        list(texts), add_special_tokens=False, truncation=True, max_length=max(rooms) + 1, return_offsets_mapping=True
    )["offset_mapping"]
    return [
        text if len(offsets) <= room else text[: offsets[room - 1][1]]
        for text, offsets, room in zip(texts, spans, rooms, strict=True)
    ]


def _surely_fits(text: str, tokens: int) -> bool:
    """Whether the text has fewer bytes than there may be tokens, special ones aside."""
    return len(text.encode("utf-8", "replace")) + 8 <= tokens
