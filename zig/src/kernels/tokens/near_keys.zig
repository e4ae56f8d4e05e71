//! Ranks a row of counts by keys that are nearly right, and asks for exact ones where two are too near to be told
//! apart. Compiled once per CPU level; needs a sort by vectors.
//!
//! A row ranks by the exact key e = f32(f64(v) * factor / f64(s)). Its near key is a = f32(v * r), with r = f32(1 / s)
//! out of a table that all rows share: it leaves out the factor, which is the same for the whole row, and takes no
//! division. Nothing under- or overflows (`isTame`), so that each rounding is off by a relative 2^-24 at most in
//! float32, and by 2^-53 in float64:
//!
//!   a = (v / s) (1 + x) with |x| < 2.1 * 2^-24,    t = factor (v / s) (1 + y) with |y| < 2.1 * 2^-53,    e = f32(t).
//!
//! Let the bits of two near keys, read as numbers, be `certain` = 8 or more apart. Each such step is more than 2^-24 of
//! the smaller key b, so that a / b > 1 + 8 * 2^-24, and their t are apart by a factor of more than
//!
//!   (1 + 8 * 2^-24) (1 - 2.1 * 2^-24) / (1 + 2.1 * 2^-24) * (1 - 5 * 2^-53) > 1 + 3.7 * 2^-24.
//!
//! A float32 step is at most 2 * 2^-24 of the number above which it lies. Two numbers that are rounded to the same
//! float32 are no more than one step apart, so that the exact keys of these differ, and in the order of the near ones.
//! Nearer pairs are compared by their exact keys, and by their places where these are equal.
//!
//! Sorted are words in which a near key keeps its leading bits above its place. Kept bits that are two or more apart
//! mean more than 2^shift steps, and shift is 3 or more: those are certain. The others are neighbours in the sorted
//! words, or have between them only such as are neighbours, and insertion puts them right.

const std = @import("std");
const rank_values = @import("rank_values.zig");
const ranked_places = @import("../ranked_places.zig");
const word_sort = @import("../word_sort.zig");

const lanes = if (word_sort.lanes > 0) word_sort.lanes else 4;
const Words = @Vector(lanes, u32);
const Floats = @Vector(lanes, f32);

/// Places take up to 14 of the 32 bits of a word.
const values_max = 1 << 14;
/// Counts are below: their sums fit into a lane.
const count_limit = 1 << 16;
/// Steps between float32 numbers.
const certain_shift = 3;
const certain = 1 << certain_shift;
/// Kept bits that are so far apart are certain.
const certain_kept = 2;

/// What all rows share: 1 / statistic for each gene, and between which the statistics lie.
pub const Table = extern struct {
    reciprocals: [*]const f32,
    statistic_min: f32,
    statistic_max: f32,
};

/// Fills one reciprocal for each statistic, all of which are positive. Null where some are too small or too large.
pub fn tableOf(statistics: []const f32, reciprocals: []f32) ?Table {
    var smallest = std.math.inf(f32);
    var largest: f32 = 0;
    for (statistics, reciprocals) |statistic, *reciprocal| {
        smallest = @min(smallest, statistic);
        largest = @max(largest, statistic);
        reciprocal.* = 1 / statistic;
    }
    if (smallest < 0x1p-100 or largest > 0x1p100) return null;
    return .{ .reciprocals = reciprocals.ptr, .statistic_min = smallest, .statistic_max = largest };
}

/// The at most `ids_out.len` first ids of the ranking, and their number; null where the row has to be ranked by exact
/// keys. `keys` has room for `rank_values.keys_past` more than the values of the row.
pub fn rankRow(row: rank_values.Row, table: Table, keys: [*]f32, space: ranked_places.Space, ids_out: []i32) ?usize {
    if (row.n_values == 0) return 0;
    if (row.n_values > values_max) return null;
    const ids = row.ids[0..row.n_values];
    const values = row.values[0..row.n_values];
    const total = sumOfCounts(values) orelse return null;
    const factor = row.target_sum / @as(f64, @floatFromInt(total));
    if (!isTame(factor, table)) return null;
    const range = makeKeys(ids, values, table.reciprocals, keys);
    const ranking: Ranking = .{ .row = row, .keys = keys, .factor = factor, .form = .of(range, ids.len) };
    const wanted = @min(ids.len, ids_out.len);
    const room: word_sort.Room = .{ .words = space.words, .spare = space.spare, .upper = space.upper, .sorted = space.places };
    const done = word_sort.sortFrom(ranking, room, ids.len, wanted, .{ .ignored_bits = ranking.form.place_bits, .apart = certain_kept });
    if (!ranking.mended(space.places[0..done])) return null;
    writeIds(ids, space.places[0..wanted], ranking.form.placeMask(), ids_out.ptr);
    return wanted;
}

