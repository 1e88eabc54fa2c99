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
    "gateway/admission.py",
    "gateway/ledger/entry.py",
    "gateway/ledger/measures.py",
    "gateway/ledger/price.py",
    "gateway/ledger/recorder.py",
    "gateway/ledger/sqlite_book.py",
    "gateway/quota/embedded_store.py",
    "gateway/quota/limit.py",
    "gateway/quota/meter.py",
    "gateway/quota/meters.py",
    "gateway/quota/output_length.py",
    "gateway/quota/plan.py",
    "gateway/quota/quota.py",
    "gateway/quota/rate_headers.py",
    "gateway/quota/seats.py",
    "gateway/teams/access.py",
    "gateway/teams/caller.py",
    "gateway/teams/directory.py",
    "gateway/teams/open_mode.py",
    "gateway/teams/permits.py",
    "gateway/teams/secret.py",
)
"""What a request with a key and limits goes through."""
REQUESTS = (
    "gateway/arrivals.py",
    "gateway/attempt.py",
    "gateway/attempts.py",
    "gateway/backends/backend.py",
    "gateway/backends/worker.py",
    "gateway/bodies/bodies.py",
    "gateway/bodies/budget.py",
    "gateway/body.py",
    "gateway/canonical_path.py",
    "gateway/cascade/cascade.py",
    "gateway/disconnects.py",
    "gateway/answer_name.py",
    "gateway/downstream.py",
    "gateway/endings.py",
    "gateway/endpoints/endpoint.py",
    "gateway/entrance.py",
    "gateway/exchange.py",
    "gateway/failed_workers.py",
    "gateway/guardrails/guards.py",
    "gateway/headers.py",
    "gateway/incoming.py",
    "gateway/keeper.py",
    "gateway/model.py",
    "gateway/model_names.py",
    "gateway/models.py",
    "gateway/open_streams.py",
    "gateway/persistence.py",
    "gateway/prompt.py",
    "gateway/proxy.py",
    "gateway/request_log.py",
    "gateway/response_owners.py",
    "gateway/retries.py",
    "gateway/server/connection.py",
    "gateway/server/cycle.py",
    "gateway/server/date_line.py",
    "gateway/server/header_names.py",
    "gateway/server/message_ends.py",
    "gateway/server/stop.py",
    "gateway/splice.py",
    "gateway/tally.py",
    "gateway/timestamp.py",
    "gateway/turnstile.py",
    "gateway/upstream/connection.py",
    "gateway/upstream/headers.py",
    "gateway/upstream/pool.py",
    "gateway/upstream/reply.py",
    "gateway/upstream/request.py",
    "gateway/usage.py",
    "gateway/wishes.py",
)
"""The life of a request, under two rules.

1. Modules with Structs that JSON is decoded into stay out, `gateway.body_fields` and `gateway.usage_fields` among them:
   compiled, a Struct loses the types of its fields.
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
