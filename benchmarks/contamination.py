"""Speed and memory of the contamination index, beside other ways to do the same work, on the same text in one run.

Text: the docstrings of the installed libraries, in passages of at most 1,000 characters. Evaluation strings: 3 to 60
words drawn from the text's own words, so that short runs meet by chance as they do in real text; one in a thousand is
a run of the text itself, to be found. Each matcher runs in a process of its own, end to end: from strings to hits,
normalising included. Times are CPU seconds, so that what else runs on the machine counts little.

- `foil`: 13 words in a row, and whole shorter strings from 8 words on; hits with item and span.
- `python_set`: the same rule with a set of joined words; says only which texts are hit. Must agree with `foil`.
- `ahocorasick_rs`: whole strings only (its patterns are strings; every run of 13 words would be 20 times as many).
- `datatrove`: its n-gram filter, 13 words, after its own word tokenizer. Needs a virtual environment that has
  datatrove, spacy and xxhash under 4: give its Python as `--datatrove` or in FOIL_DATATROVE_PYTHON, or it is left out.

    python -m benchmarks.contamination [--quick] [--json] [--strings N] [--megabytes M] [--datatrove PYTHON]
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

LIBRARIES = ("numpy", "pandas", "scipy", "sklearn", "torch", "pyarrow")
DOCSTRING = re.compile(r'"""(.+?)"""', re.DOTALL)
LONGEST, LEAST = 13, 8
HERE = Path(__file__).resolve()
SLOW_SHARE = {"foil": 1.0, "ahocorasick_rs": 1.0, "python_set": 0.25, "datatrove": 0.02}


def docstrings(megabytes: float) -> list[str]:
    """Passages of the installed libraries' docstrings, repeated if they are fewer than asked for."""
    passages: list[str] = []
    for library in LIBRARIES:
        spec = importlib.util.find_spec(library)
        files = sorted(Path(spec.submodule_search_locations[0]).rglob("*.py")) if spec else []  # type: ignore[index]
        for file in files:
            for text in DOCSTRING.findall(file.read_text(encoding="utf-8", errors="replace")):
                passages += [text[i : i + 1000] for i in range(0, len(text), 1000)]
    Random(0).shuffle(passages)
    size = sum(map(len, passages))
    passages *= max(1, round(megabytes * 1e6 / size + 0.5))
    count, total = 0, 0
    while total < megabytes * 1e6:
        total += len(passages[count])
        count += 1
    return passages[:count]


def evaluation_strings(texts: Sequence[str], count: int) -> list[str]:
    """Strings of the texts' words in random order; every thousandth a run of a text."""
    rng = Random(1)
    words = " ".join(texts[:5000]).split()
    strings = []
    for number in range(count):
        length = rng.randint(3, 60)
        at = rng.randrange(len(words) - length)
        strings.append(" ".join(words[at : at + length] if number % 1000 == 0 else rng.choices(words, k=length)))
    return strings


def resident() -> int:
    """Bytes of this process in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def foil(strings: Sequence[str]) -> Callable[[Sequence[str]], set[int]]:
    from foil.validators.overlap.ngram_index import Item, NgramIndex

    index = NgramIndex.build([Item("eval", str(i), text) for i, text in enumerate(strings)], LONGEST)
    return lambda texts: {hit.text for hit in index.find(texts, [LEAST] * len(texts))}


def python_set(strings: Sequence[str]) -> Callable[[Sequence[str]], set[int]]:
    from foil.validators.overlap.word_runs import normalise

    runs: list[set[bytes]] = [set() for _ in range(LONGEST + 1)]
    for string in strings:
        words = normalise(string).split()
        n = min(len(words), LONGEST)
        runs[n].update(b" ".join(words[i : i + n]) for i in range(len(words) - n + 1))

    def hit(text: str) -> bool:
        words = normalise(text).split()
        return any(
            b" ".join(words[i : i + n]) in runs[n] for n in range(LEAST, LONGEST + 1) for i in range(len(words) - n + 1)
        )

    return lambda texts: {number for number, text in enumerate(texts) if hit(text)}


def ahocorasick_rs(strings: Sequence[str]) -> Callable[[Sequence[str]], set[int]]:
    from ahocorasick_rs import AhoCorasick, Implementation

    def normalised(text: str) -> str:
        return f" {' '.join(text.casefold().split())} "

    matcher = AhoCorasick(
        [normalised(string) for string in strings if len(string.split()) >= LEAST],
        implementation=Implementation.ContiguousNFA,
    )
    return lambda texts: {
        number for number, text in enumerate(texts) if matcher.find_matches_as_indexes(normalised(text))
    }


MATCHERS = {"foil": foil, "python_set": python_set, "ahocorasick_rs": ahocorasick_rs}


def measure(name: str, data: Path) -> dict[str, Any]:
    """In a process of its own: builds, then scans this matcher's share of the texts."""
    inputs = json.loads(data.read_text())
    texts = inputs["texts"][: int(len(inputs["texts"]) * SLOW_SHARE[name])]
    if name == "foil":
        foil(["load the code"])
    before, started = resident(), time.process_time()
    find = MATCHERS[name](inputs["strings"])
    built, memory = time.process_time(), resident() - before
    hits = find(texts)
    seconds = time.process_time() - built
    size = sum(len(text.encode()) for text in texts)
    return {
        "build_s": round(built - started, 3),
        "index_mb": round(memory / 1e6, 1),
        "mb_per_s": round(size / 1e6 / seconds, 3),
        "texts": len(texts),
        "hits": len(hits),
        "hit_numbers": sorted(hits),
    }


