from collections.abc import Iterator

import pytest

from tests.image.container import Container, unpacked


@pytest.fixture(scope="session")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """The image that `python -m tests.image.environment` has built."""
    folder = tmp_path_factory.mktemp("container")
    # What runs in it is somebody else, and has to get to its state.
    for parent in (folder, folder.parent, folder.parent.parent):
        parent.chmod(0o755)
    with unpacked(folder) as found:
        yield found
