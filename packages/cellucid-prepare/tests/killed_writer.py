"""A process that writes outputs in children of its own and kills them; see `test_killed.py`.

Started once, so that the libraries are loaded once: ``killed_writer.py FORMAT MOMENTS SEED``.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

import cellucid_prepare
from scx_core import _temporary

N_CELLS = 3000


def arguments(name: str) -> dict[str, Any]:
    """An input that depends on the name alone."""
    matrix = sp.random(N_CELLS, 200, 0.3, format="csr", random_state=len(name), dtype=np.float32)
    return {
        "embeddings": {"X_umap": np.zeros((N_CELLS, 2))},
        "gene_expression": matrix,
        "var": pd.DataFrame(index=[f"g{number}" for number in range(200)]),
        "dataset_id": name,
        "dataset_name": name,
        "progress": False,
        "threads": 2,
        "overwrite": True,
    }


def digest(path: Path) -> str:
    """Of a file, or of all files in a folder."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    content = b"".join(f.name.encode() + f.read_bytes() for f in files if f.is_file())
    return hashlib.sha256(content).hexdigest()


def in_child(work: Any, kill_after: float | None) -> bool:
    """Run `work` in a child; whether it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFEXITED(status)


def left_overs() -> list[Path]:
    """Hidden files beside the output."""
    return sorted(Path().glob(".out.*"))


def main(format: str, moments: int, seed: int) -> None:
    target = Path(f"out.{format}")

    def write(name: str) -> None:
        cellucid_prepare.prepare(target, format=format, **arguments(name))  # type: ignore[arg-type]

    write("another")
    new = digest(target)
    started = time.monotonic()
    write("old")
    length = time.monotonic() - started
    old = digest(target)
    chance = random.Random(seed)
    counts = {"old": 0, "new": 0, "none": 0}
    for _ in range(moments):
        in_child(lambda: write("another"), chance.uniform(0, 1.2 * length))
        if target.exists():
            found = digest(target)
            assert found in (old, new), "neither the old output nor the new one"
            counts["old" if found == old else "new"] += 1
        else:
            (aside,) = [path for path in left_overs() if path.suffix == ".previous"]
            assert digest(aside) == old, "the old output is damaged"
            counts["none"] += 1
        write("old")
        assert digest(target) == old and not left_overs(), left_overs()
    killed_between_the_renames(target, write, old)
    print(counts)


def killed_between_the_renames(target: Path, write: Any, old: str) -> None:
    """The old folder has been moved aside, and the new one is not yet in its place."""
    if not target.is_dir():
        return

    def die_in_the_middle() -> None:
        replace = os.replace

        def dying(source: Any, goal: Any) -> None:
            replace(source, goal)
            if str(goal).endswith(".previous"):
                os.kill(os.getpid(), signal.SIGKILL)

        _temporary.os.replace = dying  # type: ignore[assignment]
        write("another")

    assert not in_child(die_in_the_middle, None)
    assert not target.exists() and len(left_overs()) == 2
    said = ""
    try:
        options = arguments("another") | {"overwrite": False}
        cellucid_prepare.prepare(target, format="zarr", **options)
    except FileExistsError as error:
        said = str(error)
    assert "moved aside" in said, "what was moved aside was forgotten"
    # the checks fail: the next run brings the old output back and then leaves it alone
    assert len(left_overs()) == 2
    with _temporary.beside(target.absolute()):
        assert digest(target) == old and not left_overs()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
