"""What the parts of a contrast may not be: its questions, its instructions, its passages, and the other query.

The rules of every text stand in `prompts.writing.checks`.
"""

import json
import re
from collections.abc import Iterator, Sequence, Set

from foil.engine.protocols import Prompt
from foil.engine.topic import Passage
from foil.prompts.constraints.detectors import fold_text
from foil.prompts.constraints.source_code import GRAMMARS, facts_of, language_of
from foil.prompts.demands import Demands
from foil.prompts.passages.answering import stems
from foil.prompts.writing.answers import Questions
from foil.prompts.writing.checks import Problem, echo_of, figures_in, near_copy, reaches
from foil.prompts.writing.material import WritingMaterial

MOST_QUESTIONS = 3
_QUESTION_WORDS = (3, 25)
_MOST_WORDS = 320
_ROOM = (0.5, 2.0)  # how much shorter or longer than asked for a passage may be
_FRAGMENT = 0.35  # share of the words asked for, below which a passage is none
_QUESTION_ECHO = 6
_ANSWERS = re.compile(
    r"\s*(?:(?:yes|no|sure|certainly|absolutely|of course)[,.!:]|my (?:solution|program|code)\b)", re.IGNORECASE
)
"""How an instruction begins whose writer answered the questions instead of asking them."""
_STATES = re.compile(
    r"\W*(?:the|this|these|those|that|its?|there|to|in|on|at|by|for|from|with|an?|our|we|they|s?he|his|her|their|if|since|"
    r"because|when|while|given|indeed|besides|as|one|combining|understanding|according)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\b(?:should|shall|must|needs?|needed|wants?|wanted|wish|hop(?:e|ing)|looking|look for|interested|please|only|"
    r"ha(?:s|ve) to|ought|curious|would|require[sd]?|let|due|(?:is|are) to|counts?|qualif(?:y|ies)|matters?|goal|"
    r"no use|useless|useful|(?:ir)?relevant|i am|i['’]m|my|me|enough|tell|show|help|prefer|expect|do not|don['’]t|may|"
    r"name|welcome|fine|out of)\b|\?|['’]d\b|"
    r"[:,;.] (?:give|find|list|explain|describe|say|state|bring|skip|leave|spare|quote|compare|set out|point out)\b",
    re.IGNORECASE,
)
"""A text that begins like a statement and has none of these asks for nothing. Wrongly so: one of our 288 short and
medium examples, five of InstructIR's 9,906 instructions, none of PIR's 148."""
_PROMPT_LABEL = re.compile(r"\b(?:Manner|Questions|Not wanted|Length|Addition):")
_CODE_LINE = re.compile(r"^\s*(?:class \w+(?:\(.*\))?:\s*$|def \w+\(|from [\w.]+ import \w|#include\b)", re.MULTILINE)
"""A line of a program that no sentence is: a query may well begin with `import duties` or `class action:`."""
_ABOUT_THE_TASK = re.compile(
    r"\b(?:json|passages?|questions?|this text)\b|"
    r"\A(?:is|are|it|was|were)\b.*\b(?:correct|accurate|mistakes?|potential error)\b",
    re.IGNORECASE,
)
"""Of a question that asks about the text itself, or whether it is right, which every text of use is."""
_SAME_PROGRAM = 0.9  # share of its runs of three words that a program may have from another: names and idioms recur
_SIDES = re.compile(r"\b(?:(?:for|against|pros?|cons?)\b|favou?r|support|oppos)")
_AGAIN, _MOST_ALIKE = 2 / 3, 0.8  # shares of content words; the second is Jaccard's


def instruction_problems(text: str, query: str, demands: Demands, unlike: str, least: int = 8) -> Iterator[Problem]:
    """What no instruction may be; `unlike` is the other one of the topic, `least` its fewest words."""
    words = len(text.split())
    if words < least:
        yield Problem("too_short", f"the instruction has {words} words", "It is too short. Say more of what is wanted.")
    if words > _MOST_WORDS:
        yield Problem(
            "too_long", f"the instruction has {words} words", f"It has {words} words. Write {_MOST_WORDS} at most."
        )
    if label := _PROMPT_LABEL.search(text):
        advice = f"It goes on with {label[0]!r}, which is the task. Write what the person adds, and nothing else."
        yield Problem("speaks_of_task", f"it has the label {label[0]!r} of its task", advice)
    if unlike and _is_same_instruction(text, unlike, demands):
        advice = f"It says what another one for this query says, {unlike!r}. Ask for what this one lists."
        yield Problem("same_instruction", "the instruction is the other one again", advice)
    news = figures_in(text) - figures_in(" ".join((query, *demands.demands, *demands.bans)))
    if news:
        advice = f"It says {min(news)}, as if it knew the answer. Ask for it, and state no fact."
        yield Problem("answers_question", f"the instruction says {min(news)}", advice)
    elif _ANSWERS.match(text) or (_STATES.match(text) and not _ASKS.search(text)):
        advice = "It answers the questions. Write what a person says who asks for texts that answer them."
        yield Problem(
            "answers_question", f"the instruction states something and asks for nothing: {text[:80]!r}", advice
        )
    text_stems, query_stems = stems(text), stems(query)
    for question in (*demands.demands, *demands.bans):
        question_stems = stems(question) - query_stems or stems(question)
        if question_stems and not question_stems & text_stems:
            advice = f"It does not {'ask for' if question in demands.demands else 'rule out'} this: {question}"
            yield Problem("ignores_demand", f"it says nothing of: {question}", advice)
    if len(query.split()) > 2 and fold_text(query) in fold_text(text):
        yield Problem("repeats_query", "the instruction holds the query", "Do not repeat the query in it.")


