"""Where workers of a model are found."""

from pathlib import Path

import pytest

from gateway.discovery.source import Source, sources_of
from gateway.settings import DnsSettings, PodsSettings, ServiceSettings, SettingsError
from tests.gateway.settings.examples import parsed, with_model

EVERYTHING = {
    "workers_file": "w.yaml",
    "service": {"name": "vllm"},
    "pods": {"selector": "app=vllm"},
    "dns": {"name": "vllm.models", "port": 8000},
}


def test_each_setting_is_a_source_of_its_own() -> None:
    """In the order in which they count."""
    sources = sources_of(parsed(with_model(**EVERYTHING)).models[0])

    assert list(EVERYTHING) == [source.kind for source in sources]
    assert () == sources_of(parsed().models[0])


def test_a_source_is_the_same_while_its_settings_are() -> None:
    """Then a search goes on through a reload."""
    one, same, other = (Source("tiny", ServiceSettings(name=name)) for name in ("a", "a", "b"))

    assert one == same != other
    assert one != Source("big", ServiceSettings(name="a"))
    assert 2 == len({one, same, other})


def test_a_file_can_be_checked_before_it_is_followed(tmp_path: Path) -> None:
    """What else there is, and a file that is not there yet, cannot."""
    bad = tmp_path / "bad.yaml"
    bad.write_text("x")
    for where in (
        str(tmp_path / "none.yaml"),
        ServiceSettings(name="a"),
        PodsSettings(selector="a"),
        DnsSettings(name="a", port=1),
    ):
        Source("tiny", where).check()

    with pytest.raises(SettingsError, match="must hold a list of workers"):
        Source("tiny", str(bad)).check()
