"""Pulls between the workers of a model: which requests may pull, and where each worker sends its blocks from.

vLLM's OffloadingConnector with a p2p tier (since 0.33) pulls the blocks that it lacks from the host memory of another
engine, if a request names that engine in ``kv_transfer_params.remote_kv_source``. Blocks that cannot be pulled are
computed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from cache_index import WorkerId
from gateway.models.prefill_decode_plan import PATHS
from gateway.protocol.body import Body
from routing.request import Request

FIELD = "kv_transfer_params"
"""Request field that names the source of a pull."""


@dataclass(frozen=True, slots=True)
class PullAddress:
    """Address at which a worker's engine lets other engines pull blocks."""

    host: str
    port: int


class PullPlan:
    """Addresses of the workers from which blocks can be pulled."""

    def __init__(self, addresses: Mapping[WorkerId, PullAddress]) -> None:
        self._addresses = addresses

    def allowed(self, request: Request, path: str, body: Body) -> Request:
        """Return *request*, sent to *path* with *body*. It is marked if its worker is allowed to pull blocks.

        Requests for several answers are not marked, because the engine would pull the blocks for each answer.
        """
        if path not in PATHS or not body.reads_cache or body.n != 1 or FIELD in body.engine_fields:
            return request
        return request.changed(pulls=True)

    def parameters(self, source: WorkerId, kv_request_id: str) -> bytes | None:
        """Return the JSON value of the request field for a pull from *source*, or None if its address is unknown.

        *kv_request_id* must be unique.
        """
        address = self._addresses.get(source)
        if address is None:
            return None
        remote = {"kv_request_id": kv_request_id, "remote_host": address.host, "remote_port": address.port}
        return msgspec.json.encode({"remote_kv_source": remote})
