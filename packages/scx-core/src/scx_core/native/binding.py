"""The native library: loaded once, and called only through this module.

`call` runs one function of scx.h and turns a failing status into an exception. The functions on
arrays check what C cannot: a pointer crosses only when dtype, layout and writability are right.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from cffi import FFI

from scx_core._errors import Failure, exception_for
from scx_core._paths import local_path
from scx_core.native.locate import locate

CData: TypeAlias = Any
"""A C value or pointer of cffi."""

ABI_VERSION = 1
NO_INDEX = 2**64 - 1

_BEGIN = "/* scx-ffi-begin"
_END = "/* scx-ffi-end"


@dataclass(frozen=True)
class Native:
    """The loaded library."""

    ffi: FFI
    lib: Any
    path: Path


_loaded: Native | None = None
_loading = threading.Lock()


def native() -> Native:
    """The loaded library; the first call loads it.

    Raises
    ------
    ImportError
        When the library is missing, cannot be loaded or belongs to another version.
    """
    global _loaded
    if _loaded is None:
        # one for all threads: C types of two loads do not fit each other
        with _loading:
            if _loaded is None:
                _loaded = load()
    return _loaded


def _forget_loading() -> None:
    """In a forked process: the thread that held the lock is not there to release it."""
    global _loading
    _loading = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loading)


def load() -> Native:
    """Load the library anew; `native` is what everyone uses."""
    paths = locate()
    ffi = FFI()
    ffi.cdef(declarations(paths.header.read_text(encoding="utf-8")))
    try:
        lib = ffi.dlopen(str(paths.library))
        found = int(lib.scx_abi_version())
    except (OSError, AttributeError) as error:
        raise ImportError(f"the native library {paths.library} does not load: {error}") from error
    if found != ABI_VERSION:
        raise ImportError(
            f"the native library {paths.library} has ABI {found}, this scx-core needs "
            f"{ABI_VERSION}: install scx-core again, or unset SCX_LIBRARY"
        )
    _pin(lib)
    return Native(ffi, lib, paths.library)


def _pin(lib: Any) -> None:
    """Keep the library mapped to the end of the process.

    A pointer to a C function does not keep its library. When the interpreter ends, the destructors
    of arrays and handles run in any order, some of them after all of Python's references to the
    library are gone; so one reference is never given back.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(lib))


def declarations(header: str) -> str:
    """The part of scx.h that cffi parses."""
    start = header.index("*/", header.index(_BEGIN)) + 2
    return header[start : header.index(_END)]


def library_version() -> str:
    """Version of the native library."""
    return _text(native().lib.scx_library_version())


def simd_level() -> str:
    """The CPU level whose kernels are used: "v2", "v3", "v4", "neon" or "scalar"."""
    return _text(native().lib.scx_simd_level())


def call(function: str, *arguments: Any, path: str | None = None) -> None:
    """Call a function of scx.h that gives a status; its last argument, the error, is added.

    `path` is the file that the call is about, for the message. The GIL is released meanwhile.

    Raises
    ------
    CorruptFileError
        The file is damaged or cut off.
    ValueError, IndexError, KeyError, OSError, MemoryError, RuntimeError, TimeoutError
        As the status says.
    """
    library = native()
    error = library.ffi.new("scx_error *")
    check(getattr(library.lib, function)(*arguments, error), error, path=path)


def check(status: int, error: CData, *, path: str | None = None) -> None:
    """Raise the exception of a failed call; `error` is the `scx_error` that it filled."""
    if status != 0:
        raise exception_for(_failure(status, error), path)


def _failure(status: int, error: CData) -> Failure:
    section = _text(error.section)
    return Failure(
        status=status,
        message=_text(error.message),
        os_error=int(error.os_error),
        section=section or None,
        shard=_index(int(error.shard)),
        row=_index(int(error.row)),
    )


def _index(value: int) -> int | None:
    return None if value == NO_INDEX else value


def _text(pointer: CData) -> str:
    raw = native().ffi.string(pointer)
    assert isinstance(raw, bytes)
    return raw.decode("utf-8", "replace")


def new_struct(kind: str, /, **fields: Any) -> CData:
    """A struct of scx.h that starts with its size; other fields are zero unless given."""
    ffi = native().ffi
    pointer: CData = ffi.new(f"{kind} *", {"struct_bytes": ffi.sizeof(kind), **fields})
    return pointer


def owned(pointer: CData, close: Callable[[CData], None]) -> CData:
    """A handle that is closed when it is garbage; `ffi.release` closes it earlier."""
    return native().ffi.gc(pointer, close)


def keeping(pointer: CData, held: Any) -> CData:
    """The same pointer, which keeps `held` alive as long as it lives.

    What runs at its end is no Python: a Ctrl-C that comes just then would be raised in there, where
    it is only reported, and what was to be done would be left undone.
    """
    return native().ffi.gc(pointer, functools.partial(operator.is_, held))


def path_bytes(path: str | os.PathLike[str], *, writing: bool = False) -> bytes:
    """A path as the library takes it: the system's own bytes, UTF-8 on Windows."""
    text = local_path(path, writing=writing)
    if "\0" in text:
        raise ValueError(f"path {text!r} contains a NUL character")
    return os.fsencode(text)


def name_bytes(name: str, argument: str) -> bytes:
    """A name that goes into a file."""
    if "\0" in name:
        raise ValueError(f"{argument}={name!r} contains a NUL character")
    try:
        return name.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{argument}={name!r} is not valid Unicode text") from None


def input_array(
    array: npt.NDArray[Any], dtype: npt.DTypeLike, argument: str, *, length: int | None = None
) -> CData:
    """A pointer that C reads `array` through. It keeps the array alive."""
    _check_array(array, np.dtype(dtype), argument, length)
    return native().ffi.from_buffer(_pointer_type(array.dtype), array)


def output_array(
    array: npt.NDArray[Any], dtype: npt.DTypeLike, argument: str, *, length: int | None = None
) -> CData:
    """A pointer that C writes `array` through. It keeps the array alive."""
    _check_array(array, np.dtype(dtype), argument, length)
    if not array.flags.writeable:
        raise ValueError(f"{argument} is read-only; an array that can be written is needed")
    return native().ffi.from_buffer(_pointer_type(array.dtype), array, require_writable=True)


def _check_array(
    array: npt.NDArray[Any], dtype: np.dtype[Any], argument: str, length: int | None
) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{argument} must be a numpy array, not {type(array).__name__}")
    # a dtype of the other byte order is not equal, though its name is
    if array.dtype != dtype:
        raise TypeError(f"{argument} has dtype {array.dtype.str}, expected {dtype.str}")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError(f"{argument} must be C-contiguous and aligned")
    if length is not None and array.size != length:
        raise ValueError(f"{argument} has {array.size} entries, expected {length}")


def _pointer_type(dtype: np.dtype[Any]) -> str:
    kind = _POINTER_TYPES.get((dtype.kind, dtype.itemsize))
    if kind is None:
        raise TypeError(f"no C type stands for dtype {dtype}")
    return kind


_POINTER_TYPES = {
    ("b", 1): "uint8_t[]",
    ("u", 1): "uint8_t[]",
    ("u", 2): "uint16_t[]",
    ("u", 4): "uint32_t[]",
    ("u", 8): "uint64_t[]",
    ("i", 1): "int8_t[]",
    ("i", 2): "int16_t[]",
    ("i", 4): "int32_t[]",
    ("i", 8): "int64_t[]",
    ("f", 2): "uint16_t[]",  # C has no half precision; only void pointers take these
    ("f", 4): "float[]",
    ("f", 8): "double[]",
}
