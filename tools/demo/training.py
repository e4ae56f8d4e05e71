"""Two shuffled epochs of training batches, a classifier that learns from them, and their speed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from demo.classifier import SoftmaxClassifier
from demo.labels import Labels
from demo.stream import Stream

BATCH_SIZE_MAX = 1_024
BATCH_SIZE_MIN = 16
BATCHES_WANTED = 60
HELD_OUT_SHARE = 0.15
HELD_OUT_CELLS_MAX = 4_000
EVALUATIONS_AN_EPOCH = 10
SPREAD_FLOOR = 0.1  # genes that hardly vary are not blown up
SPEED_SECONDS_MIN = 0.5
SPEED_EPOCHS_MAX = 20


FloatArray: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True)
class _Survey:
    """What is known before learning: held-out cells, and how the features of the others lie."""

    features: FloatArray
    classes: npt.NDArray[np.int64]
    centre: FloatArray
    scale: FloatArray


@dataclass
class Training:
    """What happened: the loss of every step, and the accuracy on held-out cells now and then."""

    n_epochs: int
    batch_size: int
    losses: list[float] = field(default_factory=list)
    evaluated_after: list[int] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    epoch_ends: list[int] = field(default_factory=list)
    n_held_out: int = 0
    cells: int = 0
    seconds: float = 0.0
    first_batch_ms: float = 0.0

    @property
    def accuracy(self) -> float:
        """On the held-out cells, after the last step."""
        return self.accuracies[-1]


def train(stream: Stream, labels: Labels, *, n_epochs: int) -> Training:
    """Learn the labels from shuffled batches.

    A fixed random share of the cells is never learnt from: they tell the accuracy.
    """
    n_obs = labels.codes.size
    batch_size = int(np.clip(n_obs // BATCHES_WANTED, BATCH_SIZE_MIN, BATCH_SIZE_MAX))
    held_out = np.random.default_rng(stream.seed).random(n_obs) < HELD_OUT_SHARE
    survey = _survey(stream, labels, held_out)
    training = Training(n_epochs, batch_size, n_held_out=survey.classes.size)
    classifier = SoftmaxClassifier(survey.centre, survey.scale, len(labels.names))
    start = time.perf_counter()
    columns = [] if labels.column is None else [labels.column]
    dataset = stream.dataset(batch_size=batch_size, obs_columns=columns)
    try:
        every = max(1, len(dataset) // EVALUATIONS_AN_EPOCH)
        for _ in range(n_epochs):
            for batch in _timed_first(dataset, training, start):
                usable = ~held_out[batch["cell_indices"]]
                classes = _classes(batch, labels)
                usable &= classes >= 0
                training.cells += usable.size
                if not usable.any():
                    continue
                training.losses.append(classifier.learn(batch["X"][usable], classes[usable]))
                if len(training.losses) % every == 0:
                    _evaluate(training, classifier, survey)
            training.epoch_ends.append(len(training.losses))
        _evaluate(training, classifier, survey)
    finally:
        dataset.close()
    training.seconds = time.perf_counter() - start
    return training


def measure_speed(stream: Stream) -> float:
    """Cells a second of batches alone, over whole epochs of batches of 1,024."""
    dataset = stream.dataset()
    cells = epochs = 0
    try:
        for _ in dataset:  # a first epoch starts the threads and fills the page cache
            pass
        start = time.perf_counter()
        while time.perf_counter() - start < SPEED_SECONDS_MIN and epochs < SPEED_EPOCHS_MAX:
            cells += sum(batch["X"].shape[0] for batch in dataset)
            epochs += 1
        return cells / (time.perf_counter() - start)
    finally:
        dataset.close()


def _survey(stream: Stream, labels: Labels, held_out: npt.NDArray[np.bool_]) -> _Survey:
    """Stream by until enough held-out cells are kept; take the other cells' mean and spread."""
    wanted = held_out & (labels.codes >= 0)
    features: list[FloatArray] = []
    classes: list[npt.NDArray[np.int64]] = []
    sums, squares = np.zeros((2, stream.panel.size))
    n_seen = n_kept = 0
    dataset = stream.dataset()
    try:
        for batch in dataset:
            rows = batch["cell_indices"]
            seen = batch["X"][~held_out[rows]]
            sums += seen.sum(axis=0, dtype=np.float64)
            squares += np.square(seen).sum(axis=0, dtype=np.float64)
            n_seen += len(seen)
            mine = wanted[rows]
            features.append(batch["X"][mine])
            classes.append(labels.codes[rows[mine]])
            n_kept += int(mine.sum())
            if n_kept >= HELD_OUT_CELLS_MAX:
                break
    finally:
        dataset.close()
    if n_kept == 0 or n_seen == 0:
        raise ValueError("too few cells have a label: none could be held out")
    centre = sums / n_seen
    spread = np.sqrt(np.maximum(squares / n_seen - centre**2, 0))
    return _Survey(
        np.concatenate(features)[:HELD_OUT_CELLS_MAX],
        np.concatenate(classes)[:HELD_OUT_CELLS_MAX],
        centre.astype(np.float32),
        (1 / (spread + SPREAD_FLOOR)).astype(np.float32),
    )


def _timed_first(dataset: Any, training: Training, start: float) -> Iterator[Any]:
    for batch in dataset:
        if training.cells == 0:
            training.first_batch_ms = 1e3 * (time.perf_counter() - start)
        yield batch


def _classes(batch: Any, labels: Labels) -> npt.NDArray[np.int64]:
    """The classes of a batch's cells: from its own obs column, or from the clusters."""
    if labels.column is None:
        clusters: npt.NDArray[np.int64] = labels.codes[batch["cell_indices"]]
        return clusters
    codes: npt.NDArray[np.int64] = batch["obs"][labels.column]["codes"].astype(np.int64)
    return codes


def _evaluate(
    training: Training,
    classifier: SoftmaxClassifier,
    survey: _Survey,
) -> None:
    step = len(training.losses)
    if training.evaluated_after[-1:] == [step]:
        return
    training.evaluated_after.append(step)
    training.accuracies.append(classifier.accuracy(survey.features, survey.classes))
