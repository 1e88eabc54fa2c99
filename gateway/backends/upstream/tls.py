"""Settings for the verification of TLS certificates on connections from the gateway."""

import ssl


def accepting_missing_identifiers(context: ssl.SSLContext) -> ssl.SSLContext:
    """Return *context* without VERIFY_X509_STRICT, which Python 3.13 and newer set by default.

    Strict verification rejects certificates without the key identifiers that RFC 5280 requires. The certificate
    authorities of older EKS clusters (https://github.com/kubernetes-client/python/issues/2394) and many private ones
    lack them. Signatures, names and dates are still verified.
    """
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
