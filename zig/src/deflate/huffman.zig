//! Prefix codes of bounded length: the lengths from how often each symbol occurs, and the codes from the lengths.

const std = @import("std");
const assert = std.debug.assert;

pub const symbols_max = 288;

/// Lengths of a code for the symbols that occur, 0 for the others. A code has at least one symbol; a lone symbol has
/// one bit. Ties go by symbol, so that the same counts give the same lengths everywhere.
///
/// Huffman's tree is built in place over the sorted counts (Moffat and Katajainen, 1995); lengths above the bound are
/// cut and the code is made whole again by lengthening others, the rarest symbols first.
pub fn codeLengths(counts: []const u32, length_max: u8, lengths: []u8) void {
    assert(counts.len <= symbols_max and counts.len == lengths.len);
    @memset(lengths, 0);
    var keys: [symbols_max]u64 = undefined;
    var n: usize = 0;
    for (counts, 0..) |count, symbol| {
        if (count == 0) continue;
        keys[n] = @as(u64, count) << 16 | symbol;
        n += 1;
    }
    if (n <= 2) {
        for (keys[0..n]) |key| lengths[@intCast(key & 0xffff)] = 1;
        if (n == 0) lengths[0] = 1;
        return;
    }
    std.mem.sortUnstable(u64, keys[0..n], {}, std.sort.asc(u64));
    var depths: [symbols_max]u32 = undefined;
    for (keys[0..n], depths[0..n]) |key, *depth| depth.* = @intCast(key >> 16);
    treeDepths(depths[0..n]);

    // how many symbols have each length, the longest of them first
    var of_length: [64]u32 = @splat(0);
    for (depths[0..n]) |depth| of_length[@min(depth, length_max)] += 1;
    boundLengths(of_length[0 .. length_max + 1]);
    var next: usize = 0;
    var length: usize = length_max;
    while (length > 0) : (length -= 1) {
        for (keys[next..][0..of_length[length]]) |key| lengths[@intCast(key & 0xffff)] = @intCast(length);
        next += of_length[length];
    }
    assert(next == n);
}

/// Counts in rising order become depths in falling order.
fn treeDepths(values: []u32) void {
    const n = values.len;
    // each inner node's weight, then the place of its parent
    var leaf: usize = 0;
    var root: usize = 0;
    for (0..n - 1) |node| {
        var weight: u32 = 0;
        inline for (0..2) |_| {
            if (leaf >= n or (root < node and values[root] < values[leaf])) {
                weight += values[root];
                values[root] = @intCast(node);
                root += 1;
            } else {
                weight += values[leaf];
                leaf += 1;
            }
        }
        values[node] = weight;
    }
    // depths of inner nodes
    values[n - 2] = 0;
    var node = n - 2;
    while (node > 0) {
        node -= 1;
        values[node] = values[values[node]] + 1;
    }
    // depths of leaves
    var available: usize = 1;
    var used: usize = 0;
    var depth: u32 = 0;
    var inner: usize = n - 1; // inner nodes that are left
    var at: usize = n;
    while (available > 0) {
        while (inner > 0 and values[inner - 1] == depth) {
            used += 1;
            inner -= 1;
        }
        while (available > used) {
            at -= 1;
            values[at] = depth;
            available -= 1;
        }
        available = 2 * used;
        depth += 1;
        used = 0;
    }
}

/// Makes the code exactly full again after lengths have been cut: 2^-length summed over the symbols is 1.
fn boundLengths(of_length: []u32) void {
    const length_max = of_length.len - 1;
    var total: u64 = 0;
    for (of_length[1..], 1..) |n, length| total += @as(u64, n) << @intCast(length_max - length);
    const full = @as(u64, 1) << @intCast(length_max);
    while (total > full) {
        // a symbol goes down, one of the longest moves up beside it
        var length = length_max - 1;
        while (of_length[length] == 0) length -= 1;
        of_length[length] -= 1;
        of_length[length + 1] += 2;
        of_length[length_max] -= 1;
        total -= 1;
    }
}

