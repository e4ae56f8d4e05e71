"""Elements of an HDF5 file written by anndata, and what all groups carry."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from scx_core.export._plain_text import with_plain_text

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
        if name in ("", ".") or "/" in name:
            raise ValueError(
                f"{kind}[{name!r}] cannot have this name in an HDF5 file, where it would be read "
                "back as something else: rename it"
            )


def check_nested_names(kind: str, mapping: Mapping[str, Any]) -> None:
    """`check_names` for a mapping and all mappings in it."""
    check_names(kind, mapping)
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            check_nested_names(f"{kind}[{name!r}]", value)


def write_element(group: Group, key: str, value: Any, options: DatasetOptions) -> None:
    """Write one element by anndata's rules.

    Raises
    ------
    ValueError
        anndata has no way to store it; the message names the element and anndata's reason.
    """
    import anndata

    with _all_kinds_allowed():
        try:
            anndata.io.write_elem(group, key, with_plain_text(value), dataset_kwargs=options)
        except OSError:
            raise
        except Exception as error:
            place = f"{group.name.rstrip('/')}/{key}"
            reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
            notes = " ".join(getattr(error, "__notes__", []))
            raise ValueError(
                f"{place} cannot be stored in HDF5 by anndata: {reason} {notes}".rstrip()
            ) from error


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
