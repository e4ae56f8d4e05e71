//! ln(1 + x) of float32 lanes, for x >= 0, within one ulp of the exact value rounded; every CPU level gives the same bits.
//!
//! u = 1 + x is split into 2^e * (1 + f) with f in [sqrt(1/2) - 1, sqrt(2) - 1], and what the sum 1 + x lost is added
//! to f (the idea of fdlibm's log1p). ln(1 + f) = f - f^2/2 + f^3 * P(f); P is a degree-8 polynomial fitted to the
//! smallest largest relative error (0.013 * 2^-24) on that interval. ln 2 is added in two pieces, of which the first
//! times e is exact.

const std = @import("std");

const coefficients = [_]f32{
    0.333333135,  -0.250000089, 0.200021192,  -0.166679963, 0.142195523,
    -0.124055892, 0.118881635,  -0.116756506, 0.0674663708,
};
/// 355/512: nine bits, so that e times it is exact.
const ln2_high: f32 = 0.693359375;
const ln2_low: f32 = -2.12194440e-4;
/// sqrt(1/2): the lower end of the interval of 1 + f.
const sqrt_half_bits: i32 = 0x3f35_04f3;

pub inline fn log1pLanes(comptime lanes: usize, x: @Vector(lanes, f32)) @Vector(lanes, f32) {
    const F = @Vector(lanes, f32);
    const I = @Vector(lanes, i32);
    const one: F = @splat(1);
    const u = one + x;
    const lost = @select(f32, x >= one, one - (u - x), x - (u - one));
    const exponent = (@as(I, @bitCast(u)) - @as(I, @splat(sqrt_half_bits))) >> @splat(23);
    const mantissa: F = @bitCast(@as(I, @bitCast(u)) - (exponent << @splat(23)));
    // 2^-e; what was lost no longer counts where that is not a normal number
    const scale_exponent: I = @max(@as(I, @splat(127)) - exponent, @as(I, @splat(0)));
    const scale: F = @bitCast(scale_exponent << @splat(23));
    const f = (mantissa - one) + lost * scale;
    const e: F = @floatFromInt(exponent);
    const square = f * f;
    var tail: F = @splat(coefficients[coefficients.len - 1]);
    comptime var index = coefficients.len - 1;
    inline while (index > 0) {
        index -= 1;
        tail = tail * f + @as(F, @splat(coefficients[index]));
    }
    var result = tail * f * square;
    result += e * @as(F, @splat(ln2_low));
    result -= square * @as(F, @splat(0.5));
    result = (f + result) + e * @as(F, @splat(ln2_high));
    const infinity: F = @splat(std.math.inf(f32));
    return @select(f32, x == infinity, infinity, result);
}

pub fn log1pOne(x: f32) f32 {
    return log1pLanes(4, @splat(x))[0];
}

/// ln(1 + value * scale) for a product that may be beyond float32, or beyond float64. Neither is negative.
pub noinline fn log1pProduct(value: f64, scale: f64) f32 {
    const product: f32 = @floatCast(value * scale);
    // beside so much the 1 is nothing
    return if (product == std.math.inf(f32)) @floatCast(@log(value) + @log(scale)) else log1pOne(product);
}

fn ulps(a: f32, b: f32) u32 {
    return @abs(@as(i32, @bitCast(a)) - @as(i32, @bitCast(b)));
}

test "within one ulp of the f64 logarithm over all magnitudes" {
    var worst: u32 = 0;
    var pattern: u32 = 0;
    // every 997th float from 0 to infinity
    while (pattern <= 0x7f80_0000) : (pattern += 997) {
        const x: f32 = @bitCast(pattern);
        const want: f32 = @floatCast(std.math.log1p(@as(f64, x)));
        worst = @max(worst, ulps(log1pOne(x), want));
    }
    try std.testing.expect(worst <= 1);
}

test "products beyond float32 and float64" {
    const infinite = std.math.inf(f64);
    try std.testing.expectEqual(log1pOne(6), log1pProduct(2, 3));
    try std.testing.expectEqual(@as(f32, 0), log1pProduct(0, 1e300));
    // 50 ln 10 and 400 ln 10
    try std.testing.expect(ulps(115.12925, log1pProduct(1e20, 1e30)) <= 1);
    try std.testing.expect(ulps(921.034, log1pProduct(1e300, 1e100)) <= 1);
    try std.testing.expectEqual(std.math.inf(f32), log1pProduct(infinite, 2));
}

test "the ends and the small counts" {
    try std.testing.expectEqual(@as(f32, 0), log1pOne(0));
    try std.testing.expectEqual(std.math.inf(f32), log1pOne(std.math.inf(f32)));
    try std.testing.expectEqual(@as(f32, 1e-30), log1pOne(1e-30));
    // ln 2, ln 3 and ln 1001, rounded to float32
    try std.testing.expect(ulps(0.6931472, log1pOne(1)) <= 1);
    try std.testing.expect(ulps(1.0986123, log1pOne(2)) <= 1);
    try std.testing.expect(ulps(6.9087548, log1pOne(1000)) <= 1);
}