/// The codes that DEFLATE gives to lengths, their bits turned round as they are written.
pub fn codesOf(lengths: []const u8, codes: []u16) void {
    var of_length: [16]u32 = @splat(0);
    for (lengths) |length| of_length[length] += 1;
    of_length[0] = 0;
    var next: [16]u32 = @splat(0);
    for (1..16) |length| next[length] = (next[length - 1] + of_length[length - 1]) << 1;
    for (lengths, codes) |length, *code| {
        if (length == 0) {
            code.* = 0;
            continue;
        }
        code.* = @bitReverse(@as(u16, @intCast(next[length]))) >> @intCast(16 - @as(u5, @intCast(length)));
        next[length] += 1;
    }
}

const testing = std.testing;

fn totalOf(lengths: []const u8) f64 {
    var total: f64 = 0;
    for (lengths) |length| {
        if (length > 0) total += std.math.exp2(-@as(f64, @floatFromInt(length)));
    }
    return total;
}

test "known codes" {
    var lengths: [5]u8 = undefined;
    codeLengths(&.{ 1, 1, 2, 4, 8 }, 15, &lengths);
    try testing.expectEqualSlices(u8, &.{ 4, 4, 3, 2, 1 }, &lengths);
    codeLengths(&.{ 0, 7, 0, 0, 0 }, 15, &lengths);
    try testing.expectEqualSlices(u8, &.{ 0, 1, 0, 0, 0 }, &lengths);
    // the example of RFC 1951, 3.2.2
    var codes: [8]u16 = undefined;
    codesOf(&.{ 3, 3, 3, 3, 3, 2, 4, 4 }, &codes);
    const expected = [_]u16{ 0b010, 0b110, 0b001, 0b101, 0b011, 0b00, 0b0111, 0b1111 };
    try testing.expectEqualSlices(u16, &expected, &codes);
}

test "lengths are full, bounded, and no worse than sorting allows" {
    var random: std.Random.DefaultPrng = .init(5);
    for (0..400) |round| {
        var counts: [symbols_max]u32 = @splat(0);
        const n = random.random().intRangeAtMost(usize, 3, symbols_max);
        for (counts[0..n]) |*count| {
            const bits = random.random().uintLessThan(u5, 18);
            count.* = random.random().uintLessThan(u32, @as(u32, 2) << bits);
        }
        const bound: u8 = if (round % 2 == 0) 15 else 9;
        var lengths: [symbols_max]u8 = undefined;
        codeLengths(&counts, bound, &lengths);
        var used: usize = 0;
        for (counts, lengths) |count, length| {
            try testing.expect(length <= bound);
            try testing.expectEqual(count > 0, length > 0);
            used += @intFromBool(count > 0);
        }
        if (used > 1) try testing.expectEqual(@as(f64, 1), totalOf(&lengths));
        for (counts, lengths) |count, length| {
            for (counts, lengths) |other, its| {
                if (count > other and other > 0) try testing.expect(length <= its);
            }
        }
    }
}

test "without a bound the code is Huffman's" {
    // the sum of the weights of all inner nodes, joined two at a time, is the length of the best code
    var random: std.Random.DefaultPrng = .init(6);
    for (0..50) |_| {
        var counts: [30]u32 = undefined;
        for (&counts) |*count| count.* = random.random().intRangeAtMost(u32, 1, 1000);
        var lengths: [30]u8 = undefined;
        codeLengths(&counts, 15, &lengths);
        var bits: u64 = 0;
        for (counts, lengths) |count, length| bits += @as(u64, count) * length;
        var weights = counts;
        var best: u64 = 0;
        var left: usize = weights.len;
        while (left > 1) : (left -= 1) {
            std.mem.sortUnstable(u32, weights[0..left], {}, std.sort.desc(u32));
            weights[left - 2] += weights[left - 1];
            best += weights[left - 2];
        }
        try testing.expectEqual(best, bits);
    }
}
