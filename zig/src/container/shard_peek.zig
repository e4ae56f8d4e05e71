//! The few facts of a shard's header that the list of sections shows, and that the writer needs.

const std = @import("std");

const magic = "SCXS";

pub const Peek = struct {
    /// 2 for a shard that is framed into row groups.
    shard_format_version: u8,
    codec_id: u8,
    value_encoding: u8,
};

/// `null` when the section does not start like a shard; the decoder says what is wrong with it.
pub fn peek(bytes: []const u8) ?Peek {
    if (bytes.len < 8 or !std.mem.eql(u8, bytes[0..4], magic)) return null;
    return .{ .shard_format_version = bytes[4], .codec_id = bytes[6], .value_encoding = bytes[7] };
}

test "the start of a shard" {
    const bytes = "SCXS\x02\x00\x40\x03";
    const shard = peek(bytes).?;
    try std.testing.expectEqual(Peek{ .shard_format_version = 2, .codec_id = 64, .value_encoding = 3 }, shard);
    try std.testing.expectEqual(null, peek(bytes[0..7]));
    try std.testing.expectEqual(null, peek("SCXT\x02\x00\x40\x03"));
}
