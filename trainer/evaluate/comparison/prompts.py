"""What prompts are worth: each is put behind every query, one is chosen on few queries and reported on the others.

    benchmark -> with_prompt for each prompt -> scores -> PromptedPart -> prompt_result

Reference: Promptriever (arXiv 2409.11136), section 4.3 and table 3: ten prompts, ten dev queries, the value of the
prompt that these select with the best in hindsight. There the dev queries are those of another split; here they are
drawn from the benchmark's own and left out of every reported value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

from foil.engine.errors import UsageError
from foil.engine.ids import fraction_of
from foil.engine.seeds.files.text_files import read_text
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.comparison.results import Average, weighted
from foil.trainer.evaluate.comparison.scores import Values
from foil.trainer.evaluate.measures.significance import bootstrap_interval, differences

NO_PROMPT = ""


@dataclass(frozen=True, slots=True)
class PromptedPart:
    """The values of one system on one collection by one measure, prompt by prompt; "" is none. `dev` queries choose."""

    values: Mapping[str, Values]
    dev: frozenset[str]

    def of(self, prompt: str, *, dev: bool) -> dict[str, float]:
        """The values under a prompt on the dev queries, or on the others."""
        return {key: value for key, value in self.values[prompt].items() if (key in self.dev) is dev}

    def best(self, prompts: Sequence[str], *, dev: bool) -> str:
        """The prompt with the highest mean on these queries; of equal ones the first."""
        return max(prompts, key=lambda prompt: fmean(self.of(prompt, dev=dev).values()))


@dataclass(frozen=True, slots=True)
class PromptResult:
    """What prompts are worth to a system, in points, on `count` queries that chose none of them.

    `none` is without a prompt, `selected` with the one chosen on the dev queries, `hindsight` with the best of these
    queries themselves; `mean` and `spread` (standard deviation, n - 1) are over the prompts. `low` and `high` bound
    `difference`, selected - none, with 95 % confidence. `by_prompt` has each prompt's value.
    """

    benchmark: str
    group: str
    measure: str
    system: str
    count: int
    none: float
    selected: float
    hindsight: float
    mean: float
    spread: float
    difference: float
    low: float
    high: float
    selected_prompts: tuple[str, ...]
    by_prompt: Mapping[str, float]


def read_prompts(path: Path) -> tuple[str, ...]:
    """The prompts of a file, one a line; lines that are empty or begin with # are left out."""
    lines = [line.strip() for line in read_text(path, "a text file with one prompt a line").split("\n")]
    prompts = tuple(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
    if len(prompts) < 2:
        raise UsageError(f"{path} has {len(prompts)} prompts; give at least two, one a line")
    return prompts


def with_prompt(benchmark: Benchmark, prompt: str) -> Benchmark:
    """The benchmark with the prompt behind every instruction; no judgment or document changes."""
    queries = (replace(query, instruction=f"{query.instruction} {prompt}".strip()) for query in benchmark.queries)
    return replace(benchmark, queries=tuple(queries))


def dev_queries(benchmark: Benchmark, count: int) -> frozenset[str]:
    """The ids and cores of the judged queries of `count` cores, drawn by a hash of the core.

    Raises UsageError where no other query would be left to report on.
    """
    judged = [query for query in benchmark.queries if benchmark.qrels.get(query.id)]
    cores = sorted({query.core or query.id for query in judged}, key=lambda core: fraction_of("prompt dev", core))
    if len(cores) <= count:
        raise UsageError(
            f"{benchmark.name} has {len(cores)} judged queries, so {count} to choose a prompt on leave none to report; "
            "lower --prompt-queries"
        )
    chosen = frozenset(cores[:count])
    return chosen | {query.id for query in judged if (query.core or query.id) in chosen}


def prompt_result(
    name: tuple[str, str, str, str], parts: Sequence[PromptedPart], average: Average, resamples: int
) -> PromptResult | None:
    """The result over all collections, each with its own choice; None where a measure compares nothing there.

    `name`: benchmark, group, measure, system.
    """
    parts = [part for part in parts if part.of(NO_PROMPT, dev=True) and part.of(NO_PROMPT, dev=False)]
    if not parts:
        return None
    prompts = [prompt for prompt in parts[0].values if prompt != NO_PROMPT]
    selected, hindsight = ([part.best(prompts, dev=dev) for part in parts] for dev in (True, False))

    def values(chosen: Sequence[str]) -> dict[str, float]:
        own = [part.of(prompt, dev=False) for part, prompt in zip(parts, chosen, strict=True)]
        return {key: 100 * value for key, value in weighted(own, average).items()}

    without, with_selected = values([NO_PROMPT] * len(parts)), values(selected)
    gains = differences(without, with_selected)
    low, high = bootstrap_interval(gains, resamples) if gains.any() else (0.0, 0.0)
    by_prompt = {prompt: fmean(values([prompt] * len(parts)).values()) for prompt in prompts}
    none, chosen, best = (fmean(of.values()) for of in (without, with_selected, values(hindsight)))
    over_prompts = (fmean(by_prompt.values()), stdev(by_prompt.values()))
    gained = (float(gains.mean()), low, high)
    return PromptResult(*name, len(without), none, chosen, best, *over_prompts, *gained, tuple(selected), by_prompt)
