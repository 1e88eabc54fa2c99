import io
import json

from gateway.cli.commands.output import CommandFailed, Output

KEY = {"object": "key", "id": "ci", "team": "blue", "secret": "wg-ci-s"}


def printed(*, is_json: bool = False, is_quiet: bool = False) -> str:
    sink = io.BytesIO()
    Output(sink, is_json=is_json, now=0).secret(KEY, is_quiet=is_quiet)
    return sink.getvalue().decode()


def test_a_secret_is_reported_with_what_there_is_to_know_of_it() -> None:
    assert (
        "id      ci\nteam    blue\nsecret  wg-ci-s\n\n"
        "The secret is shown only once and is not stored. If you lose it, rotate the key.\n"
    ) == printed()


def test_a_quiet_secret_is_nothing_but_that() -> None:
    """To be put into a variable."""
    assert "wg-ci-s\n" == printed(is_quiet=True) == printed(is_quiet=True, is_json=True)


def test_json_is_the_answer_as_it_is() -> None:
    """One document, nothing beside it."""
    assert KEY == json.loads(printed(is_json=True))


def test_what_is_done_is_asked_to_people_only() -> None:
    """A program has the exit code."""
    for is_json, text in ((False, "It is done.\n"), (True, "")):
        sink = io.BytesIO()
        Output(sink, is_json=is_json, now=0).done("It is done.")
        assert text == sink.getvalue().decode()


def test_a_failure_has_an_exit_code() -> None:
    """1 unless it was bad usage."""
    assert [1, 2] == [CommandFailed("a").code, CommandFailed("a", code=2).code]
