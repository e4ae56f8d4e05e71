"""`scx convert` of many files into a folder, one after the other or in several processes."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scx_core._commands import UsageError
from scx_core._commands.convert import EXPORTS, SCX, Conversion, planned, run, summary
from scx_core._commands.words import in_words, with_options
from scx_core._paths import input_paths, refuse_repeats
from scx_core.sources.detect import MATRIX_SUFFIXES, source_kind
from scx_core.writing._progress import row_progress

FOLDER_SUFFIXES = tuple(suffix for suffix in MATRIX_SUFFIXES if suffix != SCX)

# set in a worker: whether those who wait for it have given up
_given_up: Any = None


@dataclass
class Outcome:
    """What became of one conversion."""

    conversion: Conversion
    warnings: list[str] = field(default_factory=list)
    error: str | None = None


def convert_many(options: argparse.Namespace, folder: Path) -> int:
    """Make a file in `folder` of each input; give the exit code, 1 where one failed.

    What can be told before is: inputs that are not there, names that collide, files that exist,
    options that do not apply. Whatever goes wrong with one file then does not keep back the others.
    """
    if folder.suffix.lower() in (*EXPORTS, SCX) and not folder.is_dir():
        raise UsageError(f"OUT is {folder}: of several inputs, write to a folder")
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; several inputs go into a folder")
    wanted = SCX if options.to is None else f".{options.to}"
    paths = input_paths(
        options.sources,
        suffixes=FOLDER_SUFFIXES if wanted == SCX else (SCX,),
        argument="IN",
        is_input=_is_input if wanted == SCX else os.path.isfile,
    )
    refuse_repeats(paths, "IN")
    targets = [folder / f"{_stem(Path(path))}{wanted}" for path in paths]
    _check_targets(paths, targets, overwrite=options.overwrite)
    workers = min(options.workers or 1, len(paths))
    conversions, failed = _planned(options, paths, targets, workers)
    created = not folder.exists()
    folder.mkdir(exist_ok=True)
    try:
        for outcome in _outcomes(conversions, workers, quiet=options.quiet):
            name = outcome.conversion.source
            for text in outcome.warnings:
                _say(f"warning: {name}: {with_options(text)}")
            if outcome.error is not None:
                failed.append((name, outcome.error))
            elif not options.quiet:
                print(summary(outcome.conversion.target))
    finally:
        if created and not any(folder.iterdir()):
            folder.rmdir()
    if failed:
        _say(f"error: {len(failed)} of {len(paths)} inputs were not converted:")
        for path, text in failed:
            print(f"  {text if str(path) in text else f'{path}: {text}'}", file=sys.stderr)
    return 1 if failed else 0


def _is_input(path: Path) -> bool:
    return path.is_file() or (path.is_dir() and source_kind(path) == "mtx_folder")


def _stem(path: Path) -> str:
    name = Path(os.path.abspath(path)).name
    for suffix in (*MATRIX_SUFFIXES, ".mtx.gz"):
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


def _check_targets(paths: Sequence[str], targets: Sequence[Path], *, overwrite: bool) -> None:
    sources: dict[str, str] = {}
    for path, target in zip(paths, targets, strict=True):
        key = target.name.casefold()  # as not every file system tells capitals from small letters
        if key in sources:
            raise ValueError(
                f"{sources[key]} and {path} would both become {target}: convert them one by one, "
                "each to a name of its own"
            )
        sources[key] = path
        if target.exists() and not overwrite:
            raise FileExistsError(f"{target} exists: pass overwrite=True to replace it")


def _planned(
    options: argparse.Namespace, paths: Sequence[str], targets: Sequence[Path], workers: int
) -> tuple[list[Conversion], list[tuple[Path, str]]]:
    """The conversions, and the inputs that are of no kind that can be converted."""
    conversions: list[Conversion] = []
    failed: list[tuple[Path, str]] = []
    for path, target in zip(paths, targets, strict=True):
        try:
            one = planned(options, Path(path), target)
        except (ValueError, OSError) as error:
            failed.append((Path(path), in_words(error)))
            continue
        shared = {"memory_budget": max(1, options.memory_budget // workers)}
        if workers > 1 and options.threads is None and target.suffix == SCX:
            shared["threads"] = max(1, (os.cpu_count() or 1) // workers)
        conversions.append(replace(one, options={**one.options, **shared}))
    return conversions, failed


def _outcomes(conversions: Sequence[Conversion], workers: int, *, quiet: bool) -> Iterator[Outcome]:
    progress = False if quiet else None
    with row_progress(progress, len(conversions), unit="files") as done:
        if workers == 1:
            for one in conversions:
                yield _outcome(one)
                done(1)
            return
        with _workers(workers) as pool:
            waiting = [pool.submit(_outcome, one) for one in conversions]
            for future in as_completed(waiting):
                yield future.result()
                done(1)


@contextmanager
def _workers(n: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that are told to stop, and waited for, when the block fails."""
    context = multiprocessing.get_context("spawn")
    given_up = context.Event()
    with ProcessPoolExecutor(n, context, initializer=_begin, initargs=(given_up,)) as pool:
        try:
            yield pool
        except BaseException:
            given_up.set()
            pool.shutdown(cancel_futures=True)
            raise


def _begin(given_up: Any) -> None:
    global _given_up
    _given_up = given_up


def _outcome(conversion: Conversion) -> Outcome:
    """Convert one file; errors and warnings become words."""
    outcome = Outcome(conversion)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            run(conversion, progress=_go_on)
        except Exception as error:
            outcome.error = in_words(error)
    told = [each for each in caught if issubclass(each.category, UserWarning)]
    outcome.warnings = [str(each.message) for each in told]
    return outcome


def _go_on(_done: int, _all: int) -> None:
    if _given_up is not None and _given_up.is_set():
        raise KeyboardInterrupt


def _say(text: str) -> None:
    print(f"scx: {text}", file=sys.stderr)
