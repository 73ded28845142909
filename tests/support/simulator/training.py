"""The life of a training: `foil train` of a tiny model, killed, cut off and failed, on a run that stands.

What must hold: a model that is published is whole and finite at any moment, and one that was told of stays. In the end
it has exactly the weights of an undisturbed training, and is not trained again. What was damaged is noticed.
"""

import atexit
import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import safetensors.torch
from safetensors import SafetensorError, serialize
from safetensors.numpy import load_file

from tests.support.simulator.checker import digest
from tests.support.simulator.life import MEMORY, Life, put_finished_run, run_foil
from tests.support.simulator.world import Process, World

STEPS = 3
_DAMAGED = 6


@dataclass(frozen=True)
class Choices:
    """How a seed trains."""

    validated: int
    checkpoint_steps: int


def draw_choices(dice: Random) -> Choices:
    return Choices(dice.choice((0, 0, 2)), dice.choice((1, 1, 1, 2)))


class Training(Life):
    """Attempts under troubles, then one in peace."""

    calls = 150
    where = (
        "checkpoints/.step", "checkpoints/step", "checkpoints/", "model", "weights.safetensors", "moments.safetensors",
        "state.json", "checksums.json", "foil.json", "README.md", "logs", "snapshots",
    )  # fmt: skip

    def __init__(self, world: World, choices: Choices | None = None) -> None:
        super().__init__(world)
        self.model, self.checkpoints = self.out / "model", self.out / "checkpoints"
        self.choices = choices or draw_choices(world.dice)
        self.acknowledged = False
        put_finished_run(world)
        world.told["trainings"] += 1

    def play(self) -> None:
        """Attempts under troubles, between them power cuts and flipped bits; then peace."""
        for _ in range(self.dice.randint(1, 3)):
            self._train(**self._troubles(self.dice))
            if self.dice.random() < 0.4:
                self._cut_power()
                self._look()
            if self.dice.random() < 0.7:
                self._damage_checkpoint()
        self._finish()
        self._flip_model()

    def _train(self, **troubles: Any) -> Process:
        _write_job(self.folder / "job.yaml", self.choices)
        process = Process(partial(run_foil, ("train", "job.yaml")), **troubles)
        with _saving_through_the_disk():
            self.world.run([process])
        self._judge(process, ("train",))
        if not process.met and not process.signal_at and process.code not in {0, None}:
            self.violated(f"stuck: foil train ended with {process.code} and no fault: {process.stderr[-300:].strip()}")
        self.acknowledged = self.acknowledged or process.code == 0
        self._look()
        return process

    def _look(self) -> None:
        """A published model is whole, and finite; one that was told of is there."""
        if not self.model.exists():
            if self.acknowledged:
                self.violated("lost: the model was told of, and is gone")
            return
        facts = json.loads((self.model / "foil.json").read_bytes())
        for name, sha256 in facts["files"].items():
            if digest(self.model / name) != sha256:
                self.violated(f"model: {name} has not the sha256 that foil.json states")
                return
        if not all(np.isfinite(tensor).all() for tensor in load_file(self.model / "model.safetensors").values()):
            self.violated("model: a published weight is not finite")

    def _damage_checkpoint(self) -> None:
        """Flips a bit of the newest checkpoint, if there is an older one to fall back to."""
        checkpoints = sorted(self.checkpoints.glob("step-*"))
        if len(checkpoints) > 1 and not self.model.exists():
            self._flip(self.dice.choice(sorted(path for path in checkpoints[-1].iterdir() if path.is_file())))

    def _flip(self, path: Path) -> None:
        raw = bytearray(path.read_bytes())
        raw[self.dice.randrange(len(raw))] ^= 1 << self.dice.randrange(8)
        path.write_bytes(raw)
        self.world.told["flipped bits"] += 1

    def _finish(self) -> None:
        if self._train().code != 0 or not self.model.exists():
            self.violated("stuck: foil train in peace makes no model")
            return
        if (facts := result_of(self.model)) != _undisturbed(self.choices):
            other = next(name for name, value in _undisturbed(self.choices).items() if facts[name] != value)
            self.violated(f"digest: {other} of the model is not that of an undisturbed training")
        before = self.model.stat().st_ino
        again = self._train()
        if "trained already" not in again.stderr or self.model.stat().st_ino != before:
            self.violated("twice: a finished training was made again")

    def _flip_model(self) -> None:
        """A flipped bit of a published model is refused, and the file named."""
        if not self.model.exists():
            return
        names = [*json.loads((self.model / "foil.json").read_bytes())["files"], "foil.json"]
        path = self.model / self.dice.choice(names)
        self._flip(path)
        process = self.foil("train", "job.yaml")
        if process.code != _DAMAGED or path.name not in process.stderr:
            self.violated(f"flipped bit: foil train ended with {process.code} for {path.name} of the model")