/// Two at a time: a store of both takes no longer than one of each.
fn writeIds(ids: []const i32, words: []const u32, mask: u32, ids_out: [*]i32) void {
    var at: usize = 0;
    while (at + 2 <= words.len) : (at += 2) {
        ids_out[at..][0..2].* = .{ ids[words[at] & mask], ids[words[at + 1] & mask] };
    }
    if (at < words.len) ids_out[at] = ids[words[at] & mask];
}

/// Null where a value is no positive whole number below the limit. Sums of those are exact in any order.
fn sumOfCounts(values: []const f32) ?u32 {
    var sums: Words = @splat(0);
    var is_fine: @Vector(lanes, bool) = @splat(true);
    var at: usize = 0;
    while (at + lanes <= values.len) : (at += lanes) {
        const counts = countsOf(lanes, values[at..][0..lanes].*);
        sums += counts;
        is_fine = @select(bool, counts == @as(Words, @splat(0)), @as(@Vector(lanes, bool), @splat(false)), is_fine);
    }
    if (!@reduce(.And, is_fine)) return null;
    var sum = @reduce(.Add, sums);
    for (values[at..]) |value| {
        const count = countsOf(1, .{value})[0];
        if (count == 0) return null;
        sum += count;
    }
    return sum;
}

/// 0 for what is no count.
inline fn countsOf(comptime n: usize, given: @Vector(n, f32)) @Vector(n, u32) {
    const F = @Vector(n, f32);
    const zero: F = @splat(0);
    const small = @select(f32, given < @as(F, @splat(count_limit)), given, zero);
    const whole: @Vector(n, i32) = @intFromFloat(@select(f32, small > zero, small, zero));
    const is_count = @as(F, @floatFromInt(whole)) == given;
    return @bitCast(@select(i32, is_count, whole, @as(@Vector(n, i32), @splat(0))));
}

/// Whether all exact keys are normal float32, of counts below the limit. Near keys are, since the statistics are.
fn isTame(factor: f64, table: Table) bool {
    return factor * count_limit / table.statistic_min < 0x1p127 and factor / table.statistic_max > 0x1p-125;
}

const Range = struct { bits_min: u32, bits_max: u32 };

fn makeKeys(ids: []const i32, values: []const f32, reciprocals: [*]const f32, keys: [*]f32) Range {
    var smallest: Words = @splat(std.math.maxInt(u32));
    var largest: Words = @splat(0);
    var at: usize = 0;
    while (at + lanes <= ids.len) : (at += lanes) {
        // the row that lies behind this one is likely to be the next
        @prefetch(ids.ptr + at + ids.len, .{});
        const made = keysOf(ids[at..][0..lanes], values[at..][0..lanes].*, reciprocals);
        keys[at..][0..lanes].* = made;
        smallest = @min(smallest, @as(Words, @bitCast(made)));
        largest = @max(largest, @as(Words, @bitCast(made)));
    }
    if (at < ids.len) {
        // filled up with its own last gene
        var last_ids: [lanes]i32 = @splat(ids[ids.len - 1]);
        var last_values: [lanes]f32 = @splat(values[ids.len - 1]);
        @memcpy(last_ids[0 .. ids.len - at], ids[at..]);
        @memcpy(last_values[0 .. ids.len - at], values[at..]);
        const made = keysOf(&last_ids, last_values, reciprocals);
        keys[at..][0..lanes].* = made;
        smallest = @min(smallest, @as(Words, @bitCast(made)));
        largest = @max(largest, @as(Words, @bitCast(made)));
    }
    return .{ .bits_min = @reduce(.Min, smallest), .bits_max = @reduce(.Max, largest) };
}

inline fn keysOf(ids: *const [lanes]i32, values: Floats, reciprocals: [*]const f32) Floats {
    var gathered: [lanes]f32 = undefined;
    inline for (0..lanes) |lane| gathered[lane] = reciprocals[@intCast(ids[lane])];
    return values * @as(Floats, gathered);
}

/// How the words of a row are made.
const Form = struct {
    bits_max: u32,
    shift: u5,
    place_bits: u5,

    fn of(range: Range, n_values: usize) Form {
        const place_bits: u5 = @intCast(std.math.log2_int_ceil(usize, n_values));
        const used_bits = 32 - @as(u32, @clz(range.bits_max - range.bits_min));
        return .{
            .bits_max = range.bits_max,
            .shift = @intCast(@max(certain_shift, used_bits -| (32 - @as(u32, place_bits)))),
            .place_bits = place_bits,
        };
    }

    fn placeMask(form: Form) u32 {
        return (@as(u32, 1) << form.place_bits) - 1;
    }
};