def passage_problems(
    text: str, material: WritingMaterial, query: str, siblings: Sequence[Passage], words: int
) -> Iterator[Problem]:
    """What no passage for the query may be, `siblings` being the others that were written, `words` its length."""
    own = [*material.positives, *material.negatives, *siblings]
    if fold_text(text) in {fold_text(p.text) for p in own}:
        yield Problem("same_passage", f"it is a passage of the topic: {text[:80]!r}", "It is P1 again. Write another.")
    elif material.kind == "code":
        yield from _code_problems(text, material.language)
        if near_copy(text, [p.text for p in own], _SAME_PROGRAM):
            advice = "It is another program with few changes. Solve the task in another way."
            yield Problem("near_copy", f"it is another program of the topic: {text[:80]!r}", advice)
    elif copied := near_copy(text, [p.text for p in own]):
        advice = "Most of it is copied. Write it anew, in other sentences, with what the task asks for."
        yield Problem("near_copy", f"most of it stands in another passage: {copied[:80]!r}", advice)
    if material.kind not in ("code", "mathematics"):
        count = len(text.split())
        advice = f"It has {count} words. Write about {words}."
        if count < _FRAGMENT * words:
            yield Problem("too_short", f"the passage has {count} words", advice)
        elif not _ROOM[0] * words <= count <= _ROOM[1] * words:
            yield Problem("wrong_length", f"the passage has {count} words, not {words}", advice)
    answer = material.seed.attributes.get("answer", "")
    if material.kind == "mathematics" and query == material.seed.query and answer and not reaches(text, answer):
        advice = "Its result is wrong, or does not stand in the last line. Solve the problem anew, step by step."
        yield Problem("wrong_answer", f"it does not end with {answer!r}: {text[-80:]!r}", advice)


def query_problems(text: str, query: str) -> Iterator[Problem]:
    """What no other query may be."""
    words = len(query.split())
    if fold_text(text) == fold_text(query):
        yield Problem("same_query", f"{text!r} is the seed's query", "It is the first query again. Write another one.")
    if _CODE_LINE.search(text) and not _CODE_LINE.search(query):
        advice = "It holds a program. Write the query alone, in words."
        yield Problem("not_a_query", f"the query holds a program: {text[-80:]!r}", advice)
    if len(text.split()) > 20 + 3 * words:
        advice = f"It has {len(text.split())} words, the first query {words}. Write the query alone, as long as that."
        yield Problem("too_long", f"the query has {len(text.split())} words", advice)


def _is_same_instruction(text: str, counterpart: str, demands: Demands) -> bool:
    """Whether it has most of the other's words, of its own demands none that the other lacks, and says them alike."""
    first, second, asks = stems(text), stems(counterpart), stems(" ".join((*demands.demands, *demands.bans)))
    alike = near_copy(text, [counterpart]) or len(first & second) > _MOST_ALIKE * len(first | second)
    return bool(alike) and not (first - second) & asks and _bearing(text, demands) == _bearing(counterpart, demands)


def _bearing(text: str, demands: Demands) -> tuple[set[str], list[bool]]:
    """What parts two instructions of the same words: the sides that they name, and whether a demand comes first."""
    demanded, banned = (stems(" ".join(questions)) for questions in (demands.demands, demands.bans))
    telling = [stem for word in text.split() for stem in stems(word) & (demanded ^ banned)]
    return {*_SIDES.findall(text.lower())}, [stem in demanded for stem in telling[:1]]


def mended_questions(
    reply: Questions, *, query: str, noun: str, prompt: Prompt, of_example: Set[str] = frozenset()
) -> Questions:
    """The first three of each list that are questions, each once, none of them the query or the example's, or one that
    asks what the text does. `of_example`: stems that only the prompt's example brings."""
    folded_questions = {fold_text(query)}

    def is_usable(question: str) -> bool:
        low, high = _QUESTION_WORDS
        is_question = question.endswith("?") and low <= len(question.split()) <= high
        is_new = fold_text(question) not in folded_questions and not _says_again(question, query)
        is_about_text = not _ABOUT_THE_TASK.search(question) and not _says_again(question, noun)
        is_echo = echo_of(question, prompt, _QUESTION_ECHO) or stems(question) & of_example
        return is_question and is_new and is_about_text and not is_echo

    def usable(questions: Sequence[str]) -> tuple[str, ...]:
        good: list[str] = []
        for each in questions:
            question = re.sub(r"\.$", "?", " ".join(each.split()))
            if is_usable(question):
                folded_questions.add(fold_text(question))
                good.append(question)
        return tuple(good[:MOST_QUESTIONS])

    return Questions(answered=usable(reply.answered), open=usable(reply.open))


def _says_again(question: str, query: str) -> bool:
    """Whether a question has most of the query's content words, in whatever form, and no other."""
    own, target = stems(question), stems(query)
    is_covered = all(any(stem.startswith(each) or each.startswith(stem) for each in target) for stem in own)
    return bool(own) and is_covered and len(own) >= _AGAIN * len(target)


def question_problems(reply: Questions, *, of_pair: bool = False) -> Iterator[Problem]:
    """A passage may answer nothing besides its query, but leaves a question open; one of a pair tells more."""
    if not (reply.open or (of_pair and reply.answered)):
        advice = '"open" needs a short question about the same subject that the text leaves without any answer.'
        yield Problem("no_questions", "no usable question under 'open'", advice)


def _code_problems(text: str, language: str) -> Iterator[Problem]:
    if _is_json(text) or (language_of(language) in GRAMMARS and facts_of(text, language) is None):
        advice = f"It does not parse as {language}. Write the program alone, without any word around it."
        yield Problem("not_code", f"it cannot be parsed as {language}: {text[:80]!r}", advice)


def _is_json(text: str) -> bool:
    """Whether it is an object or a list of JSON, which Python would read as well."""
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False
