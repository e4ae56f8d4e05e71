//! Looking at every row of a shard: that it decodes, that it is canonical, and that the figures written about it are
//! true.

const std = @import("std");
const errors = @import("../errors.zig");
const hashing = @import("../container/hashing.zig");
const matrix_module = @import("matrix.zig");
const shard = @import("shard.zig");
const shard_view = @import("shard_view.zig");
const transform = @import("../kernels/transform.zig");

const Allocator = std.mem.Allocator;
const Failure = errors.Failure;
const FoundRow = matrix_module.FoundRow;
const Matrix = matrix_module.Matrix;
const Report = errors.Report;
const Scratch = matrix_module.Scratch;
const ShardView = shard_view.ShardView;

pub fn validateShard(allocator: Allocator, matrix: *const Matrix, shard_index: u32, report: *Report) Failure!void {
    var scratch = try Scratch.init(allocator, matrix.n_cols);
    defer scratch.deinit();
    const view = &matrix.shards[shard_index];
    try matrix.file.verifySection(view.section_index, report);
    report.at(matrix.file.sections[view.section_index].name, shard_index, errors.no_index);
    try checkBodyHash(matrix, view, report);
    try checkRows(matrix, view, &scratch, report);
}

fn checkBodyHash(matrix: *const Matrix, view: *const ShardView, report: *Report) Failure!void {
    const bytes = matrix.file.sectionBytes(view.section_index);
    const header = shard.Header.parse(bytes[0..shard.header_bytes]).?;
    const hash = hashing.hash(bytes[shard.header_bytes..]);
    if (std.mem.eql(u8, hash[0..8], &header.body_hash)) return;
    return report.fail(error.Corrupt, "the hash in the shard's header does not match its content", .{});
}

fn checkRows(matrix: *const Matrix, view: *const ShardView, scratch: *Scratch, report: *Report) Failure!void {
    var nnz: u64 = 0;
    for (0..view.n_rows) |local_row| {
        const row: i64 = @intCast(view.row_start + local_row);
        const found = try matrix.openRow(row, scratch, report);
        checkRow(matrix, &found, scratch, report) catch |failure| {
            report.at(matrix.file.sections[view.section_index].name, matrix.shardNumber(view), @intCast(row));
            return failure;
        };
        nnz += found.row.n_values;
    }
    if (nnz != view.nnz) {
        return report.fail(error.Corrupt, "the shard's rows store {d} values, its header says {d}", .{ nnz, view.nnz });
    }
}

fn checkRow(matrix: *const Matrix, found: *const FoundRow, scratch: *Scratch, report: *Report) Failure!void {
    const row = found.view.row_start + found.local_row;
    const columns = scratch.arrays.row.columns[0..found.row.n_values];
    for (columns[0..columns.len -| 1], columns[@min(1, columns.len)..]) |column, next| {
        if (column >= next) {
            return report.fail(error.Corrupt, "the columns of row {d} do not ascend: {d} is followed by {d}", .{ row, column, next });
        }
    }
    const values = scratch.arrays.values[0..columns.len];
    try matrix.rowValues(found, .f64, scratch, @ptrCast(values.ptr), report);
    if (found.view.codec != .rowpack) return;
    const total = transform.depthOf(values, true);
    // +inf and NaN never arise from finite totals, so equality is the right comparison
    if (total != found.total) {
        return report.fail(error.Corrupt, "row {d} sums up to {d}, but its total is given as {d}", .{ row, total, found.total });
    }
}
