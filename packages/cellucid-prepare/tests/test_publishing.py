"""The server of docs/publishing.md, as it is written there: what it sends, and that pages read."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import anndata
import numpy as np
import pytest
from browser_server import serving
from browser_session import LIBRARIES, PAGES, page_at, skip_unless_there
from prepare_reading import read, written
from prepare_samples import complete

from checkout import ROOT

START_SECONDS_MAX = 30
BLOCK = re.compile(r"^```python\n(from aiohttp.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def output() -> Path:
    return written("h5ad", "atlas", **complete())


@pytest.fixture
def port(output: Path) -> Iterator[int]:
    """Of the documented server in the folder of `output`."""
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install aiohttp")
    found = BLOCK.search((ROOT / "docs" / "publishing.md").read_text("utf-8"))
    assert found is not None
    with socket.socket() as free:
        free.bind(("localhost", 0))
        number: int = free.getsockname()[1]
    program = found[1].replace("8000", str(number))
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=output.parent, stdout=subprocess.DEVNULL
    ) as server:
        try:
            wait_for(number)
            yield number
        finally:
            server.kill()


def wait_for(port: int) -> None:
    give_up_at = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            socket.create_connection(("localhost", port)).close()
            return
        except OSError:
            assert time.monotonic() < give_up_at, "the server does not start"
            time.sleep(0.05)


def test_the_documented_server_sends_what_the_page_demands(output: Path, port: int) -> None:
    connection = HTTPConnection("localhost", port)
    asked = {"Range": "bytes=0-99", "Origin": "https://viewer.example"}
    connection.request("GET", "/atlas.h5ad", headers=asked)
    answer = connection.getresponse()
    assert answer.status == 206
    assert answer.read() == output.read_bytes()[:100]
    size = output.stat().st_size
    assert answer.headers["Content-Range"] == f"bytes 0-99/{size}"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    exposed = answer.headers["Access-Control-Expose-Headers"].split(", ")
    assert {"Content-Range", "Content-Length", "Accept-Ranges", "ETag"} == set(exposed)
    connection.request("OPTIONS", "/atlas.h5ad", headers={"Origin": "https://viewer.example"})
    answer = connection.getresponse()
    assert answer.status == 204 and answer.headers["Access-Control-Allow-Headers"] == "Range"
    answer.read()
    connection.request("GET", "/nothing", headers=asked)
    answer = connection.getresponse()
    assert answer.status == 404 and answer.headers["Access-Control-Allow-Origin"] == "*"
    connection.close()


def test_a_page_of_another_origin_reads_from_the_documented_server(
    output: Path, port: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    skip_unless_there()
    expected: anndata.AnnData = read(output)
    with (
        serving({"/libraries": LIBRARIES, "/page": PAGES}) as pages,
        page_at(f"{pages.address}/page/page.html", tmp_path_factory.mktemp("chromium")) as page,
    ):
        page.open(f"http://localhost:{port}/atlas.h5ad")
        found = page.ask("embedding", "X_umap")
    np.testing.assert_array_equal(found, np.asarray(expected.obsm["X_umap"], np.float32).ravel())
