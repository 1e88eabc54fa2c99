"""Facts about a store, for a diagnosis without a gateway."""

from collections.abc import Callable

from gateway.api.admin_v1.gateway_facts import StoreFacts
from gateway.app.store_rules import StoreRules, kind_of
from gateway.app.stores import stores_of
from gateway.protocol.errors import StoreUnavailable
from gateway.storage.unfit import StoreUnfit


async def store_facts(rules: StoreRules, *, wall_clock: Callable[[], float]) -> StoreFacts:
    """Return whether the store that *rules* describe can be used. A missing file is not created.

    *wall_clock* gives seconds since 1970.

    Raises:
        StoreAddressError: the address of the store is wrong.
    """
    kind = kind_of(rules)
    if rules.file is not None and not rules.file.exists():
        return StoreFacts(kind=kind)  # the gateway creates it
    stores = stores_of(rules, wall_clock=wall_clock)
    try:
        await stores.identify()
    except StoreUnfit as fault:
        return StoreFacts(kind=kind, state=fault.state, fault=fault.message)
    except StoreUnavailable as fault:
        return StoreFacts(kind=kind, state="away", fault=fault.message)
    finally:
        await stores.aclose()
    return StoreFacts(kind=kind, state="ready")
