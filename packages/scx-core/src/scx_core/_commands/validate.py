"""`scx validate`: is the file what it was when it was written?"""

from __future__ import annotations

import argparse

from scx_core.experiment import Experiment


def validate(options: argparse.Namespace) -> int:
    """Print what is damaged; 0 when nothing is, 1 otherwise."""
    with Experiment(options.file) as experiment:
        damage = experiment.find_damage(deep=options.deep)
        n_sections = len(experiment.sections())
    for section, message in damage:
        print(f"damaged: {section}: {message}")
    if damage:
        return 1
    depth = "hashes match and every row and table decodes" if options.deep else "hashes match"
    print(f"{options.file}: sound ({n_sections} sections, {depth})")
    return 0
