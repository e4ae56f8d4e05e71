"""Damage in a row comes out at its batch, with the place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import scx_core
from scx_train import TrainingDataset

MakeFile = Callable[..., Path]


def damage_shard(path: Path, name: str) -> None:
    with scx_core.open(path) as experiment:
        (section,) = [part for part in experiment.sections() if part["name"] == name]
    data = bytearray(path.read_bytes())
    middle = section["offset"] + section["length"] // 2
    data[middle] ^= 0xFF
    path.write_bytes(data)


def test_a_damaged_row_names_its_place_and_ends_the_epoch(make_file: MakeFile) -> None:
    path = make_file(101, 200)
    damage_shard(path, "X_shard_7")
    with TrainingDataset(path, 8) as dataset:
        for _ in range(2):
            iterator = iter(dataset)
            with pytest.raises(scx_core.CorruptFileError) as caught:
                list(iterator)
            assert caught.value.path == str(path)
            assert caught.value.section is not None and "X_shard_7" in caught.value.section
            assert caught.value.shard == 7
            assert caught.value.row is None or 70 <= caught.value.row < 80
            assert list(iterator) == []
