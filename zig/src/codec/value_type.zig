//! The types that stored values can have: the `value_encoding` byte of a shard.

const std = @import("std");

pub const ValueType = enum(u8) {
    u8 = 0,
    u16 = 1,
    u32 = 2,
    f32 = 3,
    f16 = 4,
    f64 = 64,
    i32 = 65,
    i64 = 66,
    u64 = 67,

    pub fn fromInt(number: u32) ?ValueType {
        if (number > std.math.maxInt(u8)) return null;
        return std.enums.fromInt(ValueType, @as(u8, @intCast(number)));
    }

    pub fn bytes(self: ValueType) u32 {
        return switch (self) {
            .u8 => 1,
            .u16, .f16 => 2,
            .u32, .f32, .i32 => 4,
            .f64, .i64, .u64 => 8,
        };
    }

    pub fn Of(comptime self: ValueType) type {
        return switch (self) {
            .u8 => u8,
            .u16 => u16,
            .u32 => u32,
            .f32 => f32,
            .f16 => f16,
            .f64 => f64,
            .i32 => i32,
            .i64 => i64,
            .u64 => u64,
        };
    }

    pub fn isSigned(self: ValueType) bool {
        return switch (self) {
            .f16, .f32, .f64, .i32, .i64 => true,
            .u8, .u16, .u32, .u64 => false,
        };
    }

    pub fn isFloat(self: ValueType) bool {
        return switch (self) {
            .f16, .f32, .f64 => true,
            .u8, .u16, .u32, .i32, .i64, .u64 => false,
        };
    }
};

/// The unsigned integer with the bits of `T`.
pub fn BitsOf(comptime T: type) type {
    return switch (@sizeOf(T)) {
        1 => u8,
        2 => u16,
        4 => u32,
        8 => u64,
        else => @compileError("no stored value has this width"),
    };
}

/// What a cast of a stored value to `Target` gives: exact where it fits, rounded to nearest for floats.
pub inline fn convert(comptime Target: type, value: anytype) Target {
    const Source = @TypeOf(value);
    if (Source == Target) return value;
    const target_is_float = @typeInfo(Target) == .float;
    if (@typeInfo(Source) == .float) {
        comptime std.debug.assert(target_is_float); // floats are never narrowed to integers here
        return @floatCast(value);
    }
    comptime std.debug.assert(target_is_float);
    return @floatFromInt(value);
}

test "sizes and numbers agree" {
    inline for (std.enums.values(ValueType)) |value_type| {
        try std.testing.expectEqual(@sizeOf(value_type.Of()), value_type.bytes());
        try std.testing.expectEqual(value_type, ValueType.fromInt(@backingInt(value_type)).?);
    }
    try std.testing.expectEqual(null, ValueType.fromInt(5));
    try std.testing.expectEqual(null, ValueType.fromInt(256));
}
