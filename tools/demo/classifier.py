"""A linear softmax classifier in numpy: enough to see that batches teach something."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

LEARNING_RATE = 0.002
WEIGHT_DECAY = 1e-3


class SoftmaxClassifier:
    """Multinomial logistic regression, fitted batch by batch with Adam.

    `centre` and `scale` ([features]) are taken off every feature, and multiplied with it.
    """

    def __init__(self, centre: FloatArray, scale: FloatArray, n_classes: int) -> None:
        self._centre, self._scale = centre, scale
        self._parameters = [
            np.zeros((centre.size, n_classes), np.float32),
            np.zeros(n_classes, np.float32),
        ]
        self._means = [np.zeros_like(p) for p in self._parameters]
        self._squares = [np.zeros_like(p) for p in self._parameters]
        self._steps = 0

    def learn(self, features: FloatArray, labels: IntArray) -> float:
        """One step on a batch, [cells, features] and [cells]; the mean loss before it, in nats."""
        scaled = self._standardise(features)
        probabilities = _softmax(self._scores(scaled))
        cells = np.arange(labels.size)
        loss = -np.log(np.maximum(probabilities[cells, labels], 1e-12)).mean()
        probabilities[cells, labels] -= 1
        probabilities /= labels.size
        weights = self._parameters[0]
        self._adam([scaled.T @ probabilities + WEIGHT_DECAY * weights, probabilities.sum(axis=0)])
        return float(loss)

    def predict(self, features: FloatArray) -> IntArray:
        """The likeliest class of each cell."""
        chosen: IntArray = np.argmax(self._scores(self._standardise(features)), axis=1)
        return chosen

    def accuracy(self, features: FloatArray, labels: IntArray) -> float:
        """Share of cells whose class is predicted."""
        return float(np.mean(self.predict(features) == labels))

    def _standardise(self, features: FloatArray) -> FloatArray:
        return (features - self._centre) * self._scale

    def _scores(self, scaled: FloatArray) -> FloatArray:
        weights, bias = self._parameters
        return scaled @ weights + bias

    def _adam(self, gradients: list[Any]) -> None:
        self._steps += 1
        rate = LEARNING_RATE * np.sqrt(1 - 0.999**self._steps) / (1 - 0.9**self._steps)
        for i, gradient in enumerate(gradients):
            self._means[i] += 0.1 * (gradient - self._means[i])
            self._squares[i] += 0.001 * (gradient**2 - self._squares[i])
            step = rate * self._means[i] / (np.sqrt(self._squares[i]) + 1e-8)
            self._parameters[i] -= step.astype(np.float32)


def _softmax(scores: FloatArray) -> FloatArray:
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    sums = exponentials.sum(axis=1, keepdims=True)
    normalised: FloatArray = (exponentials / sums).astype(np.float32, copy=False)
    return normalised
