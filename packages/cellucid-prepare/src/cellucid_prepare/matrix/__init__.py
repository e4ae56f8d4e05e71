"""Matrices by gene, and what is computed from embeddings, in native code."""