const Ranking = struct {
    row: rank_values.Row,
    keys: [*]const f32,
    factor: f64,
    form: Form,

    /// For the sort: words from a place on.
    pub inline fn lanesAt(ranking: Ranking, at: usize) Words {
        const form = ranking.form;
        @prefetch(ranking.row.values + ranking.row.n_values + at, .{}); // of the next row
        const below = @as(Words, @splat(form.bits_max)) -% @as(Words, @bitCast(@as(Floats, ranking.keys[at..][0..lanes].*)));
        const kept = below >> @splat(form.shift) << @splat(form.place_bits);
        return kept | (std.simd.iota(u32, lanes) + @as(Words, @splat(@intCast(at))));
    }

    pub fn wordAt(ranking: Ranking, at: usize) u32 {
        const form = ranking.form;
        return (form.bits_max - @as(u32, @bitCast(ranking.keys[at]))) >> form.shift << form.place_bits | @as(u32, @intCast(at));
    }

    /// Insertion where neighbours are not certain. Gives up when it has moved as many as there are.
    fn mended(ranking: *const Ranking, words: []u32) bool {
        var moves_left = words.len;
        var at: usize = 1;
        while (at < words.len) : (at += lanes) {
            var near = ranking.nearMask(words, at);
            while (near != 0) : (near &= near - 1) {
                if (!ranking.inserted(words, at + @ctz(near), &moves_left)) return false;
            }
        }
        return true;
    }

    /// Bit i: it is not certain that word at + i follows the one before it.
    inline fn nearMask(ranking: *const Ranking, words: []const u32, at: usize) word_sort.Mask {
        const place_bits: @Vector(lanes, u5) = @splat(ranking.form.place_bits);
        // there is room behind the words, whatever it holds
        const before: Words = (words.ptr + at - 1)[0..lanes].*;
        const here: Words = (words.ptr + at)[0..lanes].*;
        const is_near: word_sort.Mask = @bitCast((here >> place_bits) -% (before >> place_bits) < @as(Words, @splat(certain_kept)));
        return is_near & word_sort.lowMask(@min(lanes, words.len - at));
    }

    fn inserted(ranking: *const Ranking, words: []u32, number: usize, moves_left: *usize) bool {
        const mask = ranking.form.placeMask();
        const moving = words[number];
        var at = number;
        while (at > 0 and ranking.precedes(moving & mask, words[at - 1] & mask)) : (at -= 1) {
            if (moves_left.* == 0) return false;
            moves_left.* -= 1;
            words[at] = words[at - 1];
        }
        words[at] = moving;
        return true;
    }

    fn precedes(ranking: *const Ranking, place: u32, other: u32) bool {
        const bits: u32 = @bitCast(ranking.keys[place]);
        const other_bits: u32 = @bitCast(ranking.keys[other]);
        if (bits >= other_bits + certain) return true;
        if (other_bits >= bits + certain) return false;
        const key = ranking.exactKey(place);
        const other_key = ranking.exactKey(other);
        return if (key == other_key) place < other else key > other_key;
    }

    fn exactKey(ranking: *const Ranking, place: u32) f32 {
        const row = ranking.row;
        return rank_values.keyOf(row.values[place], ranking.factor, row.statistics[@intCast(row.ids[place])]);
    }
};

const testing = std.testing;
const Generator = @import("../../rng.zig").Generator;

const Case = struct {
    statistics: []const f32,
    values: []const f32,
    target_sum: f64 = 1e4,

    /// The ranking by exact keys, next one after next one. Whether near keys gave one too.
    fn expectExact(case: Case, l_max: usize) !bool {
        const n = case.values.len;
        var scratch: ranked_places.Scratch = try .init(testing.allocator, n);
        defer scratch.deinit();
        const keys = try testing.allocator.alloc(f32, n + rank_values.keys_past);
        defer testing.allocator.free(keys);
        const memory = try testing.allocator.alloc(i32, 3 * n + l_max);
        defer testing.allocator.free(memory);
        const reciprocals = try testing.allocator.alloc(f32, case.statistics.len);
        defer testing.allocator.free(reciprocals);
        const ids = memory[0..n];
        for (ids, 0..) |*id, place| id.* = @intCast(place);
        const row: rank_values.Row = .{
            .ids = ids.ptr,
            .values = case.values.ptr,
            .n_values = n,
            .statistics = case.statistics.ptr,
            .target_sum = case.target_sum,
            .near = null,
        };
        const expected = memory[n..][0..@min(n, l_max)];
        const n_expected = rank_values.rankRow(row, keys.ptr, scratch.space, expected.ptr, expected.len);
        const table = tableOf(case.statistics, reciprocals) orelse return false;
        const found = memory[2 * n ..][0..l_max];
        const n_found = rankRow(row, table, keys.ptr, scratch.space, found) orelse return false;
        try testing.expectEqualSlices(i32, expected[0..n_expected], found[0..n_found]);
        return true;
    }
};

