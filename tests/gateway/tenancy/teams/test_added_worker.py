import msgspec
import pytest

from gateway.tenancy.teams.added_worker import AddedWorker, name_of


def test_a_worker_is_named_by_its_id_and_its_model() -> None:
    """No two have one name: an id has no spaces, whatever the name of a model has."""
    assert "w7 my model" == AddedWorker("my model", "http://h:1", "w7").name == name_of("my model", "w7")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://h", "http://h:80"),
        ("HTTPS://H", "https://h:443"),
        ("http://h:8000/x", "http://h:8000/x"),
        ("http://h:99999", "http://h:99999"),
    ],
)
def test_an_address_has_one_form(url: str, address: str) -> None:
    """One that is not valid, which another version of the gateway would have written, is left as it is."""
    assert address == AddedWorker("tiny", url, "w7").address


def test_a_row_of_a_later_version_is_read() -> None:
    """Fields that this version does not know are passed over, and those that it knows and lacks have defaults."""
    row = b'{"model":"tiny","url":"http://h:1","id":"w7","tier":3}'

    assert AddedWorker("tiny", "http://h:1", "w7", created_at=0.0) == msgspec.json.decode(row, type=AddedWorker)
