"""The binding: loading, errors, and what is checked before a pointer crosses."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scx_core import _errors
from scx_core._errors import CorruptFileError, Failure, exception_for
from scx_core.native import binding, locate


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **variables},
    )


def test_versions() -> None:
    from scx_core._version import __version__

    assert binding.library_version() == __version__
    assert binding.simd_level() in {"v2", "v3", "v4", "neon", "scalar"}


def test_statuses_are_those_of_the_header() -> None:
    lib = binding.native().lib
    names = (
        *("BAD_ARGUMENT", "OUT_OF_RANGE", "UNSUPPORTED", "TRUNCATED", "CORRUPT", "IO"),
        *("NO_MEMORY", "LIMIT", "CLOSED", "WRONG_PROCESS", "NOT_FOUND", "TIMEOUT"),
        *("EXISTS", "BUSY"),
    )
    for name in names:
        assert getattr(_errors, name) == getattr(lib, f"SCX_{name}"), name
    assert lib.SCX_ABI_VERSION == binding.ABI_VERSION
    assert lib.SCX_NO_INDEX == binding.NO_INDEX


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (_errors.BAD_ARGUMENT, ValueError),
        (_errors.OUT_OF_RANGE, IndexError),
        (_errors.UNSUPPORTED, ValueError),
        (_errors.TRUNCATED, CorruptFileError),
        (_errors.CORRUPT, CorruptFileError),
        (_errors.IO, OSError),
        (_errors.NO_MEMORY, MemoryError),
        (_errors.LIMIT, RuntimeError),
        (_errors.CLOSED, RuntimeError),
        (_errors.WRONG_PROCESS, RuntimeError),
        (_errors.NOT_FOUND, _errors.NameNotFoundError),
        (_errors.TIMEOUT, TimeoutError),
        (_errors.EXISTS, FileExistsError),
        (_errors.BUSY, _errors.FileBusyError),
        (99, RuntimeError),
    ],
)
def test_the_exception_of_each_status(status: int, kind: type[Exception]) -> None:
    error = exception_for(Failure(status, "what happened"), "a.scx")
    assert type(error) is kind
    assert "what happened" in str(error) and "a.scx" in str(error)


def test_errno_picks_the_kind_of_os_error() -> None:
    for number, kind in ((errno.ENOENT, FileNotFoundError), (errno.EACCES, PermissionError)):
        error = exception_for(Failure(_errors.IO, "m", os_error=number), "a.scx")
        assert type(error) is kind
        assert isinstance(error, OSError) and (error.errno, error.filename) == (number, "a.scx")


def test_messages_say_path_and_errno_once() -> None:
    message = "cannot open 'a.scx': no such file or folder (errno 2)"
    error = exception_for(Failure(_errors.IO, message, os_error=errno.ENOENT), "a.scx")
    assert str(error) == "[Errno 2] cannot open: no such file or folder: 'a.scx'"
    empty = Failure(_errors.CORRUPT, "'a.scx' is empty (0 bytes)")
    assert str(exception_for(empty, "a.scx")) == "a.scx: is empty (0 bytes)"
    other = Failure(_errors.BAD_ARGUMENT, "'b.scx' is a folder, not a file")
    assert str(exception_for(other, "a.scx")) == "a.scx: 'b.scx' is a folder, not a file"


def test_a_corrupt_file_error_names_the_place_and_survives_pickling() -> None:
    error = CorruptFileError("bad", path="a.scx", section="X_shard_3", shard=3, row=70)
    assert str(error) == "a.scx, section X_shard_3, shard 3, row 70: bad"
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert str(twin) == str(error)
        assert (twin.path, twin.section, twin.shard, twin.row) == ("a.scx", "X_shard_3", 3, 70)
    assert str(CorruptFileError("bad")) == "bad"
    assert isinstance(error, ValueError)


def test_null_arguments_are_refused_by_every_function() -> None:
    ffi, lib = binding.native().ffi, binding.native().lib
    error = ffi.new("scx_error *")
    checked = 0
    for name in dir(lib):
        if not name.startswith(("scx_file_", "scx_writer_")):
            continue
        function = getattr(lib, name)
        kinds = ffi.typeof(function).args
        arguments = [ffi.NULL if kind.kind == "pointer" else 0 for kind in kinds]
        if name.endswith("_close"):
            function(ffi.NULL)
            continue
        for last in (error, ffi.NULL):
            arguments[-1] = last
            assert function(*arguments) == lib.SCX_BAD_ARGUMENT, name
        assert ffi.string(error.message), name
        checked += 1
    assert checked >= 12


def test_a_struct_of_another_size_is_refused(tmp_path: Path) -> None:
    ffi = binding.native().ffi
    options = binding.new_struct("scx_writer_options", n_obs=1, n_vars=1)
    options.struct_bytes += 8
    out = ffi.new("scx_writer **", ffi.cast("scx_writer *", 1))
    with pytest.raises(ValueError, match="struct_bytes"):
        binding.call("scx_writer_create", str(tmp_path / "a").encode(), options, out)
    assert out[0] == ffi.NULL  # outputs are cleared first
    assert os.listdir(tmp_path) == []


def test_input_arrays() -> None:
    ffi = binding.native().ffi
    for dtype in ("uint8", "uint16", "uint32", "uint64", "int32", "int64", "float32", "float64"):
        array = np.arange(6, dtype=dtype)
        pointer = binding.input_array(array, dtype, "values")
        assert int(ffi.cast("uintptr_t", pointer)) == array.ctypes.data
        assert [pointer[index] for index in range(6)] == list(range(6))
    half = np.arange(3, dtype=np.float16)
    assert ffi.sizeof(binding.input_array(half, np.float16, "values")) == 6
    binding.input_array(np.empty(0, np.int64), np.int64, "rows")
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    binding.input_array(read_only, np.float64, "values", length=3)


def test_arrays_that_must_not_cross() -> None:
    good = np.zeros((4, 4), np.float64)
    cases: list[tuple[object, type[Exception], str]] = [
        (good.astype(np.float32), TypeError, "float32|<f4"),
        (good.astype(">f8"), TypeError, ">f8"),
        (good[:, ::2], ValueError, "contiguous"),
        (good.T[1:], ValueError, "contiguous"),
        ([1.0], TypeError, "list"),
        (np.zeros(33, np.uint8)[1:].view(np.float64), ValueError, "aligned"),
    ]
    for array, kind, message in cases:
        for function in (binding.input_array, binding.output_array):
            with pytest.raises(kind, match=message) as caught:
                function(array, np.float64, "values")  # type: ignore[arg-type]
            assert "values" in str(caught.value)
    good.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        binding.output_array(good, np.float64, "values")
    with pytest.raises(ValueError, match="16 entries, expected 3"):
        binding.input_array(good, np.float64, "values", length=3)


def test_an_output_array_is_written_through() -> None:
    array = np.zeros(3, np.int32)
    binding.output_array(array, np.int32, "out")[1] = 7
    assert array.tolist() == [0, 7, 0]


def test_another_library_is_refused(tmp_path: Path) -> None:
    code = "from scx_core.native.binding import native; native()"
    missing = run(code, SCX_LIBRARY=str(tmp_path / "none.so"))
    assert "ImportError" in missing.stderr and "SCX_LIBRARY" in missing.stderr
    (tmp_path / "junk.so").write_bytes(b"junk")
    junk = run(code, SCX_LIBRARY=str(tmp_path / "junk.so"))
    assert "ImportError" in junk.stderr and "does not load" in junk.stderr


def test_a_library_of_another_abi_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "ABI_VERSION", 2)
    with pytest.raises(ImportError, match="ABI 1, this scx-core needs 2"):
        binding.load()


def test_the_library_is_loaded_on_first_use_only() -> None:
    code = "import sys, scx_core.native.container; print('pycparser' in sys.modules)"
    result = run(code)
    assert result.stdout == "False\n", result.stderr


def test_threads_that_load_at_once_get_the_same_library() -> None:
    code = """
import threading
from scx_core.native import binding
start, found = threading.Barrier(8), set()
def load():
    start.wait()
    found.add(id(binding.native()))
threads = [threading.Thread(target=load) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found))
"""
    assert run(code).stdout == "1\n"


@pytest.mark.parametrize(
    ("platform", "name"),
    [("linux", "libscx.so"), ("darwin", "libscx.dylib"), ("win32", "scx.dll")],
)
def test_library_names(platform: str, name: str) -> None:
    assert locate.library_name(platform) == name
