//! Many rows of a matrix at once, by several threads, into arrays of the caller.

const std = @import("std");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const matrix_module = @import("matrix.zig");
const parallel = @import("parallel.zig");
const row_reads = @import("row_reads.zig");
const Target = @import("../levels/table.zig").Target;
const ValueType = @import("value_type.zig").ValueType;

const Allocator = std.mem.Allocator;
const DensePlan = matrix_module.DensePlan;
const Failure = errors.Failure;
const Matrix = matrix_module.Matrix;
const Report = errors.Report;
const RowList = matrix_module.RowList;
const Scratch = matrix_module.Scratch;

/// Fewer rows than this are not worth a thread of their own.
const rows_per_thread_min = 64;

pub const CsrGather = struct {
    allocator: Allocator,
    matrix: *const Matrix,
    rows: []const i64,
    /// rows.len + 1 entries that fit the rows' counts; indptr[0] = 0.
    indptr: []const i64,
    indices: [*]i32,
    target: Target,
    value_bytes: usize,
    values: [*]u8,
    parts: usize = 1,

    pub fn run(self: *CsrGather, threads: u32, report: *Report) Failure!void {
        try self.matrix.checkRows(self.rows, report);
        for (self.rows, 0..) |row, index| {
            try self.checkRoom(index, try self.matrix.rowCount(@intCast(row), report), report);
        }
        self.parts = parallel.threadCount(threads, self.rows.len / rows_per_thread_min);
        try parallel.run(self.parts, @as(*const CsrGather, self), runPart, report);
    }

    /// From indptr[0] = 0 on, rows that have room for what they store make an indptr that ascends and ends with all of it.
    fn checkRoom(self: *const CsrGather, index: usize, n_values: u64, report: *Report) Failure!void {
        const at = self.indptr[index];
        const room = self.indptr[index + 1] -| at;
        if (at >= 0 and room == n_values) return;
        return report.fail(error.BadArgument, "indptr gives row {d} {d} values, but it stores {d}: take the counts from " ++
            "scx_matrix_row_counts", .{ self.rows[index], room, n_values });
    }

    fn runPart(self: *const CsrGather, part: usize, report: *Report) Failure!void {
        var scratch = try Scratch.init(self.allocator, self.matrix.n_cols);
        defer scratch.deinit();
        const range = parallel.rangeOf(self.rows.len, self.parts, part);
        const list: RowList = .{ .matrix = self.matrix, .rows = self.rows };
        var ahead: row_reads.Ahead = .init(self.allocator, self.matrix.watch, row_reads.isScattered(self.rows), range.start);
        defer ahead.deinit();
        for (range.start..range.stop) |index| {
            ahead.reach(list, index, range.stop);
            self.matrix.prefetch(self.rows[0..range.stop], index);
            try self.gatherRow(index, &scratch, report);
        }
    }

    fn gatherRow(self: *const CsrGather, index: usize, scratch: *Scratch, report: *Report) Failure!void {
        const found = try self.matrix.openRow(self.rows[index], scratch, report);
        try self.checkRoom(index, found.row.n_values, report); // the file may have changed since
        const start: usize = @intCast(self.indptr[index]);
        const columns: [*]const i32 = @ptrCast(scratch.arrays.row.columns);
        @memcpy(self.indices[start..][0..found.row.n_values], columns);
        try self.matrix.rowValues(&found, self.target, scratch, self.values + start * self.value_bytes, report);
    }
};

pub const DenseGather = struct {
    allocator: Allocator,
    matrix: *const Matrix,
    plan: *const DensePlan,
    rows: []const i64,
    /// rows.len times plan.rowBytes()
    out: []u8,
    parts: usize = 1,

    pub fn run(self: *DenseGather, threads: u32, report: *Report) Failure!void {
        try self.matrix.checkRows(self.rows, report);
        self.parts = parallel.threadCount(threads, self.rows.len / rows_per_thread_min);
        try parallel.run(self.parts, @as(*const DenseGather, self), runPart, report);
    }

    fn runPart(self: *const DenseGather, part: usize, report: *Report) Failure!void {
        var scratch = try Scratch.init(self.allocator, self.matrix.n_cols);
        defer scratch.deinit();
        const range = parallel.rangeOf(self.rows.len, self.parts, part);
        const width = self.plan.rowBytes();
        const out = self.out[range.start * width .. range.stop * width];
        const rows = self.rows[range.start..range.stop];
        const list: RowList = .{ .matrix = self.matrix, .rows = rows };
        var ahead: row_reads.Ahead = .init(self.allocator, self.matrix.watch, row_reads.isScattered(self.rows), 0);
        defer ahead.deinit();
        const way: emit.Way = .ofBatch(self.out.len);
        const step = 4 * row_reads.Ahead.look_rows;
        var start: usize = 0;
        while (start < rows.len) : (start += step) {
            const stop = @min(start + step, rows.len);
            ahead.reach(list, start, rows.len);
            try matrix_module.decodeDense(self.matrix, self.plan, rows[start..stop], out[start * width .. stop * width], way, &scratch, report);
        }
    }
};

/// Each row's total in f64, negatives and NaN as 0. Rows of rowpack shards have it in their table; with `verify` the
/// row's CRC is checked first.
pub fn rowTotals(allocator: Allocator, matrix: *const Matrix, rows: []const i64, totals: []f64, report: *Report) Failure!void {
    try matrix.checkRows(rows, report);
    var scratch = try Scratch.init(allocator, matrix.n_cols);
    defer scratch.deinit();
    for (rows, totals) |row, *total| {
        const found = try matrix.openRow(row, &scratch, report);
        if (found.view.codec == .rowpack) {
            total.* = found.total;
            continue;
        }
        const values = scratch.arrays.values[0..found.row.n_values];
        try matrix.rowValues(&found, .f64, &scratch, @ptrCast(values.ptr), report);
        total.* = @import("../kernels/transform.zig").depthOf(values, true);
    }
}
