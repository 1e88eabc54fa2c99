"""Sets of workers, from any source."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.workers.discovery.found import loses, one_per_address, url_of
from gateway.workers.worker_spec import WorkerSpec


def worker(name: str, number: int = 1, **more: Any) -> WorkerSpec:
    return replace(WorkerSpec(f"http://10.0.0.{number}:1", name, uid=name), **more)


@pytest.mark.parametrize(
    ("host", "scheme", "url"),
    [
        ("10.0.0.1", "http", "http://10.0.0.1:1"),
        ("fd00::1", "https", "https://[fd00::1]:1"),
        ("a", "http", "http://a:1"),
    ],
)
def test_an_address_is_written_as_urls_have_it(host: str, scheme: str, url: str) -> None:
    assert url == url_of(host, 1, scheme)


def test_there_is_one_worker_for_each_address_and_each_name() -> None:
    """A draining one gives way; else the first stays."""
    ending, new = worker("old", draining=True), worker("new")
    moved = worker("new", 2, draining=True)

    assert (new,) == one_per_address([ending, moved, new])
    assert (worker("a"), worker("b", 2)) == one_per_address([worker("b", 2), worker("a"), worker("c")])


def test_who_vanishes_without_having_been_about_to_go_is_lost() -> None:
    """One that drained was; another at the same address is not the same."""
    a, b = worker("a"), worker("b", 2)

    assert [False, True, False, True] == [
        loses((a,), (a, b)),
        loses((a, b), (a,)),
        loses((a, worker("b", 2, draining=True)), (a,)),
        loses((a,), (worker("other"),)),
    ]
