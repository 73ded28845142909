"""Random programs of verbs: a folder and a bucket act as one dictionary, also through stores opened anew."""

import uuid
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from foil.engine.storage.local_store import LocalStore
from foil.engine.storage.object_store import ObjectStore

KEYS = st.sampled_from(["a", "b/c", "b/d", "b/e/f", "c-d", "z/é y"])
STREAMS = st.sampled_from(["s/1", "s/2", "t/1"])
DATA = st.binary(max_size=20)


class StoreMachine(RuleBasedStateMachine):
    """`make` opens the store of a name anew; a subclass gives it."""

    def __init__(self):
        super().__init__()
        self.opened = partial(self.make, uuid.uuid4().hex)
        self.store, self.objects, self.streams, self.open = self.opened(), {}, {}, {}

    @rule(key=KEYS, data=DATA)
    def put_if_absent(self, key, data):
        standing = self.objects.setdefault(key, data)
        assert self.store.put_if_absent(key, data) == (None if standing == data else standing)

    @rule(key=KEYS, data=DATA)
    def put(self, key, data):
        self.store.put(key, data)
        self.objects[key] = data

    @rule(key=KEYS, start=st.integers(0, 25), length=st.integers(0, 25))
    def read(self, key, start, length):
        assert self.store.get(key) == self.objects.get(key)
        if key in self.objects:
            assert self.store.get_range(key, start, length) == self.objects[key][start : start + length]
        else:
            with pytest.raises(FileNotFoundError):
                self.store.get_range(key, start, length)

    @rule(keys=st.sets(KEYS, max_size=3))
    def delete(self, keys):
        self.store.delete(keys)
        self.objects = {key: data for key, data in self.objects.items() if key not in keys}

    @rule(after=st.one_of(st.just(""), KEYS))
    def list_all(self, after):
        found = [(each.key, each.bytes) for each in self.store.list_objects("b", after=after)]
        under = {key: len(data) for key, data in self.objects.items() if key.startswith("b/") and key > after}
        assert found == sorted(under.items())

    @rule(key=STREAMS)
    def append(self, key):
        if key in self.streams:
            with pytest.raises(FileExistsError):
                self.store.append(key)
        else:
            self.open[key], self.streams[key] = self.store.append(key), b""

    @precondition(lambda self: self.open)
    @rule(data=st.data(), parts=st.lists(DATA, max_size=3), ends=st.booleans())
    def write(self, data, parts, ends):
        key = data.draw(st.sampled_from(sorted(self.open)))
        for part in parts:
            self.open[key].write(part)
        if ends:
            self.open.pop(key).close()
        else:
            self.open[key].sync()
        self.streams[key] += b"".join(parts)

    @rule(start=st.integers(0, 30), length=st.one_of(st.none(), st.integers(0, 30)))
    def read_streams(self, start, length):
        for key, data in self.streams.items():
            end = len(data) if length is None else start + length
            assert self.store.read_stream(key, start, length) == data[start:end]
        found = [(each.key, each.bytes) for each in (*self.store.streams("s"), *self.store.streams("t"))]
        assert found == sorted((key, len(data)) for key, data in self.streams.items())

    @rule()
    def open_anew(self):
        self.store = self.opened()

    def teardown(self):
        for stream in self.open.values():
            stream.close()


@pytest.mark.parametrize("kind", ["local", "localbucket"])
def test_every_program_of_verbs_acts_as_a_dictionary(kind, make_store, tmp_path):
    url = make_store(kind).url

    class Machine(StoreMachine):
        @staticmethod
        def make(name: str):
            return LocalStore(tmp_path / name) if kind == "local" else ObjectStore(f"{url}/{name}", patience_s=20)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=40 if kind == "local" else 15, stateful_step_count=20, deadline=None, derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip
