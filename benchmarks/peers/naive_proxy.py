"""The first proxy that one writes: FastAPI in front, httpx behind, workers in turn. The floor for the others."""

import argparse
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse


def application(workers: Sequence[str]) -> FastAPI:
    """The proxy before *workers*, by their URLs."""
    turns = itertools.cycle(workers)
    client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with client:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        question = await request.json()
        url = f"{next(turns)}/v1/chat/completions"
        if not question.get("stream"):
            answer = await client.post(url, json=question)
            return Response(answer.content, answer.status_code, media_type=answer.headers["content-type"])
        stream = await client.send(client.build_request("POST", url, json=question), stream=True)

        async def relay() -> AsyncIterator[bytes]:
            async for piece in stream.aiter_bytes():
                yield piece
            await stream.aclose()

        return StreamingResponse(relay(), stream.status_code, media_type=stream.headers["content-type"])

    return app


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.naive_proxy", description=__doc__.split("\n")[0])
    parser.add_argument("workers", nargs="+", metavar="URL")
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    uvicorn.run(application(arguments.workers), port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
