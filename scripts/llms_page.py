"""Writes llms.txt, the list of pages for language models, from the first words of each page.

python scripts/llms_page.py            # writes it
"""

import re
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
FIRST = ("README.md", "docs/skill/SKILL.md")


def page() -> str:
    """The text of llms.txt."""
    readme = (REPO / "README.md").read_text()
    title, summary, *_ = readme.removeprefix("# ").split("\n\n")
    docs = sorted(str(path.relative_to(REPO)) for path in (REPO / "docs").rglob("*.md"))
    places = [*FIRST, *(place for place in docs if place not in FIRST), "CONTRIBUTING.md", "lab/README.md"]
    lines = "\n".join(map(_line, places))
    return f"# {title}\n\n> {' '.join(summary.replace('**', '').split())}\n\n## Pages\n\n{lines}\n"


def _line(place: str) -> str:
    """A link to a page, with its first sentence."""
    text = re.sub(r"^---\n.*?\n---\n", "", (REPO / place).read_text(), flags=re.DOTALL)
    title = re.search(r"^# (.*)$", text, re.MULTILINE)
    first = next((part for part in re.split(r"\n\n", text) if re.match(r"[A-Za-z`*]", part.strip())), "")
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(first.replace("**", "").split()))
    sentence = re.split(r"(?<=[.:])\s", plain)[0].rstrip(":.")
    return f"- [{title[1] if title else place}]({place}): {sentence}"


if __name__ == "__main__":
    (REPO / "llms.txt").write_text(page())
