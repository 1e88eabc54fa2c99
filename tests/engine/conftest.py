"""What all tests against real engines share: one stack for the whole run, and its logs where a test fails."""

import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from benchmarks.processes import Processes
from tests.engine.environment import BIN, model_folder
from tests.engine.stack import Stack, stack

TEST_TIMEOUT_S = 150.0  # starting the engines has its own
LOG_CHARACTERS = 4_000

_LOGS = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--results", type=Path, metavar="FOLDER", help="write what the engines reported there")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The model comes first: if its answers do not depend on the prompt, the other tests prove nothing."""
    items.sort(key=lambda item: item.path.stem != "test_model")
    for item in items:
        item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S, func_only=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of every log beside a failure."""
    report = yield
    folder = item.config.stash.get(_LOGS, None)
    if report.failed and folder is not None:
        for log in sorted(folder.iterdir()):
            if text := log.read_text(encoding="utf-8", errors="replace")[-LOG_CHARACTERS:]:
                report.sections.append((f"end of {log.name}", text))
    return report


@pytest.fixture(scope="session")
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Engines and gateway; stopped at the end, also of a run that is broken off. Their logs are kept."""
    if not (BIN / "vllm").exists():
        pytest.exit("vLLM is not installed here: python -m tests.engine.environment", returncode=2)
    logs = tmp_path_factory.mktemp("logs")
    with Processes() as processes:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # pytest ends at Ctrl-C only; put back by the block
        request.config.stash[_LOGS] = processes.directory
        try:
            with stack(processes, model_folder()) as started:
                yield started
        finally:
            shutil.copytree(processes.directory, logs, dirs_exist_ok=True)
            request.config.stash[_LOGS] = logs


@pytest.fixture
def openai(served: Stack) -> OpenAI:
    return served.openai
