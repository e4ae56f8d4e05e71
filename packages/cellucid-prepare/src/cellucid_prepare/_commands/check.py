"""`cellucid-prepare check`: is a file as browsers want it?"""

from __future__ import annotations

import argparse
import json


def run_check(options: argparse.Namespace) -> int:
    """Print what is found; 0 when a browser reads the file well, 1 otherwise."""
    from cellucid_prepare._check import check

    report = check(options.file)
    print(json.dumps(report.as_json(), indent=2) if options.json else report)
    return 0 if report.is_ready else 1
