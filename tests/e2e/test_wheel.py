"""The wheel outside a checkout: it has every file of the packages, and the demo runs from it."""

import asyncio
import os
import re
import sys
import zipfile
from pathlib import Path

import httpx
import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateway", "routing", "cache_index", "simulator")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the wheel that the checkout builds."""
    if not (ROOT / "LICENSE").is_file():
        pytest.skip("this is no checkout")
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "files")
    return folder / "files"


def test_the_wheel_has_every_file_of_the_packages(unpacked: Path) -> None:
    """Scripts for Redis too."""
    wanted = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix in {".py", ".lua", ".typed"}
    }

    assert set() == {name for name in wanted if not (unpacked / name).is_file()}


def test_the_wheel_has_the_license_and_the_notice(unpacked: Path) -> None:
    assert {"LICENSE", "NOTICE"} == {path.name for path in unpacked.glob("warmgate-*.dist-info/licenses/*")}


async def test_the_demo_runs_from_the_wheel(unpacked: Path, tmp_path: Path) -> None:
    """In an empty folder, and reachable from outside where a variable says so, as in the image."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "demo", "--port", "0", "--workers", "1"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(unpacked), "WARMGATE_SERVER__HOST": "0.0.0.0"},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        said = ""
        async with asyncio.timeout(60):
            while not (ready := re.search(r"^ready: http://\S+:(\d+)$", said, re.MULTILINE)):
                line = await process.stdout.readline()
                assert line, said
                said += line.decode()
        key = re.search(r"\bwg-demo-\S+", said)
        assert key is not None
        body = {"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]}
        async with httpx.AsyncClient(timeout=60, verify=False) as http:
            answer = await http.post(
                f"http://127.0.0.1:{ready[1]}/v1/chat/completions",
                json=body,
                headers={"authorization": f"Bearer {key[0]}"},
            )
    finally:
        process.terminate()
        await process.communicate()

    assert 200 == answer.status_code, answer.text
    assert "chat.completion" == answer.json()["object"]
