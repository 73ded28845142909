"""What the trainer's tests share: a tiny model on disk, and a committed run of sixty topics and its view."""

import pytest

from tests.support.trainer_world import commit, open_view, tiny_bert, topic
from tests.support.training import SHARES


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return commit(tmp_path_factory.mktemp("world"), [topic(number) for number in range(60)])


@pytest.fixture(scope="module")
def view(world):
    return open_view(world, **SHARES)
