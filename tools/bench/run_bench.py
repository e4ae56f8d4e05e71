"""Run the benchmarks: a table on the terminal, JSON in ``bench-out/``.

python tools/bench/run_bench.py                 all of them
python tools/bench/run_bench.py train --quick   one, with small inputs, to see that it works
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOOLS))

from bench import data, report  # noqa: E402
from bench.harness import Result  # noqa: E402
from bench.machine import describe_checkout, describe_machine  # noqa: E402
from bench.peers.environments import PEERS  # noqa: E402
from bench.setup import Setup  # noqa: E402

BENCHMARKS = (
    "codec", "convert", "train", "pairs", "cellsets", "neighbours", "tokens", "tokenjobs",
    "tasks", "sampling", "growth", "prepare",
)  # fmt: skip
PEER_NAMES = tuple(peer.name for peer in PEERS if peer.name != "nothing")


def main(arguments: list[str] | None = None) -> int:
    """Parse the command, run the benchmarks, print and keep the report."""
    options = _parse(arguments)
    root = TOOLS.parent
    setup = Setup(
        root=root,
        folder=data.prepare_folder(options.data),
        quick=options.quick,
        peers=tuple(options.peers.split(",")) if options.peers else (),
        h5ad=options.h5ad,
    )
    machine, commit = describe_machine(), describe_checkout(root)
    print(report.format_machine(machine, commit), flush=True)
    results: list[Result] = []
    for name in options.names or BENCHMARKS:
        start = time.perf_counter()
        result = importlib.import_module(f"bench.bench_{name}").run(setup)
        results.append(result)
        print(report.format_result(result))
        print(f"   took {time.perf_counter() - start:.0f} s", flush=True)
    settings = {"quick": options.quick, "peers": setup.peers}
    report.write_json(options.json, machine, commit, settings, results)
    print(f"kept in {options.json}")
    if options.docs:
        page = root / "docs" / "performance.md"
        report.update_docs(page, machine, commit, results)
        print(f"figures put into {page}")
    missed = [figure.name for result in results for figure in result.figures if figure.met is False]
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    root = TOOLS.parent
    parser = argparse.ArgumentParser(description="Run the benchmarks.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which of: {', '.join(BENCHMARKS)} (all)"
    )
    parser.add_argument("--quick", action="store_true", help="small inputs, few repeats")
    parser.add_argument(
        "--peers",
        default=",".join(PEER_NAMES),
        help=f"loaders to compare with, by comma (default {','.join(PEER_NAMES)}); empty for none",
    )
    parser.add_argument("--h5ad", type=Path, help="measure on this file instead of a made one")
    parser.add_argument("--data", type=Path, default=root / ".bench-data", help="cache folder")
    parser.add_argument(
        "--json", type=Path, default=root / "bench-out" / "bench.json", help="where to keep figures"
    )
    parser.add_argument(
        "--docs", action="store_true", help="put the figures into docs/performance.md"
    )
    options = parser.parse_args(arguments)
    if options.docs and (options.quick or options.names or options.h5ad):
        parser.error("--docs wants a full run: all benchmarks, not --quick, no --h5ad")
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    for name in filter(None, options.peers.split(",")):
        if name not in PEER_NAMES:
            parser.error(f"no peer {name!r}; there are {', '.join(PEER_NAMES)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
