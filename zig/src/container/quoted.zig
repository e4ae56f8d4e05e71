//! Names and paths in messages: escaped, and cut so that what follows them still fits.

const std = @import("std");
const errors = @import("../errors.zig");

/// A quarter of a message even when every byte is written as four.
const name_bytes_max = 64;
/// _errors.py knows it, which takes paths out of messages again.
const path_bytes_max = 128;

const Quoted = struct {
    bytes: []const u8,
    bytes_max: usize,

    pub fn format(quoted: Quoted, writer: *std.Io.Writer) std.Io.Writer.Error!void {
        const is_long = quoted.bytes.len > quoted.bytes_max;
        const shown = if (is_long) quoted.bytes[0..quoted.bytes_max] else quoted.bytes;
        try writer.print("'{f}{s}'", .{ errors.escaped(shown), if (is_long) "..." else "" });
    }
};

/// The name of a section, a modality or a file, to be printed with `{f}`.
pub fn name(bytes: []const u8) Quoted {
    return .{ .bytes = bytes, .bytes_max = name_bytes_max };
}

/// A path, to be printed with `{f}`. Callers have the whole of it.
pub fn path(bytes: []const u8) Quoted {
    return .{ .bytes = bytes, .bytes_max = path_bytes_max };
}

test "long and odd names" {
    const long: [65]u8 = @splat('n');
    var buffer: [200]u8 = undefined;
    try std.testing.expectEqualStrings("'" ++ long[0..64] ++ "...'", try std.fmt.bufPrint(&buffer, "{f}", .{
        name(&long),
    }));
    try std.testing.expectEqualStrings("'a\\x0ab'", try std.fmt.bufPrint(&buffer, "{f}", .{path("a\nb")}));
}
