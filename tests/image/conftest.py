from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.container import Container, unpacked
from tests.image.environment import DEMO


@pytest.fixture(scope="session")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """The image that `python -m tests.image.environment` has built."""
    with unpacked(_folder(tmp_path_factory)) as found:
        yield found


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """The image with the simulator, from the stage `demo`."""
    with unpacked(_folder(tmp_path_factory), DEMO) as found:
        yield found


def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("container")
    # What runs in it is somebody else, and has to get to its state.
    for parent in (folder, folder.parent, folder.parent.parent):
        parent.chmod(0o755)
    return folder
