//! The k largest values of a row in a fixed order: value descending, then place in the row ascending, which is the
//! gene id ascending, because the ids of a row ascend. Only positive values take part; NaN is not positive.
//!
//! An entry is one 64-bit number: the flipped bits of the float32 value above the place. Positive floats order as
//! their bits do, so entries in ascending order are the ranking. They are sorted by counting, least digit first and
//! stably, over those bits alone in which the values of the row differ. Counts differ in few: up to about 500
//! they need a single pass. Where there are more bits than two passes take, the two go over the upper ones, which
//! leaves few entries out of order, and those are put right one by one.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;

pub const Entry = struct {
    packed_bits: u64,

    fn of(positive: f32, at: u32) Entry {
        return .{ .packed_bits = @as(u64, ~@as(u32, @bitCast(positive))) << 32 | at };
    }

    fn key(entry: Entry) u32 {
        return @intCast(entry.packed_bits >> 32);
    }

    pub fn value(entry: Entry) f32 {
        return @bitCast(~entry.key());
    }

    /// Where in the row the value stands.
    pub fn place(entry: Entry) u32 {
        return @truncate(entry.packed_bits);
    }
};

/// Bits of the key that one pass sorts by, at most: 2048 counters stay in the first-level cache.
const digit_bits_max = 11;
/// Up to here the entries are sorted by insertion, which needs no counters.
const insertion_entries_max = 32;

/// What ranking needs: room for the longest row, and the counters.
pub const Scratch = struct {
    allocator: Allocator,
    storage: []Entry,
    counters: []u32,

    pub fn init(allocator: Allocator, row_values_max: usize) Allocator.Error!Scratch {
        const storage = try allocator.alloc(Entry, 2 * row_values_max);
        errdefer allocator.free(storage);

        const counters = try allocator.alloc(u32, 1 << digit_bits_max);
        return .{ .allocator = allocator, .storage = storage, .counters = counters };
    }

    pub fn deinit(scratch: *Scratch) void {
        scratch.allocator.free(scratch.counters);
        scratch.allocator.free(scratch.storage);
        scratch.* = undefined;
    }
};

/// The at most k first of the ranking. They lie in the scratch, until its next use.
pub fn topK(values: []const f32, k: usize, scratch: *Scratch) []const Entry {
    const half = scratch.storage.len / 2;
    assert(values.len <= half and values.len <= std.math.maxInt(u32));
    const found = collectPositive(values, scratch.storage[0..half]);
    const sorted = if (found.entries.len <= insertion_entries_max)
        insertionSorted(found.entries)
    else
        digitsSorted(found, scratch.storage[half..][0..found.entries.len], scratch.counters);
    return sorted[0..@min(k, sorted.len)];
}

const Collected = struct {
    entries: []Entry,
    key_min: u32,
    /// The largest key less the smallest one.
    key_span: u32,
    /// Bits in which some keys differ.
    differing: u32,
};

fn collectPositive(values: []const f32, entries: []Entry) Collected {
    var length: usize = 0;
    var key_min: u32 = std.math.maxInt(u32);
    var key_max: u32 = 0;
    var any: u32 = 0;
    var all: u32 = std.math.maxInt(u32);
    for (values, 0..) |value, place| {
        if (!(value > 0)) continue;
        const entry: Entry = .of(value, @intCast(place));
        entries[length] = entry;
        length += 1;
        const key = entry.key();
        key_min = @min(key_min, key);
        key_max = @max(key_max, key);
        any |= key;
        all &= key;
    }
    return .{
        .entries = entries[0..length],
        .key_min = key_min,
        .key_span = key_max -% key_min,
        .differing = any & ~all,
    };
}

fn insertionSorted(entries: []Entry) []Entry {
    for (entries, 0..) |moving, end| {
        var at = end;
        while (at > 0 and entries[at - 1].packed_bits > moving.packed_bits) : (at -= 1) entries[at] = entries[at - 1];
        entries[at] = moving;
    }
    return entries;
}

/// Counting passes between the two halves of the scratch. The keys less their minimum, without the low bits that
/// are the same in all of them, are cut into digits of equal width.
fn digitsSorted(found: Collected, other: []Entry, counters: []u32) []Entry {
    if (found.differing == 0) return found.entries;
    const low: u32 = @ctz(found.differing);
    const bits: u32 = 32 - @clz(found.key_span >> @intCast(low));
    // Counters cost as much as entries: there are half as many of them.
    const upper_width = std.math.clamp(std.math.log2_int(usize, found.entries.len) - 1, 6, digit_bits_max);
    if (bits > 2 * digit_bits_max or bits > 2 * upper_width + 2) {
        const skipped = bits - 2 * upper_width;
        const nearly = passes(found.key_min, low + skipped, 2, upper_width, found.entries, other, counters);
        if (mended(nearly)) return nearly;
        const spare = if (nearly.ptr == other.ptr) found.entries else other;
        return allPasses(found.key_min, low, bits, nearly, spare, counters);
    }
    return allPasses(found.key_min, low, bits, found.entries, other, counters);
}

