//! What happens to a value on its way into a training batch: clip, normalise, logarithm.
//!
//! normalise: v * (target_sum / depth), the factor in f64, the product rounded to f32; depth is the cell's total over
//! all stored genes. With the logarithm, negatives and NaN count as 0 before anything else, and the depth sums what is
//! left; without it nothing is clipped and the depth is the plain sum. A depth that is not positive scales nothing, nor
//! does one so small that the factor is beyond float64.
//!
//! PFlog: ln(1 + 4 a v) of clipped values, less the mean of that over all genes of the cell, absent ones included.

const std = @import("std");
const log1p = @import("log1p.zig");

pub const Transform = extern struct {
    normalize: bool,
    log1p: bool,
    target_sum: f64,
    /// 4 times the overdispersion for PFlog, which is a logarithm without normalising, then centred; else 0.
    pflog_scale: f64 = 0,

    pub fn isCentred(self: Transform) bool {
        return self.pflog_scale > 0;
    }

    pub fn isIdentity(self: Transform) bool {
        return !self.normalize and !self.log1p;
    }

    pub fn factor(self: Transform, depth: f64) f64 {
        if (self.isCentred()) return self.pflog_scale;
        if (!self.normalize or !(depth > 0)) return 1;
        const scale = self.target_sum / depth;
        return if (std.math.isFinite(scale)) scale else 1;
    }

    /// In place of the values: their f32 results. Logarithms are finite if the values are; see `isScaledBeyond` for
    /// what is scaled alone.
    pub fn apply(self: Transform, comptime lanes: usize, values: @Vector(lanes, f64), scale: f64) @Vector(lanes, f32) {
        if (!self.log1p) return @floatCast(values * @as(@Vector(lanes, f64), @splat(scale)));
        const zero: @Vector(lanes, f64) = @splat(0);
        const clipped = @select(f64, values > zero, values, zero);
        const scaled: @Vector(lanes, f32) = @floatCast(clipped * @as(@Vector(lanes, f64), @splat(scale)));
        if (@reduce(.Or, scaled == @as(@Vector(lanes, f32), @splat(std.math.inf(f32))))) {
            @branchHint(.cold);
            return productLogs(lanes, clipped, scale);
        }
        return log1p.log1pLanes(lanes, scaled);
    }

    pub fn applyOne(self: Transform, value: f64, scale: f64) f32 {
        return self.apply(4, @splat(value), scale)[0];
    }

    /// Whether scaling took finite values out of the range of float32. Of values that are not negative none is larger than
    /// their depth, and none becomes larger than the target sum; others may be, where the depth is what they leave.
    pub fn isScaledBeyond(self: Transform, scale: f64, stored: []const f64, results: []const f32) bool {
        if (!self.normalize or self.log1p or scale == 1 or allFinite(f32, results)) return false;
        return allFinite(f64, stored);
    }
};

noinline fn productLogs(comptime lanes: usize, clipped: [lanes]f64, scale: f64) [lanes]f32 {
    var results: [lanes]f32 = undefined;
    for (clipped, &results) |value, *result| result.* = log1p.log1pProduct(value, scale);
    return results;
}

/// What target sums and overdispersions may be.
pub fn isScale(number: f64) bool {
    return number > 0 and number <= std.math.floatMax(f32);
}

pub const scaled_beyond = "row {d} has a total that is next to nothing beside its values: scaled to target_sum, they are " ++
    "beyond float32. Negative values make such totals; with the logarithm they count as 0, and without normalising " ++
    "values stay as they are";

fn allFinite(comptime T: type, numbers: []const T) bool {
    const Bits = @Int(.unsigned, @bitSizeOf(T));
    var largest: Bits = 0;
    for (numbers) |number| largest = @max(largest, @as(Bits, @bitCast(@abs(number))));
    return largest < @as(Bits, @bitCast(std.math.inf(T)));
}

/// The total of a row in f64: negatives and NaN left out on log paths, else the plain sum.
pub fn depthOf(values: []const f64, clip: bool) f64 {
    var sum: f64 = 0;
    for (values) |value| {
        if (!clip or value > 0) sum += value;
    }
    return sum;
}

test "a worked row" {
    // counts 1, 3 of a cell with depth 4, target 8: factors of 2
    const both: Transform = .{ .normalize = true, .log1p = true, .target_sum = 8 };
    const scale = both.factor(4);
    try std.testing.expectEqual(@as(f64, 2), scale);
    try std.testing.expectApproxEqRel(@as(f32, 1.0986123), both.applyOne(1, scale), 1e-7);
    try std.testing.expectApproxEqRel(@as(f32, 1.9459101), both.applyOne(3, scale), 1e-7);
    try std.testing.expectEqual(@as(f32, 0), both.applyOne(-3, scale));
    try std.testing.expectEqual(@as(f32, 0), both.applyOne(std.math.nan(f64), scale));
    const scaled: Transform = .{ .normalize = true, .log1p = false, .target_sum = 8 };
    try std.testing.expectEqual(@as(f32, -6), scaled.applyOne(-3, scale));
    try std.testing.expectEqual(@as(f64, 1), both.factor(0));
    try std.testing.expectEqual(@as(f64, 1), both.factor(std.math.nan(f64)));
    // 1e-310 into 1e10 is a factor beyond float64
    try std.testing.expectEqual(@as(f64, 1), (Transform{ .normalize = true, .log1p = false, .target_sum = 1e10 }).factor(1e-310));
    // beyond float32: 60 ln 10, of a pair of which the second is 0
    const large: [2]f32 = both.apply(2, .{ 1e30, -1 }, 1e30);
    try std.testing.expectApproxEqRel(@as(f32, 138.1551), large[0], 1e-7);
    try std.testing.expectEqual(@as(f32, 0), large[1]);
    const infinite = std.math.inf(f32);
    try std.testing.expect(scaled.isScaledBeyond(2, &.{ 1, 2 }, &.{ 1, infinite }));
    try std.testing.expect(scaled.isScaledBeyond(2, &.{ 1, 2 }, &.{ -infinite, 1 }));
    try std.testing.expect(!scaled.isScaledBeyond(2, &.{ 1, infinite }, &.{ 1, infinite }));
    try std.testing.expect(!scaled.isScaledBeyond(2, &.{ 1, std.math.nan(f64) }, &.{ 1, std.math.nan(f32) }));
    try std.testing.expect(!scaled.isScaledBeyond(1, &.{ 1, 1e39 }, &.{ 1, infinite }));
    try std.testing.expect(!scaled.isScaledBeyond(2, &.{ 1, 2 }, &.{ 1, 2 }));
    try std.testing.expect(!both.isScaledBeyond(2, &.{ 1, 2 }, &.{ 1, infinite }));
    const pflog: Transform = .{ .normalize = false, .log1p = true, .target_sum = 0, .pflog_scale = 0.5 };
    try std.testing.expectApproxEqRel(@as(f32, 0.6931472), pflog.applyOne(2, pflog.factor(17)), 1e-7);
    try std.testing.expectEqual(@as(f32, 0), pflog.applyOne(-2, 0.5));
}
