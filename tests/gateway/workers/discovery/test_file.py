"""Workers that a file lists; `tests/contracts/test_discovery.py` holds for them too."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from gateway.app.mapping.workers import parsed_workers
from gateway.workers.discovery.file import FileDiscovery, read_workers
from gateway.workers.worker_spec import WorkersError
from tests.contracts.test_discovery import Sets, next_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "workers.yaml"


def write(path: Path, text: str | None) -> None:
    """None: it is to go."""
    if text is None:
        path.unlink()
    else:
        path.write_text(text)


@asynccontextmanager
async def watching(path: Path, refused: list[str] | None = None) -> AsyncIterator[Sets]:
    reported: list[str] = [] if refused is None else refused
    async with aclosing(
        FileDiscovery(path, parsed_workers, on_refused=reported.extend, interval_s=0.01).watch()
    ) as sets:
        yield sets


async def test_no_file_yet_is_no_fault(path: Path) -> None:
    """There are no workers until it comes."""
    refused: list[str] = []
    async with watching(path, refused) as sets:
        first = await next_of(sets)
        write(path, "- url: http://a:1\n")
        second = await next_of(sets)

    assert ([], ["worker-34e94dd0"], []) == ([w.id for w in first], [w.id for w in second], refused)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- url: [", " is not valid YAML: line 1, column 9: expected the node content, but found '<stream end>'."),
        (
            "- url: ftp://a",
            ": workers[0].url is 'ftp://a'; the value must be an http:// or https:// address with a host.",
        ),
        (None, " does not exist."),
    ],
)
async def test_what_cannot_be_taken_is_reported_and_passed_over(path: Path, text: str | None, fault: str) -> None:
    """The next set is that of the next good file."""
    refused: list[str] = []
    write(path, "- url: http://a:1\n")
    async with watching(path, refused) as sets:
        await next_of(sets)
        write(path, text)
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(next_of(sets))
            while not refused:
                await asyncio.sleep(0.002)
            write(path, "- url: http://b:1\n")
        workers = waiting.result()

    assert ["worker-e6e6e25d"] == [worker.id for worker in workers]
    assert 1 == len(refused)
    assert refused[0].startswith(str(path))
    assert refused[0].endswith(fault)


async def test_a_bad_file_at_the_start_has_no_workers(path: Path) -> None:
    """The gateway starts all the same: other models have theirs."""
    refused: list[str] = []
    write(path, "workers: []")
    async with watching(path, refused) as sets:
        assert () == await next_of(sets)

    assert [f"{path} must hold a list of workers (`- url: ...`; `[]` for none), not a mapping."] == refused


@pytest.mark.parametrize(("exists", "fault"), [(False, "does not exist"), (True, "cannot be read: Is a directory")])
def test_a_file_that_cannot_be_read_is_reported(path: Path, exists: bool, fault: str) -> None:
    """With the words of the system."""
    if exists:
        path.mkdir()
    with pytest.raises(WorkersError) as raised:
        read_workers(path, parsed_workers)

    assert [f"{path} {fault}."] == raised.value.sentences


async def test_a_worker_that_begins_to_drain_is_a_change(path: Path) -> None:
    """A tool that stops workers announces it so."""
    write(path, "- url: http://a:1\n")
    async with watching(path) as sets:
        (before,) = await next_of(sets)
        write(path, "- url: http://a:1\n  draining: true\n")
        (after,) = await next_of(sets)

    assert (False, True) == (before.draining, after.draining)
