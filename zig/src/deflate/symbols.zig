//! The tables of RFC 1951: which code says a length or a distance, and how many bits follow it.

const std = @import("std");

pub const length_min = 3;
pub const length_max = 258;
pub const distance_max = 32768;

pub const end_of_block = 256;
pub const n_literals = 286;
pub const n_distances = 30;

pub const Extra = struct { base: u16, bits: u8 };

pub const lengths: [29]Extra = blk: {
    var table: [29]Extra = undefined;
    var base: u16 = length_min;
    for (0..28) |code| {
        const bits: u8 = if (code < 8) 0 else code / 4 - 1;
        table[code] = .{ .base = base, .bits = bits };
        base += 1 << bits;
    }
    table[28] = .{ .base = length_max, .bits = 0 };
    break :blk table;
};

pub const distances: [30]Extra = blk: {
    var table: [30]Extra = undefined;
    var base: u32 = 1;
    for (0..30) |code| {
        const bits: u8 = if (code < 4) 0 else code / 2 - 1;
        table[code] = .{ .base = @intCast(base), .bits = bits };
        base += 1 << bits;
    }
    break :blk table;
};

/// The code of each length, counted from 0.
pub const code_of_length: [length_max + 1]u8 = blk: {
    @setEvalBranchQuota(10_000);
    var table: [length_max + 1]u8 = @splat(0);
    for (lengths[0..28], 0..) |extra, code| {
        for (extra.base..@min(length_max, extra.base + (1 << extra.bits))) |length| table[length] = code;
    }
    table[length_max] = 28;
    break :blk table;
};

pub inline fn codeOfDistance(distance: u32) u8 {
    const above = distance - 1;
    if (above < 4) return @intCast(above);
    const top: u5 = @intCast(31 - @clz(above));
    return @intCast(2 * @as(u32, top) + (above >> (top - 1) & 1));
}

test "codes of lengths and distances" {
    const expect = std.testing.expectEqual;
    try expect(@as(u8, 0), code_of_length[3]);
    try expect(@as(u8, 8), code_of_length[11]);
    try expect(@as(u8, 27), code_of_length[257]);
    try expect(@as(u8, 28), code_of_length[258]);
    try expect(@as(u16, 227), lengths[27].base);
    try expect(@as(u16, 24577), distances[29].base);
    for (1..distance_max + 1) |distance| {
        const extra = distances[codeOfDistance(@intCast(distance))];
        try std.testing.expect(distance >= extra.base and distance < @as(u32, extra.base) + (@as(u32, 1) << @intCast(extra.bits)));
    }
}
