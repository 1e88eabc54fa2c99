"""Build step of the wheel: compile the pure core (`cache_index`, `routing`) and modules of the gateway with mypyc.

The core is fully typed and does no I/O, so mypyc compiles it without changes. A request then costs about a quarter
less. Modules that check keys and limits (`ACCOUNTS`) and other modules that every request uses (`REQUESTS`)
are compiled too. Modules are compiled only if ``WARMGATE_COMPILE=1`` is set, which needs a C compiler, mypy and
setuptools. Otherwise the wheel is pure Python. A development installation (``pip install -e``) is always pure Python.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CORE = ("cache_index", "routing")
"""Packages to compile."""
ACCOUNTS = (
    "gateway/proxy/admission.py",
    "gateway/tenancy/ledger/entry.py",
    "gateway/tenancy/ledger/measures.py",
    "gateway/tenancy/ledger/price.py",
    "gateway/tenancy/ledger/recorder.py",
    "gateway/tenancy/ledger/redis_booking.py",
    "gateway/tenancy/ledger/sqlite_book.py",
    "gateway/tenancy/quota/batched_reservations.py",
    "gateway/tenancy/quota/checkpoint_writer.py",
    "gateway/tenancy/quota/checkpointed_meters.py",
    "gateway/tenancy/quota/embedded_store.py",
    "gateway/tenancy/quota/limit.py",
    "gateway/tenancy/quota/meter.py",
    "gateway/tenancy/quota/meter_table.py",
    "gateway/tenancy/quota/meters.py",
    "gateway/tenancy/quota/outbox.py",
    "gateway/tenancy/quota/output_length.py",
    "gateway/tenancy/quota/plan.py",
    "gateway/tenancy/quota/quota.py",
    "gateway/tenancy/quota/rate_headers.py",
    "gateway/tenancy/quota/redis_operation.py",
    "gateway/tenancy/quota/shared_meters.py",
    "gateway/tenancy/teams/access.py",
    "gateway/tenancy/teams/caller.py",
    "gateway/tenancy/teams/directory.py",
    "gateway/tenancy/teams/open_mode.py",
    "gateway/tenancy/teams/permits.py",
    "gateway/tenancy/teams/secret.py",
)
"""Modules that a request with a key and limits goes through."""
REQUESTS = (
    "gateway/models/worker_arrivals.py",
    "gateway/proxy/attempt.py",
    "gateway/proxy/adapter_attempt.py",
    "gateway/proxy/attempts.py",
    "gateway/proxy/current_attempt.py",
    "gateway/proxy/prefill_decode_attempt.py",
    "gateway/proxy/worker_attempts.py",
    "gateway/proxy/worker_call.py",
    "gateway/workers/replicas/outbox.py",
    "gateway/workers/replicas/peers.py",
    "gateway/backends/backend.py",
    "gateway/backends/worker.py",
    "gateway/proxy/bodies/bodies.py",
    "gateway/proxy/bodies/budget.py",
    "gateway/proxy/bodies/receive.py",
    "gateway/protocol/body.py",
    "gateway/protocol/canonical_path.py",
    "gateway/backends/fallbacks/fallbacks.py",
    "gateway/proxy/disconnects.py",
    "gateway/protocol/answer_name.py",
    "gateway/proxy/downstream.py",
    "gateway/proxy/completed_requests.py",
    "gateway/proxy/decision.py",
    "gateway/protocol/endpoints/endpoint.py",
    "gateway/app/asgi.py",
    "gateway/proxy/exchange.py",
    "gateway/proxy/failed_workers.py",
    "gateway/proxy/guardrails/guards.py",
    "gateway/proxy/kv_transfer/pulls.py",
    "gateway/protocol/headers.py",
    "gateway/proxy/incoming.py",
    "gateway/models/response_affinity/affinity.py",
    "gateway/models/engine_field_rules.py",
    "gateway/models/model.py",
    "gateway/models/model_names.py",
    "gateway/models/model_price.py",
    "gateway/models/registry.py",
    "gateway/models/open_streams.py",
    "gateway/proxy/relay.py",
    "gateway/proxy/request_ids.py",
    "gateway/proxy/retry_policy.py",
    "gateway/protocol/prompt.py",
    "gateway/proxy/proxy.py",
    "gateway/telemetry/receipts/record.py",
    "gateway/telemetry/receipts/ring.py",
    "gateway/telemetry/request_log.py",
    "gateway/models/response_affinity/owners.py",
    "gateway/proxy/retry_state.py",
    "gateway/server/body_reader.py",
    "gateway/server/closing.py",
    "gateway/server/connection.py",
    "gateway/server/cycle.py",
    "gateway/server/deadline.py",
    "gateway/server/head_reader.py",
    "gateway/server/message_ends.py",
    "gateway/server/request_queue.py",
    "gateway/server/response_writer.py",
    "gateway/server/scope.py",
    "gateway/server/shared_state.py",
    "gateway/server/stop.py",
    "gateway/protocol/splice.py",
    "gateway/telemetry/caches/cache_activity.py",
    "gateway/telemetry/caches/hot_prefixes.py",
    "gateway/telemetry/caches/past_blocks.py",
    "gateway/telemetry/counters.py",
    "gateway/telemetry/traffic_counters.py",
    "gateway/telemetry/shapes/layout.py",
    "gateway/telemetry/shapes/prefix_numbers.py",
    "gateway/telemetry/shapes/recorder.py",
    "gateway/protocol/timestamp.py",
    "gateway/models/dispatch_queue.py",
    "gateway/backends/upstream/connection.py",
    "gateway/backends/upstream/pool.py",
    "gateway/backends/upstream/reply.py",
    "gateway/backends/request_head.py",
    "gateway/backends/upstream/response_parser.py",
    "gateway/backends/upstream/stall_detector.py",
    "gateway/picker/answer.py",
    "gateway/picker/chunks.py",
    "gateway/picker/delivery.py",
    "gateway/picker/envoy_call.py",
    "gateway/picker/heads.py",
    "gateway/picker/http2/call.py",
    "gateway/picker/http2/connection.py",
    "gateway/picker/http2/frames.py",
    "gateway/picker/http2/open_connections.py",
    "gateway/picker/messages.py",
    "gateway/picker/reply.py",
    "gateway/picker/stream.py",
    "gateway/protocol/usage.py",
    "gateway/protocol/request_hints.py",
    "gateway/protocol/session_field.py",
    "gateway/protocol/session_identity.py",
)
"""Other modules that every request uses, under two rules.

