"""Virtual environments for the loaders that cannot share ours, below ``.venv-bench/``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

INSTALL_SECONDS_MAX = 1200


class PeerUnavailable(Exception):
    """A peer cannot be run on this machine; the message says why."""


@dataclass(frozen=True)
class Peer:
    """A loader to compare with. Without requirements it runs in the benchmark's environment."""

    name: str
    title: str
    requirements: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    environment: str = ""
    """The folder of its environment; by default its name."""


_ANNBATCH = ("annbatch[zarrs]==0.3.1", "zarrs==0.2.3")  # it asks for Python 3.12 or newer

PEERS = (
    Peer("nothing", "does nothing (the harness's own cost)"),
    Peer("memory", "in-memory CSR, random rows"),
    Peer("backed", "backed h5ad, random rows"),
    Peer("annbatch", "annbatch, shuffled epochs", _ANNBATCH, ("3.12", "3.13")),
    Peer(
        "annbatch_fixed",
        "annbatch, one fixed order",
        _ANNBATCH,
        ("3.12", "3.13"),
        environment="annbatch",
    ),
    Peer(
        "scdataset",
        "scDataset, backed h5ad",
        # This torch has a small build for processors alone under Python 3.11.
        ("scDataset==0.3.0", "torch==2.13.0", "anndata==0.12.19"),
        ("3.11",),
    ),
)


def python_of(peer: Peer, root: Path) -> Path:
    """The interpreter that runs the peer; its environment is made the first time.

    Raises PeerUnavailable where there is no fitting Python or the installation fails.
    """
    if not peer.requirements:
        return Path(sys.executable)
    folder = root / (peer.environment or peer.name)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = folder / "installed"
    wanted = "\n".join(peer.requirements)
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    base = _find_python(peer.python)
    print(f"installing {peer.name} into {folder}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    _run([str(base), "-m", "venv", str(folder)], peer)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    _run([*pip, *peer.requirements], peer)
    stamp.write_text(wanted)
    return python


def _find_python(versions: tuple[str, ...]) -> Path:
    if "{}.{}".format(*sys.version_info[:2]) in versions:
        return Path(sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in versions:
        # An interpreter of pyenv first: its stand-ins on the PATH may refuse to run.
        for folder in sorted(pyenv.glob(f"{version}.*"), reverse=True):
            if (folder / "bin/python").exists():
                return folder / "bin/python"
        found = shutil.which(f"python{version}")
        if found:
            return Path(found)
    raise PeerUnavailable(f"no Python {' or '.join(versions)} found")


def _run(command: list[str], peer: Peer) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerUnavailable(f"installing {peer.name}: {error}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PeerUnavailable(f"installing {peer.name} failed: {last}")
