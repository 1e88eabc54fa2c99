"""Let a worker pull cached blocks of a prompt from another worker."""

import uuid

from gateway.backends.backend import Call
from gateway.models.pull_plan import FIELD, PullPlan
from gateway.protocol.splice import added
from routing.pull import Pull

_FIELD_NAME = b'"%s"' % FIELD.encode()


def pulling(call: Call, plan: PullPlan | None, pull: Pull | None) -> Call:
    """Return *call* with the source of *pull*, or unchanged if there is nothing to pull.

    The call that continues a stream can already contain the field. It is not changed, so the worker computes the
    blocks.
    """
    if plan is None or pull is None or _FIELD_NAME in call.body:
        return call
    parameters = plan.parameters(pull.source, uuid.uuid4().hex)
    return call if parameters is None else call.changed(body=added(call.body, {FIELD: parameters}))
