"""Convert a count matrix, stream shuffled training batches out of it, and learn from them.

python tools/demo/run_demo.py                    realistic counts, made on the spot
python tools/demo/run_demo.py pbmc.h5ad          an AnnData file
python tools/demo/run_demo.py filtered.h5        a 10x HDF5 file
python tools/demo/run_demo.py filtered_matrix/   a folder with matrix.mtx
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOOLS))

import numpy as np  # noqa: E402

import scx_core  # noqa: E402
from demo import labels as labelling  # noqa: E402
from demo.conversion import Converted, convert, make_source  # noqa: E402
from demo.labels import Labels  # noqa: E402
from demo.picture import draw  # noqa: E402
from demo.stream import Stream, choose_stream  # noqa: E402
from demo.training import Training, measure_speed, train  # noqa: E402

N_EPOCHS = 2
CELLS_MIN = 50


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; 1 when the file cannot be used, with the reason on stderr."""
    options = _parse(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            _demonstrate(options)
    except (OSError, ValueError, TypeError, KeyError) as error:
        message = error.args[0] if isinstance(error, KeyError) and error.args else error
        print(f"demo: {message}", file=sys.stderr)
        return 1
    return 0


def _demonstrate(options: argparse.Namespace) -> None:
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    source: Path | None = options.file
    if source is None:
        print(f"Making {options.cells:,} cells x {options.genes:,} genes of realistic counts")
        source = make_source(out, options.cells, options.genes, options.seed)
    elif not source.exists():
        raise FileNotFoundError(f"no such file or folder: {source}")
    full = source.resolve()
    scx = out / f"{full.name if full.is_dir() else full.stem}.scx"
    print(f"Converting {source} to {scx}", flush=True)
    converted = convert(source, scx, genome=options.genome)

    with scx_core.open(scx) as experiment:
        rows = _file_rows(converted, experiment)
        learnable = experiment.n_obs >= CELLS_MIN and experiment.n_vars >= 2 and experiment.nnz > 0
        stream = choose_stream(experiment, scx, options.seed) if learnable else None
        column = labelling.label_column(experiment)
        labels = None if column is None else labelling.column_labels(experiment, column)
    if stream is None:
        print(f"Too little to learn from: that takes {CELLS_MIN} cells, 2 genes and some values")
    else:
        training, labels = _learn(stream, labels)
        rows += _training_rows(training, labels, measure_speed(stream))
        picture = out / f"{scx.stem}.png"
        draw(picture, converted, training, labels)
        rows.append(("picture", str(picture)))
    rows.append(("file", f"{scx} (scx info tells more)"))
    width = max(len(name) for name, _ in rows)
    print()
    print("\n".join(f"{name:<{width}}  {value}" for name, value in rows))


def _learn(stream: Stream, labels: Labels | None) -> tuple[Training, Labels]:
    """Train on the labels, or on clusters where there are none."""
    if not stream.counts:
        print("X holds no counts: its values are streamed as they are, without normalisation")
    if labels is None:
        print("No column of cell labels: learning clusters made with k-means instead")
        labels = labelling.cluster_labels(stream)
    what = "the clusters" if labels.column is None else f"obs column {labels.column!r}"
    print(f"Learning {what} from {N_EPOCHS} shuffled epochs", flush=True)
    return train(stream, labels, n_epochs=N_EPOCHS), labels


def _file_rows(converted: Converted, experiment: scx_core.Experiment) -> list[tuple[str, str]]:
    nnz = experiment.nnz
    shards = [section for section in experiment.sections() if section["type"] == "csr_shard"]
    shard_bytes = sum(shard["length"] for shard in shards)
    shape = f"{experiment.n_obs:,} cells x {experiment.n_vars:,} genes"
    share = converted.scx_bytes / converted.source_bytes
    return [
        ("matrix", f"{shape}, {nnz:,} stored values"),
        (f"{converted.source_kind} size", _size(converted.source_bytes)),
        ("scx size", f"{_size(converted.scx_bytes)} ({share:.0%} of the source)"),
        ("bytes per stored value", f"{shard_bytes / nnz:.2f}" if nnz else "-"),
        ("conversion", f"{converted.seconds:.2f} s, {nnz / converted.seconds:,.0f} values/s"),
    ]


def _training_rows(
    training: Training, labels: Labels, cells_per_second: float
) -> list[tuple[str, str]]:
    return [
        ("first batch", f"{training.first_batch_ms:,.0f} ms"),
        ("batches alone", f"{cells_per_second:,.0f} cells/s"),
        ("with learning", f"{training.cells / training.seconds:,.0f} cells/s"),
        ("loss", f"{np.mean(training.losses[:3]):.2f} -> {np.mean(training.losses[-3:]):.2f}"),
        (
            "accuracy",
            f"{training.accuracy:.1%} of {training.n_held_out:,} held-out cells "
            f"({len(labels.names)} classes, the largest is {labels.largest_share:.1%})",
        ),
    ]


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:,.1f} kB"


def _show_warning(message: Warning | str, *details: object, **more: object) -> None:
    """A warning as one line, without the source line that it came from."""
    print(f"note: {message}", file=sys.stderr)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "file", nargs="?", type=Path, help=".h5ad, 10x .h5 or mtx folder (none: made counts)"
    )
    parser.add_argument("--genome", help="which matrix of a 10x file that has several")
    parser.add_argument("--cells", type=int, default=10_000, help="made cells (default 10000)")
    parser.add_argument("--genes", type=int, default=5_000, help="made genes (default 5000)")
    parser.add_argument("--seed", type=int, default=0, help="of the counts and the order (0)")
    parser.add_argument(
        "--out", type=Path, default=TOOLS.parent / "demo-out", help="folder for what is made"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
