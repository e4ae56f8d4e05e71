"""Readers of other formats, described for the writer as `ExperimentContent`."""
