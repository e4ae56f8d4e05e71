//! Turning bitmaps into lists of positions, and spreading a list over a bitmap's set bits.
//!
//! With AVX-512 sixteen lanes are compressed or expanded at once; Zig has no vector operation for that, so the two
//! instructions stand here as inline assembly. Elsewhere a table tells the places of a byte's set bits, and AVX2
//! permutes eight lanes by it. None of this branches on the data: a loop over the set bits mispredicts at each word.

const std = @import("std");
const builtin = @import("builtin");
const bits = @import("bits.zig");

const has_avx512 = builtin.cpu.arch == .x86_64 and builtin.cpu.has(.x86, .avx512f);

/// Elements that may be written past the last one.
pub const over_write = 64;

const has_avx2 = builtin.cpu.arch == .x86_64 and builtin.cpu.has(.x86, .avx2);

const Lanes = @Vector(16, u32);
const ByteLanes = @Vector(8, u32);

/// The places of a byte's set bits, lowest first, then zeros.
const byte_positions: [256][8]u8 = blk: {
    @setEvalBranchQuota(10_000);
    var table: [256][8]u8 = @splat(@splat(0));
    for (&table, 0..) |*places, byte| {
        var found = 0;
        for (0..8) |bit| {
            if (byte >> bit & 1 == 0) continue;
            places[found] = bit;
            found += 1;
        }
    }
    break :blk table;
};

/// How many set bits of a byte lie below each of its bits.
const byte_ranks: [256][8]u8 = blk: {
    @setEvalBranchQuota(10_000);
    var table: [256][8]u8 = undefined;
    for (&table, 0..) |*ranks, byte| {
        for (ranks, 0..) |*rank, bit| rank.* = @popCount(@as(u8, byte & ((1 << bit) - 1)));
    }
    break :blk table;
};

inline fn permuteLanes(source: ByteLanes, places: ByteLanes) ByteLanes {
    return asm ("vpermd %[source], %[places], %[target]"
        : [target] "=x" (-> ByteLanes),
        : [places] "x" (places),
          [source] "x" (source),
    );
}

inline fn compressLanes(mask: u16, source: Lanes) Lanes {
    return asm ("vpcompressd %[source], %[target]{%[mask]}{z}"
        : [target] "=v" (-> Lanes),
        : [mask] "^Yk" (mask), // a mask register other than k0
          [source] "v" (source),
    );
}

inline fn expandLanes(mask: u16, source: Lanes) Lanes {
    return asm ("vpexpandd %[source], %[target]{%[mask]}{z}"
        : [target] "=v" (-> Lanes),
        : [mask] "^Yk" (mask), // a mask register other than k0
          [source] "v" (source),
    );
}

/// Lanes that `press`, `pick` and `pickOfTwo` work on; 0 where the CPU has no instruction for them.
pub const press_lanes = if (has_avx512) 16 else if (has_avx2) 8 else 0;

/// The lanes of `mask`, lowest first; what follows them is rubbish.
pub inline fn press(comptime lanes: usize, mask: @Int(.unsigned, lanes), source: @Vector(lanes, u32)) @Vector(lanes, u32) {
    if (lanes == 16) return compressLanes(mask, source);
    return permuteLanes(source, @as(@Vector(8, u8), byte_positions[mask]));
}

/// `source[place % lanes]` for each lane.
pub inline fn pick(comptime lanes: usize, source: @Vector(lanes, u32), places: @Vector(lanes, u32)) @Vector(lanes, u32) {
    if (lanes == 8) return permuteLanes(source, places);
    return asm ("vpermd %[source], %[places], %[target]"
        : [target] "=v" (-> Lanes),
        : [places] "v" (places),
          [source] "v" (source),
    );
}

/// The same out of two vectors end to end; the places are below twice the lanes.
pub inline fn pickOfTwo(
    comptime lanes: usize,
    low: @Vector(lanes, u32),
    high: @Vector(lanes, u32),
    places: @Vector(lanes, u32),
) @Vector(lanes, u32) {
    if (lanes == 8) {
        const is_low = places < @as(ByteLanes, @splat(8));
        return @select(u32, is_low, permuteLanes(low, places), permuteLanes(high, places));
    }
    return asm ("vpermi2d %[high], %[low], %[target]"
        : [target] "=v" (-> Lanes),
        : [_] "0" (places),
          [low] "v" (low),
          [high] "v" (high),
    );
}

