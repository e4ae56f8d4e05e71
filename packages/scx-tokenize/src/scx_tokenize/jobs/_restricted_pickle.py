"""Dicts of texts and numbers out of pickles, and nothing else."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

# What pickles of such dicts name. None of it runs code of the file's choice: a dtype and a scalar
# are made of bytes, and of a dtype with objects no scalar is made.
ALLOWED = {
    ("builtins", "dict"),
    ("collections", "OrderedDict"),
    ("numpy", "dtype"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy.core.multiarray", "scalar"),
}
RENAMED = {"numpy.core.multiarray": "numpy._core.multiarray"}
ENCODERS = {("_codecs", "encode")}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in ENCODERS:
            return _latin1
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, and only dicts, texts and numbers are read"
            )
        if name == "scalar":
            return _scalar
        return super().find_class(RENAMED.get(module, module), name)


def load_pickle(path: Path) -> Any:
    """The dict in a pickle; ValueError when it asks for anything else than texts and numbers."""
    with path.open("rb") as file:
        try:
            return _Unpickler(file).load()
        except Exception as error:  # a pickle can fail in any way
            reason = str(error) or type(error).__name__
            raise ValueError(f"{path} cannot be read as a pickled dict: {reason}") from None


def _latin1(text: Any, encoding: Any) -> bytes:
    """Bytes, which old protocols write as text."""
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError("it encodes something else than bytes")
    return text.encode("latin1")


def _scalar(dtype: Any, data: Any = b"") -> Any:
    """A number of numpy as Python's."""
    import numpy as np

    if not isinstance(dtype, np.dtype) or dtype.kind not in "biuf" or not isinstance(data, bytes):
        raise pickle.UnpicklingError("it holds a scalar of numpy that is no number")
    return np.frombuffer(data, dtype=dtype, count=1)[0].item()
