"""The native fuzzer, for 20 seconds; SCX_FUZZ_SECONDS makes it longer."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from checkout import ROOT

SECONDS = int(os.environ.get("SCX_FUZZ_SECONDS", "20"))


@pytest.mark.timeout(SECONDS + 600)
def test_damaged_files_never_crash_the_reader():
    command = [sys.executable, "-m", "ziglang", "build", "fuzz", f"-Dfuzz-seconds={SECONDS}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "rows decoded" in result.stdout + result.stderr
