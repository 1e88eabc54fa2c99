"""A step of building the wheel: the pure core (`cache_index`, `routing`) and the accounts compiled by mypyc.

The core is typed throughout and does no I/O, so mypyc takes it as it is; a request then costs about a quarter less.
Keys and limits are counted with every request as well, so what does it is compiled too, `ACCOUNTS`, and so is what else
a request goes through, `REQUESTS`.
It happens only where ``WARMGATE_COMPILE=1`` asks for it, and then needs a C compiler, mypy and setuptools; without it
the wheel is pure Python. An installation for development (``pip install -e``) is always pure Python.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CORE = ("cache_index", "routing")
"""Packages."""
ACCOUNTS = (
    "gateway/proxy/admission.py",
    "gateway/tenancy/ledger/entry.py",
    "gateway/tenancy/ledger/measures.py",
    "gateway/tenancy/ledger/price.py",
    "gateway/tenancy/ledger/recorder.py",
    "gateway/tenancy/ledger/sqlite_book.py",
    "gateway/tenancy/quota/checkpoint_writer.py",
    "gateway/tenancy/quota/checkpointed_meters.py",
    "gateway/tenancy/quota/embedded_store.py",
    "gateway/tenancy/quota/limit.py",
    "gateway/tenancy/quota/meter.py",
    "gateway/tenancy/quota/meters.py",
    "gateway/tenancy/quota/output_length.py",
    "gateway/tenancy/quota/plan.py",
    "gateway/tenancy/quota/quota.py",
    "gateway/tenancy/quota/rate_headers.py",
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
    "gateway/protocol/endpoints/endpoint.py",
    "gateway/app/asgi.py",
    "gateway/proxy/exchange.py",
    "gateway/proxy/failed_workers.py",
    "gateway/proxy/guardrails/guards.py",
    "gateway/protocol/headers.py",
    "gateway/proxy/incoming.py",
    "gateway/models/response_affinity/affinity.py",
    "gateway/models/model.py",
    "gateway/models/model_names.py",
    "gateway/models/model_price.py",
    "gateway/models/registry.py",
    "gateway/models/open_streams.py",
    "gateway/proxy/relay.py",
    "gateway/proxy/retry_policy.py",
    "gateway/protocol/prompt.py",
    "gateway/proxy/proxy.py",
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
    "gateway/telemetry/counters.py",
    "gateway/protocol/timestamp.py",
    "gateway/models/dispatch_queue.py",
    "gateway/backends/upstream/connection.py",
    "gateway/backends/upstream/pool.py",
    "gateway/backends/upstream/reply.py",
    "gateway/backends/request_head.py",
    "gateway/backends/upstream/response_parser.py",
    "gateway/backends/upstream/stall_detector.py",
    "gateway/protocol/usage.py",
    "gateway/protocol/request_hints.py",
    "gateway/protocol/session_identity.py",
)
"""The life of a request, under two rules.

1. Modules with Structs that JSON is decoded into stay out, such as `gateway.protocol.json_fields`: compiled, a Struct
   loses the types of its fields.
2. A coroutine does not await while it handles an exception, neither in `except` nor in `finally` nor at the end of an
   `async with` that waits: compiled by mypyc 2.4.1, it may lose the exception, or leave it behind for another task.
   tests/test_compiled.py looks for that.
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
"""A header before all others: what begins with one of these does not happen, so the compiler puts it out of the way.

Every operation has such a branch. With FLAGS, requests then take an eighth less processor time, as little as after
training on a recorded profile (GCC 12, mypyc 2.4.1; ``-O2`` is 1 % slower).
"""


class CompiledCore(BuildHookInterface[Any]):
    """Adds the extension modules to the wheel, beside the sources that tracebacks show."""

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
    """The extension modules of *root*, built into *into*. Takes minutes."""
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
