"""The page on which people label: one item, its questions, keys for all of them; and what came of it so far.

GET /label -> the annotator's next item;   POST /label -> kept and durable, then the next one
"""

from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from foil.cluster.desk.labelling import LabelSession
from foil.datasets_out.desk.server import DeskPages, form_of, guarded
from foil.engine.errors import UsageError

TAB = ("/label", "Label")


class LabelPages:
    """The pages of one annotator over a session, in the frame of the desk's other pages."""

    def __init__(self, session: LabelSession, annotator: str, pages: DeskPages) -> None:
        self._session, self._annotator, self._pages = session, annotator, pages

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/label", guarded(self._pages, self.item), methods=["GET"]),
            Route("/label", self.put, methods=["POST"]),
        ]

    def item(self, request: Request) -> Response:
        """The item that the URL names, else the next one that is not marked; at the end, a summary."""
        digits = request.query_params.get("item", "")
        number = int(digits) if digits.isdecimal() and len(digits) < 7 else self._session.next_item(self._annotator)
        return self._page(number, {})

    async def put(self, request: Request) -> Response:
        """Keeps the marks of an item; then the next item, or the same one with what is missing."""
        form = await form_of(request)
        return await run_in_threadpool(self._put, form)

    def _put(self, form: Mapping[str, str]) -> Response:
        number = int(form["item"]) if form.get("item", "").isdecimal() and len(form["item"]) < 7 else 0
        item = self._session.item(number)
        letters = [passage.letter for passage in item.passages]
        values = {name: form.get(name, "") + ("u" if form.get(f"{name}-unusable") else "") for name in letters}
        questions = ("natural", "gives", "remark") if item.instruction else ("remark",)
        values |= {name: form.get(name, "").strip()[:2000] for name in questions}
        try:
            self._session.put(self._annotator, number, values)
        except UsageError as error:
            return self._page(number, values, str(error))
        return RedirectResponse("/label", 303)

    def _page(self, number: int | None, values: Mapping[str, str], error: str = "") -> Response:
        session, annotator = self._session, self._annotator
        marked = session.done(annotator)
        fields: dict[str, Any] = {
            "item": session.item(number) if number is not None else None,
            "marks": values or (session.marks(annotator, number) if number is not None else {}),
            "order": session.order(annotator),
            "done": marked,
            "annotator": annotator,
            "sheet": session.name,
            "agreement": session.agreement(),
            "rejections": session.false_rejections(annotator) if number is None else (),
            "error": error,
        }
        return self._pages.page("label.html.j2", TAB[0], 400 if error else 200, **fields)
