"""Ctrl-C ends the three commands with exit code 130 and one line, from their first moment on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

SCRIPT = Path(__file__).parent / "interrupted_program.py"
TIMES = os.environ.get("SCX_INTERRUPTS", "4")
SEED = os.environ.get("SCX_SEED", "1")
COMMANDS = {
    "scx_core": "convert ../in.h5ad out.scx",
    "scx_tokenize": "rank ../in.h5ad out --token-dictionary ../tokens.json"
    " --gene-medians ../medians.json",
    "cellucid_prepare": "../in.h5ad out.h5ad --id one --name One",
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, and sends signals")
@pytest.mark.parametrize("module", COMMANDS)
def test_at_any_moment(tmp_path: Path, module: str) -> None:
    genes = [f"ENSG{number:011d}" for number in range(20)]
    anndata.AnnData(
        sp.random(50, 20, 0.5, format="csr", random_state=0, dtype=np.float32),
        obs=pd.DataFrame(index=[f"c{number}" for number in range(50)]),
        var=pd.DataFrame(index=genes),
        obsm={"X_umap": np.zeros((50, 2), np.float32)},
    ).write_h5ad(tmp_path / "in.h5ad")
    numbers = {"<pad>": 0, "<mask>": 1, "<cls>": 2, "<eos>": 3}
    numbers |= {gene: 4 + place for place, gene in enumerate(genes)}
    (tmp_path / "tokens.json").write_text(json.dumps(numbers), "utf-8")
    (tmp_path / "medians.json").write_text(json.dumps(dict.fromkeys(genes, 1.0)), "utf-8")
    (tmp_path / "here").mkdir()
    print(f"seed {SEED}")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), module, TIMES, SEED, *COMMANDS[module].split()],
        cwd=tmp_path / "here",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
