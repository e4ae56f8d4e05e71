"""tools/dev.py test: what it installs for the tests in a browser, where, and what it says."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from _dev import browser
from checkout import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are shell scripts")

# Each notes its call; apt-get brings Chromium, npm its folder.
APT_GET = """#!/bin/sh
echo "apt-get $*" >> {log}
case "$*" in *install*) for name in chromium chromedriver; do
  printf '#!/bin/sh\\n' > {bin}/$name && /bin/chmod +x {bin}/$name
done;; esac
"""
NPM = """#!/bin/sh
echo "npm $*" >> {log}
/bin/mkdir -p node_modules
"""
FAILING = """#!/bin/sh
echo "the registry says no"
exit 3
"""


KNOWN = ("update", "install", "ci")


class Machine:
    """A machine with just the programs that a test gives it."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.libraries = folder / "libraries"
        self._log = folder / "log"
        self.programs.mkdir()
        self.libraries.mkdir()
        (self.libraries / "package-lock.json").write_text("{}")

    def add(self, name: str, text: str = "#!/bin/sh\n") -> None:
        program = self.programs / name
        text = text.replace("{log}", str(self._log)).replace("{bin}", str(self.programs))
        program.write_text(text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def calls(self) -> list[str]:
        """What was called since the last look: the program and its first plain argument."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        self._log.unlink(missing_ok=True)
        return [
            " ".join([line.split()[0], *(word for word in line.split() if word in KNOWN)])
            for line in lines
        ]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(browser, "LIBRARIES", made.libraries)
    monkeypatch.setenv("PATH", str(made.programs))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return made


def test_ci_installs_everything_and_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", "true")
    machine.add("apt-get", APT_GET)
    machine.add("npm", NPM)
    browser.ensure_browser()
    assert machine.calls() == ["apt-get update", "apt-get install", "npm ci"]
    assert "skipped" not in capsys.readouterr().out
    browser.ensure_browser()
    assert machine.calls() == []
    (machine.libraries / "package-lock.json").write_text("{ }")
    browser.ensure_browser()
    assert machine.calls() == ["npm ci"]


@pytest.mark.parametrize("program", ["apt-get", "npm"])
def test_what_cannot_be_installed_is_told_and_stops_nothing(
    program: str,
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CI", "true")
    machine.add("apt-get", APT_GET)
    machine.add("npm", NPM)
    machine.add(program, FAILING)
    browser.ensure_browser()
    said = capsys.readouterr().out
    assert "will be skipped: installing" in said
    assert "failed with status 3:\nthe registry says no" in said


def test_a_persons_system_stays_as_it_is(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.add("apt-get", APT_GET)
    machine.add("npm", NPM)
    machine.add("chromium")
    browser.ensure_browser()
    assert machine.calls() == ["npm ci"]
    assert capsys.readouterr().out.splitlines()[0] == (
        "the tests in a browser will be skipped: chromedriver not found; on Debian they come with "
        "`apt-get install chromium chromium-driver`"
    )


def test_whoever_is_not_root_in_ci_is_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    machine.add("apt-get", APT_GET)
    browser.ensure_browser()
    assert machine.calls() == []
    lines = capsys.readouterr().out.splitlines()
    assert "chromium and chromedriver not found" in lines[0]
    assert "npm not found" in lines[1]


def test_the_lock_file_names_no_place_and_every_hash() -> None:
    text = (ROOT / "packages/cellucid-prepare/tests/browser/package-lock.json").read_text()
    assert "://" not in text.replace("https://github.com/sponsors/", "")
    assert text.count('"integrity": "sha512-') == text.count('"node_modules/')
