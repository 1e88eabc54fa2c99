"""Endpoints among which the picker chooses for one request."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subset:
    """Endpoints that may serve a request, by their names."""

    names: frozenset[str]
    """IP addresses with ports. An IP address alone means all its ports."""
    within: "Subset | None" = None
    """Further endpoints, of which an endpoint must be one too."""

    def accepts(self, endpoint: str) -> bool:
        """Return whether *endpoint*, an IP address and a port, may serve the request."""
        address = endpoint.rpartition(":")[0]
        is_named = endpoint in self.names or address in self.names or address.strip("[]") in self.names
        return is_named and (self.within is None or self.within.accepts(endpoint))
