"""The native library as Python sees it: files, matrices, pipelines, behind its C interface."""
