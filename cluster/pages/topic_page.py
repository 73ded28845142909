"""A topic on a terminal, from its view (datasets_out/desk/topic_view.py).

Promise: no text steers the terminal, and no line is wider than it. Without colours the words that differ stand in
signs: `[-removed-]`, `{+added+}`, `«differs»`.
"""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from foil.datasets_out.desk.topic_view import EXCERPT_CHARS, IntentView, PassageView, TopicView, view_topic
from foil.datasets_out.diff.word_diff import Mark, Span, plain, shorten
from foil.datasets_out.lineage.lineage import LineageNode, call_remarks, render
from foil.datasets_out.lineage.records import RecordMatch
from foil.engine.requests import Request
from foil.engine.topic import Call, Topic
from foil.engine.visible_text import visible

_STYLES: dict[Mark, tuple[str, str, str]] = {
    "same": ("", "", ""),
    "removed": ("red strike", "[-", "-]"),
    "added": ("green underline", "{+", "+}"),
    "unshared": ("bold yellow", "«", "»"),
    "omitted": ("dim", "", ""),
}
"""For each mark its style, and the signs around it where there are no colours."""
_LEAST_COLUMN = 36
_CELL = 4
_SIGNS = {1: "+", -1: "-", 0: ""}
_INDENT = (0, 0, 0, 2)
_BLANK = Text()


def topic_pages(views: Sequence[TopicView], console: Console, digits: int | None) -> Iterator[RenderableType]:
    """Topics one below the other, a line between them."""
    for place, view in enumerate(views):
        yield from ((_BLANK, _plain("─" * console.width, "dim")) if place else ())
        yield from topic_page(view, console, digits)


def topic_page(view: TopicView, console: Console, digits: int | None) -> Iterator[RenderableType]:
    """The whole topic. Of ids the first `digits` are shown (None: all)."""
    yield Text.assemble((visible(f"Topic {_short(view.id, digits)}"), "bold"), f"  {view.status}")
    if view.status != "accepted":
        yield _plain(view.outcome, "bold red")
    yield _plain(f"{view.recipe}, from {view.corpus}/{view.seed_id} ({view.rights})", "dim")
    yield _heading("Query")
    yield _indented(_plain(view.query))
    if view.intents:
        yield _heading("Instructions")
        yield from _instructions(view.intents, view.query, console, digits)
    if view.passages:
        yield _heading("Passages")
    for place, passage in enumerate(view.passages):
        yield from ((_BLANK,) if place else ())
        yield from passage_block(passage, console, digits)
    if view.intents and view.passages:
        yield _heading("Judgments (+ relevant, - not relevant, blank: nobody judged)")
        yield from _matrix(view, console.width)
    if view.judges:
        yield _indented(_plain("by " + ", ".join(f"{judge} {count}" for judge, count in view.judges.items()), "dim"))
    if view.verdicts:
        yield _heading("Verdicts")
    for sentence in view.verdicts:
        yield _indented(_plain(sentence))


def origin_page(
    record: RecordMatch,
    topic: Topic,
    tree: LineageNode,
    console: Console,
    digits: int | None,
    requests: Mapping[str, Request],
) -> Iterator[RenderableType]:
    """What a record is, and below where it comes from: a tree, its lines unbroken where no terminal shows them.

    `requests`, by id, are shown whole with the calls that they made; none are known without the run's job.
    """
    yield from _record(record, topic, console, digits)
    excerpt = EXCERPT_CHARS if digits else None
    for call in topic.calls:
        if call.request_id == record.id or (record.kind in ("topic", "seed") and requests):
            yield from _call_block(call, requests.get(call.request_id), console, excerpt)
    yield f"\nWhere it comes from\n{render(tree, digits, console.width if console.is_terminal else None)}"


def _record(record: RecordMatch, topic: Topic, console: Console, digits: int | None) -> Iterator[RenderableType]:
    """What a record of a topic is: the whole topic for a topic or a seed, else the record alone.

    With `digits` of ids texts are cut, too.
    """
    excerpt = EXCERPT_CHARS if digits else None
    view = view_topic(topic, excerpt)
    if record.kind in ("topic", "seed"):
        yield from topic_page(view, console, digits)
        return
    yield Text.assemble((visible(f"{record.kind.capitalize()} {_short(record.id, digits)}"), "bold"))
    yield _plain(f"of topic {_short(topic.id, digits)} ({view.status}): {view.query}", "dim")
    yield from () if record.kind == "call" else (_BLANK,)
    for intent in view.intents:
        if intent.id == record.id:
            yield from intent_block(intent, view.query, console, digits)
    for passage in view.passages:
        if passage.id == record.id:
            yield from passage_block(passage, console, digits)


