"""From an `ExperimentContent` to a .scx file."""

from scx_core._user_warnings import ScxWarning
from scx_core.writing._progress import Progress, ProgressCallback
from scx_core.writing._write import BLOCK_BYTES, SHARD_SIZE, write_experiment

__all__ = [
    "BLOCK_BYTES",
    "SHARD_SIZE",
    "Progress",
    "ProgressCallback",
    "ScxWarning",
    "write_experiment",
]
