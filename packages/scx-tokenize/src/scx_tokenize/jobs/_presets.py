"""What jobs do unless they are told otherwise, and the conventions of models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, get_args

from scx_core.native.csr_rows import vector

from .. import _arguments as arguments
from .._bins import N_BINS_MAX, N_BINS_MIN, TIES
from .._sample import WEIGHTS
from ._description import (
    BinOptions,
    Framing,
    KernelName,
    Options,
    RankOptions,
    SampleOptions,
    Transform,
)

PresetName = Literal["geneformer-v1", "geneformer-v2", "scgpt", "uce"]

CLS, EOS, PAD = "<cls>", "<eos>", "<pad>"
L_MAX_MAX = 2**20


@dataclass(frozen=True)
class Preset:
    """The conventions of a model.

    Attributes
    ----------
    kernel
        The kernel that it uses.
    options
        Arguments of `run` in place of the kernel's defaults.
    needs
        Arguments that have to be given.
    special
        Special tokens that the vocabulary has to have.
    append_special
        Whether those it lacks get the next numbers.
    takes_counts
        The name of the model, where it takes raw counts.
    """

    kernel: KernelName
    options: Mapping[str, Any]
    needs: tuple[str, ...]
    special: tuple[str, ...] = ()
    append_special: bool = False
    takes_counts: str | None = None


DEFAULTS: dict[KernelName, dict[str, Any]] = {
    "rank": {"l_max": 2048, "target_sum": 1e4, "cls": None, "eos": None, "pad": False},
    "bin": {
        "l_max": 2048,
        "n_bins": 51,
        "tie": "left",
        "seed": 0,
        "edges": None,
        "transform": "pass_through",
        "target_sum": 1e4,
        "include_zero_genes": False,
        "cls": None,
        "eos": None,
        "pad": False,
    },
    "sample": {"n": 1024, "weight": "log1p", "seed": 0, "cls": None, "eos": None, "pad": False},
}

PRESETS: dict[PresetName, Preset] = {
    "geneformer-v1": Preset(
        "rank",
        {"l_max": 2048, "target_sum": 1e4},
        needs=("token_dictionary", "gene_medians"),
        special=(PAD,),
        takes_counts="Geneformer",
    ),
    "geneformer-v2": Preset(
        "rank",
        {"l_max": 4096, "target_sum": 1e4, "cls": CLS, "eos": EOS},
        needs=("token_dictionary", "gene_medians"),
        special=(PAD, CLS, EOS),
        takes_counts="Geneformer",
    ),
    "scgpt": Preset(
        "bin",
        {"l_max": 1200, "n_bins": 51, "tie": "seeded", "cls": CLS},
        needs=("token_dictionary",),
        special=(PAD, CLS),
        append_special=True,
    ),
    "uce": Preset(
        "sample",
        {"n": 1024, "weight": "log1p"},
        needs=(),
        takes_counts="UCE",
    ),
}


@dataclass(frozen=True)
class Method:
    """What is made of each cell, all of it decided.

    Attributes
    ----------
    kernel, options, framing
        As of the job.
    special, append_special
        As of the preset, with the tokens of `framing`.
    takes_counts
        As of the preset.
    given
        The options by name, with the defaults.
    """

    kernel: KernelName
    options: Options
    framing: Framing
    special: tuple[str, ...]
    append_special: bool
    takes_counts: str | None
    given: Mapping[str, Any] = field(default_factory=dict)


def method_of(
    kernel: str, preset: str | None, given: Mapping[str, Any], tables: Mapping[str, Any]
) -> Method:
    """The method that arguments of `run` ask for.

    Parameters
    ----------
    kernel, preset
        By name.
    given
        Options by name; None for the default.
    tables
        `token_dictionary` and `gene_medians`; None where they were not given.

    Raises
    ------
    ValueError
        A name is unknown, an option does not apply or is out of range, or something is missing.
    TypeError
        An option is of the wrong type.
    """
    if kernel not in DEFAULTS:
        raise ValueError(f"kernel={kernel!r} must be one of {_names(DEFAULTS)}")
    name: KernelName = kernel
    chosen = _preset(name, preset)
    values = {**DEFAULTS[name], **(chosen.options if chosen else {})}
    for option, value in given.items():
        if value is None:
            continue
        if option not in values:
            raise ValueError(
                f"{option}={value!r} does not apply to {kernel!r}, whose options are "
                f"{_names(values)}"
            )
        values[option] = value
    needs = chosen.needs if chosen else ("gene_medians",) if name == "rank" else ()
    for table in needs:
        if tables[table] is None:
            who = f"preset {preset!r}" if chosen else f"{kernel!r}"
            raise ValueError(f"{table}: it is needed for {who}, as {_WHAT_TABLES_ARE[table]}")
    if name != "rank" and tables["gene_medians"] is not None:
        raise ValueError(f"gene_medians does not apply to {kernel!r}")
    if not isinstance(values["pad"], bool):
        raise TypeError(f"pad={values['pad']!r} must be True or False")
    framing = Framing(values["cls"], values["eos"], PAD if values["pad"] else None)
    special = [chosen.special if chosen else (), (framing.cls, framing.eos, framing.pad)]
    return Method(
        kernel=name,
        options=_options(name, values, given, framing),
        framing=framing,
        special=tuple(dict.fromkeys(one for group in special for one in group if one is not None)),
        append_special=chosen is not None and chosen.append_special,
        takes_counts=chosen.takes_counts if chosen else None,
        given=values,
    )


_WHAT_TABLES_ARE = {
    "token_dictionary": "a JSON or Parquet file with the number of each gene, or a mapping",
    "gene_medians": "a JSON or Parquet file with the median of each gene, or a mapping",
}


def _preset(kernel: KernelName, name: str | None) -> Preset | None:
    if name is None:
        return None
    if name not in PRESETS:
        raise ValueError(f"preset={name!r} must be one of {_names(PRESETS)}")
    preset = PRESETS[name]
    if preset.kernel != kernel:
        raise ValueError(f"preset {name!r} is of {preset.kernel!r}, not of {kernel!r}")
    return preset


def _options(
    kernel: KernelName, values: Mapping[str, Any], given: Mapping[str, Any], framing: Framing
) -> Options:
    who = kernel
    if kernel == "sample":
        weight = _one_of(values["weight"], "weight", WEIGHTS)
        return SampleOptions(
            n=arguments.whole_number(values["n"], "n", who=who, lowest=1, highest=L_MAX_MAX),
            weight="count" if weight == "linear" else weight,  # one word in the job's identity
            seed=arguments.u64(values["seed"], "seed", who=who),
        )
    lowest = framing.n_around + 1
    l_max = arguments.whole_number(
        values["l_max"], "l_max", who=who, lowest=lowest, highest=L_MAX_MAX
    )
    target_sum = arguments.positive(values["target_sum"], "target_sum", who=who)
    if kernel == "rank":
        return RankOptions(l_max, target_sum)
    if given.get("target_sum") is not None and values["transform"] != "normalize_log1p":
        raise ValueError(
            f"target_sum={values['target_sum']!r} does not apply to "
            f"transform={values['transform']!r}: only 'normalize_log1p' scales values"
        )
    if not isinstance(values["include_zero_genes"], bool):
        raise TypeError(f"include_zero_genes={values['include_zero_genes']!r} must be a boolean")
    n_bins = arguments.whole_number(
        values["n_bins"], "n_bins", who=who, lowest=N_BINS_MIN, highest=N_BINS_MAX
    )
    return BinOptions(
        l_max=l_max,
        n_bins=n_bins,
        tie=_one_of(values["tie"], "tie", TIES),
        seed=arguments.u64(values["seed"], "seed", who=who),
        edges=_edges(values["edges"], n_bins),
        transform=_one_of(values["transform"], "transform", get_args(Transform)),
        target_sum=target_sum,
        include_zero_genes=values["include_zero_genes"],
    )


def _edges(edges: Any, n_bins: int) -> tuple[float, ...] | None:
    if edges is None:
        return None
    numbers = vector(edges, "edges", who="bin")
    if numbers.dtype.kind not in "iuf":
        raise TypeError(f"edges has dtype {numbers.dtype}, but numbers are needed")
    listed = [float(number) for number in numbers]
    ascending = all(one <= two for one, two in pairwise(listed))
    if len(listed) != n_bins - 1 or not ascending or not all(map(math.isfinite, listed)):
        raise ValueError(
            f"edges must be n_bins - 1 = {n_bins - 1} finite numbers that do not descend, but it "
            f"has {len(listed)}: {listed[:5]}..."
        )
    return tuple(listed)


def _one_of(value: Any, argument: str, allowed: Sequence[str] | Mapping[str, Any]) -> Any:
    if value not in tuple(allowed):
        raise ValueError(f"{argument}={value!r} must be one of {_names(allowed)}")
    return value


def _names(names: Sequence[str] | Mapping[Any, Any]) -> str:
    return ", ".join(map(repr, names))
