//! ln(1 + v * factor) over the values of a row, negatives and NaN counting as 0. Compiled once per CPU level.

const std = @import("std");
const log1p = @import("log1p.zig");

const lanes = 8;

pub fn logScaled(values: []const f32, factor: f32, out: [*]f32) void {
    var at: usize = 0;
    while (at + lanes <= values.len) : (at += lanes) {
        out[at..][0..lanes].* = logLanes(values[at..][0..lanes].*, factor);
    }
    if (at == values.len) return;
    var rest: [lanes]f32 = @splat(0);
    @memcpy(rest[0 .. values.len - at], values[at..]);
    const results: [lanes]f32 = logLanes(rest, factor);
    @memcpy(out[at..values.len], results[0 .. values.len - at]);
}

inline fn logLanes(values: @Vector(lanes, f32), factor: f32) @Vector(lanes, f32) {
    const zero: @Vector(lanes, f32) = @splat(0);
    // chosen after the product: the factor of a row of next to nothing is infinite, and 0 stays 0 all the same
    const scaled = values * @as(@Vector(lanes, f32), @splat(factor));
    return log1p.log1pLanes(lanes, @select(f32, values > zero, scaled, zero));
}

const testing = std.testing;

test "every length gives the values of one lane at a time" {
    var values: [19]f32 = undefined;
    for (&values, 0..) |*value, place| value.* = @as(f32, @floatFromInt(place)) - 2;
    values[7] = std.math.nan(f32);
    for (0..values.len) |length| {
        var out: [20]f32 = @splat(-9);
        logScaled(values[0..length], 0.5, &out);
        for (values[0..length], out[0..length]) |value, result| {
            const clipped: f32 = if (value > 0) value else 0;
            try testing.expectEqual(log1p.log1pOne(clipped * 0.5), result);
        }
        try testing.expectEqual(@as(f32, -9), out[length]);
    }
}

test "zeros stay zeros whatever the factor" {
    const infinite = std.math.inf(f32);
    var out: [9]f32 = undefined;
    logScaled(&.{ 0, 1, -1, 0, 0, 2, 0, std.math.nan(f32), 0 }, infinite, &out);
    try testing.expectEqualSlices(f32, &.{ 0, infinite, 0, 0, 0, infinite, 0, 0, 0 }, &out);
}
