"""`scx validate`: is the file what it was when it was written?"""

from __future__ import annotations

import argparse

from scx_core._commands.words import printable
from scx_core.experiment import Experiment
from scx_core.experiment._validate import WHOLE_FILE_NAME


def validate(options: argparse.Namespace) -> int:
    """Print what is damaged; 0 when nothing is, 1 otherwise."""
    with Experiment(options.file) as experiment:
        damage = experiment.find_damage(deep=options.deep)
        n_sections = len(experiment.sections())
    # the file's own checksum fails whenever a section is damaged, so it says least
    for section, message in sorted(damage, key=lambda found: found[0] == WHOLE_FILE_NAME):
        print(f"damaged: {printable(section)}: {printable(message)}")
    if damage:
        return 1
    depth = "hashes match and every row and table decodes" if options.deep else "hashes match"
    print(f"{options.file}: sound ({n_sections} sections, {depth})")
    return 0
