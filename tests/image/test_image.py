"""The image, built from the Dockerfile and run as its user on a read-only root, before a simulated worker."""

import asyncio
import errno
import json
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.certificates import without_key_identifiers
from tests.e2e.stack import program
from tests.image.container import Container
from tests.image.environment import PYTHON, installed_bytes
from tests.storage import free_port

KEY = "wg-a-key-of-the-test-0123456789"
MOST_MIB = 200
"""What is installed beside the base image: bytes on disk."""

TRY_TO_WRITE = """
import errno, os, sys
for folder in sys.argv[1:]:
    try:
        with open(os.path.join(folder, "probe"), "w"):
            print(folder, "written")
        os.remove(os.path.join(folder, "probe"))
    except OSError as fault:
        print(folder, errno.errorcode[fault.errno])
"""

SHAKE_HANDS = """
import pathlib, ssl, sys
from gateway.workers.kubernetes.access import ApiAccess

folder = pathlib.Path(sys.argv[1])
server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain(folder / "server.crt", folder / "server.key")
python = ssl.create_default_context(cafile=folder / "ca.crt")
gateway = ApiAccess("https://127.0.0.1", service_account=folder).read().tls
for client in (python, gateway):
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    try:
        for _ in range(3):
            for end in ends:
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    pass
        print(ends[0].version())
    except ssl.SSLCertVerificationError as fault:
        print(fault.verify_message)
"""


@dataclass(frozen=True, slots=True)
class Life:
    """What was seen of a gateway from its start to its end."""

    events: list[str]
    identity: dict[str, list[str]]
    health: int
    health_afterwards: int
    status: int
    said: str
    owners: dict[str, int]


@pytest.fixture(scope="module")
def life(container: Container) -> Life:
    """It serves one request."""
    return asyncio.run(lived(container))


async def lived(container: Container) -> Life:
    variables = {"WARMGATE_SERVER__PORT": str(free_port())}
    async with program("simulate", "--port", "0") as (_, worker):
        settings = {
            "models": [{"name": "tiny", "workers": [{"url": worker}]}],
            "store": {"url": "sqlite:///warmgate.db"},
            "teams": [{"name": "blue", "keys": [{"id": "test", "secret": KEY}]}],
        }
        with container.started(settings, variables) as running:
            running.wait_until_ready()
            identity = running.identity()
            events = await streamed(f"http://127.0.0.1:{variables['WARMGATE_SERVER__PORT']}")
            owners = {path.name: path.stat().st_uid for path in container.state.iterdir()}
            health = container.health(variables)
            status = running.stop()
            return Life(events, identity, health, container.health(variables), status, running.said(), owners)


async def streamed(url: str) -> list[str]:
    body = {"model": "tiny", "stream": True, "max_tokens": 16, "messages": [{"role": "user", "content": "Hello there"}]}
    headers = {"authorization": f"Bearer {KEY}"}
    async with (
        httpx.AsyncClient(timeout=30, verify=False) as http,
        http.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers) as response,
    ):
        assert 200 == response.status_code, await response.aread()
        return [line.removeprefix("data: ") async for line in response.aiter_lines() if line.startswith("data: ")]


def test_it_answers_a_streamed_request_on_a_read_only_root(life: Life) -> None:
    """Piece by piece."""
    chunks = [json.loads(event) for event in life.events[:-1]]
    texts = [choice["delta"].get("content") for chunk in chunks for choice in chunk["choices"]]

    assert "[DONE]" == life.events[-1]
    assert len([text for text in texts if text]) > 8
    assert 1 == life.said.count('"event":"request"')


def test_it_runs_as_no_one_but_its_own_user(life: Life) -> None:
    """With no capability, and no way to one."""
    identity = life.identity

    assert (["10001"] * 4, ["10001"] * 4) == (identity["Uid"], identity["Gid"])
    assert (["0000000000000000"], ["0000000000000000"], ["1"]) == (
        identity["CapEff"],
        identity["CapBnd"],
        identity["NoNewPrivs"],
    )


def test_its_health_check_reports_whether_it_is_there(life: Life) -> None:
    assert 0 == life.health
    assert 0 != life.health_afterwards


def test_it_stops_when_it_is_asked_to(life: Life) -> None:
    assert 0 == life.status, life.said


