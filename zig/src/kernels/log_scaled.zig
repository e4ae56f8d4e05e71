//! ln(1 + v * factor) over the values of a row, negatives and NaN counting as 0. Compiled once per CPU level.

const std = @import("std");
const log1p = @import("log1p.zig");

const lanes = 8;

/// The factor is rounded to f32 first, unless it is none of its normal numbers.
pub fn logScaled(values: []const f32, factor: f64, out: [*]f32) void {
    const narrow: f32 = @floatCast(factor);
    if (!std.math.isNormal(narrow)) return logEach(values, factor, out);
    var at: usize = 0;
    while (at + lanes <= values.len) : (at += lanes) {
        out[at..][0..lanes].* = logLanes(values[at..][0..lanes].*, narrow);
    }
    if (at == values.len) return;
    var rest: [lanes]f32 = @splat(0);
    @memcpy(rest[0 .. values.len - at], values[at..]);
    const results: [lanes]f32 = logLanes(rest, narrow);
    @memcpy(out[at..values.len], results[0 .. values.len - at]);
}

inline fn logLanes(values: @Vector(lanes, f32), factor: f32) @Vector(lanes, f32) {
    const zero: @Vector(lanes, f32) = @splat(0);
    const infinity: @Vector(lanes, f32) = @splat(std.math.inf(f32));
    const clipped = @select(f32, values > zero, values, zero);
    const scaled = clipped * @as(@Vector(lanes, f32), @splat(factor));
    if (@reduce(.Or, scaled == infinity)) {
        @branchHint(.cold);
        const given: [lanes]f32 = values;
        var results: [lanes]f32 = undefined;
        logEach(&given, factor, &results);
        return results;
    }
    return log1p.log1pLanes(lanes, scaled);
}

/// One by one, whatever the products are.
noinline fn logEach(values: []const f32, factor: f64, out: [*]f32) void {
    for (values, out) |value, *result| result.* = log1p.log1pProduct(if (value > 0) value else 0, factor);
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

test "products beyond float32 have their logarithms, and zeros stay zeros" {
    const infinite = std.math.inf(f32);
    const largest = std.math.floatMax(f32);
    const values = [_]f32{ 0, 1, -1, 1e-45, 1e20, largest, 3, std.math.nan(f32), infinite, 0, 1e-30, largest };
    var out: [values.len]f32 = undefined;
    for ([_]f64{ 1, 1e20, largest, 1e39, 1e80, 1e-44, 1e-60 }) |factor| {
        logScaled(&values, factor, &out);
        for (values, out) |value, result| {
            const clipped: f64 = if (value > 0) value else 0;
            const expected: f64 = if (clipped > 0) std.math.log1p(clipped * factor) else 0;
            if (clipped == infinite) {
                try testing.expectEqual(infinite, result);
                continue;
            }
            // of the smallest numbers float32 knows multiples of 1.4e-45 alone
            try testing.expectApproxEqAbs(expected, @as(f64, result), 3e-7 * expected + 1e-45);
        }
    }
}
