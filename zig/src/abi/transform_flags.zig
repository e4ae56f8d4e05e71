//! `SCX_TRANSFORM_*` of scx.h, as several structs of options carry them.

const std = @import("std");
const errors = @import("../errors.zig");

pub const TransformFlags = packed struct(u32) {
    normalize: bool,
    log1p: bool,
    unassigned: u30,

    pub fn of(bits: u32, report: *errors.Report) errors.Failure!TransformFlags {
        const flags: TransformFlags = @bitCast(bits);
        if (flags.unassigned == 0) return flags;
        return report.fail(error.BadArgument, "unknown transform flags 0x{x}", .{bits});
    }
};

test "two flags exist" {
    var report: errors.Report = .{};
    for ([_]struct { u32, bool, bool }{ .{ 0, false, false }, .{ 1, true, false }, .{ 2, false, true }, .{ 3, true, true } }) |case| {
        const bits, const normalize, const log1p = case;
        const flags: TransformFlags = try .of(bits, &report);
        try std.testing.expectEqual(normalize, flags.normalize);
        try std.testing.expectEqual(log1p, flags.log1p);
    }
    for ([_]u32{ 4, 7, 1 << 31 }) |bits| try std.testing.expectError(error.BadArgument, TransformFlags.of(bits, &report));
}
