"""The demonstration: from a count matrix to training batches, a classifier and a picture.

``run_demo.py`` is the command; ``conversion`` makes the .scx, ``labels`` finds something to learn,
``training`` streams and learns, ``classifier`` is the linear model, ``picture`` draws.
"""
