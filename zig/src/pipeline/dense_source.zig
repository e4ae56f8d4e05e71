//! Dense float32 batches of one matrix, as the source of a pipeline.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;

const dense = @import("../kernels/dense.zig");
const errors = @import("../errors.zig");
const hints = @import("hints.zig");
const matrices = @import("../codec/matrix.zig");
const pipelines = @import("pipeline.zig");
const Failure = errors.Failure;
const Matrix = matrices.Matrix;
const Report = errors.Report;

pub const DenseSource = struct {
    matrix: *const Matrix,
    plan: dense.DensePlan,

    pub const Scratch = matrices.Scratch;

    pub fn init(
        allocator: Allocator,
        matrix: *const Matrix,
        options: dense.DenseOptions,
        report: *Report,
    ) Failure!DenseSource {
        return .{ .matrix = matrix, .plan = try .init(allocator, matrix, options, report) };
    }

    pub fn deinit(source: *DenseSource) void {
        source.plan.deinit();
    }

    pub fn initScratch(source: *const DenseSource, allocator: Allocator) Failure!Scratch {
        return Scratch.init(allocator, source.matrix);
    }

    pub fn batchBytes(source: *const DenseSource, rows: []const i64, report: *Report) Failure!usize {
        for (rows, 0..) |row, position| {
            if (row >= 0 and row < source.matrix.n_rows) continue;
            return report.fail(
                error.OutOfRange,
                "row {d}, at position {d} of the batch, is not one of the matrix's {d} rows",
                .{ row, position, source.matrix.n_rows },
            );
        }
        const row_bytes = @as(usize, source.plan.n_output) * @sizeOf(f32);
        return std.math.mul(usize, rows.len, row_bytes) catch error.OutOfMemory;
    }

    pub fn decode(source: *const DenseSource, task: pipelines.Task, scratch: *Scratch, report: *Report) Failure!void {
        const width: usize = source.plan.n_output;
        const values = std.mem.bytesAsSlice(f32, task.memory);
        assert(values.len == task.rows.len * width);
        const out = values[task.begin * width .. task.end * width];
        return dense.decodeDense(source.matrix, &source.plan, task.rows[task.begin..task.end], out, scratch, report);
    }

    pub fn willNeed(source: *const DenseSource, range: hints.RowRange) void {
        source.matrix.willNeed(range.row_start, range.row_end);
    }
};
