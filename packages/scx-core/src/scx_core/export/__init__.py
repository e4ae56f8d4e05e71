"""From an open .scx file to other formats, streamed."""

from scx_core.export.h5ad import export_h5ad
from scx_core.export.h5mu import export_h5mu

__all__ = ["export_h5ad", "export_h5mu"]
