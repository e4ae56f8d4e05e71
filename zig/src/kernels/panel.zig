//! Which stored values of a row belong to a panel of genes, and what their codes stand for.
//!
//! The panel is a bitmap over the columns. The columns of a row ascend in small steps, so those of one vector mostly lie
//! within one vector of bitmap words: it is loaded once, each lane picks its word and its bit, and the hits are pressed
//! together. A vector that reaches further is looked at lane by lane. One value in ten hits, which no predictor can
//! know; there is no branch on it.

const std = @import("std");
const compress = @import("../codec/compress.zig");

const assert = std.debug.assert;

/// Bitmap words behind the last column's that may be loaded too.
const slack_words = 16;
/// Elements that may be read and written behind the last value of a row.
pub const slack_values = 16;

/// How many words the bitmap of a panel has.
pub fn wordCount(n_cols: u32) usize {
    return n_cols / 32 + 1 + slack_words;
}

pub fn addMember(members: []u32, column: u32) void {
    members[column >> 5] |= @as(u32, 1) << @truncate(column);
}

pub inline fn isMember(members: [*]const u32, column: u32) u32 {
    return members[column >> 5] >> @truncate(column) & 1;
}

/// Columns of a row, and what belongs to each.
pub const Pairs = struct {
    columns: [*]u32,
    codes: [*]u32,
};

/// Writes those of the pairs that hit to `hits`, one after the other, and gives their number. All columns are below the
/// n_cols that the bitmap was made for; their order does not matter. (In place it would be slower: loads wait for the
/// stores before them, whose addresses are known late.)
pub fn keepHits(members: [*]const u32, pairs: Pairs, count: usize, hits: Pairs) usize {
    return switch (compress.press_lanes) {
        0 => keepHitsScalar(members, pairs, count, hits),
        else => |lanes| keepHitsLanes(lanes, members, pairs, count, hits),
    };
}

/// Plain version.
pub fn keepHitsScalar(members: [*]const u32, pairs: Pairs, count: usize, hits: Pairs) usize {
    var found: usize = 0;
    for (pairs.columns[0..count], pairs.codes[0..count]) |column, code| {
        hits.columns[found] = column;
        hits.codes[found] = code;
        found += isMember(members, column);
    }
    return found;
}

fn keepHitsLanes(comptime lanes: usize, members: [*]const u32, pairs: Pairs, count: usize, hits: Pairs) usize {
    const Mask = @Int(.unsigned, lanes);
    comptime assert(lanes <= slack_words and lanes <= slack_values);
    const columns = pairs.columns;
    var found: usize = 0;
    var at: usize = 0;
    while (at + lanes <= count) : (at += lanes) {
        const mask = hitMask(lanes, members, columns + at) orelse maskOfHits(Mask, members, columns[at..][0..lanes]);
        pressOne(lanes, mask, columns + at, hits.columns + found);
        pressOne(lanes, mask, pairs.codes + at, hits.codes + found);
        found += @popCount(mask);
    }
    const mask = maskOfHits(Mask, members, columns[at..count]);
    pressOne(lanes, mask, columns + at, hits.columns + found);
    pressOne(lanes, mask, pairs.codes + at, hits.codes + found);
    return found + @popCount(mask);
}

/// Null where the columns reach over more than one vector of words.
inline fn hitMask(comptime lanes: usize, members: [*]const u32, columns: [*]const u32) ?@Int(.unsigned, lanes) {
    const Lanes = @Vector(lanes, u32);
    const column: Lanes = columns[0..lanes].*;
    const first = columns[0] >> 5;
    const place = (column >> @splat(5)) -% @as(Lanes, @splat(first));
    if (@reduce(.Or, place >= @as(Lanes, @splat(lanes)))) return null;
    const window: Lanes = members[first..][0..lanes].*;
    const bit = @as(Lanes, @splat(1)) << @as(@Vector(lanes, u5), @truncate(column));
    return @bitCast((compress.pick(lanes, window, place) & bit) != @as(Lanes, @splat(0)));
}

inline fn pressOne(comptime lanes: usize, mask: @Int(.unsigned, lanes), source: [*]const u32, target: [*]u32) void {
    target[0..lanes].* = compress.press(lanes, mask, source[0..lanes].*);
}

noinline fn maskOfHits(comptime Mask: type, members: [*]const u32, columns: []const u32) Mask {
    var mask: Mask = 0;
    for (columns, 0..) |column, lane| mask |= @as(Mask, @intCast(isMember(members, column))) << @intCast(lane);
    return mask;
}

