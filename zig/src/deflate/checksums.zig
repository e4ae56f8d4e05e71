//! Adler-32 (RFC 1950) and CRC-32 (RFC 1952).

const std = @import("std");

const adler_modulus = 65521;

/// Adler-32 of the bytes.
pub fn adler32(bytes: []const u8) u32 {
    const lanes = 32;
    // the sums of so many bytes stay below 2^32
    const block_bytes = 5536;
    const weights: @Vector(lanes, u16) = comptime blk: {
        var falling: [lanes]u16 = undefined;
        for (&falling, 0..) |*weight, lane| weight.* = lanes - lane;
        break :blk falling;
    };
    var sum: u32 = 1;
    var sums: u32 = 0;
    var left = bytes;
    while (left.len > 0) {
        const block = left[0..@min(left.len, block_bytes)];
        left = left[block.len..];
        var at: usize = 0;
        while (at + lanes <= block.len) : (at += lanes) {
            const wide: @Vector(lanes, u16) = @as(@Vector(lanes, u8), block[at..][0..lanes].*);
            sums += lanes * sum + @reduce(.Add, @as(@Vector(lanes, u32), wide * weights));
            sum += @reduce(.Add, wide);
        }
        for (block[at..]) |byte| {
            sum += byte;
            sums += sum;
        }
        sum %= adler_modulus;
        sums %= adler_modulus;
    }
    return sums << 16 | sum;
}

const polynomial: u32 = 0xedb8_8320;
const tables = 16;

/// Table t: a byte's remainder with t zero bytes behind it.
const crc_table: [tables][256]u32 = blk: {
    @setEvalBranchQuota(100_000);
    var table: [tables][256]u32 = undefined;
    for (&table[0], 0..) |*entry, byte| {
        var state: u32 = byte;
        for (0..8) |_| state = (state >> 1) ^ (if (state & 1 == 1) polynomial else 0);
        entry.* = state;
    }
    for (1..tables) |behind| {
        for (&table[behind], table[behind - 1]) |*entry, before| entry.* = table[0][before & 0xff] ^ (before >> 8);
    }
    break :blk table;
};

/// CRC-32 of the bytes, 16 at a time.
pub fn crc32(bytes: []const u8) u32 {
    var state: u32 = 0xffff_ffff;
    var left = bytes;
    while (left.len >= tables) : (left = left[tables..]) {
        var group: [tables]u8 = left[0..tables].*;
        std.mem.writeInt(u32, group[0..4], std.mem.readInt(u32, group[0..4], .little) ^ state, .little);
        state = 0;
        inline for (group, 0..) |byte, place| state ^= crc_table[tables - 1 - place][byte];
    }
    for (left) |byte| state = crc_table[0][(state ^ byte) & 0xff] ^ (state >> 8);
    return ~state;
}

test "published values" {
    try std.testing.expectEqual(@as(u32, 0xcbf4_3926), crc32("123456789"));
    try std.testing.expectEqual(@as(u32, 0x11e6_0398), adler32("Wikipedia"));
    try std.testing.expectEqual(@as(u32, 1), adler32(""));
    try std.testing.expectEqual(@as(u32, 0), crc32(""));
}

test "every length agrees with the standard library" {
    var bytes: [20_000]u8 = undefined;
    var random: std.Random.DefaultPrng = .init(3);
    random.random().bytes(&bytes);
    @memset(bytes[12_000..], 0xff);
    for (0..600) |step| {
        const part = bytes[0 .. step * 33];
        try std.testing.expectEqual(std.hash.Crc32.hash(part), crc32(part));
        try std.testing.expectEqual(std.hash.Adler32.hash(part), adler32(part));
    }
}
