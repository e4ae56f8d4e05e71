"""Other loaders, each in a process (and where needed an environment) of its own.

``environments`` builds the environments, ``client`` starts a worker and talks to it, ``worker`` is
the program in the other process, and ``loader_*.py`` are the loaders. ``worker`` and the loaders
run under the Python of their environment, so they import nothing of this project but the package
that they measure.
"""
