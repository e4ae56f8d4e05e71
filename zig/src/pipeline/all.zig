//! All tests of the pipeline.

test {
    _ = @import("buffers.zig");
    _ = @import("concatenation_differential.zig");
    _ = @import("csr_batch.zig");
    _ = @import("hints.zig");
    _ = @import("pipeline_race.zig");
    _ = @import("pipeline_test.zig");
    _ = @import("platform.zig");
    _ = @import("queue.zig");
    _ = @import("scattered_reads.zig");
    _ = @import("sync.zig");
    _ = @import("threads.zig");
}
