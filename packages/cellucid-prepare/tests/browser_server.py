"""A web server for the tests in a browser: it serves byte ranges and remembers every request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

START_SECONDS_MAX = 30


@dataclass(frozen=True)
class Request:
    """One answered request; `n_bytes` is the length of the answer's body."""

    method: str
    path: str
    range: str | None
    status: int
    n_bytes: int


class Server:
    """A running server."""

    def __init__(self, address: str, answered: list[Request]) -> None:
        self.address = address
        self._answered = answered

    def take(self) -> list[Request]:
        """What was asked under /data since the last call."""
        taken = [request for request in self._answered if request.path.startswith("/data/")]
        self._answered.clear()
        return taken


@contextmanager
def serving(folders: dict[str, Path]) -> Iterator[Server]:
    """Serve each folder under the path that is its key, on a free port of this machine."""
    answered: list[Request] = []

    async def note(request: web.Request, response: web.StreamResponse) -> None:
        # a range that the browser's cache knows would never get here
        response.headers["Cache-Control"] = "no-store"
        length = 0 if request.method == "HEAD" else int(response.content_length or 0)
        path, asked = request.path, request.headers.get("Range")
        answered.append(Request(request.method, path, asked, response.status, length))

    async def start() -> tuple[web.AppRunner, int]:
        app = web.Application()
        app.on_response_prepare.append(note)
        for path, folder in folders.items():
            app.router.add_static(path, folder)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address: Any = runner.addresses[0]
        return runner, int(address[1])

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="test server")
    thread.start()
    try:
        runner, port = asyncio.run_coroutine_threadsafe(start(), loop).result(START_SECONDS_MAX)
        try:
            yield Server(f"http://127.0.0.1:{port}", answered)
        finally:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(START_SECONDS_MAX)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
