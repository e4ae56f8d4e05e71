"""Training batches out of .scx files."""

from scx_core._names import no_such_name, public_names
from scx_core._version import require_version
from scx_train._version import __version__

require_version("scx-train", __version__)

from scx_core._genes import GeneMatch  # noqa: E402
from scx_train.cell_sets.batches import CellSetBatch, SparseCellSetBatchIter  # noqa: E402
from scx_train.cell_sets.collate import (  # noqa: E402
    COLLATE_CELLSET_CONTRACT_VERSION,
    collate_cellset_gathered,
)
from scx_train.cell_sets.dataset import SparseCellSetDataset  # noqa: E402
from scx_train.cell_sets.downsample import downsample_counts_csr, downsample_file_identity  # noqa: E402
from scx_train.neighborhoods.builders import (  # noqa: E402
    neighborhood_plans_from_coords,
    neighborhood_plans_from_graph,
)
from scx_train.neighborhoods.set_plans import batch_plans  # noqa: E402
from scx_train.pairs.index_plan_batches import IndexPlanBatchIter  # noqa: E402
from scx_train.pairs.index_plan_dataset import IndexPlanDataset  # noqa: E402
from scx_train.pairs.paired_plans import PairedPlans, paired_plans  # noqa: E402
from scx_train.pairs.pairs import PairBatch  # noqa: E402
from scx_train.streams.batch import Batch, MultimodalBatch  # noqa: E402
from scx_train.streams.multimodal_dataset import MultimodalTrainingDataset  # noqa: E402
from scx_train.streams.split import split  # noqa: E402
from scx_train.streams.training_dataset import TrainingDataset  # noqa: E402

__all__ = [
    "COLLATE_CELLSET_CONTRACT_VERSION",
    "Batch",
    "CellSetBatch",
    "GeneMatch",
    "IndexPlanBatchIter",
    "IndexPlanDataset",
    "MultimodalBatch",
    "MultimodalTrainingDataset",
    "PairBatch",
    "PairedPlans",
    "SparseCellSetBatchIter",
    "SparseCellSetDataset",
    "TrainingDataset",
    "__version__",
    "batch_plans",
    "collate_cellset_gathered",
    "downsample_counts_csr",
    "downsample_file_identity",
    "neighborhood_plans_from_coords",
    "neighborhood_plans_from_graph",
    "paired_plans",
    "split",
]

# what needs other packages is imported by who has them
_SUBMODULES = ("lightning", "torch")
TYPE_CHECKING = False
if not TYPE_CHECKING:  # so that type checkers tell names that there are from others

    def __getattr__(name: str) -> object:
        raise no_such_name(globals(), name, _SUBMODULES)


def __dir__() -> list[str]:
    return public_names(globals(), _SUBMODULES)
