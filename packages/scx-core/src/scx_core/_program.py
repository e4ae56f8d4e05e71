"""A command as a process of its own, which Ctrl-C ends with one line and exit code 130.

Loaded before all other modules of a command, so it loads next to nothing itself.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

TYPE_CHECKING = False  # that of typing would have to be loaded
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 130


class Leave:
    """Handles Ctrl-C where there is nothing to clear up: says so and ends the process.

    An exception instead would be lost wherever Python or an extension swallows it, as both do at
    times while they load modules.
    """

    def __init__(self, program: str) -> None:
        self._message = f"{program}: interrupted\n".encode()

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        try:
            os.write(2, self._message)
        finally:
            os._exit(INTERRUPTED)


def run_process(program: str, module: str) -> int:
    """Load the module of a command and call its `main`; give the exit code.

    Ctrl-C ends the process at once, except while the command works: for then `run_program` lets it
    raise KeyboardInterrupt. Where the process was started to ignore it, it does.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, Leave(program))
    code: int = import_module(module).main()
    if sys.stdout is not None:
        sys.stdout.flush()
    return code
