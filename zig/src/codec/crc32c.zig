//! CRC-32C (Castagnoli, RFC 3720 appendix B.4), with the CPU's instruction where it has one.
//!
//! The instruction takes three cycles but starts every cycle, so long inputs run as three streams whose remainders
//! are joined: shifting a CRC over a fixed number of zero bytes is linear, and four table lookups do it.

const std = @import("std");
const builtin = @import("builtin");
const bits = @import("bits.zig");

const has_x86_instruction = builtin.cpu.arch == .x86_64 and builtin.cpu.has(.x86, .sse4_2);
const has_arm_instruction = builtin.cpu.arch == .aarch64 and builtin.cpu.has(.aarch64, .crc);

/// Reversed polynomial.
const polynomial: u32 = 0x82f6_3b78;

/// Bytes of each of the three streams.
const stream_bytes = 128;

/// The CRC of `data` continued from `crc` (0 to start).
pub fn update(crc: u32, data: []const u8) u32 {
    if (has_x86_instruction or has_arm_instruction) return updateInstruction(crc, data);
    return updateTable(crc, data);
}

/// Continues with one 8-byte word, as `update` would with its little-endian bytes.
pub inline fn updateWord(crc: u32, word: u64) u32 {
    if (has_x86_instruction or has_arm_instruction) return ~step(~crc, word);
    var bytes: [8]u8 = undefined;
    std.mem.writeInt(u64, &bytes, word, .little);
    return updateTable(crc, &bytes);
}

inline fn step(state: u32, word: u64) u32 {
    if (has_x86_instruction) {
        return @truncate(asm ("crc32q %[word], %[state]"
            : [state] "=r" (-> u64),
            : [word] "r" (word),
              [_] "0" (@as(u64, state)),
        ));
    }
    return asm ("crc32cx %w[out], %w[state], %[word]"
        : [out] "=r" (-> u32),
        : [state] "r" (state),
          [word] "r" (word),
    );
}

inline fn stepByte(state: u32, byte: u8) u32 {
    return byte_table[(state ^ byte) & 0xff] ^ (state >> 8);
}

fn updateInstruction(crc: u32, data: []const u8) u32 {
    var state = ~crc;
    var rest = data;
    while (rest.len >= 3 * stream_bytes) : (rest = rest[3 * stream_bytes ..]) {
        var second: u32 = 0;
        var third: u32 = 0;
        var at: usize = 0;
        while (at < stream_bytes) : (at += 8) {
            state = step(state, bits.load(u64, rest.ptr + at));
            second = step(second, bits.load(u64, rest.ptr + stream_bytes + at));
            third = step(third, bits.load(u64, rest.ptr + 2 * stream_bytes + at));
        }
        state = shiftOverStream(shiftOverStream(state) ^ second) ^ third;
    }
    while (rest.len >= 8) : (rest = rest[8..]) state = step(state, bits.load(u64, rest.ptr));
    for (rest) |byte| state = stepByte(state, byte);
    return ~state;
}

/// Plain version.
pub fn updateTable(crc: u32, data: []const u8) u32 {
    var state = ~crc;
    for (data) |byte| state = stepByte(state, byte);
    return ~state;
}

/// The remainder after `stream_bytes` zero bytes more.
inline fn shiftOverStream(state: u32) u32 {
    return stream_table[0][state & 0xff] ^ stream_table[1][state >> 8 & 0xff] ^
        stream_table[2][state >> 16 & 0xff] ^ stream_table[3][state >> 24];
}

const byte_table: [256]u32 = blk: {
    @setEvalBranchQuota(10_000);
    var table: [256]u32 = undefined;
    for (&table, 0..) |*entry, byte| {
        var state: u32 = byte;
        for (0..8) |_| state = (state >> 1) ^ (if (state & 1 == 1) polynomial else 0);
        entry.* = state;
    }
    break :blk table;
};

const stream_table: [4][256]u32 = blk: {
    @setEvalBranchQuota(100_000);
    // where each single bit of a state ends; a byte's entry is the sum of its bits' ends
    var ends: [32]u32 = undefined;
    for (&ends, 0..) |*end, bit| {
        var state: u32 = 1 << bit;
        for (0..stream_bytes) |_| state = byte_table[state & 0xff] ^ (state >> 8);
        end.* = state;
    }
    var table: [4][256]u32 = undefined;
    for (&table, 0..) |*quarter, byte_index| {
        for (quarter, 0..) |*entry, byte| {
            entry.* = 0;
            for (0..8) |bit| {
                if (byte >> bit & 1 == 1) entry.* ^= ends[byte_index * 8 + bit];
            }
        }
    }
    break :blk table;
};

test "published check values" {
    // RFC 3720 B.4: 32 zero bytes, 32 bytes of ones, 0..31; and the usual "123456789"
    const ascending: [32]u8 = blk: {
        var bytes: [32]u8 = undefined;
        for (&bytes, 0..) |*byte, index| byte.* = @intCast(index);
        break :blk bytes;
    };
    try std.testing.expectEqual(@as(u32, 0x8a91_36aa), update(0, &@as([32]u8, @splat(0))));
    try std.testing.expectEqual(@as(u32, 0x62a8_ab43), update(0, &@as([32]u8, @splat(0xff))));
    try std.testing.expectEqual(@as(u32, 0x46dd_794e), update(0, &ascending));
    try std.testing.expectEqual(@as(u32, 0xe306_9283), update(0, "123456789"));
}

test "the instruction agrees with the table at every length" {
    var random = std.Random.DefaultPrng.init(2);
    var data: [2000]u8 = undefined;
    random.random().bytes(&data);
    for (0..data.len) |length| {
        try std.testing.expectEqual(updateTable(7, data[0..length]), update(7, data[0..length]));
    }
    try std.testing.expectEqual(updateTable(9, data[0..8]), updateWord(9, bits.load(u64, &data)));
}
