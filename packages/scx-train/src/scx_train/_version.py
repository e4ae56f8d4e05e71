"""The version of scx-train: always that of the scx-core it goes with."""

__version__ = "0.1.0"
