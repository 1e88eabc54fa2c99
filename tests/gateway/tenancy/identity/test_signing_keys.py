import asyncio
from dataclasses import dataclass, field

import pytest

from gateway.protocol.errors import IssuerUnavailable
from gateway.tenancy.identity.signing_keys import LEAST_GAP_S, KeysUnreadableError, SigningKeys
from tests.gateway.tenancy.identity.signing import curve_key, jwk, key_set, rsa_key

FIRST = key_set(jwk(curve_key(), "k1"))


@dataclass
class Provider:
    """Key set of an issuer that a test changes or takes away, and a clock that a test sets."""

    document: bytes | Exception = FIRST
    now: float = 1000.0
    reads: int = 0
    waits: asyncio.Event = field(default_factory=asyncio.Event)
    stale_s: float = 3600.0

    def __post_init__(self) -> None:
        self.waits.set()
        self.keys = SigningKeys("okta", self.read, clock=lambda: self.now, refresh_s=300.0, stale_s=self.stale_s)

    async def read(self) -> bytes:
        self.reads += 1
        await self.waits.wait()
        if isinstance(self.document, Exception):
            raise self.document
        return self.document

    async def has(self, key_id: str | None, algorithm: str = "ES256") -> bool:
        return await self.keys.find(key_id, algorithm) is not None


AWAY = KeysUnreadableError("the issuer cannot be reached: ConnectError")


async def test_keys_are_read_when_the_first_token_comes_and_then_kept() -> None:
    provider = Provider()

    assert await provider.has("k1")
    assert await provider.has("k1")
    assert 1 == provider.reads


async def test_an_unknown_key_is_looked_for_once_per_gap() -> None:
    provider = Provider()
    assert await provider.has("k1")
    provider.document = key_set(jwk(curve_key(), "k1"), jwk(curve_key("second"), "k2"))

    assert not await provider.has("k2")
    provider.now += LEAST_GAP_S
    assert await provider.has("k2")
    for guess in range(100):
        assert not await provider.has(f"guess-{guess}")
    assert 2 == provider.reads


async def test_a_key_that_the_issuer_withdraws_is_gone_after_the_next_reading() -> None:
    provider = Provider()
    assert await provider.has("k1")
    provider.document = key_set(jwk(curve_key("second"), "k2"))
    provider.now += LEAST_GAP_S

    assert await provider.has("k2")
    assert not await provider.has("k1")


async def test_while_the_issuer_is_away_known_keys_serve_and_unknown_keys_are_not_judged() -> None:
    provider = Provider()
    assert await provider.has("k1")
    provider.document, provider.now = AWAY, provider.now + 3599.0

    with pytest.raises(IssuerUnavailable, match="The keys of the issuer 'okta' cannot be read") as refused:
        await provider.has("k2")
    assert (503, 2.0) == (refused.value.status, refused.value.retry_after_s)
    assert await provider.has("k1")


async def test_keys_that_were_read_too_long_ago_serve_no_more() -> None:
    provider = Provider()
    assert await provider.has("k1")
    provider.document, provider.now = AWAY, provider.now + 3600.0

    with pytest.raises(IssuerUnavailable):
        await provider.has("k1")


async def test_an_issuer_that_comes_back_is_asked_again_after_the_gap() -> None:
    provider = Provider(document=AWAY)
    with pytest.raises(IssuerUnavailable):
        await provider.has("k1")
    provider.document = key_set(jwk(curve_key(), "k1"))
    with pytest.raises(IssuerUnavailable):
        await provider.has("k1")
    provider.now += LEAST_GAP_S

    assert await provider.has("k1")
    assert provider.keys.fault is None


async def test_a_document_that_is_no_key_set_is_a_fault_of_the_issuer() -> None:
    provider = Provider(document=b"<html>")

    with pytest.raises(IssuerUnavailable):
        await provider.has("k1")
    assert "the document is not a JSON Web Key Set" == provider.keys.fault


async def test_a_hundred_tokens_at_once_cause_one_reading() -> None:
    provider = Provider()
    provider.waits.clear()
    asking = [asyncio.ensure_future(provider.has("k1")) for _ in range(100)]
    await asyncio.sleep(0)
    provider.waits.set()

    assert all(await asyncio.gather(*asking))
    assert 1 == provider.reads


async def test_a_token_without_a_key_id_fits_the_only_key_of_its_algorithm() -> None:
    provider = Provider(document=key_set(jwk(curve_key(), "k1"), jwk(rsa_key(), "k2"), jwk(rsa_key(), "k3")))

    assert await provider.has(None, "ES256")
    assert not await provider.has(None, "RS256")
    assert await provider.has("k2", "RS256")
    assert not await provider.has("k2", "ES256")


async def test_the_loop_reads_the_keys_before_the_first_token() -> None:
    provider = Provider()
    loop = asyncio.ensure_future(provider.keys.run())
    async with asyncio.timeout(60):
        while not provider.reads:
            await asyncio.sleep(0)
    loop.cancel()

    assert 1 == provider.reads


async def test_an_outage_is_logged_once_and_its_end_as_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="gateway.tenancy.identity.signing_keys")
    provider = Provider(document=AWAY)
    for _ in range(3):
        with pytest.raises(IssuerUnavailable):
            await provider.has("k1")
        provider.now += LEAST_GAP_S
    provider.document = key_set(jwk(curve_key(), "k1"))
    assert await provider.has("k1")

    assert [
        "the keys of the issuer okta cannot be read: the issuer cannot be reached: ConnectError",
        "the keys of the issuer okta can be read again",
    ] == caplog.messages
