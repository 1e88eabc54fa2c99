"""Where workers of a model are found."""

from gateway.workers.discovery.dns import DnsSource
from gateway.workers.discovery.endpoints import ServiceSource
from gateway.workers.discovery.file import FileSource
from gateway.workers.discovery.pods import PodsSource
from gateway.workers.discovery.source import SourceSpec, WorkerSource


def test_a_source_is_the_same_while_its_settings_are() -> None:
    """Then a search goes on through a reload."""
    one, same, other = (WorkerSource("tiny", ServiceSource(name=name)) for name in ("a", "a", "b"))

    assert one == same != other
    assert one != WorkerSource("big", ServiceSource(name="a"))
    assert 2 == len({one, same, other})


def test_the_kind_of_a_source_is_the_setting_that_names_it() -> None:
    places: tuple[SourceSpec, ...] = (FileSource("w.yaml"), ServiceSource("a"), PodsSource("a"), DnsSource("a", 1))

    assert ["workers_file", "service", "pods", "dns"] == [WorkerSource("tiny", where).kind for where in places]