def topic_overhead(strings: Sequence[str], texts: Sequence[str], count: int) -> float:
    """Milliseconds of a validator call on a topic of 5 intents and 5 passages."""
    from foil.engine.topic import Intent, Passage, Topic
    from foil.validators.overlap.contamination import Contamination, ContaminationSettings

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "strings.txt"
        path.write_text("\n".join(strings), encoding="utf-8")
        sets = [{"name": "eval", "path": path, "format": "text"}]
        validator = Contamination(ContaminationSettings.model_validate({"sets": sets}))
    topics = []
    for number in range(count):
        own = [text[:400] for text in texts[5 * number : 5 * number + 5]]
        intents = [Intent(f"i{i}", "instructed", f"{text[:80]} please", text[:40]) for i, text in enumerate(own)]
        passages = [Passage(text, "distractor") for text in own]
        topics.append(Topic(str(number), "s", "c", "r", own[0][:40], tuple(intents), tuple(passages)))
    for topic in topics[:50]:
        validator(topic)
    started = time.process_time()
    for topic in topics:
        validator(topic)
    return round((time.process_time() - started) / count * 1e3, 4)


def in_process(command: list[str], name: str) -> dict[str, Any] | None:
    """The last line of a child process, or None where the peer is not installed (exit code 3)."""
    child = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE.parent.parent)
    if child.returncode == 3:
        print(f"{name}: left out: {child.stdout.strip()}")
        return None
    if child.returncode:
        sys.exit(f"{name} failed:\n{child.stderr}")
    result: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="6 MB of text; under 60 s")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--strings", type=int, default=100_000, help="evaluation strings")
    parser.add_argument("--megabytes", type=float, help="of text (default 24, with --quick 6)")
    parser.add_argument(
        "--datatrove", default=os.environ.get("FOIL_DATATROVE_PYTHON"), help="Python that has datatrove"
    )
    parser.add_argument("--measure", nargs=2, metavar=("MATCHER", "DATA"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure[0], Path(options.measure[1]))))
        return
    texts = docstrings(options.megabytes or (6 if options.quick else 24))
    strings = evaluation_strings(texts, options.strings)
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.json"
        data.write_text(json.dumps({"texts": texts, "strings": strings}))
        for name in MATCHERS:
            results[name] = (
                in_process([sys.executable, "-m", "benchmarks.contamination", "--measure", name, str(data)], name) or {}
            )
        if options.datatrove:
            script = HERE.parent / "peers" / "datatrove_decontamination.py"
            share = str(SLOW_SHARE["datatrove"] / (4 if options.quick else 1))
            peer = in_process([options.datatrove, str(script), str(data), str(LONGEST), share], "datatrove")
            results |= {"datatrove": peer} if peer else {}
        else:
            print("datatrove: left out: no --datatrove PYTHON and no FOIL_DATATROVE_PYTHON")
    check_agreement(results)
    summary = summed_up(results, topic_overhead(strings, texts, 400), options.strings)
    if options.json:
        print(json.dumps(summary))


def check_agreement(results: dict[str, dict[str, Any]]) -> None:
    """The index and the plain set must hit the same texts."""
    slow = results["python_set"]
    ours = [number for number in results["foil"].pop("hit_numbers") if number < slow["texts"]]
    if ours != slow.pop("hit_numbers"):
        sys.exit("foil and python_set disagree: a defect")
    results["ahocorasick_rs"].pop("hit_numbers")


def summed_up(results: dict[str, dict[str, Any]], topic_ms: float, strings: int) -> dict[str, Any]:
    """Prints the table and returns it with the ratios: over 1 is in favour of Foil."""
    for name, row in results.items():
        print(f"{name:15} " + "  ".join(f"{key} {value:>10}" for key, value in row.items()))
    print(f"validator call on a topic of 16 texts: {topic_ms} ms")
    ours = results["foil"]
    ratios = {}
    for name, row in results.items():
        if name != "foil":
            ratios[f"ratio_speed_{name}"] = round(ours["mb_per_s"] / row["mb_per_s"], 2)
            ratios[f"ratio_memory_{name}"] = round(row["index_mb"] / ours["index_mb"], 2)
    goal = {"ratio_goal_speed": round(ours["mb_per_s"] / 30, 2), "ratio_goal_topic": round(0.15 / topic_ms, 2)}
    return {"strings": strings, "topic_ms": topic_ms, **ratios, **goal, "matchers": results}


if __name__ == "__main__":
    main()
