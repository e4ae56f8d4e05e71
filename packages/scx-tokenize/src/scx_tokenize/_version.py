"""The version of scx-tokenize: always that of the scx-core it goes with."""

__version__ = "0.1.0"
