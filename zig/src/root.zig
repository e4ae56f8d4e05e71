//! The root of libscx: pulls in the functions that `zig/scx.h` declares, each group from its own file.

const std = @import("std");

/// Without a signal stack: one in thread-local memory would cost every thread of the process 256 KiB.
pub const std_options: std.Options = .{ .signal_stack_size = null };

comptime {
    _ = @import("abi/library.zig");
    _ = @import("abi/file.zig");
    _ = @import("abi/deletion.zig");
    _ = @import("abi/writer.zig");
    _ = @import("abi/shard.zig");
    _ = @import("abi/matrix.zig");
    _ = @import("abi/pipeline.zig");
    _ = @import("abi/pipeline_open.zig");
    _ = @import("abi/batch_kernels.zig");
    _ = @import("abi/columns.zig");
    _ = @import("abi/deflate.zig");
    _ = @import("abi/tokens.zig");
    _ = @import("abi/value_counts.zig");
}

test {
    _ = @import("codec/matrix_differential.zig");
    _ = @import("codec/canonical.zig");
    _ = @import("codec/columns.zig");
    _ = @import("codec/dense_plan.zig");
    _ = @import("codec/palette.zig");
    _ = @import("codec/row_tiers.zig");
    _ = @import("codec/scratch.zig");
    _ = @import("codec/row_reads.zig");
    _ = @import("codec/sort_row.zig");
    _ = @import("codec/shard.zig");
    _ = @import("codec/encode_rows.zig");
    _ = @import("codec/shard_stats.zig");
    _ = @import("codec/shard_view.zig");
    _ = @import("codec/parallel.zig");
    _ = @import("codec/places.zig");
    _ = @import("codec/plain_streams.zig");
    _ = @import("levels/dispatch.zig");
    _ = @import("abi/library.zig");
    _ = @import("abi/handle.zig");
    _ = @import("abi/file.zig");
    _ = @import("abi/writer.zig");
    _ = @import("abi/shard.zig");
    _ = @import("abi/matrix.zig");
    _ = @import("abi/pipeline.zig");
    _ = @import("abi/pipeline_open.zig");
    _ = @import("abi/batch_kernels.zig");
    _ = @import("abi/deflate.zig");
    _ = @import("abi/tokens.zig");
    _ = @import("abi/transform_flags.zig");
    _ = @import("container/all.zig");
    _ = @import("pipeline/all.zig");
    _ = @import("rng.zig");
    _ = @import("kernels/collate.zig");
    _ = @import("abi/columns.zig");
    _ = @import("kernels/columns.zig");
    _ = @import("kernels/column_stretch.zig");
    _ = @import("kernels/outliers.zig");
    _ = @import("kernels/csr_rows.zig");
    _ = @import("kernels/binomial.zig");
    _ = @import("kernels/downsample.zig");
    _ = @import("kernels/tokens/bins.zig");
    _ = @import("kernels/tokens/crop.zig");
    _ = @import("kernels/tokens/groups.zig");
    _ = @import("kernels/tokens/per_row.zig");
    _ = @import("kernels/tokens/rank.zig");
    _ = @import("kernels/tokens/sample.zig");
    _ = @import("kernels/tokens/values.zig");
    _ = @import("kernels/top_k.zig");
    _ = @import("kernels/value_counts.zig");
    _ = @import("kernels/value_modes.zig");
}