1. Modules with Structs for decoding JSON are not compiled, such as `gateway.protocol.json_fields`, because a compiled
   Struct loses the types of its fields.
2. A coroutine does not await while it handles an exception: in `except`, in `finally`, or at the end of an `async with`
   that waits. Compiled by mypyc 2.4.1, such a coroutine can lose the exception or pass it to another task.
   tests/test_compiled.py checks this rule.
"""

FLAGS = (
    "-fvisibility=hidden",  # calls between our functions, and of mypyc's, are direct or inlined
    "-fno-plt",  # one jump less for each of the C API's
    "-g0",  # names of functions stay, for profiles; lines of C were almost half of the file
    # To warn of it, GCC 14 reads a file from its start again and again: 98 % of its time for ours, of 100 MB.
    "-Wno-misleading-indentation",
)
COLD_PATHS = """
#include <Python.h>
#define COLD __attribute__((cold))
COLD void CPy_AddTraceback(const char *file, const char *function, int line, PyObject *globals);
COLD void CPy_AttributeError(
    const char *file, const char *function, const char *type, const char *name, int line, PyObject *globals);
COLD void CPy_TypeError(const char *expected, PyObject *value);
COLD void CPy_TypeErrorTraceback(
    const char *file, const char *function, int line, PyObject *globals, const char *expected, PyObject *value);
COLD void CPyError_OutOfMemory(void);
COLD extern void PyErr_SetString(PyObject *type, const char *message);
"""
"""C header that marks error functions as cold, so that the compiler moves branches that call them out of the hot path.

Every operation has an error branch. With the header and FLAGS, requests take an eighth less processor time, as little
as after training on a recorded profile (GCC 12, mypyc 2.4.1; ``-O2`` is 1 % slower).
"""


class CompiledCore(BuildHookInterface[Any]):
    """Build hook that adds the extension modules to the wheel. The Python sources stay in the wheel for tracebacks."""

    _directory: "tempfile.TemporaryDirectory[str] | None" = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard" or os.environ.get("WARMGATE_COMPILE") != "1":
            return
        self._directory = tempfile.TemporaryDirectory()
        into = Path(self._directory.name)
        built = compiled(Path(self.root), into)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"] |= {str(path): str(path.relative_to(into / "lib")) for path in built}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if self._directory is not None:
            self._directory.cleanup()


def compiled(root: Path, into: Path) -> list[Path]:
    """Build the extension modules of *root* in the folder *into*, which takes minutes. Return their paths."""
    from mypyc.build import mypycify  # noqa: PLC0415  # needed only where something is compiled
    from setuptools import Distribution  # noqa: PLC0415

    core = [
        str(path.relative_to(root))
        for package in CORE
        for path in sorted((root / package).rglob("*.py"))
        if path.name != "__init__.py"
    ]
    before = Path.cwd()
    os.chdir(root)  # mypyc names modules by their paths
    try:
        extensions = mypycify([*core, *ACCOUNTS, *REQUESTS], opt_level="3", target_dir=str(into / "c"))
        cold_paths = into / "cold_paths.h"
        cold_paths.write_text(COLD_PATHS, encoding="utf-8")
        for extension in extensions:
            # A list of its own: mypyc gives the same one to all.
            extension.extra_compile_args = [*extension.extra_compile_args, *FLAGS, "-include", str(cold_paths)]
        distribution = Distribution({"name": "warmgate", "ext_modules": extensions})
        command = distribution.get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(into / "lib"), str(into / "temp")
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    return sorted((into / "lib").rglob("*.so"))