fn allPasses(key_min: u32, low: u32, bits: u32, from: []Entry, to: []Entry, counters: []u32) []Entry {
    const n_passes = (bits + digit_bits_max - 1) / digit_bits_max;
    return passes(key_min, low, n_passes, (bits + n_passes - 1) / n_passes, from, to, counters);
}

/// Digits of `width` bits from bit `low` on.
fn passes(key_min: u32, low: u32, n_passes: u32, width: u32, first: []Entry, second: []Entry, counters: []u32) []Entry {
    var from = first;
    var to = second;
    for (0..n_passes) |pass| {
        const digit: Digit = .{
            .key_min = key_min,
            .shift = @intCast(low + pass * width),
            .mask = (@as(u32, 1) << @intCast(width)) - 1,
        };
        countingPass(digit, from, to, counters[0 .. digit.mask + 1]);
        std.mem.swap([]Entry, &from, &to);
    }
    return from;
}

/// Insertion, which is quick where few entries are out of order. Gives up, with all entries still there, when it has
/// moved as many as there are: values that crowd beside an outlier share their upper bits.
fn mended(entries: []Entry) bool {
    var moves_left = entries.len;
    for (1..entries.len) |end| {
        const moving = entries[end];
        var at = end;
        while (at > 0 and entries[at - 1].packed_bits > moving.packed_bits and moves_left > 0) : (at -= 1) {
            entries[at] = entries[at - 1];
            moves_left -= 1;
        }
        entries[at] = moving;
        if (moves_left == 0) return false;
    }
    return true;
}

const Digit = struct {
    key_min: u32,
    shift: u5,
    mask: u32,

    inline fn of(digit: Digit, entry: Entry) u32 {
        return (entry.key() - digit.key_min) >> digit.shift & digit.mask;
    }
};

fn countingPass(digit: Digit, from: []const Entry, to: []Entry, counters: []u32) void {
    @memset(counters, 0);
    for (from) |entry| counters[digit.of(entry)] += 1;
    var before: u32 = 0;
    for (counters) |*counter| {
        const count = counter.*;
        counter.* = before;
        before += count;
    }
    for (from) |entry| {
        const counter = &counters[digit.of(entry)];
        to[counter.*] = entry;
        counter.* += 1;
    }
}

const testing = std.testing;

/// The k first by looking for the next one k times.
fn expectRanking(values: []const f32, k: usize, scratch: *Scratch) !void {
    const ranked = topK(values, k, scratch);
    const taken = try testing.allocator.alloc(bool, values.len);
    defer testing.allocator.free(taken);
    @memset(taken, false);
    for (ranked) |entry| {
        var best: ?usize = null;
        for (values, 0..) |value, place| {
            if (taken[place] or !(value > 0)) continue;
            if (best == null or value > values[best.?]) best = place;
        }
        try testing.expectEqual(best.?, entry.place());
        try testing.expectEqual(values[best.?], entry.value());
        taken[best.?] = true;
    }
    var n_left: usize = 0;
    for (values, taken) |value, was_taken| n_left += @intFromBool(value > 0 and !was_taken);
    try testing.expect(ranked.len == k or n_left == 0);
}

test "the ranking is that of repeated search, for counts and for any floats" {
    var random: @import("../rng.zig").Generator = .init(3);
    var values: [700]f32 = undefined;
    var scratch: Scratch = try .init(testing.allocator, values.len);
    defer scratch.deinit();
    const bounds = [_]u32{ 1, 2, 3, 60, 5000, 1 << 20 };
    for ([_]usize{ 0, 1, 2, 31, 32, 33, 34, 200, 700 }) |length| {
        for (bounds) |bound| {
            for (values[0..length]) |*value| value.* = @floatFromInt(random.below(bound));
            for ([_]usize{ 1, 5, 33, 700 }) |k| try expectRanking(values[0..length], k, &scratch);
        }
        for (values[0..length]) |*value| value.* = @bitCast(random.next32()); // of any size, NaN among them
        try expectRanking(values[0..length], 700, &scratch);
    }
}

test "values that crowd beside an outlier" {
    var random: @import("../rng.zig").Generator = .init(4);
    var values: [700]f32 = undefined;
    var scratch: Scratch = try .init(testing.allocator, values.len);
    defer scratch.deinit();
    for ([_]f32{ 1e-30, 1e30 }) |outlier| {
        for (&values) |*value| value.* = @bitCast(@as(u32, 0x3f80_0000) + random.below(500));
        values[300] = outlier;
        for ([_]usize{ 33, 100, 301, 700 }) |length| try expectRanking(values[0..length], length, &scratch);
    }
}

test "ties keep the order of the row; zeros, negatives and NaN do not take part" {
    var scratch: Scratch = try .init(testing.allocator, 8);
    defer scratch.deinit();
    const values = [_]f32{ 2, std.math.nan(f32), 5, 0, 2, -7, std.math.inf(f32), 5 };
    const ranked = topK(&values, 8, &scratch);
    try testing.expectEqual(5, ranked.len);
    for (ranked, [_]u32{ 6, 2, 7, 0, 4 }) |entry, place| try testing.expectEqual(place, entry.place());
    try testing.expectEqual(0, topK(values[0..0], 3, &scratch).len);
}
