"""An endpoint that answers each row of a small job by a list of bodies, and what became of the rows."""

import json
import re
import threading
from collections import defaultdict

from tests.support.models.raw_server import http
from tests.support.small_parts import topics

USAGE = {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49}
FINE = '{"text": "fine"}'


def said(content, reason="stop", usage=USAGE, **message):
    """The body of an answer."""
    choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": content, **message}}
    return {"model": "wild", "choices": [choice], "usage": usage}


def wild_job(folder, names, models, limits="{partition_seeds: 16}"):
    """A custom job of one stage with a row for each name."""
    rows = [{"q": name, "p": [f"A passage about: {name}."]} for name in names]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "templates").mkdir()
    (folder / "templates" / "ask.j2").write_text("=== user ===\nAbout: {{ query }}\n{{ positive.text }}\n")
    job = folder / "job.yaml"
    job.write_text(
        f"seeds: {{kind: table, corpus: wild, path: {folder / 'rows.jsonl'}, columns: {{query: q, positives: p}}}}\n"
        f"recipe: {{kind: custom, templates: {folder / 'templates'}, rows: {{text: ask.text}}, "
        "stages: [{name: ask, answer: {text: {type: string, most: 500}}}]}\n"
        f"models: {{writer: {{kind: hosted, structured: json_schema, {models}}}}}\n"
        f"out: {folder / 'out'}\nlimits: {limits}\nruntime: {{window: 8}}\n"
    )
    return job


class Wild:
    """Answers each row by its own list of bodies, the last one for ever, and keeps what was asked."""

    def __init__(self, answers):
        self.answers, self.asked, self.lock = answers, defaultdict(list), threading.Lock()

    def __call__(self, body):
        asked = json.loads(body) if body else {}
        found = re.search(r"About: <text-\w+>(.*?)</text-", json.dumps(asked, ensure_ascii=False))
        if not found:
            return http(b'{"data": []}')
        with self.lock:
            sent = self.asked[found[1]]
            sent.append(asked)
            plan = self.answers[found[1]]
            answer = plan[min(len(sent), len(plan)) - 1]
        status, told = answer if isinstance(answer, tuple) else ("200 OK", answer)
        return http(json.dumps(told).encode(), status)


def rows(out):
    """Query -> the status, the reason and the text of each topic."""
    made = {topic.query: topic for topic in topics(out)}
    return {q: (t.status, t.reason, json.loads(t.attributes.get("row", "{}")).get("text")) for q, t in made.items()}
