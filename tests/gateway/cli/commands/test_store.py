"""`warmgate store`."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.gateway.cli.commands.terminal import SETTINGS, Terminal, terminal
from tests.storage import RedisServer

__all__ = ["terminal"]


def of_redis(terminal: Terminal, url: str, more: str = "") -> Terminal:
    """The same, with the store at *url*."""
    terminal.config.write_text(f"{SETTINGS}store: {{url: '{url}'{more}}}\n")
    return terminal


@pytest.mark.redis
def test_a_new_redis_is_initialized_once(terminal: Terminal, redis_server: RedisServer) -> None:
    """Before, no command makes anything in it; after, the same command changes nothing."""
    of_redis(terminal, redis_server.url)
    code, said = terminal.fails("team", "list")
    assert 1 == code
    assert said.startswith("The store cannot be used: The store is not initialized: run 'warmgate store init' once")
    first, second = (terminal.there("store", "init").out for _ in range(2))

    found = re.fullmatch(
        r"The store is now initialized: identity ([0-9a-f]{32}), pepper ([0-9a-f]{16})\.\n", first, re.ASCII
    )
    assert found is not None
    assert f"The store was already initialized: identity {found[1]}, pepper {found[2]}.\n" == second
    assert "blue" in terminal.there("team", "create", "blue").out


@pytest.mark.redis
def test_another_pepper_is_refused_by_its_fingerprint(terminal: Terminal, redis_server: RedisServer) -> None:
    of_redis(terminal, redis_server.url, ", pepper: the-first").there("store", "init")
    of_redis(terminal, redis_server.url, ", pepper: the-second")
    for command in (("store", "init"), ("key", "list")):
        code, said = terminal.fails(*command)
        assert 1 == code
        assert "store.pepper has the fingerprint " in said
        assert "the-second" not in said


def test_a_file_is_initialized_by_itself(terminal: Terminal) -> None:
    """The first command that uses it makes it; `init` is never needed, and does no harm."""
    terminal.there("team", "list")

    assert terminal.there("store", "init").out.startswith("The store was already initialized: identity ")


def test_without_a_store_there_is_nothing_to_initialize(terminal: Terminal) -> None:
    terminal.config.write_text(SETTINGS)

    assert (2, "store.url is not set. Set it to the store that the command should use.\n") == terminal.fails(
        "store", "init"
    )


def test_a_redis_that_is_away_is_reported(terminal: Terminal) -> None:
    of_redis(terminal, "redis://127.0.0.1:1/0")

    assert (1, "The store does not answer: connection refused.\n") == terminal.fails("store", "init")


def test_a_store_is_backed_up_restored_and_checked(terminal: Terminal, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    terminal.there("team", "create", "blue")

    assert (
        f"The backup is in {backup}, with the pepper.\n"
        == terminal.there("store", "backup", str(backup), "--with-pepper").out
    )
    assert (1, f"{backup}: File exists.\n") == terminal.fails("store", "backup", str(backup))
    assert (1, "The store is not empty. Use --force to replace its contents with the backup.\n") == terminal.fails(
        "store", "restore", str(backup)
    )
    terminal.there("team", "create", "crimson")
    assert f"The store was restored from {backup}.\n" == terminal.there("store", "restore", str(backup), "--force").out
    assert "crimson" not in terminal.there("team", "list").out
    assert terminal.there("store", "check").out.startswith("The store is consistent: identity ")


def test_faults_of_a_store_are_sentences_and_an_exit_code(terminal: Terminal) -> None:
    terminal.there("team", "create", "blue")
    with closing(sqlite3.connect(terminal.store)) as connection, connection:
        connection.execute("UPDATE directory_teams SET row = 'x'")

    assert (1, "1 of 1 teams cannot be read.\n") == terminal.fails("store", "check")
