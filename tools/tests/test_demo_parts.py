"""The demo's own arithmetic: the classifier, the clusters, the choice of labels and genes."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import scipy.sparse as sp

from demo import labels, stream
from demo.classifier import SoftmaxClassifier


def test_classifier_learns_what_can_be_learnt() -> None:
    random = np.random.default_rng(0)
    classes = random.integers(0, 3, 900)
    features = random.normal(size=(900, 5)).astype(np.float32)
    features[np.arange(900), classes] += 6
    model = SoftmaxClassifier(features.mean(0), 1 / features.std(0), 3)
    losses = [model.learn(features[i : i + 50], classes[i : i + 50]) for i in range(0, 600, 50)]
    assert abs(losses[0] - np.log(3)) < 1e-5  # nothing known: every class is as likely
    assert losses[-1] < losses[0]
    assert model.accuracy(features[600:], classes[600:]) > 0.95


def test_gradient_is_that_of_the_loss() -> None:
    """Adam's first step moves each weight against the sign of a gradient worked out by hand."""
    features = np.array([[1.0, -2.0]], np.float32)
    model = SoftmaxClassifier(np.zeros(2, np.float32), np.ones(2, np.float32), 2)
    model.learn(features, np.array([1]))
    expected = np.sign([[-0.5, 0.5], [1.0, -1.0]])  # -(features.T @ (probability - truth))
    np.testing.assert_array_equal(np.sign(model._parameters[0]), expected)


def test_kmeans_finds_separate_groups() -> None:
    random = np.random.default_rng(1)
    truth = random.integers(0, 4, 400)
    corners = np.array([[0, 0], [9, 0], [0, 9], [9, 9]])
    points = (corners[truth] + random.normal(size=(400, 2))).astype(np.float32)
    centres = labels._kmeans(points, 4, np.random.default_rng(0))
    found = labels._nearest(points, centres)
    assert all(len(np.unique(found[truth == i])) == 1 for i in range(4))
    assert len(np.unique(found)) == 4


def test_principal_axes_are_the_directions_of_most_variance() -> None:
    random = np.random.default_rng(2)
    cells = random.normal(size=(500, 30)) * np.linspace(1, 5, 30)
    centre, axes = labels._principal_axes(cells.astype(np.float32))
    _, _, expected = np.linalg.svd(cells - cells.mean(axis=0), full_matrices=False)
    assert axes.shape == (30, labels.N_COMPONENTS)
    np.testing.assert_allclose(np.abs(np.sum(expected[:5] * axes.T[:5], axis=1)), 1, atol=1e-4)
    np.testing.assert_allclose(centre, cells.mean(axis=0), atol=1e-5)


def test_label_column() -> None:
    frame = pd.DataFrame(
        {
            "sample": pd.Categorical(["a"] * 4),
            "leiden": pd.Categorical(["0", "1", "0", "1"]),
            "cell_type": pd.Categorical(["T", "B", "T", "B"]),
            "name": ["p", "q", "p", "q"],
        }
    )
    assert labels.label_column(SimpleNamespace(obs=frame)) == "cell_type"
    assert labels.label_column(SimpleNamespace(obs=frame[["sample", "leiden"]])) == "leiden"
    assert labels.label_column(SimpleNamespace(obs=frame[["sample", "name"]])) is None


def test_panel_holds_the_genes_that_vary() -> None:
    counts = sp.random(200, 3000, density=0.05, format="csr", random_state=0)
    counts.data[:] = 1
    loud = np.arange(0, 3000, 2)
    counts = counts.tolil()
    counts[:50, loud[:10]] = 40
    counts = counts.tocsr()
    experiment = SimpleNamespace(n_obs=200, gather_rows=lambda rows: counts[rows])
    chosen = stream.choose_stream(experiment, Path("x.scx"), 0)
    panel = chosen.panel
    assert chosen.counts
    assert panel.dtype == np.uint32
    assert panel.size == stream.PANEL_GENES
    assert np.all(np.diff(panel.astype(int)) > 0)
    assert set(loud[:10]) <= set(panel.tolist())


def test_values_that_are_no_counts_are_streamed_as_they_are() -> None:
    for value in (0.5, -1.0):
        values = sp.csr_matrix(np.array([[1.0, 0.0], [value, 2.0]]))
        experiment = SimpleNamespace(n_obs=2, gather_rows=lambda rows, values=values: values[rows])
        assert not stream.choose_stream(experiment, Path("x.scx"), 0).counts
