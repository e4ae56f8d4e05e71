//! The library size of a row. Compiled once per CPU level.

const std = @import("std");

/// The sum of a row in float64, in order, negatives and NaN left out.
pub fn librarySize(values: []const f32) f64 {
    return wholeSum(values) orelse orderedSum(values);
}

/// Sums of whole numbers below 2^24 are exact in any order (of less than 2^29 of them), so that lanes may add them.
/// Null when there are others.
fn wholeSum(values: []const f32) ?f64 {
    const lanes = 8;
    const V = @Vector(lanes, f32);
    if (values.len >= 1 << 29) return null;
    const zero: V = @splat(0);
    const limit: V = @splat(1 << 24);
    var sums: @Vector(lanes, f64) = @splat(0);
    var is_whole: @Vector(lanes, bool) = @splat(true);
    var at: usize = 0;
    while (at + lanes <= values.len) : (at += lanes) {
        const given: V = values[at..][0..lanes].*;
        const clipped = @select(f32, given > zero, given, zero);
        const is_small = clipped < limit;
        const small = @select(f32, is_small, clipped, zero);
        const whole: @Vector(lanes, i32) = @intFromFloat(small);
        const same = @as(V, @floatFromInt(whole)) == clipped;
        is_whole = @select(bool, same, is_whole, @as(@Vector(lanes, bool), @splat(false)));
        sums += @as(@Vector(lanes, f64), @floatCast(small));
    }
    if (!@reduce(.And, is_whole)) return null;
    // The last few may be any numbers: they are added in order to an exact sum.
    var sum = @reduce(.Add, sums);
    for (values[at..]) |value| sum += if (value > 0) value else 0;
    return sum;
}

fn orderedSum(values: []const f32) f64 {
    var sum: f64 = 0;
    for (values) |value| sum += if (value > 0) value else 0;
    return sum;
}

test "sums are those in order" {
    var random: @import("../rng.zig").Generator = .init(3);
    var values: [200]f32 = undefined;
    for (0..60) |round| {
        for (&values) |*value| {
            value.* = @floatFromInt(random.below(1 << 24));
            if (random.below(20) == 0) value.* = -value.*;
        }
        if (round % 3 == 1) values[random.below(200)] = 0.1;
        if (round % 3 == 2) values[random.below(200)] = 1e30;
        for ([_]usize{ 0, 1, 7, 8, 9, 200 }) |length| {
            try std.testing.expectEqual(orderedSum(values[0..length]), librarySize(values[0..length]));
        }
    }
}
