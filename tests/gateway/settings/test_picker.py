"""Facts about the settings of the endpoint picker."""

import pytest

from gateway.settings.picker import PickerSettings
from tests.gateway.settings.examples import SMALLEST, sentences


@pytest.mark.parametrize("listen", ["9002", "host", "host:70000", "http://host:1", ":9002"])
def test_the_address_has_a_port(listen: str) -> None:
    expected = f"picker.listen is '{listen}'; the value must be an address and a port, e.g. 0.0.0.0:9002."

    assert [expected] == sentences(f"{SMALLEST}\npicker: {{listen: '{listen}'}}")


@pytest.mark.parametrize(("given", "missing"), [("certificate_file", "key_file"), ("key_file", "certificate_file")])
def test_a_certificate_needs_a_key(given: str, missing: str) -> None:
    expected = f"picker.{missing} is required with {given}."

    assert [expected] == sentences(f"{SMALLEST}\npicker: {{{given}: /tls/one.pem}}")


@pytest.mark.parametrize("listen", ["0.0.0.0:9002", "[::]:9002", "localhost:0"])
def test_all_kinds_of_addresses_are_accepted(listen: str) -> None:
    assert listen == PickerSettings(listen=listen).listen
