"""The command line of tools/dev.py, made from the jobs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .environment import ROOT, Environment, SetupError
from .jobs import JOBS


def main(arguments: list[str]) -> int:
    """Set up the environment, run the job, and return its exit status."""
    # What follows the job's name is the job's own, even where it looks like an option; only a help
    # option right behind the name is for us, and "--" hides it: `bench -- --help`.
    own, job_arguments = _split(arguments)
    parser = _parser()
    chosen = parser.parse_args(own)
    job = JOBS[chosen.job]
    if job_arguments and not job.arguments:
        parser.error(f"{job.name} takes no arguments, got: {' '.join(job_arguments)}")
    environment = Environment(chosen.venv.resolve())
    try:
        environment.ensure(job.groups)
        return job.run(environment, job_arguments)
    except SetupError as error:
        print(f"dev.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    for i, argument in enumerate(arguments):
        if argument in JOBS:
            end = i + 1
            if arguments[end : end + 1] in (["-h"], ["--help"]):
                return arguments[: end + 1], []
            if arguments[end : end + 1] == ["--"]:
                return arguments[:end], arguments[end + 1 :]
            return arguments[:end], arguments[end:]
    return arguments, []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python tools/dev.py",
        description="Jobs of the project's development. Each does the whole set-up by itself.",
    )
    parser.add_argument(
        "--venv",
        type=Path,
        default=ROOT / ".venv",
        help="the virtual environment to make or use (default: .venv in the checkout)",
    )
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    for job in JOBS.values():
        jobs.add_parser(
            job.name,
            help=job.summary,
            description=job.help,
            usage=f"{parser.prog} {job.name} {job.arguments}".rstrip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    return parser
