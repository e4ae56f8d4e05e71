"""How far a data set has come, and how it is carried over to another process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scx_train import _arguments as arguments

VERSION = 3

# Settings that are digests: what to say of them where they differ. "%s" is the argument, which
# is that of one modality where there are several.
DIGESTS = {
    "path": "path names other files here, or they have other content",
    "genes": "the genes that the files have in common are others here",
    "hvg_indices": "%s names other genes here",
    "rows": "rows are others here, or other cells are marked as deleted",
    "weights": "weights are others here",
    "plans": "plans are others here",
    "remap_tables": "remap_tables are others here",
}


def digest(content: bytes) -> str:
    """Tells contents apart."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


@dataclass
class Progress:
    """Where an epoch stands.

    Attributes
    ----------
    epoch
        Its number.
    batch
        How many of its batches were received.
    finished
        Whether its end was reached, so that the next batch is the first of the next epoch.
    """

    epoch: int
    batch: int = 0
    finished: bool = False

    def state(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The state as a dict of numbers and strings, with what must be equal to go on from it."""
        epoch, batch = (self.epoch + 1, 0) if self.finished else (self.epoch, self.batch)
        return {"version": VERSION, "epoch": epoch, "batch": batch, "settings": dict(settings)}


def progress_of(state: Any, settings: Mapping[str, Any], *, batches_max: int) -> Progress:
    """The place that a state stands for.

    Raises
    ------
    TypeError, ValueError
        It is no state, or that of a data set whose batches differ from those of `settings`.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"state is {type(state).__name__}, but the dict of state_dict() is needed")
    missing = [key for key in ("version", "epoch", "batch", "settings") if key not in state]
    if missing:
        raise ValueError(f"state lacks {missing[0]!r}: it is not that of state_dict()")
    if state["version"] != VERSION:
        raise ValueError(
            f"state has version {state['version']!r}, but this scx-train reads version {VERSION}"
        )
    before = state["settings"]
    if not isinstance(before, Mapping):
        raise TypeError(f"state has settings of type {type(before).__name__}, but a dict is needed")
    for key in settings:
        if key in before and before[key] == settings[key]:
            continue
        differs = DIGESTS.get(key.partition("[")[0])
        if differs is not None:
            raise ValueError(
                f"state was saved by another data set: {differs.replace('%s', key)}, so its "
                "batches would not be those that followed"
            )
        workers = " (the workers of its DataLoader)" if key == "num_shards" else ""
        raise ValueError(
            f"state was saved with {key}={before.get(key)!r}{workers}, but this data set has "
            f"{key}={settings[key]!r}: its batches would not be those that followed"
        )
    epoch = arguments.epoch(state["epoch"], "epoch of the state")
    batch = arguments.whole_number(state["batch"], "batch of the state", lowest=0)
    if batch > batches_max:
        raise ValueError(
            f"state is at batch {batch} of epoch {epoch}, but an epoch has {batches_max} batches"
        )
    return Progress(epoch, batch)
