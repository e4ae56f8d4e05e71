"""Starts a command again and again and sends Ctrl-C in between; see `test_interrupts.py`.

``interrupted_program.py MODULE TIMES SEED ARGUMENT...`` runs in a folder of its own. Each start is
a child of a process that has loaded nothing, so that it begins like a new one.
"""

from __future__ import annotations

import os
import random
import runpy
import shutil
import signal
import sys
import time

START = "scx_core._program"  # the first that a program loads; from there on it sees to Ctrl-C
OUTPUT, ERRORS = "stdout.txt", "stderr.txt"
INTERRUPTED = 130
GOING_ON = {"scx_tokenize"}  # keep the shards that are whole, and go on from there


class Imports:
    """Counts the modules that are asked for from the start on; Ctrl-C comes with one of them."""

    def __init__(self, told: int, fatal: int | None) -> None:
        self.told, self.fatal, self.count = told, fatal, -1

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event != "import":
            return
        if arguments[0] == START and self.count < 0:
            self.count = 0
            os.write(self.told, b".")
        elif self.count >= 0:
            self.count += 1
            if self.count == self.fatal:
                signal.raise_signal(signal.SIGINT)


def child(module: str, arguments: list[str], imports: Imports) -> None:
    """Be the program."""
    for path, descriptor in ((OUTPUT, 1), (ERRORS, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
    sys.argv = [module, *arguments]
    sys.addaudithook(imports)
    code: object = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    finally:
        if imports.fatal is None:
            with open("imports.txt", "w", encoding="ascii") as file:
                file.write(str(imports.count))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 99)


def run(
    module: str, arguments: list[str], fatal: int | None = None, after: float | None = None
) -> tuple[int, str, float]:
    """Exit code, what was said on stderr, and the seconds from the start on."""
    reading, writing = os.pipe()
    number = os.fork()
    if number == 0:
        os.close(reading)
        child(module, arguments, Imports(writing, fatal))
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    started = time.monotonic()
    if after is not None:
        time.sleep(after)
        os.kill(number, signal.SIGINT)
    _, status = os.waitpid(number, 0)
    with open(ERRORS, encoding="utf-8") as file:
        said = file.read()
    return os.waitstatus_to_exitcode(status), said, time.monotonic() - started


def clear(name: str) -> None:
    """Remove an output."""
    if os.path.isdir(name):
        shutil.rmtree(name)
    else:
        os.remove(name)


def main(module: str, times: int, seed: int, arguments: list[str]) -> None:
    """Interrupt as often with a module's import as at any moment."""
    before = set(os.listdir())
    code, said, seconds = run(module, arguments)
    assert code == 0, said
    with open("imports.txt", encoding="ascii") as file:
        n_imports = int(file.read())
    made = set(os.listdir()) - before - {OUTPUT, ERRORS, "imports.txt"}
    assert len(made) == 1, made
    (name,) = made
    clear(name)
    chance = random.Random(seed)
    interrupted = 0
    for number in range(2 * times):
        early = chance.random() ** 3  # most of them before the command begins its work
        fatal = 1 + int(early * (n_imports - 1)) if number % 2 else None
        after = None if fatal else 0.8 * early * seconds
        moment = f"import {fatal} of {n_imports}" if fatal else f"{after:.4f} s of {seconds:.4f}"
        code, said, _ = run(module, arguments, fatal, after)
        if code == 0:  # it was quicker this time
            clear(name)
            continue
        interrupted += 1
        lines = said.splitlines()
        good = code == INTERRUPTED and len(lines) == 1 and lines[0].endswith(": interrupted")
        assert good, f"{moment}: {code} {said}"
        if module in GOING_ON and os.path.isdir(name):
            hidden = [one for _, _, files in os.walk(name) for one in files if one[0] == "."]
            assert not hidden, f"{moment}: left {hidden}"
            clear(name)
        left = set(os.listdir()) - before - {"imports.txt"}
        assert left <= {OUTPUT, ERRORS}, f"{moment}: left {left}"
    assert interrupted >= times, f"{interrupted} of {2 * times}"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
