"""The image of the stage `demo`, run as its user on a read-only root: `docker run IMAGE demo`."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import DefaultHttpxClient, OpenAI

from tests.image.container import Container, Running
from tests.storage import free_port


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def running(demo: Container, port: int) -> Iterator[Running]:
    with demo.started({}, {}, "demo", "--port", str(port)) as found:
        found.wait_until_ready()
        yield found
        assert 0 == found.stop(), found.said()


def test_it_answers_the_openai_sdk_with_the_key_that_it_prints(running: Running, port: int) -> None:
    key = re.search(r"wg-demo-\S+", running.said())
    assert key is not None
    with OpenAI(
        base_url=f"http://127.0.0.1:{port}/v1", api_key=key[0], http_client=DefaultHttpxClient(verify=False)
    ) as client:
        answer = client.chat.completions.create(
            model="gpt-4o", max_tokens=8, messages=[{"role": "user", "content": "hello"}]
        )

    assert answer.choices[0].message.content


def test_it_listens_to_the_outside_of_the_container(running: Running, port: int) -> None:
    """The addresses that it prints can be opened on the machine that has published the port."""
    local, everywhere = f"http://127.0.0.1:{port}", Path("/proc/net/tcp").read_text(encoding="utf-8")

    assert f"curl -i {local}/v1/chat/completions" in running.said()
    assert f"00000000:{port:04X} 00000000:0000 0A" in everywhere


def test_it_runs_as_no_one_but_its_own_user(running: Running) -> None:
    assert (["10001"] * 4, ["0000000000000000"]) == (running.identity()["Uid"], running.identity()["CapEff"])


def test_demo_is_its_command_if_no_other_is_given(demo: Container, container: Container) -> None:
    assert (["warmgate"], ["demo"]) == (demo.image["Entrypoint"], demo.image["Cmd"])
    assert ["serve", "--config", "/etc/warmgate/warmgate.yaml"] == container.image["Cmd"]


def test_the_image_without_the_simulator_says_how_to_get_the_demo(container: Container) -> None:
    ran = container.run("warmgate", "demo")

    assert 1 == ran.returncode
    assert "docker build --target demo" in ran.stderr
