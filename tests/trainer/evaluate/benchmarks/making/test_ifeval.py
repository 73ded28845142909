"""Each verifier tells a response that follows from one that barely does not; prompts become sub-tasks."""

import doctest

import pytest

from foil.engine.errors import SeedFormatError, UsageError
from foil.trainer.evaluate.benchmarks.making import ifeval, ifeval_checks
from foil.trainer.evaluate.benchmarks.making.ifeval_checks import CHECKS, follows_all
from foil.trainer.evaluate.benchmarks.making.settings import MakingSettings
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import lines

AT_LEAST, LESS = "at least", "less than"
CASES = [
    ("change_case:capital_word_frequency", {"capital_frequency": 2, "capital_relation": AT_LEAST}, "A NEW day",
     "a NEW day"),
    ("change_case:english_capital", {}, "ALL OF IT, 3.", "ALL OF iT"),
    ("change_case:english_lowercase", {}, "all of it, 3.", "all of It"),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say it."}, " say IT. Done.", "Done. Say it."),
    ("combination:two_responses", {}, "one ****** two", "one ****** one"),
    ("combination:two_responses", {}, "****** one ****** two ******", "one ****** ****** two"),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[a] and [b c]", "[a] and b"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye.\np. s. hello", "Bye.\nPS hello"),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "Bye. P.P.S. hello", "Bye. P.S. hello"),
    ("detectable_format:constrained_response", {}, "Well, My answer is no.", "my answer is no."),
    ("detectable_format:json_format", {}, '```JSON\n{"a": [1]}\n```', '{"a": [1]'),
    ("detectable_format:multiple_sections", {"section_spliter": "PART ", "num_sections": 2}, "PART 1 a PART 2 b",
     "PART 1 a"),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n- b", "* a\n- b\n* c"),
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}, "**a** is\n* b", "**a** is b"),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* b *c*", "*a* b * *"),
    ("detectable_format:title", {}, "<<a poem>> it is", "<< >> it is"),
    ("keywords:existence", {"keywords": ["sea", "C++"]}, "Seas of c++", "seas of c"),
    ("keywords:forbidden_words", {"forbidden_words": ["rock"]}, "rocky", "a Rock."),
    ("keywords:frequency", {"keyword": "story", "frequency": 2, "relation": AT_LEAST}, "Story, story", "story"),
    ("keywords:frequency", {"keyword": "story", "frequency": 2, "relation": LESS}, "Story", "story story"),
    ("keywords:letter_frequency", {"letter": "#", "let_frequency": 2, "let_relation": AT_LEAST}, "##", "#"),
    ("keywords:letter_frequency", {"letter": "Q", "let_frequency": 1, "let_relation": LESS}, "a", "q"),
    ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Rain"},
     "It pours.\n\n\"Rain!\" she said.", "Rain.\n\nIt pours."),
    ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "it"},
     "It pours.\n\nRain.\n\n", "It pours.\n\nRain.\n\nIt."),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb\n***", "a\n***\n***\nb"),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": AT_LEAST}, "It is 3.5 m. Yes!",
     "It is 3.5 m."),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": LESS}, "Wait?!", "Wait... What?"),
    ("length_constraints:number_words", {"num_words": 3, "relation": AT_LEAST}, "a well-made", "well made"),
    ("length_constraints:number_words", {"num_words": 3, "relation": LESS}, "well made", "a well-made"),
    ("punctuation:no_comma", {}, "a; b", "a, b"),
    ("startend:end_checker", {"end_phrase": "Is that all?"}, 'Yes. "is that all?" ', "Is that all? Yes."),
    ("startend:quotation", {}, ' "a" ', '"'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "follows", "breaks"), CASES)
def test_a_response_that_follows_is_told_from_one_that_does_not(name, arguments, follows, breaks):
    padded = {"unused": None, **arguments}
    assert follows_all(follows, [name], [padded])
    assert not follows_all(breaks, [name], [padded])
    assert not follows_all(breaks, [name, name], [padded, padded])


