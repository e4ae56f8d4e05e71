//! BLAKE3 over whole sections and files. Everything that hashes more than a few kilobytes comes through `update`.

const std = @import("std");
const dispatch = @import("../levels/dispatch.zig");

pub const Blake3 = std.crypto.hash.Blake3;
pub const digest_bytes = Blake3.digest_length;

pub fn update(hasher: *Blake3, bytes: []const u8) void {
    dispatch.table().hashUpdate(hasher, bytes.ptr, bytes.len);
}

pub fn hash(bytes: []const u8) [digest_bytes]u8 {
    var hasher: Blake3 = .init(.{});
    update(&hasher, bytes);
    return final(&hasher);
}

pub fn final(hasher: *const Blake3) [digest_bytes]u8 {
    var digest: [digest_bytes]u8 = undefined;
    hasher.final(&digest);
    return digest;
}

/// The first 64 bits, as the header holds those of the file.
pub fn finalShort(hasher: *const Blake3) u64 {
    return std.mem.readInt(u64, final(hasher)[0..8], .little);
}

test "the hash of nothing and of three bytes" {
    var expected: [digest_bytes]u8 = undefined;
    _ = try std.fmt.hexToBytes(&expected, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
    try std.testing.expectEqual(expected, hash(""));
    _ = try std.fmt.hexToBytes(&expected, "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
    try std.testing.expectEqual(expected, hash("abc"));
    var hasher: Blake3 = .init(.{});
    update(&hasher, "ab");
    update(&hasher, "c");
    try std.testing.expectEqual(@as(u64, 0x33514638acb33764), finalShort(&hasher));
}
