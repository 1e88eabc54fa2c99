"""What the tests share: a real object store, in which every test has a prefix of its own."""

import secrets
from collections.abc import Iterator

import pytest

from benchmarks.processes import Processes
from tests.files.environment import PROGRAM
from tests.files.server import ObjectStore


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    if not PROGRAM.exists():
        pytest.exit("SeaweedFS is not installed here: python -m tests.files.environment", returncode=2)
    with Processes() as processes:
        store = ObjectStore(processes, tmp_path_factory.mktemp("object-store"))
        store.start()
        yield store


@pytest.fixture
def prefix() -> str:
    return f"{secrets.token_hex(4)}/"
