"""Salient phrases of a text: what a passage can be said to talk about, found without any model or corpus statistics.

A run of words between function words, common verbs and punctuation is taken for a noun phrase (after Rose et al. 2010,
rapid automatic keyword extraction). About 30 microseconds for 100 words; results are cached for the last texts.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from foil.engine.texts.words import word_set

COMMON_WORDS = word_set(
    """
    a able about above according accordingly across actual actually add added adding addition additional additionally
    after again against ago all allow allowed allowing allows almost along already also although altogether always am
    among amount an and another any anyone anything appear appears applied applies apply applying approach appropriate
    approximately are around array array_like article as ask assume assumed assumes at ate author authors available away
    back based basic basically be became because become becomes been before began begin beginning begins behind being
    below besides best better between beyond big bit bool both bottom bought bring brings but buy buys by calculate
    calculated calculates call called calls came can cancel cannot cant case cases cause caused causes certain change
    changes chapter check choose clear click close come comes common commonly complete completely compute computed
    computes consider considered consist consists contain contained containing contains cost costs could cover covers
    create created current currently day days decide default define defined defines depend depending depends describe
    described describes despite determine determined develop developed did didnt different directly discuss discussed
    discusses do does doesnt doing done dont down due during each early earn earned earns easily easy eat eats effect
    either else end ends enough ensure ensures entirely equal equals especially etc even eventually ever every everyone
    everything exactly examine examined example examples exceed except exhibit exhibited exist exists expect expected
    extra fairly false far few fewer figure find finds first five float follow followed following follows for former
    found four free frequently from full fully gave general generally get gets getting give given gives giving go goal
    goes going gone good got great greater had half happen happens hard has have having he held help helps hence her
    here high higher highly him his hold holds home how however i if important in include included includes including
    increase increases increasingly indeed indicate indicates indirectly information inside instance instead int into
    investigate investigated involve involved involves is isnt it items its itself just keep keeps kept kind know known
    knows large larger largest last lasted lastly lasts later latter lead leads learn least leave leaves led left less
    let lets like likely line list little live long longer look looking looks lot lots low lower made main mainly major
    make makes making many matter may maybe me mean means meant meet merely method methods might mine more moreover most
    mostly mount move much must my name named ndarray near nearly necessary need needed needs neither never new next no
    nobody non none nor normal normally not note noted nothing now number numbers object obtain obtained occur occurs of
    off often on once one ones only onto open optional or order original other others otherwise our out over overall own
    page paid paper part particular particularly parts pass passed past pay pays people per perform performed performs
    perhaps place please point points possible possibly present presented previous previously primarily prior probably
    problem produce produced produces propose proposed provide provided provides put quickly quite rapidly rather reach
    read reading real really reason receive received recent recently refer referred refers regarding related relatively
    remain remaining remains remove removed replace replaced represent represented represents require required requires
    respectively rest result resulting results return returned returns right said same saw say saying says second
    section see seem seems seen select selected self sell sells set sets several shall she should show showed shown
    shows similar similarly simple simply simultaneously since six size slowly small smaller so sold some someone
    something sometimes soon sort specific specifically specified spend spends spent start started starts state still
    stop store stored stores str studied study such suggest suggested suitable support supported supports suppose sure
    table take taken takes taking technique tell ten term terms than that thats the their them themselves then there
    therefore these they thing things think this those though three through throughout thus time times to today together
    too took top total toward towards treat treated tried true try trying turn turned turns twice two type types typical
    typically unable under understand unless until up upon us use used useful user uses using usual usually value values
    various very via want wanted was way ways we well went were what whatever when whenever where whereas wherever
    whether which while who whoever whole whom whose why widely will wish with within without wont work worked works
    would write writes written yes yet you your yours yourself zero
    """
)
"""Words that say nothing by themselves: function words, common verbs, adverbs, and words of every text."""
VAGUE_NOUNS = word_set(
    """
    ability access account action activity addition advance agreement aim application approximation area argument
    aspect assumption attempt attention attribute band behavior behaviour benefit calibration category center
    centre chance choice circumstance class collection combination company comparison concept concern conclusion
    condition conjunction consequence consideration context correlation country course customer degree detail
    development deviation difference direction discussion disposal dissolution distance distinction distribution
    effect effort element emphasis end environment equation estimation evaluation event evidence existence expense
    experience experiment explanation expression fact factor family feature feeling field force form formation
    friend function group guide hand head help history home hour idea importance individual influence initiation
    interaction investigation issue job length level life link location loss majority man manner meaning means
    measurement member mind minute moment month movement name nature need observation occasion office operation
    opinion opportunity organization outcome overview parameter parent party path pattern peculiarity period
    person persons phase place player policy position possibility practice prediction preparation presence
    presentation principle procedure process product program progress project property purpose quality quantity
    question range reference region relation relationship report requirement research resource respect
    responsibility role room rule scene section selection sense sentence service setting shape side sign site
    situation skill solution source space spot stage standard statement status step story structure student style
    subject success suggestion summary system target task team theory tool topic town trouble truth understanding
    unit validity variation variety version view visitor week woman word world year
    """
)
"""Nouns that name no subject by themselves, nor at the end of a phrase."""
_TOKEN = re.compile(r"[A-Za-z][\w'-]*[A-Za-z0-9]|[A-Za-z]|\d[\w.,]*|\n|[^\w\s]")
_NON_LETTERS = frozenset("_0123456789")
_MAX_WORDS = 3


@dataclass(frozen=True, slots=True)
class Phrases:
    """`terms`: noun phrases of up to three words; `names`: capitalised in a sentence."""

    terms: tuple[str, ...]
    names: tuple[str, ...]


_BEFORE_VERB = word_set(
    "to can could will would may might must should not don't doesn't cannot they we you i he she it who that which and"
)
_CALENDAR = word_set(
    "January February March April May June July August September October November December Monday Tuesday Wednesday"
    " Thursday Friday Saturday Sunday Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur Thurs"
    " Fri Sat Sun"
)
_INDEFINITE = word_set("a an")
_ARTICLES = word_set("the a an of its his her this their our my")
_BEFORE_NOUN = _ARTICLES | word_set(
    "of in on at with by from for into over under between among through during without within about against near across"
)
_OBJECTS = word_set("it them him her us me the a an its their his this these")
_AFTER_ADJECTIVE = word_set("one ones and or than")
_NOUN_ENDINGS = tuple(word_set("tion sion ment ity ness ance ence ism ist ship ure logy phy ers ors ings"))
_NON_NOUN_ENDINGS = ("ed", "ing", "ive", "ous", "able", "ible", "ful", "less", "ize", "ise")


def _is_content_word(word: str) -> bool:
    lower = word.lower()
    is_common = len(word) <= 2 or lower in COMMON_WORDS or lower.endswith("ly")
    return not is_common and word[0].isalpha() and "'" not in word


def _is_noun_like(word: str) -> bool:
    """A guess from the ending, for words that stand alone or last."""
    return not word.endswith(_NON_NOUN_ENDINGS)


def is_noun_by_ending(word: str) -> bool:
    """Whether a single lower-case word is surely a noun: by an ending of nouns, or as a plural."""
    return word.endswith(_NOUN_ENDINGS) or (word.endswith("s") and not word.endswith(("ss", "us", "is", "ous")))


def is_vague(phrase: str) -> bool:
    """Whether the phrase, in the singular or plural, ends in a noun that names no subject."""
    last = phrase.lower().split()[-1]
    singulars = (last, last.removesuffix("s"), last.removesuffix("es"), last.removesuffix("ies") + "y")
    return not VAGUE_NOUNS.isdisjoint(singulars)


@dataclass(slots=True)
class _Run:
    """Content words in a row. `opening`: at the start of a sentence or line; `before`, `after`: tokens next to it."""

    words: list[str]
    opening: bool
    before: str
    after: str = ""


def _find_runs(text: str) -> list[_Run]:
    runs: list[_Run] = []
    run: _Run | None = None
    before = "\n"
    for token in _TOKEN.findall(text):
        if _is_content_word(token):
            if run is None:
                run = _Run([], before in ".!?\n:;-*#>|", before)
                runs.append(run)
            run.words.append(token)
        elif run is not None:
            run.after = token
            run = None
        before = token.lower()
    return runs


def _find_name(run: _Run) -> str:
    """The first capitalised words of the run, the start of a sentence aside; "" if there are none, or too many.

    What stands behind "a" or "an" is no name, but one of many.
    """
    if run.before in _INDEFINITE:
        return ""
    name_words: list[str] = []
    for word in run.words[1:] if run.opening else run.words:
        if word[0].isupper() and word[1:].islower():
            name_words.append(word)
        elif name_words:
            break
    return "" if _CALENDAR.issuperset(name_words) or len(name_words) > _MAX_WORDS else " ".join(name_words)


@lru_cache(maxsize=128)
def phrases_of(text: str) -> Phrases:
    """The salient phrases of a text, in their order; a phrase is at most three words long."""
    terms: dict[str, None] = {}
    names: dict[str, None] = {}
    for run in _find_runs(text):
        name = _find_name(run)
        if name:
            names[name] = None
        letter_words = [word for word in run.words if _NON_LETTERS.isdisjoint(word)]
        term = _find_term(run) if len(letter_words) == len(run.words) else ""
        if term:
            terms[term if name else term.lower()] = None
    return Phrases(tuple(terms), tuple(names))


def _find_term(run: _Run) -> str:
    """The run as a noun phrase: without a verb or participle at either end; "" where nothing specific is left.

    What stands behind an article or a preposition is one; what an object follows ends in a verb.
    """
    words = run.words
    is_name = all(word[0].isupper() for word in words) and not run.opening
    if not is_name and (run.before not in _BEFORE_NOUN or (len(words) > 1 and run.after.lower() in _OBJECTS)):
        return ""
    if run.before in _BEFORE_VERB and not words[0][0].isupper():
        words = words[1:]
    while words and not _is_noun_like(words[-1]):
        words = words[:-1]
    if len(words) > 1 and words[0].endswith("ing"):
        words = words[1:]
    if len({word.lower() for word in words}) < len(words):
        return ""
    if not 1 <= len(words) <= _MAX_WORDS or (len(words) == 1 and not _is_surely_noun(words[0], run)):
        return ""
    return " ".join(words)


def _is_surely_noun(word: str, run: _Run) -> bool:
    """Whether a single word is surely a noun: by its ending, by its capital, or by what stands before and after it."""
    if len(word) < 4 or run.after in _AFTER_ADJECTIVE:
        return False
    stands_alone = (
        len(run.words) == 1 and run.before in _BEFORE_NOUN and not (run.before in _ARTICLES and run.after == ",")
    )
    return stands_alone or word.endswith(_NOUN_ENDINGS) or (word[0].isupper() and not run.opening)
