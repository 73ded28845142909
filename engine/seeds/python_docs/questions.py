"""Words a question that the object with a given summary line answers.

    "Return the inverse of a matrix."  ->  the line itself, or "How can I get the inverse of a matrix?"

A summary is either an order (`Compute ...`, `Returns ...`) or a noun phrase (`Linear support vector classifier`). Each
kind has its wordings; a hash of the object's name selects one. The question never contains the name.
"""

import re
from pathlib import Path

import yaml

from foil.engine.ids import fraction_of
from foil.engine.seeds.python_docs.words import agree
from foil.engine.texts.words import word_set, words_of

_VERBS = words_of(Path(__file__).with_name("verbs.txt"))

_WORDINGS = yaml.safe_load(Path(__file__).with_name("wordings.yaml").read_text(encoding="utf-8"))
_PROPER_NAMES = word_set(
    """airy bayesian bernoulli bessel beta cauchy chebyshev cholesky dirichlet euler fourier gauss gaussian hankel
    hermite hermitian huber jacobi jensen kelvin kolmogorov laguerre laplace legendre lagrange mathieu pearson
    poisson python riemann student toeplitz vandermonde voronoi weibull wiener unicode"""
)
_ARTICLE_WORDINGS = (
    "Is there {thing}?",
    "Does Python have {thing}?",
    "I am looking for {thing}",
    "Where do I find {thing}?",
)
_SENTENCE_STARTERS = word_set(
    """this these that if for when given only see note as in on by with like once unless it you each any no true
    false similar options"""
)
_DETERMINERS = word_set("the a an this these each all every any and or to into from")
_OBJECT_KIND = re.compile(
    r"(class|function|context[ -]manager|decorator|iterator|iterable|generator|exception|wrapper|container|classifier"
    r"|estimator|transformer|factory|client|server|handler|interface|helper|mixin|base class|implementation)\b",
    re.IGNORECASE,
)
_RETURN_VERBS = word_set("return get give obtain yield retrieve")
_SUBJECT = re.compile(r"^this (?:function|method|class)\s+", re.IGNORECASE)
_POINTING = re.compile(r"\bthis (?=[A-Za-z])")
_MAX_QUESTION_WORDS = 22


def question_of(summary: str, name: str) -> str:
    """A question to which the object of this summary is an answer; "" if none sounds natural."""
    phrase = summary.rstrip(".").strip()
    words = phrase.split()
    if not 3 <= len(words) <= _MAX_QUESTION_WORDS or re.search(r"[;:?!=]|\. |^\W", phrase):
        return ""
    verb = "" if words[1] == "of" else base_verb(words[0])
    complement = " ".join(words[1:]).replace(" and returns ", " and return ")
    if verb in _RETURN_VERBS and words[1].lower() in {"a", "an", "the", "all", "one"}:
        return _choose_wording(_WORDINGS["result"], name).format(thing=complement)
    if verb == "return" or words[0].endswith(","):
        return ""
    if not verb:
        return _noun_question(words, name)
    return _choose_wording(_WORDINGS["action"], name).format(action=f"{verb} {complement}")


def as_order(summary: str) -> str:
    """The summary as one would type it into a search: an order, of nothing that only its page can point at.

    "Sets the encoding of this source." -> "Set the encoding of a source"
    """
    words = agree(_POINTING.sub("a ", _SUBJECT.sub("", summary.rstrip(".")))).split()
    verb = base_verb(words[0]) if words[1:2] != ["of"] else ""
    if not verb or verb == words[0].lower():
        return " ".join(words)
    return " ".join([verb.capitalize(), *words[1:]]).replace(" and returns ", " and return ")


def base_verb(word: str) -> str:
    """The base form of a verb that can begin an order ("Computes" -> "compute"); "" for any other word."""
    word = word.lower()
    forms = (word, word.removesuffix("s"), word.removesuffix("es"), word.removesuffix("ies") + "y")
    return next((form for form in forms if form in _VERBS), "")


def _noun_question(words: list[str], name: str) -> str:
    first_word = words[0].lower()
    if (
        first_word.endswith("ly")
        or first_word in _SENTENCE_STARTERS
        or words[1] in _DETERMINERS
        or re.search(r"\b(is|are|was|will|can|should|must|does)\b", " ".join(words[:6]))
    ):
        return ""
    is_common = words[0][1:].replace("-", "").islower() or len(words[0]) == 1
    is_common = is_common and first_word.split("-")[0] not in _PROPER_NAMES
    noun = " ".join([first_word if is_common else words[0], *words[1:]])
    if _OBJECT_KIND.match(noun):
        noun = f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"
    wordings = _ARTICLE_WORDINGS if noun.startswith(("a ", "an ")) else _WORDINGS["thing"]
    return _choose_wording(wordings, name).format(thing=noun)


def _choose_wording(wordings: tuple[str, ...], name: str) -> str:
    return wordings[int(fraction_of("wording", name) * len(wordings))]