def test_its_store_is_where_a_volume_belongs(life: Life) -> None:
    """A relative store.url is below /var/lib/warmgate, and belongs to its user."""
    assert "warmgate.db" in life.owners
    assert {10001} == set(life.owners.values())


def test_nothing_else_can_be_written_to(container: Container) -> None:
    """Not even by root: the root is read-only."""
    wanted = {"/": "EROFS", "/opt/warmgate": "EROFS", "/etc/warmgate": "EROFS", "/usr/local": "EROFS"}

    ran = container.run("python", "-c", TRY_TO_WRITE, *wanted, "/tmp", "/var/lib/warmgate", root=True)

    assert wanted | {"/tmp": "written", "/var/lib/warmgate": "written"} == reported(ran.stdout), ran.stderr


def test_its_user_can_write_to_two_places(container: Container) -> None:
    """For a store, and for what is temporary."""
    ran = container.run("python", "-c", TRY_TO_WRITE, "/tmp", "/var/lib/warmgate", "/opt/warmgate")
    refused = {errno.errorcode[errno.EACCES], errno.errorcode[errno.EROFS]}

    found = reported(ran.stdout)
    assert ("written", "written") == (found["/tmp"], found["/var/lib/warmgate"]), ran.stderr
    assert found["/opt/warmgate"] in refused


def reported(printed: str) -> dict[str, str]:
    return dict(line.split() for line in printed.splitlines())


@pytest.mark.parametrize("module", ["cache_index.radix", "routing.fleet", "gateway.tenancy.quota.quota"])
def test_the_core_is_compiled(container: Container, module: str) -> None:
    """With its sources beside it, for tracebacks."""
    ran = container.run("python", "-c", f"import pathlib, {module} as m; print(m.__file__)")

    compiled = Path(ran.stdout.strip())
    assert ".so" == compiled.suffix, ran.stderr
    assert (container.root / str(compiled.parent).lstrip("/") / f"{module.rpartition('.')[2]}.py").is_file()


@pytest.mark.parametrize("name", ["gcc", "cc", "pip", "mypy"])
def test_it_has_nothing_to_build_or_install_with(container: Container, name: str) -> None:
    """What is not there cannot be used by anyone who gets in."""
    ran = container.run("python", "-c", f"import shutil; print(shutil.which({name!r}))")

    assert "None" == ran.stdout.strip(), ran.stderr


def test_bedrock_and_exact_tokens_are_there(container: Container) -> None:
    """Also what of botocore is left: a signer, and the services that its credentials come from."""
    ran = container.run(
        "python",
        "-c",
        "import tokenizers, jinja2, botocore.session as s; session = s.Session()\n"
        "session.set_credentials('a', 'b')\n"
        "for name in ('bedrock-runtime', 'sts', 'sso', 'sso-oidc'):\n"
        "    print(session.create_client(name, region_name='eu-central-1').meta.service_model.service_name)",
    )

    assert ["bedrock-runtime", "sts", "sso", "sso-oidc"] == ran.stdout.split(), ran.stderr


def test_the_simulator_is_left_out(container: Container) -> None:
    """Only `warmgate simulate` and `warmgate demo` need it."""
    packages = container.root / f"opt/warmgate/lib/python{PYTHON}/site-packages"

    assert (packages / "gateway").is_dir()
    assert not (packages / "simulator").exists()


def test_it_starts_without_compiling_anything(container: Container) -> None:
    """A read-only root keeps no bytecode, so it has to be there."""
    packages = container.root / f"opt/warmgate/lib/python{PYTHON}/site-packages"
    without = [
        path
        for folder in ("gateway", "routing", "cache_index", "httpx", "numpy")
        for path in (packages / folder).rglob("*.py")
        if not (path.parent / "__pycache__" / f"{path.stem}.cpython-{PYTHON.replace('.', '')}.pyc").is_file()
    ]

    assert [] == without


def test_a_certificate_needs_no_key_identifiers(container: Container) -> None:
    """Its Python refuses those of older EKS clusters by default."""
    made = without_key_identifiers(container.configuration)
    made.key.chmod(0o644)
    (container.configuration / "token").write_text("t-1")

    ran = container.run("python", "-c", SHAKE_HANDS, "/etc/warmgate")

    assert ["Missing Authority Key Identifier", "TLSv1.3"] == ran.stdout.splitlines(), ran.stderr


def test_it_is_small(container: Container) -> None:
    """Beside the base image."""
    assert installed_bytes(container.root) <= MOST_MIB * 2**20
