//! Sorting one row's entries by their output column: least significant digit first, stable.

const std = @import("std");
const assert = std.debug.assert;

/// An entry: the column in the upper half, in the lower one what belongs to it.
pub const Entry = u64;

const digit_bits = 11;
const n_digits = 1 << digit_bits;

pub fn entry(column: u32, payload: u32) Entry {
    return @as(u64, column) << 32 | payload;
}

pub fn columnOf(value: Entry) u32 {
    return @intCast(value >> 32);
}

pub fn payloadOf(value: Entry) u32 {
    return @truncate(value);
}

/// Stable by column; all columns are below `n_columns`. Uses both arrays, and the result is in the one that it gives.
pub fn sort(entries: []align(4) Entry, spare: []align(4) Entry, n_columns: u32) []align(4) Entry {
    assert(spare.len >= entries.len);
    var from = entries;
    var to = spare[0..entries.len];
    var digit: u6 = 0;
    var rest = n_columns -| 1;
    while (rest > 0) : (rest >>= digit_bits) {
        pass(from, to, 32 + digit * digit_bits);
        std.mem.swap([]align(4) Entry, &from, &to);
        digit += 1;
    }
    return from;
}

fn pass(from: []align(4) const Entry, to: []align(4) Entry, shift: u6) void {
    var places: [n_digits]u32 = @splat(0);
    for (from) |value| places[digitOf(value, shift)] += 1;
    var next: u32 = 0;
    for (&places) |*place| {
        const count = place.*;
        place.* = next;
        next += count;
    }
    for (from) |value| {
        const place = &places[digitOf(value, shift)];
        to[place.*] = value;
        place.* += 1;
    }
}

inline fn digitOf(value: Entry, shift: u6) usize {
    return @intCast(value >> shift & (n_digits - 1));
}

test "as a stable sort by column" {
    var random = std.Random.DefaultPrng.init(3);
    var entries: [700]Entry = undefined;
    var spare: [700]Entry = undefined;
    var expected: [700]Entry = undefined;
    for ([_]u32{ 1, 2, 2048, 2049, 1 << 22, (1 << 22) + 1, std.math.maxInt(u32) }) |n_columns| {
        for (&entries, 0..) |*value, index| {
            value.* = entry(random.random().uintLessThan(u32, n_columns), @intCast(index));
        }
        expected = entries;
        // the payload ascends, so that sorting by the whole entry is the stable sort
        std.mem.sort(Entry, &expected, {}, std.sort.asc(Entry));
        const sorted = sort(&entries, &spare, n_columns);
        for (expected, sorted) |wanted, found| try std.testing.expectEqual(wanted, found);
    }
    try std.testing.expectEqual(@as(usize, 0), sort(entries[0..0], spare[0..0], 5).len);
}
