"""Requests of several teams and sessions, sent while pages of the console are open."""

import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

RULES = "You answer questions about the solar system in short sentences and without formulas. " * 6
TOPICS = ("the moon", "the rings of Saturn", "comets", "the great red spot", "the poles of Mars", "solar wind")


@dataclass
class Load:
    """Clients that send one request after the other."""

    url: str
    keys: Mapping[str, str]
    """Secret of an API key of each team, by the team's name."""
    pause_s: float = 0.15
    answered: int = 0
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)

    def run(self) -> None:
        """Send requests until `stop` is called."""
        chance = random.Random(7)
        talks: dict[str, list[dict[str, str]]] = {}
        with httpx.Client(base_url=self.url, timeout=60) as http:
            while not self._stop.is_set():
                team = chance.choice(sorted(self.keys))
                session = f"{team}-{chance.randrange(4)}"
                talk = talks.setdefault(session, [{"role": "system", "content": RULES}])
                talk.append({"role": "user", "content": f"Tell me about {chance.choice(TOPICS)}."})
                if self._say(http, self.keys[team], session, talk, is_stream=chance.random() < 0.5):
                    self.answered += 1
                if len(talk) > 12:
                    del talks[session]
                self._stop.wait(self.pause_s)

    def wait_for(self, count: int, *, timeout_s: float = 60) -> None:
        """Wait until *count* requests were answered, so that all pages have something to show."""
        deadline = time.monotonic() + timeout_s
        while self.answered < count:
            assert time.monotonic() < deadline, f"Only {self.answered} requests were answered."
            time.sleep(0.1)

    def stop(self) -> None:
        self._stop.set()

    def _say(self, http: httpx.Client, key: str, session: str, talk: list[dict[str, str]], *, is_stream: bool) -> bool:
        body: dict[str, Any] = {"model": "tiny", "max_tokens": 12, "messages": talk, "stream": is_stream}
        headers = {"authorization": f"Bearer {key}", "x-session-id": session}
        try:
            response = http.post("/v1/chat/completions", json=body, headers=headers)
        except httpx.HTTPError:  # the gateway stops before the load does
            return False
        talk.append({"role": "assistant", "content": "It is far away."})
        return response.is_success


@contextmanager
def load(url: str, keys: Mapping[str, str], *, clients: int = 1, pause_s: float = 0.15) -> Iterator[Load]:
    """Send requests to *url* in the background."""
    running = Load(url, keys, pause_s)
    threads = [threading.Thread(target=running.run, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield running
    finally:
        running.stop()
        for thread in threads:
            thread.join()
