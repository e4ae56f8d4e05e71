//! Finding out whether floats are decimals: whole numbers over a power of ten, to the bit.

const std = @import("std");
const rowpack = @import("rowpack.zig");
const value_type = @import("value_type.zig");

/// The number d with value = d / 10^exponent to the bit; null where there is none.
pub fn decimalOf(comptime T: type, value: T, exponent: u8) ?i32 {
    const scaled = @round(@as(f64, value) * rowpack.powers_of_ten[exponent]);
    if (!(@abs(scaled) < rowpack.decimal_limit)) return null;
    const number: i32 = @intFromFloat(scaled);
    const Bits = value_type.BitsOf(T);
    const again = rowpack.decimalValue(T, rowpack.zigzag(number), exponent);
    return if (@as(Bits, @bitCast(again)) == @as(Bits, @bitCast(value))) number else null;
}

/// The smallest exponent that fits every value; 0 where none does.
pub fn decimalExponent(comptime T: type, values: []const T) u8 {
    var exponent: u8 = 1;
    for (values) |value| {
        while (decimalOf(T, value, exponent) == null) {
            exponent += 1;
            if (exponent > rowpack.decimal_exponent_max) return 0;
        }
    }
    // a larger exponent fits what a smaller one does only while the numbers stay below the limit
    for (values) |value| if (decimalOf(T, value, exponent) == null) return 0;
    return exponent;
}

test "the exponent is the smallest that fits every value" {
    try std.testing.expectEqual(@as(u8, 1), decimalExponent(f32, &.{ 0.5, -1.5, 3 }));
    try std.testing.expectEqual(@as(u8, 3), decimalExponent(f32, &.{ 0.5, -0.326, 10 }));
    try std.testing.expectEqual(@as(u8, 0), decimalExponent(f32, &.{ 0.5, 1.0 / 3.0 }));
    try std.testing.expectEqual(@as(u8, 7), decimalExponent(f64, &.{ 0.5, 0.1000001 }));
    try std.testing.expectEqual(@as(u8, 0), decimalExponent(f32, &.{-0.0}));
    try std.testing.expectEqual(@as(u8, 0), decimalExponent(f32, &.{std.math.nan(f32)}));
    // what the first value allows, a later one makes too large for 30 bits
    try std.testing.expectEqual(@as(u8, 0), decimalExponent(f64, &.{ 500_000_000, 0.125 }));
}
