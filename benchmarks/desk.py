"""How soon a curator sees something: the report of 100,000 topics, and the desk's pages in a browser.

    python -m benchmarks.desk [--quick] [--json]

The run is that of benchmarks/query.py. `ratio_report_bytes` is the report's size against 5 MB, `ratio_open` the slowest
first opening of a page in Chromium (from the request to its `load` event) against 1 s, `ratio_diversity` the time for
100,000 instructions against 60 s; under 1 is good. Pages are opened once; what is opened again comes from memory.
"""

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

from benchmarks.query import PARTITION_TOPICS, build
from foil.cluster.desk.report import MOST_BYTES, report_page
from foil.datasets_out.sql.query import run_sql
from foil.validators.audits.diversity import instruction_diversity
from foil.validators.overlap.duplicates import group_texts
from tests.support.desk.browser import Visit, desk_process, headless

OPEN_S, DIVERSITY_S = 1.0, 60.0
WORDS = [f"word{number}" for number in range(5000)]


def measure(out: Path, topics: int, texts: int) -> dict[str, float]:
    """All figures of one run."""
    figures: dict[str, float] = {"topics": topics}
    start = time.perf_counter()
    page, _ = report_page(out)
    figures |= {"report_s": time.perf_counter() - start, "report_bytes": len(page.encode())}
    (out / "report.html").write_text(page)
    figures |= open_pages(out)
    rng = random.Random(0)
    instructions = [" ".join(rng.choices(WORDS, k=35)) for _ in range(texts)]
    start = time.perf_counter()
    instruction_diversity(instructions)
    figures["diversity_s"] = time.perf_counter() - start
    start = time.perf_counter()
    group_texts(instructions[:20_000])
    figures["repeats_of_20000_s"] = time.perf_counter() - start
    opened = max(value for name, value in figures.items() if name.startswith("open "))
    return figures | {
        "ratio_report_bytes": figures["report_bytes"] / MOST_BYTES,
        "ratio_open": opened / OPEN_S,
        "ratio_diversity": figures["diversity_s"] / DIVERSITY_S,
    }


def open_pages(out: Path) -> dict[str, float]:
    """Seconds to the first `load` of each page."""
    [topic] = run_sql(out, "SELECT topic_id FROM topics WHERE status = 'accepted' LIMIT 1").column(0).to_pylist()
    figures: dict[str, float] = {}
    with headless() as browser, desk_process("view", out) as desk:
        visit = Visit(browser)
        visit.page.goto((out / "report.html").as_uri())
        figures["open report"] = loaded_s(visit)
        visit.page.goto(desk.url)
        figures["open overview"] = loaded_s(visit)
        for name, path in (("topics", "/topics"), ("search", "/topics?q=kite"), ("topic", f"/topics/{topic}")):
            visit.page.goto(desk.base + path)
            figures[f"open {name}"] = loaded_s(visit)
    return figures


def loaded_s(visit: Visit) -> float:
    """Seconds from the request to the `load` event of the page that is open."""
    return float(visit.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventStart")) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="4,000 topics")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    topics, texts = (2 * PARTITION_TOPICS, 10_000) if options.quick else (50 * PARTITION_TOPICS, 100_000)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        build(out, topics // PARTITION_TOPICS)
        figures = measure(out, topics, texts)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:24} {value:14,.2f}")


if __name__ == "__main__":
    main()