def result_of(model: Path) -> dict[str, Any]:
    """What two trainings of the same must have in common: every file's digest, and every loss."""
    facts = json.loads((model / "foil.json").read_bytes())
    return {"losses": facts["losses"], "step": facts["step"], **facts["files"]}


@cache
def _undisturbed(choices: Choices) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="foil-sim-") as name, World(0, Path(name)).ruling() as world:
        life = Training(world, choices)
        process = life._train()
        if process.code != 0 or life.found:
            raise RuntimeError(f"a training in peace ended with {process.code}: {life.found} {process.stderr}")
        return result_of(life.model)


def warm_up() -> None:
    """What is read and made once in a process."""
    for validated in (0, 2):
        for steps in (1, 2):
            _undisturbed(Choices(validated, steps))


def _write_job(path: Path, choices: Choices) -> None:
    schedule = f"schedule: {{steps: {STEPS}, topics_per_batch: 2, warmup_steps: 1, learning_rate: 0.001}}"
    retention = "retention: {frozen_embeddings: false, drawn_shares: []}"
    path.write_text(
        "seeds: {kind: table, corpus: kites, path: seeds.jsonl, columns: {query: query, positives: good, id: id, "
        "negatives: bad}}\nrecipe: {kind: verifiable}\nout: box/out\n"
        f"train: {{base: {tiny_model()}, encode: {{max_tokens: 32, precision: float32}}, {schedule}, {retention}, "
        f"split: {{heldout_share: 0.1, dev_share: 0.2}}, validation: {{topics: {choices.validated}}}, "
        f"model: {{device: cpu}}, checkpoint_steps: {choices.checkpoint_steps}}}\n"
    )


@cache
def tiny_model() -> Path:
    """A model of some 2,000 random weights, with a vocabulary of its own; it goes with this process."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = Path(tempfile.mkdtemp(dir=MEMORY, prefix="foil-sim-model-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    letters = [letter + tail for letter in "abcdefghijklmnopqrstuvwxyz0123456789" for tail in ("", "x")]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters[::2], *(f"##{letter}" for letter in letters[::2])]
    (folder / "vocab.txt").write_text("\n".join(words))
    config = BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=32,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder / "bert")
    BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder / "bert")
    encoder = Transformer(str(folder / "bert"), max_seq_length=32)
    SentenceTransformer(modules=[encoder, Pooling(8, "mean"), Normalize()], device="cpu").save(str(folder / "tiny"))
    return folder / "tiny"


@contextlib.contextmanager
def _saving_through_the_disk() -> Iterator[None]:
    """Safetensors writes its files past `os`; here it does so through it, with its own error."""

    def save(tensors: Any, path: Any, metadata: Any = None) -> None:
        try:
            Path(path).write_bytes(serialize(tensors, metadata))
        except OSError as error:
            raise SafetensorError(f"Error while serializing: I/O error: {error}") from error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(safetensors.torch, "serialize_file", save)
        yield