/// Entries of a table that are looked up a vector at a time; the table can be read this far whatever its length is.
pub const direct_entries = 2 * @max(compress.press_lanes, 8);

/// Replaces the codes by `table[code]` a vector at a time as long as they are below `direct_entries`; the others become
/// what `rest(code)` gives. `codes` has room for `slack_values` more.
pub inline fn lookUpCodes(codes: [*]u32, count: usize, table: [*]const f32, rest: anytype) void {
    const lanes = compress.press_lanes;
    const results: [*]f32 = @ptrCast(codes);
    if (lanes == 0) {
        for (codes[0..count], results) |code, *result| result.* = rest.of(code);
        return;
    }
    const Lanes = @Vector(lanes, u32);
    @memset(codes[count..][0..slack_values], 0);
    const low: Lanes = @bitCast(@as(@Vector(lanes, f32), table[0..lanes].*));
    const high: Lanes = @bitCast(@as(@Vector(lanes, f32), table[lanes..][0..lanes].*));
    var at: usize = 0;
    while (at < count) : (at += lanes) {
        const code: Lanes = codes[at..][0..lanes].*;
        if (@reduce(.Max, code) < direct_entries) {
            codes[at..][0..lanes].* = compress.pickOfTwo(lanes, low, high, code);
        } else {
            for (codes[at..][0..lanes], results[at..]) |one, *result| result.* = rest.of(one);
        }
    }
}

const testing = std.testing;

test "hits against the plain version, near and far apart, in any order" {
    var random = std.Random.DefaultPrng.init(11);
    const n_max = 300;
    for (0..2000) |round| {
        const n_cols = random.random().intRangeAtMost(u32, 1, if (round % 2 == 0) 400 else 60_000);
        const members = try testing.allocator.alloc(u32, wordCount(n_cols));
        defer testing.allocator.free(members);
        @memset(members, 0);
        for (0..random.random().uintAtMost(usize, n_cols)) |_| addMember(members, random.random().uintLessThan(u32, n_cols));
        var columns: [3][n_max + slack_values]u32 = undefined;
        var codes: [3][n_max + slack_values]u32 = undefined;
        random.random().bytes(std.mem.sliceAsBytes(&columns));
        random.random().bytes(std.mem.sliceAsBytes(&codes));
        const count = random.random().uintAtMost(usize, n_max);
        for (columns[0][0..count]) |*column| column.* = random.random().uintLessThan(u32, n_cols);
        if (round % 3 != 0) std.mem.sort(u32, columns[0][0..count], {}, std.sort.asc(u32));
        var expected: usize = 0;
        for (columns[0][0..count]) |column| {
            expected += @intFromBool(members[column / 32] & @as(u32, 1) << @intCast(column % 32) != 0);
        }
        var pairs: [3]Pairs = undefined;
        for (&pairs, &columns, &codes) |*pair, *own_columns, *own_codes| {
            pair.* = .{ .columns = own_columns, .codes = own_codes };
        }
        const found = keepHits(members.ptr, pairs[0], count, pairs[1]);
        try testing.expectEqual(expected, found);
        try testing.expectEqual(found, keepHitsScalar(members.ptr, pairs[0], count, pairs[2]));
        try testing.expectEqualSlices(u32, columns[2][0..found], columns[1][0..found]);
        try testing.expectEqualSlices(u32, codes[2][0..found], codes[1][0..found]);
    }
}

test "codes are looked up, large ones singly" {
    var random = std.Random.DefaultPrng.init(12);
    var table: [64]f32 = undefined;
    for (&table, 0..) |*entry, index| entry.* = @floatFromInt(3 * index);
    const Rest = struct {
        table: *const [64]f32,

        fn of(self: @This(), code: u32) f32 {
            return if (code < 64) self.table[code] else @floatFromInt(code);
        }
    };
    var codes: [200 + slack_values]u32 = undefined;
    for (0..200) |count| {
        var expected: [200]f32 = undefined;
        for (codes[0..count], expected[0..count]) |*code, *want| {
            code.* = random.random().uintLessThan(u32, if (random.random().uintLessThan(u8, 20) == 0) 100 else 12);
            want.* = @floatFromInt(if (code.* < 64) 3 * code.* else code.*);
        }
        lookUpCodes(&codes, count, &table, Rest{ .table = &table });
        const results: [*]const f32 = @ptrCast(&codes);
        try testing.expectEqualSlices(f32, expected[0..count], results[0..count]);
    }
}
