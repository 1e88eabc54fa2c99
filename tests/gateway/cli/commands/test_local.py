import sqlite3
from contextlib import closing

from gateway.tenancy.teams.secret import Digester
from tests.gateway.cli.commands.terminal import SETTINGS, Terminal, terminal

__all__ = ["terminal"]


def test_what_one_command_does_the_next_one_sees(terminal: Terminal) -> None:
    """The store is that of the settings; it is made if it is not there."""
    assert not terminal.store.exists()
    terminal.there("team", "create", "blue")

    assert terminal.store.exists()
    assert "blue" == terminal.there("team", "show", "blue", "--json").json["name"]


def test_somebody_at_the_machine_is_an_owner(terminal: Terminal) -> None:
    """No admin key is needed by who can write to the store, and none has to be configured."""
    terminal.there("team", "create", "blue")

    (entry,) = terminal.there("audit", "--json").json
    assert ("local", "owner") == (entry["who"], entry["role"])


def test_settings_without_a_store_are_of_no_use(terminal: Terminal) -> None:
    """Only the gateway knows what is in its memory."""
    terminal.config.write_text(SETTINGS)

    assert (
        2,
        (
            "store.url is not set, so teams and keys exist only in a running gateway. "
            "Set the gateway's address with --url or WARMGATE_ADMIN_URL.\n"
        ),
    ) == terminal.fails("team", "list")


def test_a_store_that_cannot_be_used_is_reported(terminal: Terminal) -> None:
    """With the reason."""
    terminal.store.write_bytes(b"this is no database, and long enough to be seen as something else" * 100)

    code, said = terminal.fails("team", "list")
    assert 1 == code
    assert said.startswith("The store cannot be used: ")


def test_what_the_settings_declare_is_there(terminal: Terminal) -> None:
    """Beside what the store keeps."""
    assert ["of-the-file"] == terminal.there("team", "show", "declared", "--json").json["keys"]


def test_a_pepper_of_the_settings_is_used(terminal: Terminal) -> None:
    terminal.config.write_text(f"{terminal.config.read_text()[:-2]}, pepper: one-that-is-given}}\n")
    secret = terminal.there("key", "create", "--team", "declared", "--id", "ci", "--quiet").out.strip()

    digest = Digester(b"one-that-is-given").digest(secret)
    with closing(sqlite3.connect(terminal.store)) as connection:
        ((row,),) = connection.execute("SELECT row FROM directory_keys").fetchall()
    assert digest.encode() in row
