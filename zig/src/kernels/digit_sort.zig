//! Ranking by counting: the positive values of a row, the largest first, and in the order of the row where they are
//! equal. NaN is not positive.
//!
//! An entry is one 64-bit number: the flipped bits of the float32 value above the place. Positive floats order as
//! their bits do, so entries in ascending order are the ranking. They are sorted by counting, least digit first and
//! stably, over those bits alone in which the values of the row differ. Counts differ in few: up to about 500
//! they need a single pass. Where there are more bits than two passes take, the two go over the upper ones, which
//! leaves few entries out of order, and those are put right one by one.

const std = @import("std");
const assert = std.debug.assert;

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

pub const counter_count = 1 << digit_bits_max;

/// All entries in order, in one half of `storage`, each half of which has room for all values. `counters` are
/// `counter_count`.
pub fn ranked(values: []const f32, storage: []Entry, counters: []u32) []const Entry {
    const half = storage.len / 2;
    assert(values.len <= half and values.len <= std.math.maxInt(u32));
    const found = collectPositive(values, storage[0..half]);
    if (found.entries.len <= insertion_entries_max) return insertionSorted(found.entries);
    return digitsSorted(found, storage[half..][0..found.entries.len], counters);
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

fn expectRanking(values: []const f32, storage: []Entry, counters: []u32) !void {
    const entries = ranked(values, storage, counters);
    var n_positive: usize = 0;
    for (values) |value| n_positive += @intFromBool(value > 0);
    try testing.expectEqual(n_positive, entries.len);
    for (entries, 0..) |entry, number| {
        try testing.expectEqual(values[entry.place()], entry.value());
        if (number == 0) continue;
        const before = entries[number - 1];
        try testing.expect(before.value() > entry.value() or
            (before.value() == entry.value() and before.place() < entry.place()));
    }
}

test "entries are in order, for counts, for any floats, and beside an outlier" {
    var random: @import("../rng.zig").Generator = .init(3);
    var values: [700]f32 = undefined;
    var storage: [2 * values.len]Entry = undefined;
    var counters: [counter_count]u32 = undefined;
    for ([_]usize{ 0, 1, 2, 31, 32, 33, 34, 200, 700 }) |length| {
        const some = values[0..length];
        for ([_]u32{ 1, 2, 3, 60, 5000, 1 << 20 }) |bound| {
            for (some) |*value| value.* = @floatFromInt(random.below(bound));
            try expectRanking(some, &storage, &counters);
        }
        for (some) |*value| value.* = @bitCast(random.next32()); // of any size, NaN among them
        try expectRanking(some, &storage, &counters);
        for ([_]f32{ 1e-30, 1e30 }) |outlier| {
            for (some) |*value| value.* = @bitCast(@as(u32, 0x3f80_0000) + random.below(500));
            if (length > 30) some[30] = outlier;
            try expectRanking(some, &storage, &counters);
        }
    }
}
