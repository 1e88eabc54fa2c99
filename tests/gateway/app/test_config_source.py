"""Where the settings come from, and when they are read again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.app.config_source import ConfigSource, Reloader
from gateway.settings import Settings, SettingsError
from gateway.telemetry.reloads import Reloaded
from tests.gateway.settings.examples import SMALLEST


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "warmgate.yaml"
    path.write_text(SMALLEST)
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text)


async def test_deprecated_settings_are_warned_of_at_every_reload(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each in a sentence, which is no fault; none when they are gone."""
    write(path, SMALLEST.replace("port: 8080", "port: 8080, implementation: uvicorn"))
    configuration = ConfigSource(path, {})
    sentence = (
        "server.implementation is deprecated and has no effect: the gateway serves with uvicorn only. "
        "Remove this setting."
    )

    configuration.load()
    said_before, listed = caplog.messages.copy(), configuration.warnings
    reloader = Reloader(configuration, Reloads())
    await reloader.reload()
    write(path, SMALLEST)
    await reloader.reload()

    assert ([], (sentence,), [sentence], ()) == (said_before, listed, caplog.messages, configuration.warnings)


@dataclass
class Reloads:
    """Loads as often as it is reported to."""

    ports: list[int | None] = field(default_factory=list)
    """None for what cannot be loaded."""
    running: int = 0
    most_at_once: int = 0

    async def __call__(self, load: Callable[[], Settings]) -> Reloaded:
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        try:
            self.ports.append(load().server.port)
        except SettingsError:
            self.ports.append(None)
            return Reloaded("refused")
        return Reloaded("applied")

    async def until(self, count: int) -> list[int | None]:
        async with asyncio.timeout(60):
            while len(self.ports) < count:
                await asyncio.sleep(0.002)
        return self.ports


@asynccontextmanager
async def following(configuration: ConfigSource) -> AsyncIterator[tuple[Reloader[Reloaded], Reloads]]:
    reloads = Reloads()
    reloader = Reloader(configuration, reloads, interval_s=0.01)
    async with asyncio.TaskGroup() as tasks:
        loop = tasks.create_task(reloader.run())
        yield reloader, reloads
        loop.cancel()


def test_variables_are_over_the_file(path: Path) -> None:
    assert 9000 == ConfigSource(path, {"WARMGATE_SERVER__PORT": "9000"}).load().server.port


def test_what_changes_before_the_first_look_is_seen(path: Path) -> None:
    """From the moment of loading on."""
    configuration = ConfigSource(path, {})
    configuration.load()
    path.write_text(SMALLEST.replace("8080", "8081"))

    assert [False, True, False] == [configuration.has_changed() for _ in range(3)]


def test_without_a_file_nothing_changes() -> None:
    """Variables of a process are what they were."""
    configuration = ConfigSource(
        None, {"WARMGATE_MODELS__0__NAME": "x", "WARMGATE_MODELS__0__WORKERS__0__URL": "http://a"}
    )

    assert "x" == configuration.load().models[0].name
    assert not configuration.has_changed()


async def test_a_changed_file_is_read_again(path: Path) -> None:
    """Each time, also if it was no good; it does not matter who does it how."""
    configuration = ConfigSource(path, {})
    configuration.load()
    async with following(configuration) as (_, reloads):
        for count, text in enumerate([SMALLEST.replace("8080", "8081"), "server: {", SMALLEST], start=1):
            write(path, text)
            await reloads.until(count)

    assert [8081, None, 8080] == reloads.ports


async def test_anyone_who_asks_is_not_asked_to_wait_for_a_change(path: Path) -> None:
    configuration = ConfigSource(path, {})
    configuration.load()
    async with following(configuration) as (reloader, reloads):
        reloader.ask()
        await reloads.until(1)
        write(path, SMALLEST.replace("8080", "8081"))
        reloader.ask()
        await reloads.until(2)
        await asyncio.sleep(0.1)

    assert [8080, 8081] == reloads.ports


async def test_anyone_who_reloads_learns_what_came_of_it(path: Path) -> None:
    """It does not take a loop that follows the file."""
    reloader = Reloader(ConfigSource(path, {}), Reloads())
    good = await reloader.reload()
    write(path, "server: {")

    assert [Reloaded("applied"), Reloaded("refused")] == [good, await reloader.reload()]


async def test_one_reload_ends_before_the_next_begins(path: Path) -> None:
    """Anyone who asks for them."""
    reloads = Reloads()
    reloader = Reloader(ConfigSource(path, {}), reloads)
    await asyncio.gather(*(reloader.reload() for _ in range(5)))

    assert (5, 1) == (len(reloads.ports), reloads.most_at_once)
