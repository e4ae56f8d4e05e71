"""The tools are scripts, not a package: their folder goes on the import path for their tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
