"""Open .scx files, in the words of AnnData."""

from scx_core.experiment._experiment import Experiment, open
from scx_core.experiment._matrix_view import MatrixView
from scx_core.experiment._modality import Modality
from scx_core.experiment._raw import RawView

__all__ = ["Experiment", "MatrixView", "Modality", "RawView", "open"]
