//! The C ABI of libscx, as zig/scx.h declares it.
const std = @import("std");
const build_options = @import("build_options");
const Table = @import("levels/table.zig").Table;

const abi_version = 1;

export fn scx_abi_version() u32 {
    return abi_version;
}

export fn scx_simd_level() [*:0]const u8 {
    const last = build_options.levels[build_options.levels.len - 1];
    const table = @extern(*const Table, .{ .name = "scx_level_table_" ++ last, .visibility = .hidden });
    return table.name();
}

test "every linked table names its own level" {
    inline for (build_options.levels) |level| {
        const table = @extern(*const Table, .{ .name = "scx_level_table_" ++ level, .visibility = .hidden });
        try std.testing.expectEqualStrings(level, std.mem.span(table.name()));
    }
}
