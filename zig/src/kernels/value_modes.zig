//! The modes in which the kernels on CSR batches change the values of a row. In each of them negatives and NaN
//! count as 0 first.
//!
//!   pass_through      v
//!   log1p_raw         ln(1 + v)
//!   normalize_log1p   ln(1 + v * f), f = target_sum / sum(v) rounded to float32, in float64 where it is none of its
//!                     normal numbers; a row without a sum has f = 1
//!   pflog_raw         ln(1 + 4 a v) - sum_k ln(1 + 4 a v_k) / n_measured, the sum in float64

const std = @import("std");
const dispatch = @import("../levels/dispatch.zig");

pub const Mode = enum(u32) {
    pass_through = 0,
    log1p_raw = 1,
    normalize_log1p = 2,
    pflog_raw = 3,
};

pub const Parameters = struct {
    mode: Mode,
    target_sum: f64,
    /// The overdispersion a of pflog_raw.
    pflog_alpha: f64,
};

/// The sum of a row in float64, in order, negatives and NaN left out.
pub fn librarySize(values: []const f32) f64 {
    return dispatch.table().librarySize(values.ptr, values.len);
}

/// `library_size` is that of the whole cell; `n_measured` is used by pflog_raw alone.
pub fn transformRow(parameters: Parameters, values: []const f32, library_size: f64, n_measured: u64, out: []f32) void {
    const table = dispatch.table();
    switch (parameters.mode) {
        .pass_through => for (values, out) |value, *result| {
            result.* = if (value > 0) value else 0;
        },
        .log1p_raw => table.logScaled(values.ptr, values.len, 1, out.ptr),
        .normalize_log1p => {
            const factor = if (library_size > 0) parameters.target_sum / library_size else 1;
            table.logScaled(values.ptr, values.len, factor, out.ptr);
        },
        .pflog_raw => {
            table.logScaled(values.ptr, values.len, 4 * parameters.pflog_alpha, out.ptr);
            var sum: f64 = 0;
            for (out[0..values.len]) |result| sum += result;
            const centre = sum / @as(f64, @floatFromInt(n_measured));
            for (out[0..values.len]) |*result| result.* = @floatCast(@as(f64, result.*) - centre);
        },
    }
}

const testing = std.testing;

test "a worked row in each mode" {
    const values = [_]f32{ 1, -2, 3, std.math.nan(f32) };
    var out: [4]f32 = undefined;
    const total = librarySize(&values);
    try testing.expectEqual(@as(f64, 4), total);
    const Case = struct { mode: Mode, expected: [4]f32 };
    for ([_]Case{
        .{ .mode = .pass_through, .expected = .{ 1, 0, 3, 0 } },
        .{ .mode = .log1p_raw, .expected = .{ 0.6931472, 0, 1.3862944, 0 } },
        // target 8 for a total of 4: ln(1 + 2), ln(1 + 6)
        .{ .mode = .normalize_log1p, .expected = .{ 1.0986123, 0, 1.9459101, 0 } },
        // 4a = 2: ln 3 and ln 7, whose sum over ten genes is 0.30445224 each
        .{ .mode = .pflog_raw, .expected = .{ 0.7941600, -0.3044522, 1.6414579, -0.3044522 } },
    }) |case| {
        const parameters: Parameters = .{ .mode = case.mode, .target_sum = 8, .pflog_alpha = 0.5 };
        transformRow(parameters, &values, total, 10, &out);
        for (case.expected, out) |expected, result| try testing.expectApproxEqAbs(expected, result, 3e-7);
    }
    transformRow(.{ .mode = .normalize_log1p, .target_sum = 8, .pflog_alpha = 0 }, values[0..1], 0, 0, out[0..1]);
    try testing.expectApproxEqAbs(@as(f32, 0.6931472), out[0], 3e-7);
}
