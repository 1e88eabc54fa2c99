"""The gRPC server of the endpoint picker, which runs beside the HTTP server of the gateway."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from gateway.app.application import Beside, Inside
from gateway.picker.picker import Picker
from gateway.picker.rules import PickerRules
from gateway.picker.server import serving
from gateway.server.stop import Stop


def picker_beside(rules: PickerRules, announce: Callable[[str], None], stop: Stop) -> Beside:
    """Return the function that runs the gRPC server beside the gateway. *announce* gets its address. The health of the
    gRPC server follows *stop*.
    """

    def beside(inside: Inside) -> AbstractAsyncContextManager[None]:
        picker = Picker(
            inside.proxy, inside.api, inside.models, rules, needs_keys=inside.needs_keys, clock=inside.clock
        )
        return serving(picker, rules, announce, stop)

    return beside
