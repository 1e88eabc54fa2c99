from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.networks import Networks, address_in, source_of

PROXIES = Networks(["10.0.0.0/8", "fd00::/8"])


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("1.2.3.4", "1.2.3.4"),
        (" 1.2.3.4 ", "1.2.3.4"),
        ("1.2.3.4:5678", "1.2.3.4"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("[::ffff:1.2.3.4]:80", "1.2.3.4"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_an_address_is_read_in_all_its_forms(text: str, address: str) -> None:
    assert ip_address(address) == address_in(text)


@pytest.mark.parametrize("text", ["", " ", "unknown", "_hidden", "1.2.3", "1.2.3.4.5", "[", "[]", "::g", "1.2.3.4:5:6"])
def test_other_texts_are_no_address(text: str) -> None:
    assert address_in(text) is None


@given(st.text())
def test_no_text_is_too_odd_to_be_looked_at(text: str) -> None:
    address_in(text)


@pytest.mark.parametrize(
    ("networks", "address", "is_in"),
    [
        (["10.0.0.0/8"], "10.1.2.3", True),
        (["10.0.0.0/8"], "11.1.2.3", False),
        (["192.0.2.7"], "192.0.2.7", True),
        (["192.0.2.7", "2001:db8::/32"], "2001:db8:5::1", True),
        (["0.0.0.0/0"], "2001:db8::1", False),
        (["0.0.0.0/0"], "::ffff:8.8.8.8", True),
        ([], "10.1.2.3", False),
    ],
)
def test_addresses_are_in_networks_or_not(networks: list[str], address: str, is_in: bool) -> None:
    found = address_in(address)

    assert found is not None
    assert is_in == (found in Networks(networks))


def test_a_malformed_network_is_refused() -> None:
    with pytest.raises(ValueError, match="none"):
        Networks(["none"])


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "source"),
    [
        # No proxy in between.
        ("1.2.3.4", None, "1.2.3.4"),
        # What a stranger says is not believed.
        ("1.2.3.4", "10.9.9.9", "1.2.3.4"),
        # One proxy, two proxies, and what the caller itself wrote before they did.
        ("10.0.0.1", "1.2.3.4", "1.2.3.4"),
        ("10.0.0.1", "1.2.3.4, 10.0.0.2", "1.2.3.4"),
        ("10.0.0.1", "192.0.2.1, 1.2.3.4, 10.0.0.2", "1.2.3.4"),
        ("10.0.0.1", "10.7.7.7,1.2.3.4", "1.2.3.4"),
        ("fd00::1", "2001:db8::1", "2001:db8::1"),
        ("::ffff:10.0.0.1", "1.2.3.4:5000", "1.2.3.4"),
        # The proxy itself asks, or a machine behind it.
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "10.0.0.3", "10.0.0.3"),
    ],
)
def test_a_request_comes_from_the_last_address_that_is_no_proxy(
    peer: str, forwarded_for: str | None, source: str
) -> None:
    assert ip_address(source) == source_of(peer, forwarded_for, PROXIES)


@pytest.mark.parametrize(
    ("peer", "forwarded_for"),
    [(None, None), (None, "1.2.3.4"), ("", None), ("10.0.0.1", "unknown"), ("10.0.0.1", "1.2.3.4, unknown, 10.0.0.2")],
)
def test_a_source_may_be_unknown(peer: str | None, forwarded_for: str | None) -> None:
    """Any client may have written the part left of an unreadable address."""
    assert source_of(peer, forwarded_for, PROXIES) is None


@given(st.lists(st.sampled_from(["10.0.0.2", "10.9.9.9", "192.0.2.1", "unknown", ""])), st.sampled_from(["", ","]))
def test_an_address_cannot_be_faked(said: list[str], end: str) -> None:
    """Whatever a caller writes into the header, a proxy adds the address that it sees."""
    forwarded_for = ",".join(said) + end + ",1.2.3.4"

    assert ip_address("1.2.3.4") == source_of("10.0.0.1", forwarded_for, PROXIES)
