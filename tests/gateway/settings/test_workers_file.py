"""A file with the workers of one model."""

from pathlib import Path

import pytest

from gateway.settings import SettingsError, WorkerSettings, workers_in

YAML, JSON = Path("w.yaml"), Path("w.json")


def faults(content: bytes, path: Path = YAML) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        workers_in(content, path)
    return raised.value.sentences


def a_worker(url: str, **more: str) -> WorkerSettings:
    return WorkerSettings.model_validate({"url": url, **more})


# ---- reading


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (b"- url: http://a:1\n- {url: http://b:1, id: b, api_key: k}\n", YAML),
        (b'[\n\t{"url": "http://a:1"},\n\t{"url": "http://b:1", "id": "b", "api_key": "k"}\n]', JSON),
        (b'[{"url": "http://a:1"}, {"url": "http://b:1", "id": "b", "api_key": "k"}]', YAML),
    ],
)
def test_workers_are_listed_as_in_the_settings(content: bytes, path: Path) -> None:
    """In YAML or in JSON, with all that a worker may have."""
    assert (a_worker("http://a:1"), a_worker("http://b:1", id="b", api_key="k")) == workers_in(content, path)


def test_there_may_be_none() -> None:
    """If that is what it says."""
    assert () == workers_in(b"[]", YAML)


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"", "empty"), (b"# soon\n", "empty"), (b"workers: []", "a mapping"), (b"http://a:1", "a single value")],
)
def test_anything_but_a_list_is_refused(content: bytes, what: str) -> None:
    """An empty file may be one that somebody has begun to write."""
    assert [f"w.yaml must hold a list of workers (`- url: ...`; `[]` for none), not {what}."] == faults(content)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            b"- url: ftp://a\n",
            "workers[0].url is 'ftp://a'; the value must be an http:// or https:// address with a host.",
        ),
        (b"- url: http://a:1\n- id: b\n", "workers[1].url is missing; it must be given."),
        (b"- {url: http://a:1, idd: b}\n", "workers[0].idd is not a setting; did you mean 'id'."),
        (b"- http://a:1\n", "workers[0] is not valid; the value must be a mapping."),
        (
            b"- url: http://a:1\n- url: http://A:1/\n",
            "workers[1].url is 'http://a:1', which is already used by workers[0].url.",
        ),
        (
            b"- {url: http://a:1, api_key: 'sk hidden'}\n",
            "workers[0].api_key is not valid; the value must be printable ASCII without spaces or line breaks.",
        ),
    ],
)
def test_a_fault_is_reported_with_file_place_and_reason(content: bytes, fault: str) -> None:
    assert [f"w.yaml: {fault}"] == faults(content)


@pytest.mark.parametrize(
    ("content", "path", "fault"),
    [
        (
            b"- {",
            YAML,
            "w.yaml is not valid YAML: line 1, column 4: expected the node content, but found '<stream end>'.",
        ),
        (b'[{"url": "http', JSON, "w.json is not valid JSON: line 1, column 10: Unterminated string starting at."),
        (b"- \xff", YAML, "w.yaml is not UTF-8 text (byte 3)."),
    ],
)
def test_what_is_cut_short_is_reported_with_its_place(content: bytes, path: Path, fault: str) -> None:
    """It may be half written."""
    assert [fault] == faults(content, path)
