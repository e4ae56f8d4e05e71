"""Start a loader's worker and talk to it, a JSON line each way."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
from pathlib import Path
from typing import Any

from bench.peers.environments import PeerUnavailable
from scx_core._closing import Closing

WORKER = Path(__file__).with_name("worker.py")


class Worker(Closing):
    """A running loader. Use it as a context manager, so that its process ends.

    Parameters
    ----------
    name
        Of the loader: ``loader_NAME.py``.
    python
        The interpreter that has the loader's packages.
    log
        Receives what the loader's libraries print.
    answer_seconds_max
        A worker that takes longer for one answer is given up (TimeoutError).
    """

    def __init__(
        self, name: str, python: Path, log: Path, *, answer_seconds_max: float = 900.0
    ) -> None:
        self.name = name
        self._log_path = log
        self._answer_seconds_max = answer_seconds_max
        self._log = log.open("ab")
        # The benchmark's own modules must not be found by a worker: only what its packages offer.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [str(python), str(WORKER), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
        )
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout is not None
        self._selector.register(self._process.stdout, selectors.EVENT_READ)

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises PeerUnavailable when the loader fails or dies, TimeoutError when it takes too long.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **request}).encode() + b"\n")
            self._process.stdin.flush()
            if not self._selector.select(self._answer_seconds_max):
                raise TimeoutError(f"{self.name} did not answer to {do!r} in time")
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise PeerUnavailable(f"{self.name} died at {do!r}; see {self._log_path}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            self._log.write(answer["error"].encode())
            self._log.flush()
            last = answer["error"].strip().splitlines()[-1]
            raise PeerUnavailable(f"{self.name} failed at {do!r}: {last} (see {self._log_path})")
        return answer

    def close(self) -> None:
        """End the worker's process: asked first, killed if it does not go."""
        if self._process.poll() is None and self._process.stdin is not None:
            try:
                self._process.stdin.write(b'{"do": "close"}\n')
                self._process.stdin.close()
                self._process.wait(5.0)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                self._process.kill()
                self._process.wait()
        self._selector.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()
