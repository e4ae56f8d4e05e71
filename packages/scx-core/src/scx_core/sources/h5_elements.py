"""The annotations of an AnnData in HDF5: everything but its large matrices, read by anndata.

anndata reads each element, old encodings included. Only the layout of versions before 0.7 is
helped along by hand: obs and var were tables of records there, and the labels of categorical
columns lay in `uns` under `<column>_categories`, those of raw in `raw.cat`, the columns holding
nothing but codes.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from scx_core.sources.frames_with_bad_codes import LabelCodesError, element_despite_codes
from scx_core.sources.hdf5 import Dataset, Group, attribute, is_dataset, is_group, where
from scx_core.sources.unreadable import UnknownEncodingError, UnreadableEntry

if TYPE_CHECKING:
    import anndata
    import pandas as pd

ALIGNED = ("obsm", "varm", "obsp", "varp")
CATEGORIES_SUFFIX = "_categories"


def read_element(item: Group | Dataset) -> Any:
    """What anndata makes of one element.

    Raises
    ------
    ValueError
        anndata cannot read it; the message names file and path, and anndata's reason.
    """
    import anndata

    if attribute(item, "encoding-type") == "awkward-array" and find_spec("awkward") is None:
        raise UnknownEncodingError(
            f"{where(item)} is an awkward array, whose package is not installed: "
            "`pip install awkward`"
        )
    with _old_formats_are_no_news():
        try:
            return anndata.io.read_elem(item)
        except Exception as error:
            try:
                despite = element_despite_codes(item, read_element)
            except LabelCodesError as codes:
                raise ValueError(f"{where(item)}: {codes}") from error
            if despite is not None:
                return despite
            reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
            # by name, since anndata has it in no public place
            is_unknown = type(error).__name__ == "IORegistryError"
            kind = UnknownEncodingError if is_unknown else ValueError
            raise kind(f"{where(item)} cannot be read: {reason}") from error


def read_uns(item: Group | Dataset) -> Any:
    """uns, in which an `UnreadableEntry` stands for what anndata does not know how to read."""
    try:
        return read_element(item)
    except UnknownEncodingError as error:
        if is_group(item) and attribute(item, "encoding-type") in (None, "dict"):
            return {name: read_uns(entry) for name, entry in cast("Group", item).items()}
        return UnreadableEntry(error)


def read_frame(item: Group | Dataset) -> pd.DataFrame:
    """obs or var, in any layout that anndata has used.

    Raises
    ------
    ValueError
        It is no table, or cannot be read.
    """
    import pandas as pd

    try:
        frame = _frame_of_records(cast("Dataset", item)) if is_dataset(item) else read_element(item)
    except UnknownEncodingError:
        for column in cast("Group", item).values() if is_group(item) else ():
            read_element(column)  # names the column, where one alone cannot be read
        raise
    if not isinstance(frame, pd.DataFrame):
        raise ValueError(f"{where(item)} holds a {type(frame).__name__} where a table is expected")
    return frame


def read_without_matrices(group: Group, *, without: Collection[str]) -> anndata.AnnData:
    """An AnnData of all elements of `group` but X, the layers, raw and those of `without`."""
    for name in ("obs", "var"):
        if name not in group:
            raise ValueError(f"{where(group)} has no {name!r}, so it is no AnnData")
    parts: dict[str, Any] = {name: read_frame(group[name]) for name in ("obs", "var")}
    for name in (*ALIGNED, "uns"):
        if name in group and name not in without:
            parts[name] = read_uns(group[name]) if name == "uns" else read_element(group[name])
    if is_dataset(group["obs"]) and isinstance(parts.get("uns"), Mapping):
        parts["uns"] = label_old_categoricals([parts["obs"], parts["var"]], parts["uns"])
    return assembled(group, **parts)


def assembled(place: Group | Dataset, **parts: Any) -> anndata.AnnData:
    """An AnnData of `parts`, which are then as anndata itself would have them.

    Raises
    ------
    ValueError
        The parts do not fit together; the message names the file and `place`.
    """
    import anndata

    with _old_formats_are_no_news():
        try:
            return anndata.AnnData(**parts)
        except (ValueError, TypeError, IndexError, KeyError) as error:
            raise ValueError(f"{where(place)} is no sound AnnData: {error}") from error


@contextmanager
def _old_formats_are_no_news() -> Iterator[None]:
    """Without anndata's advice to rewrite old files, which reading them here amounts to."""
    from anndata import OldFormatWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OldFormatWarning)
        yield


def _frame_of_records(dataset: Dataset) -> pd.DataFrame:
    """A table of records as a frame; its first field holds the names."""
    import pandas as pd

    fields = dataset.dtype.names
    if not fields or dataset.shape is None or len(dataset.shape) != 1:
        raise ValueError(f"{where(dataset)} is no table of records")
    records = dataset[()]
    frame = pd.DataFrame({name: _text_decoded(records[name]) for name in fields})
    return frame.set_index(fields[0])


def _text_decoded(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8").astype(object)
    if values.dtype.kind != "O":
        return values
    decoded = np.empty(len(values), object)
    decoded[:] = [item.decode("utf-8") if isinstance(item, bytes) else item for item in values]
    return decoded


def label_old_categoricals(
    frames: Sequence[pd.DataFrame], uns: Mapping[str, Any]
) -> dict[str, Any]:
    """Give columns of codes the labels that `uns` keeps for them; the rest of uns."""
    import pandas as pd

    kept = dict(uns)
    for key in uns:
        column = key.removesuffix(CATEGORIES_SUFFIX)
        if column == key:
            continue
        # a single label was stored as a scalar
        labels = np.atleast_1d(np.asarray(uns[key]))
        for frame in frames:
            if column in frame.columns and _are_codes(frame[column].to_numpy(), len(labels)):
                codes = frame[column].to_numpy()
                frame[column] = pd.Categorical.from_codes(codes, _label_index(labels))
                kept.pop(key, None)
    return kept


def _are_codes(values: npt.NDArray[Any], n_labels: int) -> bool:
    """Whether `values` can be codes of that many labels, -1 standing for a gap."""
    if values.dtype.kind not in "iu":
        return False
    return not len(values) or bool(values.min() >= -1 and values.max() < n_labels)


def _label_index(labels: npt.NDArray[Any]) -> pd.Index:
    import pandas as pd

    index: pd.Index = pd.Index(_text_decoded(labels))
    return index
