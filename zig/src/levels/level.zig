//! What is compiled once for each CPU level: exports the level's table.
const std = @import("std");
const options = @import("level_options");
const Table = @import("table.zig").Table;

fn levelName() callconv(.c) [*:0]const u8 {
    return (options.name ++ "\x00")[0..options.name.len :0];
}

const table: Table = .{ .name = levelName };

comptime {
    @export(&table, .{ .name = options.symbol, .visibility = .hidden });
}

test "the table knows its level" {
    try std.testing.expectEqualStrings(options.name, std.mem.span(table.name()));
}
