//! Root file of the object of one CPU level. It stands here and not in levels/, because a module
//! may import only files below the folder of its root file, and the kernels use codec/ too.

comptime {
    _ = @import("levels/level.zig");
}

test {
    _ = @import("levels/level.zig");
}
