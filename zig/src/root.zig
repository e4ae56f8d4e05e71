//! The root of libscx: pulls in the functions that `zig/scx.h` declares, each group from its own file.

comptime {
    _ = @import("abi/library.zig");
    _ = @import("abi/file.zig");
    _ = @import("abi/writer.zig");
    _ = @import("abi/shard.zig");
    _ = @import("abi/matrix.zig");
    _ = @import("abi/pipeline.zig");
}

test {
    _ = @import("abi/library.zig");
    _ = @import("abi/handle.zig");
    _ = @import("abi/file.zig");
    _ = @import("abi/writer.zig");
    _ = @import("abi/shard.zig");
    _ = @import("abi/matrix.zig");
    _ = @import("abi/pipeline.zig");
    _ = @import("container/all.zig");
    _ = @import("pipeline/all.zig");
    _ = @import("rng.zig");
}
