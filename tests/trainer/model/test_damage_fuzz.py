"""Random damage to each file of a checkpoint and of a published model: whole, passed over, or named as damage."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.errors import CorruptDataError, FoilError, UsageError
from foil.trainer.model.checkpoint import TrainingState, load_state
from foil.trainer.model.published_model import fingerprint_of, read_published_model
from foil.trainer.train.run.fit import make_optimiser, train
from tests.support.fuzzing import fuzzed
from tests.support.training import StoppedError, fitted, load, settings_for

CHECKPOINT = ["checksums.json", "moments.safetensors", "state.json", "weights.safetensors"]
SHARES = st.floats(0, 1)
EDITS = st.lists(st.tuples(SHARES, st.integers(1, 255)), max_size=3)
CUTS = st.none() | SHARES


def edit(path: Path, edits: list[tuple[float, int]], cut: float | None) -> bool:
    """Changes some bytes and cuts the end off; whether the file is another one then."""
    before = path.read_bytes()
    after = bytearray(before)
    for at, mask in edits:
        after[int(at * (len(after) - 1))] ^= mask
    path.write_bytes(after if cut is None else after[: int(cut * len(after))])
    return path.read_bytes() != before


@pytest.fixture(scope="module")
def checkpoints(bert, view, tmp_path_factory) -> Path:
    """The checkpoints of steps 2 and 4 of a stopped run."""
    folder = tmp_path_factory.mktemp("stopped")

    def stop(row):
        if row.step == 5:
            raise StoppedError

    with pytest.raises(StoppedError):
        fitted(settings_for(bert), view, folder, on_step=stop)
    return folder


@pytest.fixture(scope="module")
def trained(bert, view, tmp_path_factory) -> Path:
    """A finished run."""
    out = tmp_path_factory.mktemp("trained")
    train(settings_for(bert, steps=2), view, out)
    return out


@pytest.fixture(scope="module")
def resume(bert, view):
    """The step from which a run would go on, -1 where it refuses to."""
    fingerprint, schedule = fingerprint_of(settings_for(bert), view.digest), settings_for(bert).schedule

    def resumed(folder: Path) -> int:
        model = load(bert)
        try:
            return load_state(folder, TrainingState(0, fingerprint, []), model, make_optimiser(model, schedule)).step
        except (CorruptDataError, UsageError):  # an edited fingerprint is that of other settings
            return -1

    return resumed


@pytest.fixture(scope="module")
def use(bert, view):
    """Looks for the finished run in a folder and loads its model; gives the error's type."""
    settings = settings_for(bert, steps=2)

    def used(out: Path) -> type[FoilError] | None:
        try:
            load(read_published_model(out, settings, view.digest).model)
        except FoilError as error:
            return type(error)
        return None

    return used


@pytest.mark.slow
@fuzzed(30)
@given(damage=st.tuples(EDITS, CUTS), name=st.sampled_from(CHECKPOINT), steps=st.sampled_from([(4,), (2, 4)]))
def test_a_damaged_checkpoint_is_passed_over(resume, checkpoints, damage, name, steps):
    with tempfile.TemporaryDirectory() as scratch:
        folder = shutil.copytree(checkpoints, Path(scratch) / "checkpoints")
        changed = [edit(folder / f"step-{step:08d}" / name, *damage) for step in steps]
        expected = 4 if not changed[-1] else -1 if changed[0] and len(steps) == 2 else 2
        assert resume(folder) == expected


@fuzzed(30)
@given(damage=st.tuples(EDITS, CUTS), at=SHARES)
def test_a_damaged_model_is_named(use, trained, damage, at):
    with tempfile.TemporaryDirectory() as scratch:
        out = shutil.copytree(trained, Path(scratch) / "out")
        kept = {".png", ".md"}  # what may be edited
        files = sorted(path for path in out.glob("model/**/*") if path.is_file() and path.suffix not in kept)
        changed = edit(files[int(at * (len(files) - 1))], *damage)
        error = use(out)
        assert error is (CorruptDataError if changed else None)
