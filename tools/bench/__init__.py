"""Benchmarks: this project's figures, beside those of the loaders that people use today.

``run_bench.py`` is the command. A benchmark module has ``run(setup) -> Result``; ``harness``
measures and compares, ``peers`` holds one worker program for every loader.
"""
