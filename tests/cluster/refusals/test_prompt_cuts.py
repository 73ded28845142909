"""Servers that cut prompts to their context and say so by nothing but their counts; and those that cut none."""

import json
import random
import re

import pytest

from foil.engine.models.sending.prompt_cuts import PromptCeiling
from tests.support.commands import foil
from tests.support.drills.refused_job import rows, write_job
from tests.support.models.scripted_server import answered, scripted
from tests.support.paths import REPO

SHORT = [900 + 400 * number for number in range(12)]
LONG = [10_500 + 1_500 * number for number in range(8)]
PIECE = re.compile(r" ?[A-Za-z]+|\d{1,3}| ?[^\sA-Za-z\d]|\s+")


def tokens_of(text: str) -> int:
    """About as many as a tokenizer makes of it: a long word is several, each sign of another script is one."""
    return sum(-(-len(piece) // 7) if piece.isascii() else 1 for piece in PIECE.findall(text))


def cuts_to(context):
    def script(text, _times):
        message = {"role": "assistant", "content": '{"text": "A plain sentence."}'}
        usage = {"prompt_tokens": min(context, len(text) * 2 // 9), "completion_tokens": 9}
        return answered(body={"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})

    return script


def job_of(folder, url, lengths):
    job = write_job(folder, url, len(lengths))
    given = [{"q": f"question {n}", "p": ["evidently " * (length // 10)]} for n, length in enumerate(lengths)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given))
    job.write_text(job.read_text().replace("  kind: custom\n", "  kind: custom\n  passage_chars: 60000\n"))
    return job


def test_replies_to_prompts_of_other_lengths_and_one_count_are_not_taken(tmp_path):
    """The first prompt of that count lost no sixth of its text, and two others told nothing yet."""
    with scripted(cuts_to(2_048)) as server:
        ended = foil("run", job_of(tmp_path, server.url, SHORT + LONG))
    found, details = rows(tmp_path)
    assert found == {("accepted", ""): 15, ("failed", "cut_prompt"): 5}, ended.stderr
    assert foil("gc", tmp_path / "out", "--journal-days", "0").returncode == 0
    with scripted(cuts_to(1_000_000)) as server:
        job = job_of(tmp_path, server.url, SHORT + LONG)
        again = foil("run", job, "--out", tmp_path / "again", "--reuse", tmp_path / "out")
    assert again.returncode == 0, again.stderr
    paid = foil("sql", tmp_path / "again", "SELECT count(*) AS n FROM calls WHERE NOT reused", "--csv").stdout
    assert paid.split() == ["n", "5"], "cut replies are asked again, whole ones are not"
    assert ended.stderr.count("it cuts what does not fit its context") == 1
    assert "(probe-model) counts 2,048 tokens for prompts of " in ended.stderr
    assert "OLLAMA_CONTEXT_LENGTH" in ended.stderr
    assert "the server counts 2,048 tokens for a prompt of " in details


@pytest.mark.parametrize(
    ("lengths", "context", "cut"),
    [
        (SHORT + LONG, 2_048, 5),
        (LONG * 2, 1_500, 14),  # all are cut: more characters a token than prose has
        (LONG[:1] * 20, 1_500, 0),  # prompts of one length have one count
        (LONG * 2, 255, 0),  # no context is so short
        (SHORT + LONG, 10**6, 0),
    ],
)
def test_how_many_prompts_are_seen_to_be_cut(lengths, context, cut):
    ceiling = PromptCeiling()
    assert sum(ceiling.is_cut(each, min(context, each * 2 // 9)) for each in lengths) == cut


def corpus():
    dice = random.Random(0)
    signs = {"chinese": (0x4E00, 0x5FFF), "korean": (0xAC00, 0xB7FF)}
    code = "".join(path.read_text() for path in sorted((REPO / "engine/models").glob("*.py")))
    prose = "".join(path.read_text() for path in sorted((REPO / "docs").glob("*.md")))
    numbers = " ".join(str(dice.randrange(10**6)) for _ in range(9_000))
    blanks = "".join(" " * dice.randrange(40) + "x" for _ in range(3_000))
    scripts = ["".join(chr(dice.randrange(*ends)) for _ in range(50_000)) for ends in signs.values()]
    return [code, prose, numbers, blanks, *scripts]


def prompts_of(dice, texts):
    """The prompts of an endpoint, some languages more often among them than others; none longer than a limit."""
    weights, most = [dice.random() ** 3 for _ in texts], dice.choice([1_500, 4_000, 12_000])
    for _ in range(150):
        parts = []
        for text in dice.choices(texts, weights, k=dice.randrange(1, 4)):
            start = dice.randrange(len(text) // 2)
            parts.append(text[start : start + 50 + int(dice.expovariate(1 / 900))])
        yield "".join(parts)[:most]


def test_an_endpoint_that_reads_all_never_seems_to_cut():
    texts = corpus()
    for seed in range(30):
        ceiling = PromptCeiling()
        for prompt in prompts_of(random.Random(seed), texts):
            assert not ceiling.is_cut(len(prompt), tokens_of(prompt)), seed


def test_one_that_cuts_most_prompts_a_little_is_found():
    texts, found = corpus()[1:2], 0
    for seed in range(12):
        ceiling, prompts = PromptCeiling(), list(prompts_of(random.Random(seed), texts))
        context = sorted(map(tokens_of, prompts))[80]
        found += any(ceiling.is_cut(len(each), min(context, tokens_of(each))) for each in prompts)
    assert found > 6
