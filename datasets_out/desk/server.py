"""The desk as a small server on this machine: overview, topics, one topic, map, SQL, notes.

    GET pages and files --Guard--> LiveRun -> templates -> HTML;   POST /notes, POST /sql

Every page works without a script; scripts add the map, the progress that renews itself, and keys. Pages are made in
threads, so a slow query blocks no other.
"""

import asyncio
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qsl, urlencode

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from uvicorn.protocols.http.h11_impl import H11Protocol

from foil.datasets_out.desk.guard import Guard
from foil.datasets_out.desk.live_run import LiveRun
from foil.datasets_out.desk.map_groups import group_numbers, map_areas, map_groups
from foil.datasets_out.desk.pages import STATIC, render
from foil.datasets_out.desk.search import MARKS, PAGE_ROWS, read_search
from foil.datasets_out.desk.sections import FUNNEL, REASONS
from foil.datasets_out.desk.topic_view import view_topic
from foil.datasets_out.sql.schema_words import questions_of_one_run
from foil.engine.errors import CorruptDataError, FoilError, UsageError

_TEXT_CHARACTERS = 20_000
_MOST_SQL_ROWS = 500
FLAGS = ("", "bad", "good", "look again")
Page = Callable[[Request], Response]


class DeskPages:
    """The pages over one run. `author` signs its notes; `tabs` are further pages, (path, title)."""

    def __init__(self, run: LiveRun, author: str, tabs: Sequence[tuple[str, str]] = ()) -> None:
        self.run, self._author = run, author
        self.tabs = (("/", "Overview"), ("/topics", "Topics"), ("/map", "Map"), ("/sql", "SQL"), *tabs)

    def routes(self) -> list[BaseRoute]:
        pages: Mapping[str, Page] = {
            "/": self.overview,
            "/progress": self.progress,
            "/topics": self.topics,
            "/topics/{topic_id}": self.topic,
            "/map": self.map,
            "/map.json": self.points,
        }
        return [
            *(Route(path, guarded(self, page)) for path, page in pages.items()),
            Route("/sql", guarded(self, self.sql), methods=["GET"]),
            Route("/sql", self.ask_sql, methods=["POST"]),
            Route("/notes", self.put_note, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]

    def page(self, template: str, tab: str, status: int = 200, **values: Any) -> HTMLResponse:
        """A page of a template, with what every page has."""
        return HTMLResponse(render(template, run_name=self.run.name, tabs=self.tabs, tab=tab, **values), status)

    def overview(self, _: Request) -> Response:
        """What stands out, counts, progress, funnel, and why topics were dropped."""
        return self.page(
            "overview.html.j2",
            "/",
            run=self.run.facts(),
            verdict=self.run.verdict(),
            progress=self.run.progress(),
            funnel=self.run.ask(FUNNEL),
            reasons=self.run.ask(REASONS),
        )

    def progress(self, _: Request) -> Response:
        """The part of the overview that renews itself."""
        return HTMLResponse(render("progress.html.j2", progress=self.run.progress()))

    def topics(self, request: Request) -> Response:
        """Facets, words, and a page of topics."""
        search = read_search(request.query_params)
        rows = self.run.search(search)
        matches = rows[0]["found"] if rows else 0
        fields = {**search.chosen, "q": search.words, "mark": search.mark}
        return self.page(
            "topics.html.j2",
            "/topics",
            search=search,
            rows=rows,
            found=matches,
            pages=max(1, -(-matches // PAGE_ROWS)),
            facets=self.run.facets(),
            marks=MARKS,
            link=urlencode({name: value for name, value in fields.items() if value}),
        )

    def topic(self, request: Request) -> Response:
        """One topic: texts, matrix, verdicts, calls, notes, and its whole lineage."""
        topic, lineage = self.run.topic(request.path_params["topic_id"])
        return self.page(
            "topic.html.j2",
            "/topics",
            view=view_topic(topic, _TEXT_CHARACTERS),
            topic=topic,
            lineage=lineage,
            notes=self.run.notes(topic.id),
            author=self._author,
            flags=FLAGS,
            most=_TEXT_CHARACTERS,
        )

    def map(self, _: Request) -> Response:
        """The map, drawn by a script out of /map.json."""
        points = self.run.points()
        groups = map_groups(self.run.ask)
        return self.page(
            "map.html.j2",
            "/map",
            points=points,
            words=self.run.method.words,
            groups=groups,
            areas=map_areas(points),
            topics=sum(group.topics for group in groups),
        )

    def points(self, _: Request) -> Response:
        """The points as columns of JSON, and the areas."""
        points, groups = self.run.points(), map_groups(self.run.ask)
        columns = {name: points[name].to_pylist() for name in points.column_names}
        areas = [asdict(area) for area in map_areas(points)]
        return JSONResponse(columns | {"group": group_numbers(points, groups), "areas": areas})

    def sql(self, request: Request) -> Response:
        """The empty form, or one filled with the `query` of the URL; only a POST runs it."""
        return self._sql_page(request.query_params.get("query", ""))

    async def ask_sql(self, request: Request) -> Response:
        """The form with the answer to its query."""
        query = (await form_of(request)).get("query", "")
        return await run_in_threadpool(self._answer, query)

    def _answer(self, query: str) -> Response:
        try:
            table = self.run.ask_typed(query)
        except FoilError as error:
            return self._sql_page(query, error=str(error))
        return self._sql_page(query, rows=table.slice(0, _MOST_SQL_ROWS).to_pylist(), count=table.num_rows)

    def _sql_page(self, query: str, **answer: Any) -> Response:
        values = {"error": "", "rows": None, "count": 0, **answer}
        return self.page(
            "sql.html.j2", "/sql", query=query, most=_MOST_SQL_ROWS, examples=questions_of_one_run(), **values
        )

    async def put_note(self, request: Request) -> Response:
        """Keeps a note, then shows its topic again."""
        values = await form_of(request)
        flag = values.get("flag", "") if values.get("flag", "") in FLAGS else ""
        topic_id, note = values.get("topic_id", ""), values.get("note", "")
        topic, _ = await run_in_threadpool(self.run.topic, topic_id)
        await run_in_threadpool(self.run.note, topic.id, self._author, flag, note)
        return RedirectResponse(f"/topics/{topic.id}#notes", 303)


def guarded(pages: DeskPages, page: Page) -> Page:
    """The page, or what went wrong in words."""

    def answer(request: Request) -> Response:
        try:
            return page(request)
        except FoilError as error:
            return error_page(pages, error)

    return answer


def error_page(pages: DeskPages, error: FoilError) -> Response:
    """An error in words: 404 for what the reader asked wrongly, 500 for damage."""
    status = 404 if isinstance(error, UsageError) else 500
    hint = "foil verify names the damaged files." if isinstance(error, CorruptDataError) else ""
    return pages.page("error.html.j2", "", status, error=str(error), hint=hint)


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form; of equal names the last."""
    body = await request.body()
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=1000))


def serve(pages: DeskPages, port: int, announce: Callable[[str], None], more: Sequence[BaseRoute] = ()) -> None:
    """Serves until it is interrupted. `port` 0 takes a free one; `announce` gets the URL with the token.

    Raises UsageError where the port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        raise UsageError(f"port {port} of 127.0.0.1 cannot be used ({error}); give another --port, or 0") from None
    port, token = listener.getsockname()[1], secrets.token_urlsafe(24)
    app = Starlette(routes=[*more, *pages.routes()], exception_handlers={FoilError: _handler(pages)})
    guard = Guard(app, port, token)
    config = uvicorn.Config(guard, http=PatientProtocol, log_level="warning", access_log=False, lifespan="off")
    listener.listen()
    announce(f"http://127.0.0.1:{port}{pages.tabs[-1][0] if more else '/'}?token={token}")
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        pages.run.close()


def _handler(pages: DeskPages) -> Callable[[Request, Exception], Response]:
    def handle(_: Request, error: Exception) -> Response:
        assert isinstance(error, FoilError)
        return error_page(pages, error)

    return handle


REQUEST_S = 10.0
_UNFINISHED = (h11.IDLE, h11.SEND_BODY)


class PatientProtocol(H11Protocol):
    """A connection that is closed where a request is not whole REQUEST_S after its first byte, or after the connection.

    uvicorn waits for ever for the rest of one, so that who sends a byte a minute holds a connection for nothing.
    """

    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Waits on, from the first byte of a request, until it is whole."""
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no more."""
        super().connection_lost(exc)
        self._stop()

    def _wait(self) -> None:
        if self.conn.their_state not in _UNFINISHED:
            self._stop()
        elif self._end is None:
            self._end = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _stop(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None
