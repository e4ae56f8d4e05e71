"""The version of what the kernels compute."""

from typing import Final

CONTRACT_VERSION: Final = 1
"""The version of what the kernels compute, of the parameters that they need, and of how draws
follow from seeds: assert it where a model is set up."""
