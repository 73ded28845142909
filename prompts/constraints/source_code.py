"""What a program does, read from its syntax tree: calls, recursion, loops, comments, data structures.

    code --tree-sitter--> tree --one query a language--> SourceFacts

Names in comments and strings count for nothing. Recursion is a cycle of calls among the functions of the text: by their
bare names or on `self`/`this`, with the number of arguments that the function takes where the language overloads.
Price: about 0.5 ms for 40 lines; the facts of the last texts are kept.
"""

import doctest
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path

from tree_sitter import Language, Node, Parser, Query, QueryCursor

_LANGUAGES = {"c++": "cpp", "python3": "python", "js": "javascript", "ts": "typescript", "golang": "go", "c#": "csharp"}
_OVERLOADING = frozenset({"java", "csharp"})

_QUERIES = Path(__file__).with_name("queries")
"""What is read of a program, a file a language: patterns of tree-sitter."""
GRAMMARS = frozenset({"python", "java", "cpp", "javascript", "typescript", "go"})
"""The languages that are read; of others nothing is known but their name."""

_MAP_CALLS = re.compile(r"dict|defaultdict|Counter|OrderedDict")
_MAP_TYPES = re.compile(r"(?:Linked|Concurrent)?HashMap|TreeMap|Map|(?:unordered_)?map")
_SET_CALLS = re.compile(r"set|frozenset|SortedSet")
_SET_TYPES = re.compile(r"(?:Linked)?HashSet|TreeSet|Set|(?:unordered_)?(?:multi)?set")
_SORTS = re.compile(r"sort(?:ed)?|stable_sort|sort(?:Ints|Strings|Slice|ed_by)?|Slice|Ints|parallelSort|sort_by\w*")
_HEAPS = re.compile(r"heap(?:push|pop|ify|replace|pushpop)|nlargest|nsmallest|PriorityQueue|priority_queue|make_heap")
_SEARCHES = re.compile(r"bisect(?:_left|_right)?|insort\w*|lower_bound|upper_bound|equal_range|binary_?[sS]earch")
_BIT_CALLS = re.compile(r"bit_count|bit_length|bitCount|\w*popcount\w*|countTrailingZeros|numberOfTrailingZeros")
_MIDDLE = re.compile(r"\(?.+\+.+(?://|/|>>>?)\s*[12]\)?")
_STACK_NAME = re.compile(r"(?:\w*[a-z])?(?:[sS]tack|stk)s?")
_SHIFT_BY_ONE = re.compile(r">>>?=?\s*1\s*$")
_STREAM = re.compile(r"^\s*(?:std::)?(?:cout|cerr|cin|\w*(?:stream|ss|oss|iss|out|in))\b")
_PUSHES = frozenset({"append", "push", "push_back", "addLast", "add"})
_HINTS = {
    "queue": re.compile(rb"\b(?:pop|poll|remove|offer)\("),
    "heap": re.compile(rb"\b[Hh]eap|\bpq\b"),
    "binary search": re.compile(rb"\b(?:mid|middle)\b"),
    "bit manipulation": re.compile(rb"&|\||~|>>|<<"),
    "hash map": re.compile(rb"(?i)map|dict|count|memo|\bcache\b|trie"),
    "set": re.compile(rb"(?i)set\b|seen|visited"),
    "sorting": re.compile(rb"(?i)sort"),
    "loop": re.compile(rb"\bfor\b|\bwhile\b|\b(?:map|reduce|filter|forEach|stream|accumulate|transform)\b"),
}
_OWN = frozenset({"", "self", "this", "cls", "(*this)"})
_SAYS = re.compile(
    r"^(?!\W*(?:type|noqa|pragma|pylint|fmt|mypy|pyright|error|eslint)\b).*?[A-Za-z]{3,}\W+(?:\w+\W+)*?[A-Za-z]{3,}",
    re.DOTALL,
)
"""What a comment has that explains anything to a reader of English: two words, and no mark for a tool."""
_METHOD = re.compile(rb"(?:async\s+)?def\s+\w+\s*\(\s*(?:self|cls)\b")


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What the code does, each with the offset of its first witness in characters; `comment` is the first of two
    or more within functions.
    """

    calls: Mapping[str, int] = field(default_factory=dict)
    approaches: Mapping[str, int] = field(default_factory=dict)
    unsure: frozenset[str] = frozenset()
    comment: int = -1


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    begin: int
    end: int
    parameters: int


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    target: str
    begin: int
    arguments: tuple[str, ...]


def language_of(name: str) -> str:
    """The normal name of a programming language."""
    return _LANGUAGES.get(name.lower(), name.lower())


@lru_cache(maxsize=128)
def facts_of(code: str, language: str) -> SourceFacts | None:
    """The facts of a program; None where no grammar reads the language, or the code does not parse."""
    language = language_of(language)
    if language not in GRAMMARS:
        return None
    parser, query = _reader(language)
    raw = code.encode("utf-8", "replace")
    root = parser.parse(raw).root_node
    if root.has_error:
        return None
    return _Reading(raw, QueryCursor(query).matches(root), language).facts()


@lru_cache(maxsize=128)
def facts_of_examples(text: str) -> SourceFacts:
    """The calls in the interactive Python examples (`>>> `) of a page of documentation."""
    calls: dict[str, int] = {}
    begins = [0, *(match.end() for match in re.finditer("\n", text))]
    try:
        examples = doctest.DocTestParser().get_examples(text)
    except ValueError:  # a prompt without a blank after it
        return SourceFacts()
    for example in examples:
        facts = facts_of(example.source, "python")
        for name, offset in (facts.calls if facts else {}).items():
            calls.setdefault(name, begins[example.lineno] + example.indent + len(">>> ") + offset)
    return SourceFacts(calls)


@cache
def _reader(language: str) -> tuple[Parser, Query]:
    is_typescript = language == "typescript"  # JavaScript with types
    module = import_module(f"tree_sitter_{language}")
    grammar = Language(module.language_typescript() if is_typescript else module.language())
    query = (_QUERIES / f"{'javascript' if is_typescript else language}.scm").read_text(encoding="utf-8")
    return Parser(grammar), Query(grammar, query)


class _Reading:
    def __init__(self, raw: bytes, matches: Sequence[tuple[int, Mapping[str, list[Node]]]], language: str) -> None:
        self._raw, self._language = raw, language
        self._functions: list[_Function] = []
        self._calls: list[_Call] = []
        self._found: dict[str, list[tuple[str, int]]] = {}
        for _, captures in matches:
            self._read(captures)

    def _text(self, node: Node) -> str:
        return self._raw[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _offset(self, place: int) -> int:
        return len(self._raw[:place].decode("utf-8", "replace"))

    def _read(self, captures: Mapping[str, list[Node]]) -> None:
        first = {kind: nodes[0] for kind, nodes in captures.items()}
        if function := first.get("function"):
            parameters = _named(first["parameters"]) if "parameters" in first else []
            name = self._text(first["name"])
            self._functions.append(_Function(name, function.start_byte, function.end_byte, len(parameters)))
        elif call := first.get("call"):
            target = self._text(first["object"]) if "object" in first else ""
            arguments = tuple(map(self._text, _named(first["arguments"])))
            self._calls.append(_Call(self._text(first["name"]), target, call.start_byte, arguments))
        else:
            for kind, node in first.items():
                self._found.setdefault(kind, []).append((self._text(node), node.start_byte))

    def facts(self) -> SourceFacts:
        calls: dict[str, int] = {}
        for call in sorted(self._calls, key=lambda call: call.begin):
            calls.setdefault(call.name, self._offset(call.begin))
        witnesses = {value: find(self) for value, find in _APPROACHES.items()}
        approaches = {value: self._offset(place) for value, place in witnesses.items() if place >= 0}
        unsure = self._unsure()
        if "loop" in approaches and ("recursion" in approaches or "recursion" in unsure):
            del approaches["loop"]  # it is not the loop that solves it
            unsure |= {"loop"}
        if "recursion" in approaches or "recursion" in unsure:
            unsure |= {"stack"}  # that of the calls
        saying = [place for text, place in self._found.get("comment", []) if _SAYS.search(text)]
        inside = sorted(filter(self._is_in_function, saying))
        comment = self._offset(inside[0]) if len(inside) > 1 else -1  # a single remark explains little
        return SourceFacts(calls, approaches, unsure, comment)

    def _is_in_function(self, place: int) -> bool:
        return any(function.begin < place < function.end for function in self._functions)

    def named(self, pattern: re.Pattern[str], kinds: Sequence[str] = ("call", "type")) -> int:
        """Where a call or a type of such a name first is."""
        places = [call.begin for call in self._calls if "call" in kinds and pattern.fullmatch(call.name)]
        places += [p for text, p in self._found.get("type", []) if "type" in kinds and pattern.fullmatch(text)]
        return min(places, default=-1)

    def first(self, kind: str, holds: Callable[[str], bool] = lambda _text: True) -> int:
        """Where something of this kind first is."""
        return min((place for text, place in self._found.get(kind, []) if holds(text)), default=-1)

    def types(self) -> set[str]:
        return {text for text, _ in self._found.get("type", [])} | {call.name for call in self._calls}

    def recursion(self) -> int:
        """Where a function first calls one that calls it again, or itself."""
        edges = [(caller, callee, call.begin) for call in self._calls for caller, callee in self._links(call)]
        reached = {(caller, callee) for caller, callee, _ in edges}
        while more := {(a, d) for a, b in reached for c, d in reached if b == c} - reached:
            reached |= more
        return min((begin for caller, callee, begin in edges if (callee, caller) in reached), default=-1)

    def _links(self, call: _Call) -> Iterator[tuple[int, int]]:
        if call.target not in _OWN or self._is_ambiguous(call.name):
            return
        for i, callee in enumerate(self._functions):
            if callee.name != call.name or (
                self._language in _OVERLOADING and callee.parameters != len(call.arguments)
            ):
                continue
            if not call.target and self._is_method(callee):
                continue
            yield from ((j, i) for j, caller in enumerate(self._functions) if caller.begin < call.begin < caller.end)

    def _is_ambiguous(self, name: str) -> bool:
        """Whether several functions have the name, so that scopes decide which of them is called."""
        return self._language not in _OVERLOADING and sum(f.name == name for f in self._functions) > 1

    def _is_method(self, function: _Function) -> bool:
        """Whether a function of Python takes its object, so that its bare name is not its own."""
        return self._language == "python" and bool(_METHOD.match(self._raw[function.begin : function.end]))

    def bits(self) -> int:
        """Where bits are worked on: not halving by a shift, not streams, not sets."""
        sets = self.set() >= 0
        place = self.first("bits", lambda text: not self._is_other(text, sets=sets))
        return place if place >= 0 else self.named(_BIT_CALLS, ("call",))

    def _is_other(self, text: str, *, sets: bool) -> bool:
        if _SHIFT_BY_ONE.search(text) or (self._language == "cpp" and _STREAM.match(text)):
            return True
        return sets and self._language == "python" and "<<" not in text and ">>" not in text

    def map(self) -> int:
        calls = self.named(_MAP_CALLS, ("call",)) if self._language == "python" else -1
        return _earliest(self.first("map"), calls, self.named(_MAP_TYPES, ("type",)))

    def set(self) -> int:
        calls = self.named(_SET_CALLS, ("call",)) if self._language == "python" else -1
        return _earliest(self.first("set"), calls, self.named(_SET_TYPES, ("type",)))

    def heap(self) -> int:
        return self.named(_HEAPS)

    def queue(self) -> int:
        """A queue that is emptied at the front; a deque may also be a stack."""
        calls, types = {call.name for call in self._calls}, self.types()
        if calls & {"popleft", "pop_front", "pollFirst", "removeFirst", "dequeue"}:
            return self.named(re.compile("popleft|pop_front|pollFirst|removeFirst|dequeue"), ("call",))
        if "queue" in types:
            return self.named(re.compile("queue"))
        if "Queue" in types and types & {"LinkedList", "ArrayDeque"}:
            return self.named(re.compile("Queue"))
        if "Deque" in types and {"poll", "offer"} <= calls and "PriorityQueue" not in types:
            return self.named(re.compile("poll"), ("call",))
        return -1

    def stack(self) -> int:
        place = self.named(re.compile(r"Stack|stack"), ("type",))
        return place if place >= 0 else self.first("variable", lambda name: bool(_STACK_NAME.fullmatch(name)))

    def search(self) -> int:
        place = self.named(_SEARCHES, ("call",))
        return place if place >= 0 else self.first("middle", lambda text: bool(_MIDDLE.fullmatch(text)))

    def _unsure(self) -> frozenset[str]:
        """What the code may do in a way that is not seen for sure."""
        unsure = {value for value, hint in _HINTS.items() if hint.search(self._raw)}
        names, own = {call.name for call in self._calls}, {function.name for function in self._functions}
        if any(call.target not in _OWN and call.name in own for call in self._calls):
            unsure.add("recursion")  # a method of another object of the same class, perhaps
        if any(map(self._is_ambiguous, names & own)):
            unsure.add("recursion")
        if any(call.name in call.arguments for call in self._calls):
            unsure.add("recursion")  # a closure that is handed to itself
        if names & _PUSHES and names & {"pop", "pop_back", "removeLast"}:
            unsure.add("stack")
        if self.first("literal") >= 0:
            unsure.add("set")
        if [place for _, place in self._found.get("comment", [])]:
            unsure.add("comments")  # a note on what calls the code, a definition that it builds on, or an empty one
        return frozenset(unsure)


def _named(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]


def _earliest(*places: int) -> int:
    return min((place for place in places if place >= 0), default=-1)


_APPROACHES: Mapping[str, Callable[[_Reading], int]] = {
    "hash map": _Reading.map,
    "set": _Reading.set,
    "sorting": lambda code: code.named(_SORTS, ("call",)),
    "heap": _Reading.heap,
    "queue": _Reading.queue,
    "stack": _Reading.stack,
    "binary search": _Reading.search,
    "bit manipulation": _Reading.bits,
    "loop": lambda code: code.first("loop"),
    "recursion": _Reading.recursion,
}