test "near keys rank as exact ones do, when statistics are spread, crowded, equal, or some steps apart" {
    if (word_sort.lanes == 0) return error.SkipZigTest;
    var random: Generator = .init(21);
    var statistics: [3000]f32 = undefined;
    var values: [statistics.len]f32 = undefined;
    var n_near: usize = 0;
    for (0..60) |round| {
        for (&statistics, 0..) |*statistic, gene| {
            const spread: f32 = @bitCast(0x3f00_0000 + (random.next32() & 0xff_ffff));
            statistic.* = switch (round % 6) {
                0 => spread,
                1 => @bitCast(@as(u32, 0x3f80_0000) + random.below(9)),
                2 => @floatFromInt(1 + random.below(4)),
                // one out of ten genes is some steps from the one before it, or from its double
                3 => if (gene > 0 and random.below(10) == 0) @bitCast(@as(u32, @bitCast(statistics[gene - 1])) + random.below(20)) else spread,
                4 => if (gene > 0 and random.below(10) == 0) @bitCast(@as(u32, @bitCast(2 * statistics[gene - 1])) - 3 + random.below(6)) else spread,
                // the words keep all but three bits of the keys, and neighbours are on both sides of those
                else => @bitCast(@as(u32, 0x3f40_0000) + random.below(4000)),
            };
        }
        const bound: u32 = if (round % 6 == 5) 1 else if (round % 2 == 0) 3 else 200;
        for (&values) |*value| value.* = @floatFromInt(1 + random.below(bound));
        for ([_]usize{ 1, 2, 15, 16, 17, 255, 256, 257, 700, 3000 }) |length| {
            for ([_]usize{ 1, 20, 300, 3000 }) |l_max| {
                const case: Case = .{ .statistics = &statistics, .values = values[0..length] };
                n_near += @intFromBool(try case.expectExact(l_max));
            }
        }
    }
    try testing.expect(n_near > 1200);
}

test "a last gene far behind or in front of all others, as the stand-in for unknown genes" {
    if (word_sort.lanes == 0) return error.SkipZigTest;
    var random: Generator = .init(23);
    var statistics: [900]f32 = undefined;
    var values: [statistics.len]f32 = undefined;
    for ([_]f32{ 0x1p24, 0x1p12, 1, 0x1p-24 }) |times| {
        for (0..20) |_| {
            var largest: f32 = 0;
            for (&statistics, &values) |*statistic, *value| {
                statistic.* = @bitCast(0x3e00_0000 + (random.next32() & 0x1ff_ffff));
                value.* = @floatFromInt(1 + random.below(30));
                largest = @max(largest, statistic.*);
            }
            statistics[statistics.len - 1] = largest * times;
            values[values.len - 1] = @floatFromInt(1 + random.below(count_limit - 1));
            const case: Case = .{ .statistics = &statistics, .values = &values };
            for ([_]usize{ 1, 300, 900 }) |l_max| try testing.expect(try case.expectExact(l_max));
        }
    }
}

test "what near keys do not rank" {
    if (word_sort.lanes == 0) return error.SkipZigTest;
    var random: Generator = .init(22);
    var statistics: [300]f32 = undefined;
    var values: [statistics.len]f32 = undefined;
    for (&statistics, &values) |*statistic, *value| {
        statistic.* = @floatFromInt(1 + random.below(1 << 20));
        value.* = @floatFromInt(1 + random.below(count_limit - 1));
    }
    values[7] = count_limit - 1;
    statistics[8] = 1;
    const case: Case = .{ .statistics = &statistics, .values = &values };
    try testing.expect(try case.expectExact(300));
    for ([_]f32{ 0, -0.0, -1, 0.5, 1.5, 1e-45, count_limit, 3e38, std.math.inf(f32), std.math.nan(f32) }) |odd| {
        for ([_]usize{ 0, 150, 299 }) |place| {
            const before = values[place];
            values[place] = odd;
            try testing.expect(!try case.expectExact(300));
            values[place] = before;
        }
    }
    // exact keys that under- or overflow, or nearly so
    for ([_]f64{ 1e-300, 1e-26, 1e-24, 1e30, 1e40, 1e41, 1e300 }) |target_sum| {
        const extreme: Case = .{ .statistics = &statistics, .values = &values, .target_sum = target_sum };
        const is_near = try extreme.expectExact(300);
        try testing.expectEqual(target_sum > 1e-25 and target_sum < 5e40, is_near);
    }
    for ([_]f32{ 1e-45, 1e-38, 1e38 }) |statistic| {
        statistics[9] = statistic;
        try testing.expect(!try case.expectExact(300));
    }
}