/// Writes the positions of the set bits among the first `n_bits` and gives their number, or null when there are more
/// than `limit`. `positions` has room for `limit + over_write`; the bitmap can be read `bits.over_read_bytes` further.
pub fn positionsOfSetBits(bitmap: [*]const u8, n_bits: usize, positions: [*]u32, limit: usize) ?usize {
    var found: usize = 0;
    var base: usize = 0;
    while (base < n_bits) : (base += 64) {
        var word = bits.load(u64, bitmap + base / 8);
        if (n_bits - base < 64) word &= bits.lowMask(@intCast(n_bits - base));
        const count = @popCount(word);
        if (found + count > limit) return null;
        writePositions(word, @intCast(base), positions + found);
        found += count;
    }
    return found;
}

inline fn writePositions(word: u64, base: u32, target: [*]u32) void {
    if (has_avx512) return writePositionsLanes(word, base, target);
    var at = target;
    inline for (0..8) |number| {
        const byte: u8 = @truncate(word >> (8 * number));
        const places: ByteLanes = @as(@Vector(8, u8), byte_positions[byte]);
        at[0..8].* = places + @as(ByteLanes, @splat(base + @as(u32, 8 * number)));
        at += @popCount(byte);
    }
}

inline fn writePositionsLanes(word: u64, base: u32, target: [*]u32) void {
    var at = target;
    inline for (0..4) |quarter| {
        const mask: u16 = @truncate(word >> (16 * quarter));
        const numbers = std.simd.iota(u32, 16) + @as(Lanes, @splat(base + @as(u32, 16 * quarter)));
        at[0..16].* = compressLanes(mask, numbers);
        at += @popCount(mask);
    }
}

/// The number of set bits among the first `n_bits`.
pub fn countSetBits(bitmap: [*]const u8, n_bits: usize) usize {
    var count: usize = 0;
    var base: usize = 0;
    while (base + 64 <= n_bits) : (base += 64) count += @popCount(bits.load(u64, bitmap + base / 8));
    if (base < n_bits) {
        count += @popCount(bits.load(u64, bitmap + base / 8) & bits.lowMask(@intCast(n_bits - base)));
    }
    return count;
}

/// `target[i]` = the next of `values` plus `addend` where bit i is set, else 0. The caller has counted the bits.
/// Writes up to 64 elements past `n_bits`, reads up to 16 past the last value.
pub fn spread(bitmap: [*]const u8, n_bits: usize, values: [*]const u32, addend: u32, target: [*]u32) void {
    var next = values;
    var base: usize = 0;
    while (base < n_bits) : (base += 64) {
        var word = bits.load(u64, bitmap + base / 8);
        if (n_bits - base < 64) word &= bits.lowMask(@intCast(n_bits - base));
        const count = @popCount(word);
        if (has_avx512) {
            spreadLanes(word, next, addend, target + base);
        } else if (has_avx2) {
            spreadBytes(word, next, addend, target + base);
        } else {
            spreadWord(word, next, addend, target + base);
        }
        next += count;
    }
}

inline fn spreadLanes(word: u64, values: [*]const u32, addend: u32, target: [*]u32) void {
    var next = values;
    inline for (0..4) |quarter| {
        const mask: u16 = @truncate(word >> (16 * quarter));
        const loaded: Lanes = next[0..16].*;
        target[16 * quarter ..][0..16].* = expandLanes(mask, loaded +% @as(Lanes, @splat(addend)));
        next += @popCount(mask);
    }
}

