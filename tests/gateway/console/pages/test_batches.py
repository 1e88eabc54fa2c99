"""Facts about the pages with batches."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from gateway.batch.batch import BatchUsage, begun, ended, failed, finalizing
from gateway.batch.line_store import BatchRef, Progress
from gateway.batch.plan import LineFault
from tests.gateway.api.admin_v1.administration import KEYS
from tests.gateway.api.admin_v1.test_batches import a_gateway
from tests.gateway.api.admin_v1.test_one_team import LIMITED
from tests.gateway.batch.examples import NOW
from tests.gateway.batch.test_batches import Stage, staged
from tests.gateway.console.consoled import Consoled, consoled


@asynccontextmanager
async def shown(folder: Path) -> AsyncIterator[tuple[Consoled, Stage]]:
    async with staged(folder) as stage, consoled(keys=(*KEYS, LIMITED), gateway=a_gateway(stage)) as site:
        yield site, stage


async def text_of(site: Consoled, path: str, who: str = "vi") -> str:
    answer = await (await site.logged_in(who)).get(path)
    assert 200 == answer.status_code
    return answer.text


async def a_completed_batch(stage: Stage) -> str:
    """A batch with 3 answered lines of 4."""
    batch_id = await stage.created()
    batch, _ = await stage.batches.find("blue", batch_id)
    info = msgspec.structs.replace(finalizing(batch.info, "completed", NOW), total=4)
    usage = BatchUsage(prompt_tokens=200, cached_tokens=150, completion_tokens=30)
    files = {"output_file_id": "file-2", "error_file_id": None}
    await stage.store.put(batch.changed(ended(info, Progress(4, 3, 1), usage, **files, now=NOW + 60)).record)
    return batch_id


async def test_without_batches_the_page_says_how_to_make_one(tmp_path: Path) -> None:
    async with shown(tmp_path) as (site, _):
        texts = [await text_of(site, f"/console/batches{query}") for query in ("", "?team=red")]

    assert ["There are no batches." in texts[0], "The team red has no batches." in texts[1]] == [True, True]


async def test_a_gateway_without_files_says_how_to_enable_them() -> None:
    async with consoled(gateway=a_gateway(None)) as site:
        text = await text_of(site, "/console/batches")

    assert "The settings files.folder and files.s3 enable them." in text


async def test_batches_are_listed_with_their_progress(tmp_path: Path) -> None:
    async with shown(tmp_path) as (site, stage):
        batch_id = await a_completed_batch(stage)
        text = await text_of(site, "/console/batches")

    assert f'href="/console/batches/{batch_id}?team=blue"' in text
    assert '<span class="state good">completed</span>' in text
    assert '<td class="number">4</td>\n<td class="number">3</td>\n<td class="number">1</td>' in text
    assert "100.0 %" in text
    assert "2025-11-21 04:41:00" in text


async def test_a_batch_shows_the_models_of_its_lines(tmp_path: Path) -> None:
    async with shown(tmp_path) as (site, stage):
        batch_id = await stage.created()
        batch, _ = await stage.batches.find("blue", batch_id)
        before = await text_of(site, f"/console/batches/{batch_id}?team=blue")
        await stage.store.put(batch.changed(begun(batch.info, 2, ["tiny", "<b>"], NOW)).record)
        texts = [await text_of(site, path) for path in ("/console/batches", f"/console/batches/{batch_id}?team=blue")]

    assert "<dt>Models</dt><dd>known after the validation</dd>" in before
    assert '<td class="nowrap">tiny and 1 more</td>' in texts[0]
    assert "<dt>Models</dt><dd>tiny, &lt;b&gt;</dd>" in texts[1]


async def test_one_batch_has_its_files_and_tokens(tmp_path: Path) -> None:
    async with shown(tmp_path) as (site, stage):
        batch_id = await a_completed_batch(stage)
        text = await text_of(site, f"/console/batches/{batch_id}?team=blue", "op")

    assert '<span class="value">75.0 %</span>' in text
    assert "of 200, 30 output tokens" in text
    assert "a, 1 B, 1 line, <code>file-2</code>" in text
    assert "Cancel the batch" not in text


async def test_faults_and_metadata_are_escaped(tmp_path: Path) -> None:
    async with shown(tmp_path) as (site, stage):
        batch_id = await stage.created(metadata={"<b>": "<script>alert(1)</script>"})
        batch, _ = await stage.batches.find("blue", batch_id)
        fault = LineFault("invalid", "<script>alert(2)</script>", "<i>", 3)
        await stage.store.put(batch.changed(failed(batch.info, [fault] * 101, NOW)).record)
        text = await text_of(site, f"/console/batches/{batch_id}?team=blue")

    assert "<dt>Metadata: &lt;b&gt;</dt><dd>&lt;script&gt;alert(1)&lt;/script&gt;</dd>" in text
    assert 100 == text.count("&lt;script&gt;alert(2)&lt;/script&gt;")
    assert "and 1 more" in text
    assert "<script>alert" not in text


async def test_operators_cancel_a_batch(tmp_path: Path) -> None:
    async with shown(tmp_path) as (site, stage):
        batch_id = await stage.created()
        address = f"/console/batches/{batch_id}?team=blue"
        viewers = await text_of(site, address)
        browser = await site.logged_in("op")
        before = (await browser.get(address)).text
        answer = await browser.submit("/console/do/cancel-batch", team="blue", id=batch_id)
        after = (await browser.get(address)).text
        (change,) = await site.changes()

    assert [False, True, False] == ["/console/do/cancel-batch" in text for text in (viewers, before, after)]
    assert (303, address) == (answer.status_code, answer.headers["location"])
    assert f"The batch {batch_id} is canceled." in after
    assert ("op", "cancel", "batch", batch_id) == tuple(change[name] for name in ("who", "action", "kind", "id"))


async def test_viewers_cannot_cancel_and_other_teams_are_hidden(tmp_path: Path) -> None:
    async with shown(tmp_path) as (site, stage):
        batch_id = await stage.created()
        browser = await site.logged_in("vi")
        refused = await browser.submit("/console/do/cancel-batch", team="blue", id=batch_id)
        limited = await site.logged_in("bv")
        own = await limited.get("/console/batches")
        others = [await limited.get(f"/console/batches{path}") for path in (f"/{batch_id}?team=green", "?team=green")]
        batch, _ = await stage.batches.find("blue", batch_id)

    assert (403, "validating") == (refused.status_code, batch.info.status)
    assert (True, False) == (batch_id in own.text, 'name="team"' in own.text)
    assert [403, 403] == [answer.status_code for answer in others]


async def test_a_running_batch_shows_how_much_is_done(tmp_path: Path) -> None:
    async with shown(tmp_path) as (site, stage):
        batch_id = await stage.created()
        batch, _ = await stage.batches.find("blue", batch_id)
        info = msgspec.structs.replace(batch.info, status="in_progress", total=8)
        await stage.store.put(batch.changed(info).record)
        await stage.lines.begin(BatchRef("blue", batch_id), 8)
        text = await text_of(site, f"/console/batches/{batch_id}?team=blue")

    assert '<span class="state good">in progress</span>' in text
    assert '<span class="value">8</span>' in text
    assert "0.0 % done" in text
