"""The metadata of a file (obs, var, obsm, varm, obsp, varp, uns) as bytes and back.

Nothing here knows of files: functions turn objects into the bytes of Arrow IPC files, or of JSON
for uns, and such bytes back into equal objects. pandas, pyarrow and scipy are imported when a
function first needs them.

Encoders raise `TypeError` or `ValueError` for what has no place in a file, naming it and a remedy.
Decoders take bytes from anywhere and raise `ValueError` for all that is wrong with them.
"""

from ._shards import merge_frame_shards
from .columns import CategoricalColumn, Column, column_names, read_column, read_index
from .embeddings import decode_embedding, encode_embedding
from .frames import decode_frame, decode_frame_shards, encode_frame
from .pairwise import decode_pairwise, encode_pairwise
from .uns import decode_uns, encode_uns

__all__ = [
    "CategoricalColumn",
    "Column",
    "column_names",
    "decode_embedding",
    "decode_frame",
    "decode_frame_shards",
    "decode_pairwise",
    "decode_uns",
    "encode_embedding",
    "encode_frame",
    "encode_pairwise",
    "encode_uns",
    "merge_frame_shards",
    "read_column",
    "read_index",
]
