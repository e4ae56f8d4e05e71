"""Medians of normalised expression over a corpus."""

from .over_files import medians
from .result import GeneMedians

__all__ = ["GeneMedians", "medians"]
