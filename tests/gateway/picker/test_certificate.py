"""The certificate that the picker makes for itself."""

import ssl

from cryptography import x509

from gateway.picker.certificate import NAME, self_signed_context


def test_each_picker_has_a_certificate_of_its_own() -> None:
    """The certificate has no end, and names the picker."""
    first, second = presented(), presented()

    assert first.serial_number != second.serial_number
    assert 9999 == first.not_valid_after_utc.year
    assert [NAME] == first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
        x509.DNSName
    )


def presented() -> x509.Certificate:
    """Return the certificate that a client gets in a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    anybody.set_alpn_protocols(["http/1.1", "h2"])
    server = self_signed_context().wrap_bio(to_server, to_client, server_side=True)
    client = anybody.wrap_bio(to_client, to_server)
    for each in (client, server, client, server):
        try:
            each.do_handshake()
        except ssl.SSLWantReadError:
            continue
    found = client.getpeercert(binary_form=True)
    assert found is not None
    assert "h2" == client.selected_alpn_protocol()
    return x509.load_der_x509_certificate(found)
