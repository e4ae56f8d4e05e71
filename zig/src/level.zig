//! Root file of the object of one CPU level. It stands here and not in levels/, because a module
//! may import only files below the folder of its root file, and the kernels use codec/ too.

const std = @import("std");

/// No signal stack for each thread: it would be thread-local memory, 256 KiB in each of the objects,
/// which the library adds up and every thread of the process that loads it has to provide.
pub const std_options: std.Options = .{ .signal_stack_size = null };

comptime {
    _ = @import("levels/level.zig");
}

test {
    _ = @import("levels/level.zig");
}
