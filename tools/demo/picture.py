"""The demonstration's picture: what was learnt, and how small the file is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from demo.conversion import Converted
from demo.labels import Labels
from demo.training import Training

INK, SOFT, GRID = "#22313f", "#7f8c8d", "#e5e9ec"
BLUE, GREEN, SAND = "#2b6cb0", "#2f855a", "#c9b48a"


def draw(path: Path, converted: Converted, training: Training, labels: Labels) -> None:
    """Write the picture as PNG: the loss, the accuracy on held-out cells, the file sizes."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    style: dict[Any, Any] = {
        "font.size": 10,
        "axes.edgecolor": SOFT,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(12, 3.9), layout=ConstrainedLayoutEngine(wspace=0.05))
        FigureCanvasAgg(figure)
        loss_axes, accuracy_axes, size_axes = figure.subplots(
            1, 3, gridspec_kw={"width_ratios": [1.25, 1.25, 1]}
        )
        _draw_loss(loss_axes, training)
        _draw_accuracy(accuracy_axes, training, labels)
        _draw_sizes(size_axes, converted)
        figure.savefig(path, dpi=150)


def _draw_loss(axes: Any, training: Training) -> None:
    losses = np.asarray(training.losses)
    steps = np.arange(1, losses.size + 1)
    axes.plot(steps, losses, color=BLUE, alpha=0.25, linewidth=1)
    axes.plot(steps, _smooth(losses), color=BLUE, linewidth=2)
    _mark_epochs(axes, training)
    axes.set(
        title="Loss on training batches", xlabel="step", ylabel="cross-entropy", ylim=(0, None)
    )
    axes.grid(axis="y", color=GRID)


def _draw_accuracy(axes: Any, training: Training, labels: Labels) -> None:
    what = "clusters" if labels.column is None else labels.column
    chance = 100 * labels.largest_share
    axes.plot(
        training.evaluated_after,
        100 * np.asarray(training.accuracies),
        color=GREEN,
        linewidth=2,
        marker="o",
        markersize=3.5,
    )
    axes.axhline(chance, color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
    axes.text(
        training.epoch_ends[-1], chance + 1.5, "largest class", color=SOFT, ha="right", fontsize=8
    )
    _mark_epochs(axes, training)
    axes.set(
        title=f"{training.accuracy:.1%} of held-out cells right",
        xlabel="step",
        ylabel=f"accuracy, {len(labels.names)} classes of {what} (%)",
        ylim=(0, 103),
    )
    axes.grid(axis="y", color=GRID)


def _draw_sizes(axes: Any, converted: Converted) -> None:
    megabytes = [converted.source_bytes / 1e6, converted.scx_bytes / 1e6]
    bars = axes.bar([converted.source_kind, "scx"], megabytes, color=[SAND, BLUE], width=0.6)
    axes.bar_label(bars, [f"{size:,.1f} MB" for size in megabytes], padding=3, color=INK)
    share = converted.scx_bytes / converted.source_bytes
    axes.set(title=f"File size: {share:.0%} of the source", ylim=(0, 1.12 * max(megabytes)))
    axes.tick_params(axis="x", length=0, labelcolor=INK)
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])


def _mark_epochs(axes: Any, training: Training) -> None:
    for end in training.epoch_ends[:-1]:
        axes.axvline(end, color=SOFT, linewidth=0.8, linestyle=(0, (1, 2)))
        axes.text(
            end, 0.03, " epoch 2", color=SOFT, fontsize=8, transform=axes.get_xaxis_transform()
        )
    axes.set_xlim(0, training.epoch_ends[-1])


def _smooth(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A running mean; the edges average what there is."""
    width = max(1, values.size // 25)
    kernel = np.ones(width)
    weights = np.convolve(np.ones(values.size), kernel, mode="same")
    smoothed: npt.NDArray[np.float64] = np.convolve(values, kernel, mode="same") / weights
    return smoothed
