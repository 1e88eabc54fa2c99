from pathlib import Path

import pytest

from gateway.settings.faults import SettingsError
from gateway.settings.yaml_file import parse, read


def sentences_of(path: Path) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        read(path)
    return raised.value.sentences


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The path is in the sentence."""
    path = tmp_path / "none.yaml"

    assert [f"The configuration file {path} does not exist."] == sentences_of(path)


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    """The system's reason is in the sentence."""
    assert [f"The configuration file {tmp_path} cannot be read: Is a directory."] == sentences_of(tmp_path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a: [1\nb: 2\n", "line 2, column 2: expected ',' or ']', but got ':'"),
        (b"server:\n\tport: 1\n", "line 2, column 1: found character '\\t' that cannot start any token"),
        (b"server: {}\nserver: {}\n", "line 2, column 1: the key 'server' is given twice"),
        (b"a: 1\nb: \x07\n", "line 2, column 4: control character"),
        (
            b"key: *sk-hidden\n",
            "line 1, column 6: found undefined alias (a value that begins with * or ! needs quotes)",
        ),
        (
            b"key: !sk-hidden x\n",
            (
                "line 1, column 6: could not determine a constructor for the tag"
                " (a value that begins with * or ! needs quotes)"
            ),
        ),
    ],
)
def test_a_syntax_error_has_line_and_column(tmp_path: Path, content: bytes, expected: str) -> None:
    """What YAML objects to is said with its place, and without what could be a key."""
    path = tmp_path / "warmgate.yaml"
    path.write_bytes(content)

    assert [f"{path} is not valid YAML: {expected}."] == sentences_of(path)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    """The first byte that is not UTF-8 is named."""
    path = tmp_path / "warmgate.yaml"
    path.write_bytes(b"a: \xff")

    assert [f"{path} is not UTF-8 text (byte 4)."] == sentences_of(path)


def test_a_file_that_holds_no_mapping_is_refused(tmp_path: Path) -> None:
    """A list at the top is not a configuration."""
    path = tmp_path / "warmgate.yaml"
    path.write_text("- models\n")

    assert [f"{path} must hold a mapping (`server: ...`, `models: ...`), not a list."] == sentences_of(path)


def test_a_file_with_nothing_in_it_is_an_empty_mapping(tmp_path: Path) -> None:
    """All may come from variables."""
    path = tmp_path / "warmgate.yaml"
    path.write_text("# nothing\n")

    assert {} == read(path)


def test_text_is_parsed_as_its_yaml_value() -> None:
    """The values of variables are read so, too."""
    assert [1, True, None, "a"] == parse("[1, true, null, a]")
