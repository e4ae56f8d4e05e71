test {
    _ = @import("file.zig");
    _ = @import("writer.zig");
    _ = @import("temporary.zig");
    _ = @import("platform.zig");
    _ = @import("layout.zig");
    _ = @import("section_types.zig");
}