def _call_block(call: Call, request: Request | None, console: Console, excerpt: int | None) -> Iterator[RenderableType]:
    """One call: what was asked, where it is known, what came back, and what became of that."""
    yield _heading(f"{call.task}, asked of {call.model} with {call.template}")
    for message in request.messages if request else ():
        yield _indented(_plain(f"{message.role}:", "dim"))
        yield _indented(spans_text(plain(message.content), console))
    yield _indented(_plain("the reply:", "dim"))
    reply = plain(call.reply_text)
    yield _indented(spans_text(shorten(reply, excerpt) if excerpt else reply, console))
    price = f"{call.prompt_tokens:,} + {call.completion_tokens:,} tokens, ${call.cost_usd:.6f}"
    paid = ", paid by another run" if call.reused else ""
    yield _indented(_plain("; ".join([f"{price}{paid}, {call.finish_reason}", *call_remarks(call)]), "dim"))
    if call.fault:
        yield _indented(_plain(call.fault))


def passage_block(passage: PassageView, console: Console, digits: int | None) -> Iterator[RenderableType]:
    """One passage: its name, what it is, its text or how it was edited."""
    source = f", from {passage.source_id}" if passage.source_id not in ("", passage.title) else ""
    edit = f"; {passage.edit}" if passage.edit else ""
    description = f" {passage.role}{source}, {passage.characters:,} characters{edit}"
    yield Text.assemble((passage.name, "bold"), visible(description), (f"  {_short(passage.id, digits)}", "dim"))
    if passage.title:
        yield _indented(_plain(passage.title, "italic"))
    yield _indented(spans_text(passage.text, console))


def intent_block(intent: IntentView, query: str, console: Console, digits: int | None) -> Iterator[RenderableType]:
    """One intent: its name, its instruction, and its query where it is not the topic's."""
    comparison = f", {intent.comparison}" if intent.comparison else ""
    yield Text.assemble((intent.name, "bold"), f" {intent.role}{comparison}", (f"  {_short(intent.id, digits)}", "dim"))
    if intent.instruction:
        yield spans_text(intent.instruction, console)
    if "".join(span.text for span in intent.query) != query:
        yield Text("query: ").append_text(spans_text(intent.query, console))


def _instructions(
    intents: Sequence[IntentView], query: str, console: Console, digits: int | None
) -> Iterator[RenderableType]:
    """Side by side, as many as the width allows; the bare query takes no column."""
    for intent in intents:
        if not intent.instruction:
            yield from (_indented(part) for part in intent_block(intent, query, console, digits))
    instructed = [intent for intent in intents if intent.instruction]
    columns = max(1, min(len(instructed), (console.width - 2) // (_LEAST_COLUMN + 2)))
    for start in range(0, len(instructed), columns):
        row = instructed[start : start + columns]
        grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
        for _ in range(columns):
            grid.add_column(ratio=1, overflow="fold")
        blocks = [list(intent_block(intent, query, console, digits)) for intent in row]
        grid.add_row(*(_stacked(block) for block in blocks))
        yield _indented(grid)


def _stacked(parts: Sequence[RenderableType]) -> RenderableType:
    table = Table.grid()
    table.add_column(overflow="fold")
    for part in parts:
        table.add_row(part)
    return table


def _matrix(view: TopicView, width: int) -> Iterator[RenderableType]:
    """The cells, a row an intent; several tables where the passages have no room in one."""
    label = max(len(f"{intent.name} {intent.role}") for intent in view.intents)
    cells = max(1, (width - label - 4) // _CELL)
    for start in range(0, len(view.passages), cells):
        names = [passage.name for passage in view.passages[start : start + cells]]
        lines = [" " * label + "".join(name.rjust(_CELL) for name in names)]
        for intent, row in zip(view.intents, view.matrix, strict=True):
            signs = (_SIGNS[cell].rjust(_CELL) for cell in row[start : start + cells])
            lines.append((f"{intent.name} {intent.role}".ljust(label) + "".join(signs)).rstrip())
        yield _indented(_plain("\n".join(lines)))


def spans_text(spans: Sequence[Span], console: Console) -> Text:
    """Spans in colours, or in signs where the console has none."""
    text = Text(overflow="fold")
    for span in spans:
        style, opening, closing = _STYLES[span.mark]
        body = span.text.strip()
        before, after = span.text.split(body, 1) if body else (span.text, "")
        signs = (opening, closing) if body and console.color_system is None else ("", "")
        text.append(visible(before))
        text.append(visible(f"{signs[0]}{body}{signs[1]}"), style or None)
        text.append(visible(after))
    return text


def _heading(text: str) -> RenderableType:
    return Text(f"\n{text}", style="bold")


def _plain(text: str, style: str = "") -> Text:
    return Text(visible(text), style=style, overflow="fold")


def _indented(part: RenderableType) -> RenderableType:
    return Padding(part, _INDENT)


def _short(name: str, digits: int | None) -> str:
    return visible(name)[:digits]
