"""`scx info`: what a file holds and what takes its space."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from scx_core._byte_sizes import format_bytes
from scx_core._commands.words import printable
from scx_core._errors import CorruptFileError
from scx_core.experiment import Experiment, MatrixView


def info(options: argparse.Namespace) -> int:
    """Print a description of the file, as text or JSON."""
    with Experiment(options.file) as experiment:
        described = describe(experiment)
    if options.json:
        print(json.dumps(described, indent=2))
    else:
        print("\n".join(in_lines(described)))
    return 0


def describe(experiment: Experiment) -> dict[str, Any]:
    """Everything that `scx info` knows, as JSON values."""
    sections = experiment.sections()
    header = experiment.file.info
    return {
        "path": experiment.path,
        "file_bytes": os.path.getsize(experiment.path),
        "format_version": header.format_version,
        "n_obs": experiment.n_obs,
        "n_deleted": len(experiment.deleted_rows),
        "n_vars": experiment.n_vars,
        "nnz": experiment.nnz,
        "shard_size": header.shard_target_rows,
        "modalities": [
            {
                "name": part.name,
                "n_obs": part.n_obs,
                "n_vars": part.n_vars,
                "nnz": 0 if part.X is None else part.X.nnz,
            }
            for part in experiment.parts()
            if part.name
        ],
        "provenance": _provenance(experiment),
        "matrices": list(_matrices(experiment, sections)),
        "sections": sections,
    }


def _provenance(experiment: Experiment) -> list[dict[str, str | None]]:
    try:
        return experiment.provenance()
    except CorruptFileError:  # nothing else needs it; `scx validate` tells
        return []


def _matrices(experiment: Experiment, sections: Sequence[dict[str, Any]]) -> Iterable[Any]:
    for part in experiment.parts():
        if part.X is not None:
            yield _matrix(part.X, sections, part.name, "csr_shard", None)
        for name, layer in part.layers.items():
            yield _matrix(layer, sections, part.name, "layer_csr_shard", name)
        if part.raw is not None:
            yield _matrix(part.raw.X, sections, part.name, "raw_csr_shard", None)


def _matrix(
    view: MatrixView,
    sections: Sequence[dict[str, Any]],
    modality: str,
    kind: str,
    layer: str | None,
) -> dict[str, Any]:
    from scx_core._section_names import layer_of

    shards = [
        section
        for section in sections
        if section["type"] == kind
        and (section["modality"] or "") == modality
        and (layer is None or layer_of(section["name"], modality) == layer)
    ]
    n_bytes = sum(section["length"] for section in shards)
    n_stored = sum(section["nnz"] or 0 for section in shards)
    return {
        "name": view.name,
        "shape": list(view.shape),
        "dtype": str(view.dtype),
        "form": view.form,
        "codec": view.codec,
        "shards": len(shards),
        "nnz": view.nnz,
        "bytes": n_bytes,
        "bits_per_value": round(8 * n_bytes / n_stored, 2) if n_stored else None,
    }


def in_lines(described: dict[str, Any]) -> list[str]:
    """The description for people."""
    lines = [
        f"{described['path']}: {described['n_obs']} x {described['n_vars']}, "
        f"{format_bytes(described['file_bytes'])}, format {described['format_version']}, "
        f"{described['shard_size']} rows a shard"
    ]
    if described["n_deleted"]:
        lines[0] += f", {described['n_deleted']} deleted rows left out"
    if described["modalities"]:
        lines += ["", *_table(["modality", "cells", "genes", "values"], described["modalities"])]
    matrices = [
        {
            "matrix": matrix["name"],
            "shape": " x ".join(map(str, matrix["shape"])),
            "dtype": matrix["dtype"],
            "codec": matrix["codec"],
            "shards": matrix["shards"],
            "values": matrix["nnz"],
            "size": format_bytes(matrix["bytes"]),
            "bits a value": matrix["bits_per_value"] or "-",
        }
        for matrix in described["matrices"]
    ]
    if matrices:
        lines += ["", *_table(list(matrices[0]), matrices)]
    others = [
        {
            "section": section["name"],
            "type": section["type"],
            "modality": section["modality"] or "-",
            "size": format_bytes(section["length"]),
        }
        for section in described["sections"]
        if section["codec"] is None
    ]
    if not described["modalities"]:
        others = [{key: row[key] for key in row if key != "modality"} for row in others]
    if others:
        lines += ["", *_table(list(others[0]), others)]
    steps = [
        {
            key: value
            for key, value in step.items()
            if any(one[key] for one in described["provenance"])
        }
        for step in described["provenance"]
    ]
    if steps:
        lines += ["", *_table(list(steps[0]), steps)]
    return lines


def _table(titles: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[str]:
    """Columns as wide as their widest entry; numbers to the right."""
    cells = [[printable(str(value)) for value in row.values()] for row in rows]
    widths = [
        max(len(title), *(len(row[column]) for row in cells)) for column, title in enumerate(titles)
    ]
    to_the_right = [
        all(isinstance(list(row.values())[column], int | float) for row in rows)
        for column in range(len(titles))
    ]

    def line(entries: Sequence[str]) -> str:
        return "  ".join(
            entry.rjust(width) if right else entry.ljust(width)
            for entry, width, right in zip(entries, widths, to_the_right, strict=True)
        ).rstrip()

    return [line(titles), *map(line, cells)]
