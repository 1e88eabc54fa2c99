import argparse
from pathlib import Path

import pytest

from gateway.cli.commands.target import admin_url
from tests.gateway.cli.commands.terminal import SETTINGS, Terminal, terminal

__all__ = ["terminal"]

NOWHERE = "http://127.0.0.1:1"
"""Where no one listens."""


class TestAnAddress:
    @pytest.mark.parametrize("text", ["http://127.0.0.1:8081", "https://gateway.example/warm", "http://[::1]:8081"])
    def test_is_that_of_a_gateway(self, text: str) -> None:
        """With a path, where it is behind a proxy; a slash at the end is one too many."""
        assert text == admin_url(text) == admin_url(f"{text}/")

    @pytest.mark.parametrize(
        "text",
        [
            *("", "gateway", "gateway:8081", "ftp://a", "http://", "http://a:port", "http://a:99999", "http://a?b=c"),
            *("http://user:hidden@a", "http://a b", "http://ä"),
        ],
    )
    def test_is_not_anything_else(self, text: str) -> None:
        """The fault does not show it: it may hold a password."""
        with pytest.raises(argparse.ArgumentTypeError) as raised:
            admin_url(text)

        assert "the value must be a URL such as http://127.0.0.1:8081" == str(raised.value)


def test_the_option_comes_before_the_variable(terminal: Terminal) -> None:
    terminal.monkeypatch.setenv("WARMGATE_ADMIN_KEY", "some-admin-key")
    terminal.monkeypatch.setenv("WARMGATE_ADMIN_URL", f"{NOWHERE}/variable")

    assert "127.0.0.1:1/variable cannot be reached" in terminal.run("team", "list").err
    assert "127.0.0.1:1/option cannot be reached" in terminal.run("team", "list", "--url", f"{NOWHERE}/option").err


def test_settings_come_before_the_variable(terminal: Terminal) -> None:
    terminal.monkeypatch.setenv("WARMGATE_ADMIN_URL", NOWHERE)

    assert ["declared"] == [team["name"] for team in terminal.there("team", "list", "--json").json]


def test_the_two_options_exclude_each_other(terminal: Terminal) -> None:
    """They are two places."""
    code, err = terminal.fails("team", "list", "--url", NOWHERE)

    assert 2 == code
    assert "argument --config: not allowed with argument --url" in err


def test_an_address_needs_a_key(terminal: Terminal) -> None:
    """From the variable, never from the command line, which others can see."""
    code, out, err = terminal.run("team", "list", "--url", NOWHERE)

    assert (2, "") == (code, out)
    text = f"WARMGATE_ADMIN_KEY is not set. Set it to your admin key for {NOWHERE}, or log in with warmgate login.\n"
    assert text == err


@pytest.mark.parametrize("key", ["two\nlines", "schlüssel"])
def test_a_key_that_no_header_can_hold_is_not_shown(terminal: Terminal, key: str) -> None:
    """It may be a good one with a slip of the pen."""
    terminal.monkeypatch.setenv("WARMGATE_ADMIN_KEY", key)

    assert (2, "", "WARMGATE_ADMIN_KEY must contain only printable ASCII characters.\n") == terminal.run(
        "team", "list", "--url", NOWHERE
    )


def test_a_wrong_variable_is_named(terminal: Terminal) -> None:
    terminal.monkeypatch.setenv("WARMGATE_ADMIN_URL", "gateway:8081")

    text = "WARMGATE_ADMIN_URL: the value must be a URL such as http://127.0.0.1:8081.\n"
    assert (2, "", text) == terminal.run("team", "list")


def test_nothing_that_says_where_is_reported(terminal: Terminal) -> None:
    """With the fault of the settings that variables do not make."""
    code, out, err = terminal.run("team", "list")

    assert (2, "") == (code, out)
    assert err.endswith("Or select a gateway with --url or WARMGATE_ADMIN_URL, or a settings file with --config.\n")


def test_settings_may_be_those_of_variables(terminal: Terminal) -> None:
    terminal.monkeypatch.setenv("WARMGATE_MODELS", "[{name: tiny, workers: [{url: 'http://a'}]}]")
    terminal.monkeypatch.setenv("WARMGATE_STORE__URL", f"sqlite:///{terminal.store}")

    assert (0, "[]\n", "") == terminal.run("team", "list", "--json")


def test_wrong_settings_are_reported_as_everywhere(terminal: Terminal) -> None:
    """A sentence for each fault."""
    terminal.config.write_text(f"{SETTINGS}stoer: 1\n")

    assert (2, "stoer is not a setting; did you mean 'store'.\n") == terminal.fails("team", "list")


def test_a_file_that_is_not_there_is_reported(terminal: Terminal, tmp_path: Path) -> None:
    """With nothing about other ways: this one was chosen."""
    path = tmp_path / "none.yaml"

    text = f"The configuration file {path} does not exist.\n"
    assert (2, "", text) == terminal.run("team", "list", "--config", str(path))
