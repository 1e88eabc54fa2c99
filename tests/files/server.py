"""SeaweedFS as a process, with one bucket."""

import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from benchmarks.processes import Child, Processes
from gateway.batch.bucket_client import BucketRules
from tests.files.environment import PROGRAM

BUCKET = "our-files"
KEYS = ("the-access-key", "the-secret-of-the-access-key")
PATIENCE_S = 120


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@dataclass
class ObjectStore:
    """An object store that keeps its data in *folder*. It may be killed and started again."""

    processes: Processes
    folder: Path
    ports: list[int] = field(default_factory=lambda: free_ports(8))
    _process: Child | None = None
    _starts: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def rules(self, prefix: str) -> BucketRules:
        return BucketRules(BUCKET, prefix=prefix, endpoint_url=self.url, region="us-east-1")

    def settings(self, prefix: str) -> dict[str, Any]:
        """The settings `files.s3`."""
        return {"bucket": BUCKET, "prefix": prefix, "endpoint_url": self.url, "region": "us-east-1"}

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables with the credentials."""
        return {"AWS_ACCESS_KEY_ID": KEYS[0], "AWS_SECRET_ACCESS_KEY": KEYS[1], "AWS_EC2_METADATA_DISABLED": "true"}

    def start(self) -> None:
        """Start the store, and wait until the bucket can be used."""
        self.begin()
        self.wait()

    def begin(self) -> None:
        """Start the store. The kernel ends it when the thread ends that called this."""
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        identity = {
            "name": "gateway",
            "credentials": [{"accessKey": KEYS[0], "secretKey": KEYS[1]}],
            "actions": ["Admin", "Read", "List", "Write"],
        }
        config = self.folder / "s3.json"
        config.write_text(json.dumps({"identities": [identity]}))
        names = [
            f"{service}.{port}" for service in ("s3", "master", "volume", "filer") for port in ("port", "port.grpc")
        ]
        self._starts += 1
        self._process = self.processes.start(
            f"{self.folder.name}-{self._starts}",
            [
                *(str(PROGRAM), "server", "-ip", "127.0.0.1", "-ip.bind", "127.0.0.1", "-filer", "-s3"),
                *("-dir", str(data), "-s3.config", str(config), "-s3.iam=false", "-master.telemetry=false"),
                # 0 switches off two services that would listen on ports of their own.
                *("-master.volumeSizeLimitMB", "64", "-s3.port.iceberg=0", "-s3.port.lance=0"),
                *(f"-{name}={port}" for name, port in zip(names, self.ports, strict=True)),
            ],
        )

    def kill(self) -> None:
        """End the store at once."""
        assert self._process is not None, "it was started"
        os.kill(self._process.process.pid, 9)
        self._process.process.wait()

    def names(self, prefix: str) -> list[str]:
        """Names of all objects that begin with *prefix*, without the prefix."""
        found = self._client().list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return sorted(each["Key"].removeprefix(prefix) for each in found.get("Contents", ()))

    def wait(self) -> None:
        """Wait until the bucket can be used."""
        client, until = self._client(), time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            with suppress(BotoCoreError, ClientError):
                if BUCKET not in [each["Name"] for each in client.list_buckets()["Buckets"]]:
                    client.create_bucket(Bucket=BUCKET)
                client.put_object(Bucket=BUCKET, Key="ready", Body=b"x")
                client.close()
                return
            time.sleep(0.2)
        assert self._process is not None, "it was started"
        raise AssertionError(f"the object store is not ready: {self._process.last_words()}")

    def _client(self) -> Any:
        return botocore.session.Session().create_client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=KEYS[0],
            aws_secret_access_key=KEYS[1],
            config=Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=10),
        )
