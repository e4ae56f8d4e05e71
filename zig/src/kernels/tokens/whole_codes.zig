//! Counts that stand for themselves: codes of a row whose positive values are small whole numbers, and how often each
//! occurs. Compiled once per CPU level.

const std = @import("std");

/// Codes are below this.
pub const limit = 1024;

/// Tables that are counted in by turns: most values of a cell are the same few, and adding to a counter has to wait
/// for the addition before it.
const tables = 4;
const lanes = 8;

pub const Counters = [tables * limit]u32;

/// The value of each place as a whole number, 0 where it is not positive, and in the first places of `counters` how
/// often each number occurs. Gives the largest one, or null where a value is no whole number or too large.
pub fn wholeCodes(values: []const f32, codes: [*]u32, counters: *Counters) ?u32 {
    const highest = convert(values, codes) orelse return null;
    const used = highest + 1;
    for (0..tables) |table| @memset(counters[table * limit ..][0..used], 0);
    var at: usize = 0;
    while (at + tables <= values.len) : (at += tables) {
        inline for (0..tables) |table| counters[table * limit + codes[at + table]] += 1;
    }
    for (codes[at..values.len]) |code| counters[code] += 1;
    for (0..used) |code| {
        inline for (1..tables) |table| counters[code] += counters[table * limit + code];
    }
    return highest;
}

fn convert(values: []const f32, codes: [*]u32) ?u32 {
    var highest: @Vector(lanes, u32) = @splat(0);
    var at: usize = 0;
    while (at + lanes <= values.len) : (at += lanes) {
        const converted = wholeLanes(values[at..][0..lanes].*) orelse return null;
        codes[at..][0..lanes].* = converted;
        highest = @max(highest, converted);
    }
    var rest: [lanes]f32 = @splat(0);
    @memcpy(rest[0 .. values.len - at], values[at..]);
    const converted = wholeLanes(rest) orelse return null;
    const last: [lanes]u32 = converted;
    @memcpy(codes[at..values.len], last[0 .. values.len - at]);
    return @reduce(.Max, @max(highest, converted));
}

inline fn wholeLanes(given: @Vector(lanes, f32)) ?@Vector(lanes, u32) {
    const F = @Vector(lanes, f32);
    const zero: F = @splat(0);
    const clipped = @select(f32, given > zero, given, zero);
    const small = @select(f32, clipped < @as(F, @splat(limit)), clipped, zero);
    const whole: @Vector(lanes, i32) = @intFromFloat(small);
    if (@reduce(.Or, @as(F, @floatFromInt(whole)) != clipped)) return null;
    return @bitCast(whole);
}

test "codes and counters against a plain loop" {
    var random: @import("../../rng.zig").Generator = .init(8);
    var values: [150]f32 = undefined;
    var codes: [values.len + 1]u32 = @splat(77);
    var counters: Counters = @splat(9);
    for ([_]u32{ 1, 2, 60, limit }) |bound| {
        for (0..values.len) |length| {
            for (values[0..length]) |*value| value.* = @floatFromInt(random.below(bound));
            if (length > 5) values[5] = -3;
            if (length > 11) values[11] = std.math.nan(f32);
            const highest = wholeCodes(values[0..length], &codes, &counters).?;
            var largest: u32 = 0;
            for (values[0..length], codes[0..length]) |value, code| {
                const whole: u32 = if (value > 0) @intFromFloat(value) else 0;
                try std.testing.expectEqual(whole, code);
                largest = @max(largest, whole);
            }
            try std.testing.expectEqual(largest, highest);
            try std.testing.expectEqual(77, codes[length]);
            for (counters[0 .. highest + 1], 0..) |count, code| {
                try std.testing.expectEqual(std.mem.count(u32, codes[0..length], &.{@intCast(code)}), count);
            }
            for (0..length) |place| codes[place] = 77;
        }
    }
}

test "what is no small whole number is seen at every place" {
    var codes: [20]u32 = undefined;
    var counters: Counters = undefined;
    for ([_]f32{ 0.5, 1e-30, limit, 3e9, std.math.inf(f32), 1.0000001 }) |odd| {
        for (0..20) |place| {
            var values: [20]f32 = @splat(1);
            values[place] = odd;
            try std.testing.expectEqual(null, wholeCodes(&values, &codes, &counters));
        }
    }
}
