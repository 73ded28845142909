"""Job files of every kind of wrong: a job is loaded or refused, at once, and `foil` ends with exit code 2."""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.cluster.job import load_job, settings_from
from foil.cluster.yaml_page import read_yaml
from foil.engine.errors import UsageError
from foil.trainer.train.mining.settings import MineSettings
from tests.support.commands import foil, write_job
from tests.support.fuzzing import fuzzed
from tests.support.paths import REPO

JOBS = [path.read_text() for path in sorted((REPO / "examples" / "jobs").glob("*.yaml"))]
TRAIN = "train: {preset: dual_view, schedule: {steps: 3}, retention: {blends: [0.5]}}\nevaluate: {cutoff: 5}\n"
SECONDS = 5.0

ODD = [
    "!!int abc", "!!python/name:os.system", "2026-13-45", "2026-11-22", "9" * 5_000, "-" + "9" * 400, ".inf",
    "-.inf", ".nan",
    "1e999", "010",
    "1:00:00", "yes", "true", "null", "~", "''", '"\\0"', '"\\ud800"', '"a\\0b"', "~nosuchuser/a", "-1", "0",
    "1000000000000", "1e300", "-1e300", "0.0000000001", "[]", "{}", "[[]]", "{a: {b: c}}", "&a [*a]", "*nothing", "<<",
    "{<<: {a: 1}}",
    "? [a]", "|\n  x", "[" * 400, "{a: " * 400, "'" + "x" * 5_000 + "'", "/proc/self/mem", "/dev/zero", "'~'",
    "../" * 400,
    '"\U0001f600"', "\u2028", "0x7fffffffffffffff", "9223372036854775807", "9223372036854775808", "kind",
    "'{{ x }}'", "%YAML 9",
    "{kind: hosted, url: 'http://[::1'}", "{kind: run, out: '/dev/null'}", "{kind: custom}", "{kind: [a]}",
    "{kind: {}}",
]  # fmt: skip
EDIT = st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(ODD) | st.text(max_size=8))
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from(["kind", "name"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
YAML_TEXT = st.text(alphabet="ab1.:-?!&*[]{},'\"#|>%@~ \n\t<=\\0xe_\x00\u2028\U0001f600", max_size=80)


@pytest.fixture(scope="module")
def ends_well(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """Loads a text as a job, in a folder of its own: loaded or refused, at once, in a message of a page at most."""
    folder = tmp_path_factory.mktemp("jobs")

    def check(text: str | bytes, *overrides: str) -> None:
        path = folder / "job.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        start, message = time.monotonic(), ""
        try:
            load_job(path, overrides)
        except UsageError as error:
            message = str(error)
        assert len(message) < 110_000
        assert time.monotonic() - start < SECONDS

    return check


def places(value: Any, key_path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value of a document."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [key_path, *(place for key, part in below for place in places(part, (*key_path, key)))]


def with_value(document: Any, place: tuple[Any, ...], text: str) -> str:
    """The document with this YAML text as the value at one place."""
    if not place:
        return text
    copy = json.loads(json.dumps(document))
    target = copy
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = "PUT-HERE"
    return json.dumps(copy, ensure_ascii=False).replace('"PUT-HERE"', text)


DOCUMENTS = [read_yaml(text if "train:" in text else text + TRAIN, "job")[0] for text in JOBS]
PLACES = [(document, place) for document in DOCUMENTS for place in places(document)]


@pytest.mark.slow
@fuzzed(300)
@given(job=st.sampled_from(JOBS), edits=st.lists(EDIT, min_size=1, max_size=4))
def test_a_job_with_broken_characters_is_loaded_or_refused(ends_well, job, edits):
    for share, length, insertion in edits:
        start = int(share * len(job))
        job = job[:start] + insertion + job[start + length :]
    ends_well(job)


@fuzzed(150)
@given(job=st.sampled_from(JOBS), edits=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=6)), max_size=4))
def test_a_job_with_broken_bytes_is_loaded_or_refused(ends_well, job, edits):
    data = job.encode()
    for share, insertion in edits:
        start = int(share * len(data))
        data = data[:start] + insertion + data[start + 1 :]
    ends_well(data)


@fuzzed(600)
@given(where=st.sampled_from(PLACES), text=st.sampled_from(ODD))
def test_a_job_with_an_odd_value_somewhere_is_loaded_or_refused(ends_well, where, text):
    ends_well(with_value(*where, text))


@fuzzed(300)
@given(where=st.sampled_from(PLACES), value=VALUE)
def test_a_job_with_any_value_somewhere_is_loaded_or_refused(ends_well, where, value):
    ends_well(with_value(*where, json.dumps(value)))


@fuzzed(300)
@given(YAML_TEXT)
def test_any_text_is_loaded_or_refused(ends_well, text):
    ends_well(text)


@fuzzed(200)
@given(
    key=st.sampled_from(sorted(MineSettings.model_fields)) | st.text(max_size=6), text=st.sampled_from(ODD) | YAML_TEXT
)
def test_any_override_is_taken_or_refused(ends_well, key, text):
    ends_well(JOBS[0], f"{key}={text}", f"limits.{key}={text}")
    with suppress(UsageError):
        settings_from([f"{key}={text}"], MineSettings)


MODELS = "models: {writer: {kind: local_vllm, model: m}}"
SMALL = f"seeds: {{kind: python_docs}}\nrecipe: {{kind: infir}}\n{MODELS}\nout: /tmp/no-run\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SMALL + "runtime: {window: 1000000000000}\n", "5: runtime.window: .*less than or equal to 100000; found"),
        (SMALL + "limits: {seeds: yes}\n", "5: limits.seeds: .*valid integer; found 'yes'"),
        (SMALL + "limits: {seeds: true}\n", "5: limits.seeds: .*valid integer; found True"),
        (SMALL + "limits: {seeds: '10'}\n", "5: limits.seeds: .*valid integer; found '10'"),
        (SMALL + "limits: {seeds: 010}\n", "5: 010 is decimal to some"),
        (SMALL + "runtime: {seed_timeout_s: 1:00:00}\n", "5: runtime.seed_timeout_s: .*valid number; found '1:00:00'"),
        (SMALL + "runtime: {drain_s: .inf}\n", "5: .inf is no finite number"),
        (SMALL + "runtime: {drain_s: -1}\n", "5: runtime.drain_s: .*greater than or equal to 0; found -1"),
        (SMALL.replace("/tmp/no-run", "~nosuchuser/out"), "4: out: expected a folder's path, found '~nosuchuser/out'"),
        (SMALL.replace("/tmp/no-run", "x" * 5_000), "4: out: expected a folder's path, found .*: File name too long"),
        (SMALL.replace("/tmp/no-run", '"a\\0b"'), "4: a null character"),
        ("seeds:\nrecipe:\nmodels:\nout:\n", "2: recipe: is empty; fill it"),
        ("seeds:\nrecipe:\nmodels:\nout:\n", "4: out: is empty; fill it"),
        (SMALL.replace("{kind: local_vllm, model: m}", ""), "3: models.writer: kind None is not known; use one of"),
        (SMALL + "limits:\n", "5: limits: expected a mapping, found None"),
        (SMALL + "train:\n", "5: train: expected a mapping, found None"),
        (SMALL + "".join(f"k{n}: 1\n" for n in range(5_000)), "and 4,950 more"),
        ("a: " + "x" * 1_100_000, "has over 1,000,000 bytes"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_line_the_value_and_the_remedy(tmp_path, text, message):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        load_job(path)


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "null", "unreadable"])
def test_a_job_that_is_no_readable_file_is_refused_at_once(tmp_path, kind):
    path = {"device": Path("/dev/zero"), "null": Path("a\0b")}.get(kind, tmp_path / kind)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "unreadable":
        path.symlink_to(path)
    with pytest.raises(UsageError, match=r"cannot be read: .*; give the path of a YAML job file"):
        load_job(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["[" * 5_000, SMALL + "runtime: {window: 1000000000000}\n", "a: &a [*a]\n", "seeds:\n"]
)
def test_the_command_refuses_with_exit_code_2(tmp_path, text):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    ended = foil("plan", path)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "job.yaml" in ended.stderr


@pytest.mark.slow
def test_a_run_without_accepted_topics_is_no_corpus(tmp_path):
    job = write_job(tmp_path, 2)
    text = job.read_text().replace("{kind: shape}", "{kind: shape, max_query_chars: 1}")
    job.write_text(text)
    assert foil("run", job).returncode == 0
    seeds, rest = text.split("\n", 1)
    assert seeds.startswith("seeds:")
    job.write_text(f"seeds: {{kind: run, out: {tmp_path / 'out'}}}\n{rest.replace('/out', '/next')}")
    ended = foil("run", job)
    assert ended.returncode == 2, ended.stderr
    assert f"no seeds in {tmp_path / 'out'}" in ended.stderr.replace("\n", "")