inline fn spreadBytes(word: u64, values: [*]const u32, addend: u32, target: [*]u32) void {
    const lane_bits: ByteLanes = .{ 1, 2, 4, 8, 16, 32, 64, 128 };
    const zero: ByteLanes = @splat(0);
    var next = values;
    inline for (0..8) |number| {
        const byte: u8 = @truncate(word >> (8 * number));
        const loaded: ByteLanes = next[0..8].*;
        const ranks: ByteLanes = @as(@Vector(8, u8), byte_ranks[byte]);
        const is_set = (@as(ByteLanes, @splat(byte)) & lane_bits) != zero;
        const spreaded = permuteLanes(loaded +% @as(ByteLanes, @splat(addend)), ranks);
        target[8 * number ..][0..8].* = @select(u32, is_set, spreaded, zero);
        next += @popCount(byte);
    }
}

inline fn spreadWord(word: u64, values: [*]const u32, addend: u32, target: [*]u32) void {
    @memset(target[0..64], 0);
    var rest = word;
    var at: usize = 0;
    while (rest != 0) : (at += 8) {
        inline for (0..8) |lane| {
            // once the word is empty, element 64 takes the rubbish
            target[@ctz(rest)] = values[at + lane] +% addend;
            rest &= rest -% 1;
        }
    }
}

/// Writes the indices of the elements that equal `wanted` and gives their number. Writes up to `over_write` elements
/// past the last.
pub fn positionsEqual(codes: [*]const u32, count: usize, wanted: u32, positions: [*]u32) usize {
    var found: usize = 0;
    var base: usize = 0;
    while (base < count) : (base += 64) {
        var word = equalMask(codes + base, wanted);
        if (count - base < 64) word &= bits.lowMask(@intCast(count - base));
        writePositions(word, @intCast(base), positions + found);
        found += @popCount(word);
    }
    return found;
}

/// Bit i: codes[i] equals `wanted`, of 64 codes.
inline fn equalMask(codes: [*]const u32, wanted: u32) u64 {
    var word: u64 = 0;
    inline for (0..4) |quarter| {
        const loaded: Lanes = codes[16 * quarter ..][0..16].*;
        const mask: u16 = @bitCast(loaded == @as(Lanes, @splat(wanted)));
        word |= @as(u64, mask) << (16 * quarter);
    }
    return word;
}

test "bitmaps against a plain loop" {
    const n_max = 1000;
    var random = std.Random.DefaultPrng.init(4);
    var bitmap: [n_max / 8 + 32]u8 = undefined;
    var positions: [n_max + over_write]u32 = undefined;
    var values: [n_max + 16]u32 = undefined;
    var target: [n_max + over_write + 1]u32 = undefined;
    for (0..500) |round| {
        random.random().bytes(&bitmap);
        if (round % 3 == 0) for (&bitmap) |*byte| {
            byte.* &= random.random().int(u8) & random.random().int(u8);
        };
        if (round % 50 == 0) @memset(&bitmap, 0xff);
        const n_bits = random.random().uintAtMost(usize, n_max);
        for (&values) |*value| value.* = random.random().int(u16);
        const count = countSetBits(&bitmap, n_bits);
        try std.testing.expectEqual(count, positionsOfSetBits(&bitmap, n_bits, &positions, count).?);
        if (count > 0) try std.testing.expectEqual(null, positionsOfSetBits(&bitmap, n_bits, &positions, count - 1));
        _ = positionsOfSetBits(&bitmap, n_bits, &positions, count);
        spread(&bitmap, n_bits, &values, 3, &target);
        var next: usize = 0;
        for (0..n_bits) |bit| {
            const is_set = bitmap[bit / 8] >> @intCast(bit % 8) & 1 == 1;
            try std.testing.expectEqual(if (is_set) values[next] + 3 else 0, target[bit]);
            if (!is_set) continue;
            try std.testing.expectEqual(bit, positions[next]);
            next += 1;
        }
        try std.testing.expectEqual(count, next);
    }
}

test "equal codes against a plain loop" {
    var codes: [200 + over_write]u32 = undefined;
    var positions: [200 + over_write]u32 = undefined;
    for (&codes, 0..) |*code, index| code.* = @intCast(index * 7 % 5);
    for (0..200) |count| {
        const found = positionsEqual(&codes, count, 3, &positions);
        var expected: usize = 0;
        for (codes[0..count], 0..) |code, index| {
            if (code != 3) continue;
            try std.testing.expectEqual(index, positions[expected]);
            expected += 1;
        }
        try std.testing.expectEqual(expected, found);
    }
}
