"""Elements of an HDF5 file written by anndata, and what all groups carry."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from scx_core.export.frames import check_columns, column_remedies, storable_text

if TYPE_CHECKING:
    import h5py

Group: TypeAlias = "h5py.Group"
DatasetOptions: TypeAlias = Mapping[str, Any]


def mark(group: Group, encoding_type: str, encoding_version: str) -> None:
    """Say what a group holds, as readers of AnnData expect it."""
    group.attrs["encoding-type"] = encoding_type
    group.attrs["encoding-version"] = encoding_version


def check_names(kind: str, names: Iterable[str]) -> None:
    """Refuse names of members that HDF5 would take for something else.

    Raises
    ------
    ValueError
        Names the member and says what to do.
    """
    for name in names:
        if name in ("", ".") or "/" in name or "\0" in name:
            raise ValueError(
                f"{kind}[{name!r}] cannot have this name in an HDF5 file, where it would be read "
                "back as something else: rename it"
            )


def check_nested_names(kind: str, mapping: Mapping[str, Any]) -> None:
    """`check_names` for a mapping, and all mappings and frames in it."""
    import pandas as pd

    check_names(kind, mapping)
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            check_nested_names(f"{kind}[{name!r}]", value)
        elif isinstance(value, pd.DataFrame):
            check_columns(f"{kind}[{name!r}]", value)


def write_element(group: Group, key: str, value: Any, options: DatasetOptions) -> None:
    """Write one element by anndata's rules.

    Raises
    ------
    ValueError
        anndata has no way to store it; the message names the element and anndata's reason.
    """
    import anndata
    import pandas as pd

    label = _label(f"{group.name}/{key}")
    if isinstance(value, pd.DataFrame):
        check_columns(label, value)
    with _all_kinds_allowed():
        try:
            anndata.io.write_elem(group, key, storable_text(value, label), dataset_kwargs=options)
        except OSError:
            raise
        except Exception as error:
            raise ValueError(_refusal(label, value, error)) from error


def _label(place: str) -> str:
    """A path in the file as Python names it: "/mod/rna/obs" is mod['rna'].obs."""
    parts = [part for part in place.split("/") if part]
    if parts[:1] == ["mod"] and len(parts) > 2:
        return f"mod[{parts[1]!r}].{_label('/'.join(parts[2:]))}"
    if parts[:1] == ["raw"]:
        return f"raw.{_label('/'.join(parts[1:]))}"
    return parts[0] + "".join(f"[{part!r}]" for part in parts[1:])


def _refusal(label: str, value: Any, error: Exception) -> str:
    """What cannot be stored and why, in anndata's words, and what to do where that is known."""
    import pandas as pd

    reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
    if isinstance(value, pd.DataFrame) and (remedies := column_remedies(value, label)):
        return f"{label} cannot be stored in HDF5 by anndata: {'; '.join(remedies)} ({reason})"
    # the innermost of anndata's notes comes first, and names the member
    note = re.search(
        r"key '(.*?)' of <class .*?> to (/.*)", "\n".join(getattr(error, "__notes__", []))
    )
    if note is not None and not f"/{label}".endswith(f"/{note[1]}"):
        path = note[1] if note[1].startswith("/") else f"{note[2].rstrip('/')}/{note[1]}"
        label = _label(path)
    return f"{label} cannot be stored in HDF5 by anndata: {reason}"


def write_members(
    group: Group,
    key: str,
    loaders: Mapping[str, Callable[[], Any]],
    options: DatasetOptions,
) -> None:
    """Write obsm and the like, one member after another, so that one is in memory at a time."""
    members = group.create_group(key)
    mark(members, "dict", "0.1.0")
    for name, load in loaders.items():
        write_element(members, name, load(), options)


@contextmanager
def _all_kinds_allowed() -> Iterator[None]:
    """Let anndata write what it reads but by default does not write.

    These are nullable strings and, from 0.13 on, slashes in the names of columns ("G1/S").
    """
    import anndata

    wanted = {"allow_write_nullable_strings": True, "disallow_forward_slash_in_h5ad": False}
    known = dir(anndata.settings)
    chosen = {name: value for name, value in wanted.items() if name in known}
    with warnings.catch_warnings(), anndata.settings.override(**chosen):
        # anndata announces to refuse slashes in names; what is written here was read elsewhere
        warnings.filterwarnings("ignore", message=".*slash.*", category=FutureWarning)
        yield
