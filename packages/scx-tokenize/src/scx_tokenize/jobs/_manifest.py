"""The record of a job beside its shards, and what makes a run go on with another's."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ._description import Job
from ._files import clear_temporary, is_temporary, write_text
from ._finished import NOTES, shard_entry
from ._shards import ShardRecord

MANIFEST = "manifest.json"
TOKEN_DICTIONARY = "token_dictionary.json"
GENE_MEDIANS = "gene_medians.json"
MANIFEST_VERSION = 1
SHARD_NAME = re.compile(r"tokens-\d+-of-\d+\.parquet")
# what a job may leave in its folder, for who replaces it
OWN_ENTRIES = {MANIFEST, TOKEN_DICTIONARY, GENE_MEDIANS, NOTES, "data", "hf", "turned", ".lock"}


def manifest_of(
    job: Job, arguments: Mapping[str, Any], records: Sequence[ShardRecord] | None
) -> dict[str, Any]:
    """What `manifest.json` holds; `records` is None while the job is not done."""
    import pyarrow as pa

    from scx_core import __version__ as core_version

    from .._version import __version__

    made: dict[str, Any] = {"complete": records is not None}
    if records is not None:
        made["counts"] = {
            "cells": sum(record.n_cells for record in records),
            "tokens": sum(record.n_tokens for record in records),
            "empty_cells": sum(record.n_empty_cells for record in records),
        }
        made["shards"] = [shard_entry(record) for record in records]
    described = job.described()
    return {
        "manifest_version": MANIFEST_VERSION,
        "software": {
            "scx_tokenize": __version__,
            "scx_core": core_version,
            "pyarrow": pa.__version__,
        },
        **made,
        "job_identity": job.identity,
        "arguments": dict(arguments),
        **{name: value for name, value in described.items() if name not in ("inputs", "genes")},
        "special_token_ids": dict(job.vocabulary.special_tokens),
        "inputs": [
            {
                "file_id": number,
                "path": file.path,
                "kind": file.kind,
                "identity": file.identity,
                "draw_identity": file.draw_identity,
                "cells": file.n_cells,
                "genes": file.n_genes,
                "known_genes": file.n_known,
                "merged_genes": file.n_merged,
                "share_known": round(file.share_known, 6),
                "places_identity": places,
            }
            for number, (file, places) in enumerate(zip(job.files, described["genes"], strict=True))
        ],
    }


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest in a folder; None where there is none.

    Raises
    ------
    ValueError
        It is damaged, or of a later version.
    """
    path = folder / MANIFEST
    if not path.exists():
        return None
    try:
        manifest = json.loads(path.read_text("utf-8"))
        version, _ = manifest["manifest_version"], manifest["job_identity"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is no manifest of a token job") from None
    if version != MANIFEST_VERSION:
        raise ValueError(f"{path} is of version {version}, and this one reads {MANIFEST_VERSION}")
    return dict(manifest)


def prepare_folder(job: Job, *, overwrite: bool) -> dict[str, Any] | None:
    """Make the folder of a job ready, or find out that it is another's.

    Returns
    -------
    The manifest of an earlier run of the same job; None where there is none.

    Raises
    ------
    FileExistsError
        It holds something else than a job.
    ValueError
        It holds another job; the message says what differs.
    """
    folder = Path(job.folder)
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; OUT is a folder")
    manifest = read_manifest(folder)
    if manifest is None and folder.exists() and not _is_unused(folder):
        raise FileExistsError(
            f"{folder} is not empty and has no {MANIFEST}: it is no job's, choose another folder"
        )
    if manifest is not None and manifest["job_identity"] != job.identity and not overwrite:
        raise ValueError(
            f"{folder} holds tokens of another job, which are not mixed with these: "
            f"{'; '.join(differences(manifest, manifest_of(job, {}, None)))}. Choose another "
            "folder, or replace it with overwrite=True"
        )
    if manifest is not None and overwrite:
        _clear(folder)
        manifest = None
    for each in (folder, job.data_folder):
        clear_temporary(each)  # of a run that was killed
    return manifest


def _is_unused(folder: Path) -> bool:
    """Whether nothing is in a folder but what a run leaves that ended before its manifest."""
    names = {name for name in os.listdir(folder) if not is_temporary(name)}
    data = folder / "data"
    return names <= {"data"} and (not data.exists() or all(map(is_temporary, os.listdir(data))))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """In which entries two manifests ask for different tokens."""
    left_out = ("arguments", "software", "complete", "counts", "shards", "job_identity")
    left, right = _flat(there, left_out), _flat(here, left_out)
    found = []
    for key in dict.fromkeys([*left, *right]):
        one, two = left.get(key, "nothing"), right.get(key, "nothing")
        if one != two and not key.endswith((".path", ".draw_identity")):
            found.append(f"{key} is {one} there and {two} here")
    return found or ["the order of the inputs"]


def _flat(value: Any, left_out: Sequence[str], prefix: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping):
        items = [(str(key), entry) for key, entry in value.items() if key not in left_out]
    elif isinstance(value, list | tuple):
        items = [(str(number), entry) for number, entry in enumerate(value)]
    else:
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, entry in items:
        flat |= _flat(entry, (), f"{prefix}.{key}" if prefix else key)
    return flat


def write_json(path: Path, value: Any) -> None:
    """Write a file that is there as a whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_vocabulary(job: Job) -> None:
    """Write the vocabulary in the form in which `run` takes it."""
    vocabulary, folder = job.vocabulary, Path(job.folder)
    numbers = dict(zip(vocabulary.names, vocabulary.tokens.tolist(), strict=True))
    write_json(folder / TOKEN_DICTIONARY, {**vocabulary.special_tokens, **numbers})
    if vocabulary.statistics is not None:
        values = dict(zip(vocabulary.names, vocabulary.statistics.tolist(), strict=True))
        write_json(folder / GENE_MEDIANS, values)


def _clear(folder: Path) -> None:
    """Remove what a job has left, the manifest last: until then the job could go on."""
    foreign = set(os.listdir(folder)) - OWN_ENTRIES
    data = folder / "data"
    if data.is_dir():
        foreign |= {f"data/{name}" for name in os.listdir(data) if not SHARD_NAME.fullmatch(name)}
    foreign = {name for name in foreign if not is_temporary(os.path.basename(name))}
    if foreign:
        raise FileExistsError(
            f"{folder} holds {', '.join(sorted(foreign)[:5])} beside the tokens: it is not replaced"
        )
    for name in sorted(set(os.listdir(folder)) - {".lock"}, key=lambda name: name == MANIFEST):
        _remove(folder / name)