def test_every_verifier_has_a_case_and_the_examples_hold():
    assert {case[0] for case in CASES} == CHECKS.keys()
    assert len(CHECKS) == 24
    assert len(ifeval.SUB_TASKS) == 8
    assert [doctest.testmod(module).failed for module in (ifeval, ifeval_checks)] == [0, 0]


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("language:response_language", {}, "is no instruction of IFEval that can be verified"),
        ("keywords:existence", {}, "the arguments {} of keywords:existence do not fit it"),
        ("keywords:existence", {"keywords": [1]}, "of keywords:existence do not fit it"),
        ("length_constraints:number_words", {"num_words": 2, "relation": "about"}, "'about' is neither `less than`"),
    ],
)
def test_an_instruction_that_cannot_be_verified_is_told(name, arguments, told):
    with pytest.raises(UsageError) as error:
        follows_all("a text", [name], [arguments])
    assert told in str(error.value)


def prompts_in(folder, *rows):
    (folder / "input_data.jsonl").write_text(lines(*rows))
    return ifeval.read_prompts(folder)


def row(key, ids, kwargs, **more):
    return {"key": key, "prompt": f"prompt {key}", "instruction_id_list": ids, "kwargs": kwargs, **more}


def test_candidates_are_chosen_by_hash_and_judged(tmp_path):
    [prompt] = prompts_in(tmp_path, row(7, ["punctuation:no_comma"], [{}]))
    responses = {"prompt 7": [f"{n} good" for n in range(9)] + [f"{n}, bad" for n in range(20)]}
    settings = MakingSettings(candidates=12, followers=4)
    benchmark, counts = ifeval.sub_task("punctuation", [prompt], responses, settings)
    [query] = benchmark.queries
    assert (query.id, query.query, query.instruction, query.mode, query.dimension) == (
        "7", "prompt 7", "", "instructed", "punctuation"
    )  # fmt: skip
    assert len(benchmark.candidates["7"]) == len(benchmark.documents) == 12
    graded = {benchmark.documents[name][1]: grade for name, grade in benchmark.qrels["7"].items()}
    assert sum(graded.values()) == 4
    assert all(("good" in text) is bool(grade) for text, grade in graded.items())
    assert list(graded.values()) != sorted(graded.values(), reverse=True)
    again, _ = ifeval.sub_task("punctuation", [prompt], {"prompt 7": responses["prompt 7"][::-1]}, settings)
    assert (again.digest, counts) == (benchmark.digest, {"without_contrast": 0, "short": 0})
    other, _ = ifeval.sub_task("punctuation", [prompt], responses, settings.model_copy(update={"seed": 1}))
    assert other.digest != benchmark.digest


def test_prompts_without_both_kinds_are_left_out_and_short_ones_counted(tmp_path):
    prompts = prompts_in(tmp_path, *(row(n, ["punctuation:no_comma"], [{}]) for n in range(3)))
    responses = {"prompt 0": ["a", "b"], "prompt 1": ["a", "a, b"]}
    benchmark, counts = ifeval.sub_task("punctuation", prompts, responses, MakingSettings())
    assert ([query.id for query in benchmark.queries], counts) == (["1"], {"without_contrast": 2, "short": 1})
    none, _ = ifeval.sub_task("punctuation", prompts, responses, MakingSettings(candidates=2, followers=5))
    assert [query.id for query in none.queries] == ["1"]


def test_a_query_of_the_users_own_is_taken(tmp_path):
    [prompt] = prompts_in(tmp_path, row(1, ["startend:quotation"], [{}], query="a joke", instruction="In quotes."))
    assert (prompt.query, prompt.instruction) == ("a joke", "In quotes.")
    with pytest.raises(SeedFormatError, match="as many kwargs as instruction ids"):
        prompts_in(tmp_path, row(1, ["startend:quotation"], []))


def test_the_published_prompts_fall_into_eight_sub_tasks_and_every_instruction_is_verified(shared_data):
    prompts = ifeval.read_prompts(shared_data / "ifeval")
    named = [ifeval.sub_task_of(prompt.ids) for prompt in prompts]
    assert {name: named.count(name) for name in ifeval.SUB_TASKS} == {
        "change_case": 34, "combination": 27, "detectable_content": 24, "detectable_format": 69, "keywords": 58,
        "length_constraints": 46, "punctuation": 16, "startend": 31,
    }  # fmt: skip
    assert (len(prompts), named.count("")) == (541, 236)
    for prompt in prompts:
        for name, arguments in zip(prompt.ids, prompt.arguments, strict=True):
            if name in CHECKS:
                assert isinstance(follows_all("a text", [name], [arguments]), bool)
