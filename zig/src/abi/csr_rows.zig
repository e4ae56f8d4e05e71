//! `scx_csr_rows`: a batch that the caller has in memory, for the kernels on batches.

const std = @import("std");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const CsrRows = @import("../kernels/csr_rows.zig").CsrRows;

const assert = std.debug.assert;
const Failure = errors.Failure;
const Report = errors.Report;

/// `scx_csr_rows`
pub const AbiRows = extern struct {
    struct_bytes: u32,
    reserved: u32,
    indptr: ?[*]const i64,
    indices: ?[*]const i32,
    values: ?[*]const f32,
    n_rows: u64,
    n_values: u64,
};

comptime {
    assert(@sizeOf(AbiRows) == 48);
}

/// The rows with a checked indptr; `who` begins the messages.
pub fn checkedRows(rows_in: ?*const AbiRows, comptime who: []const u8, report: *Report) Failure!CsrRows {
    const given = try handle.required(*const AbiRows, rows_in, "rows", report);
    try handle.checkSize(AbiRows, given.struct_bytes, "scx_csr_rows", report);
    const n_values: usize = @intCast(given.n_values);
    const rows: CsrRows = .{
        .indptr = try handle.offsets(given.indptr, given.n_rows, "indptr", report),
        .indices = if (n_values == 0) &.{} else (try handle.required([*]const i32, given.indices, "indices", report))[0..n_values],
        .values = if (n_values == 0) &.{} else (try handle.required([*]const f32, given.values, "values", report))[0..n_values],
    };
    try rows.checkIndptr(who, report);
    return rows;
}
