"""What cells are measured on: a published benchmark, or a split of the data's own topics. Both score one model.

EvaluationData.score(model) -> ModelScores, kept with the model -> trainer.evaluate.ablation.table
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from typing import Any, Protocol

from foil.datasets_out.training.training_view import Split, TrainingView
from foil.engine.atomic_files import put_json, read_json
from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.ids import canonical_json, sha256_hex
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.ablation.settings import TOPICS
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.benchmarks.catalog import benchmarks_of, kind_named, name_of
from foil.trainer.evaluate.comparison.results import Average
from foil.trainer.evaluate.comparison.scores import CollectionScores, Values, score
from foil.trainer.evaluate.comparison.topics import score_topics
from foil.trainer.evaluate.comparison.weights import EncoderSystem
from foil.trainer.evaluate.measures.catalog import measure_named
from foil.trainer.evaluate.systems.embedder import embedder
from foil.trainer.evaluate.systems.system import Progress, SystemSettings, quiet
from foil.trainer.model.checksums import folder_digest, trained_template
from foil.trainer.model.encoder import load_encoder
from foil.trainer.settings import EvaluateSettings
from foil.trainer.text_templates import OWN, template_named

VECTORS = "vectors"
"""The folder next to a model that keeps its vectors until its scores are there."""


@dataclass(frozen=True, slots=True)
class ModelScores:
    """One model on one set: its values on each collection (its name is the only system), and what it was run with."""

    collections: tuple[CollectionScores, ...]
    facts: Mapping[str, str | float]


def values_of(part: CollectionScores) -> Mapping[str, Values]:
    """The values of the only model, by measure."""
    (values,) = part.values.values()
    return values


class EvaluationData(Protocol):
    """Something that models are measured on. `digests`: of each collection, which say what was read."""

    name: str
    average: Average

    @property
    def digests(self) -> Mapping[str, str]: ...

    def settings(self) -> Any:
        """All that decides the values but model and content, as JSON."""

    def measure_name(self, measure: str) -> str:
        """The measure as results name it, "" the set's first; UsageError where the set has none of that name."""

    def score(self, model: Path) -> ModelScores:
        """The model's values. Vectors may be kept with it meanwhile."""


class BenchmarkSet:
    """A published benchmark, by its own measures and one more. It is read, and so checked, when its digests are."""

    def __init__(
        self, source: BenchmarkSource, system: SystemSettings, more: str = "", on_progress: Progress = quiet
    ) -> None:
        self.name, self.average = name_of(source), kind_named(source.kind).average
        self._source, self._system, self._more, self._on_progress = source, system, more, on_progress

    @cached_property
    def _facts(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        """Of each collection its digest and its own measures."""
        return {part.name: (part.digest, part.measures) for part in benchmarks_of(self._source)}

    @property
    def digests(self) -> Mapping[str, str]:
        return {name: digest for name, (digest, _) in self._facts.items()}

    def settings(self) -> Any:
        system = {"depth": self._system.depth, "encode": self._system.encode.model_dump(mode="json")}
        return [system, list(self._source.measures), self._more]

    def measure_name(self, measure: str) -> str:
        _, own = next(iter(self._facts.values()))
        return measure_named(measure or own[0]).name

    def score(self, model: Path) -> ModelScores:
        system = embedder(str(model), self._system, model.parent / VECTORS, self._on_progress)
        collections = tuple(score(self._with_measure(), [system], (), self._system.depth))
        return ModelScores(collections, system.facts())

    def _with_measure(self) -> Iterator[Benchmark]:
        for benchmark in benchmarks_of(self._source):
            names = (*benchmark.measures, *([self._more] if self._more else []))
            yield replace(benchmark, measures=tuple(dict.fromkeys(measure_named(name).name for name in names)))


class TopicSet:
    """A split of the data's own topics; `more` is a measure on top of the settings' own.

    Raises UsageError where the split is empty.
    """

    average: Average = "queries"

    def __init__(self, view: TrainingView, split: Split, settings: EvaluateSettings, more: str = "") -> None:
        names = (*settings.measures, *([more] if more else []))
        self._measures = tuple(dict.fromkeys(measure_named(name).name for name in names))
        self.name, self._settings = f"{TOPICS} ({split})", settings
        self._groups = view.read_all(split)
        if not self._groups:
            raise UsageError(f"there are no {split} topics to measure on; raise the job's `train.split.{split}_share`")
        content = [view.digest, view.split.model_dump(mode="json"), split]
        self.digests = {self.name: sha256_hex(canonical_json(content))}

    def settings(self) -> Any:
        return [self._settings.encode.model_dump(mode="json"), self._measures]

    def measure_name(self, measure: str) -> str:
        return measure_named(measure).name if measure else self._measures[0]

    def score(self, model: Path) -> ModelScores:
        encode, template = self._settings.encode, trained_template(model) or template_named(OWN)
        encoder = load_encoder(model, template, encode)
        scores = score_topics(EncoderSystem(str(model), encoder), self._groups, self._measures)
        facts: dict[str, str | float] = {
            "system": str(model), "weights": folder_digest(model), "template": template.name,
            "max_tokens": encode.max_tokens, "precision": encoder.settings.precision,
        }  # fmt: skip
        scores = replace(scores, name=self.name, digest=self.digests[self.name], groups={})
        return ModelScores((scores,), {**facts, "digest": sha256_hex(canonical_json(facts))})


def scores_of(data: EvaluationData, out: Path, files: Mapping[str, str]) -> ModelScores:
    """The scores of OUT/model, from OUT/scores where the same was measured before. `files`: digests of the model's."""
    key = sha256_hex(canonical_json([dict(data.digests), data.settings(), dict(files)]))
    path = out / "scores" / f"{key[:24]}.json"
    if not path.exists():
        put_json(path, asdict(data.score(out / "model")))
        rmtree(out / VECTORS, ignore_errors=True)
    try:
        stored = read_json(path)
        return ModelScores(tuple(CollectionScores(**part) for part in stored["collections"]), stored["facts"])
    except (LookupError, TypeError) as error:
        raise CorruptDataError(
            f"{path} holds no scores ({error!r}); remove it and run the same command again"
        ) from None


def refuse_shared(dev: Sequence[EvaluationData], report: Iterable[EvaluationData]) -> None:
    """Raises UsageError where a collection is both chosen on and reported on, whatever its name."""
    names = {digest: name for each in dev for name, digest in each.digests.items()}
    for each in report:
        for name, digest in each.digests.items():
            if digest in names:
                raise UsageError(
                    f"{name} of `report` is {names[digest]} of `dev`: what cells are chosen on says nothing of the "
                    "chosen one; take it out of one of them"
                )
