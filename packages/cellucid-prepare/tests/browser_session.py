"""A page in headless Chromium, driven by selenium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PAGES = Path(__file__).parent / "browser"
LIBRARIES = PAGES / "node_modules"
SCRIPT_SECONDS_MAX = 60

# The first four for any machine, the rest so that nothing but the tests' server is asked.
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-proxy-server",
)

CALL = """
const done = arguments[arguments.length - 1];
const [name, given] = arguments;
window[name](...given).then((result) => done({ result }), (error) => done({ error: `${error}` }));
"""


def skip_unless_there() -> None:
    """Skip the calling test, or fixture, where Chromium or a library is missing."""
    pytest.importorskip("selenium", reason="selenium is not installed: pip install selenium")
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install aiohttp")
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)}: apt-get install chromium chromium-driver")
    if not (LIBRARIES / "zarrita").is_dir():
        pytest.skip("the JavaScript libraries are not installed: run npm ci in tests/browser")


class Page:
    """The test page, open in Chromium."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def open(self, path: str, *, read_ahead: bool = False) -> dict[str, Any]:
        """Read all that opening needs of the output at `path` on the server.

        `read_ahead` is for zips: read them with archive_reader.js.
        """
        opened: dict[str, Any] = self._call("openFile", path, {"readAhead": read_ahead})
        return opened

    def ask(self, method: str, *given: str) -> Any:
        """Call a method of `Cells` (cells.js)."""
        return self._call("ask", method, *given)

    def _call(self, name: str, *given: Any) -> Any:
        answer = self._driver.execute_async_script(CALL, name, list(given))
        assert "error" not in answer, answer["error"]
        return answer["result"]


@contextmanager
def page_at(address: str, folder: Path) -> Iterator[Page]:
    """The page at `address`; `folder` is for what Chromium writes."""
    from selenium import webdriver
    from selenium.webdriver.support.wait import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    service = webdriver.ChromeService(str(shutil.which("chromedriver")))
    driver = webdriver.Chrome(options, service)
    try:
        driver.set_script_timeout(SCRIPT_SECONDS_MAX)
        driver.get(address)
        WebDriverWait(driver, SCRIPT_SECONDS_MAX, poll_frequency=0.05).until(
            lambda found: found.execute_script("return window.isReady === true")
        )
        yield Page(driver)
    finally:
        driver.quit()
