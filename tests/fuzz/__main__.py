"""`python -m tests.fuzz`: start the demo, and let schemathesis try out everything that `/openapi.json` describes.

Needs the extra `fuzz`. Exit status 1 if an answer is a 500, or not as described.
"""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

DEMO = (sys.executable, "-m", "gateway", "demo", "--port", "0", "--workers", "2")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
    "unsupported_method",
)
EXAMPLES = 100
"""Per operation and kind of data."""
SLOWEST_S = 10
"""A worker of the demo may be busy with the examples before; beyond this an answer hangs."""


@contextlib.contextmanager
def demo(admin_token: str) -> Iterator[str]:
    """The demo on a free port; yields its address."""
    # Without a line per request, which would fill the pipe: nobody reads it once the address is known.
    settings = {"WARMGATE_LOGGING__REQUESTS": "false", "WARMGATE_SERVER__ADMIN_TOKEN": admin_token}
    with subprocess.Popen(DEMO, env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("ready: "):
                    yield line.removeprefix("ready: ").strip()
                    return
            raise RuntimeError("the demo ended before it was ready; its error is above")
        finally:
            process.terminate()
            process.communicate()


def described(address: str) -> bytes:
    """The description of the API, with the model of the demo for a model: most examples would else end at its name."""
    with urllib.request.urlopen(f"{address}/openapi.json") as answer:
        document = json.load(answer)
    for operations in document["paths"].values():
        for operation in operations.values():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                fields = media["schema"].get("properties", {})
                if "model" in fields:
                    fields["model"] = {"enum": ["tiny"]}
    return json.dumps(document).encode()


def main() -> int:
    token = secrets.token_hex(16)
    with demo(token) as address, tempfile.TemporaryDirectory() as folder:
        description = Path(folder) / "openapi.json"
        description.write_bytes(described(address))
        command: list[str | Path] = [
            *(Path(sys.executable).with_name("schemathesis"), "run", description, "--url", address),
            *("--checks", ",".join(CHECKS), "--header", f"authorization: Bearer {token}"),
            *("--max-examples", str(EXAMPLES), "--max-response-time", str(SLOWEST_S), "--continue-on-failure"),
        ]
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
