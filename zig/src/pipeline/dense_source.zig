//! Dense float32 batches of one matrix, as the source of a pipeline.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;

const errors = @import("../errors.zig");
const hints = @import("hints.zig");
const matrices = @import("../codec/matrix.zig");
const pipelines = @import("pipeline.zig");
const Failure = errors.Failure;
const Matrix = matrices.Matrix;
const Report = errors.Report;

pub const DenseSource = struct {
    matrix: *const Matrix,
    plan: matrices.DensePlan,

    pub const Scratch = matrices.Scratch;

    pub fn init(
        allocator: Allocator,
        matrix: *const Matrix,
        options: matrices.DenseOptions,
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
        try source.matrix.checkRows(rows, report);
        const row_bytes = @as(usize, source.plan.n_output) * @sizeOf(f32);
        return std.math.mul(usize, rows.len, row_bytes) catch error.OutOfMemory;
    }

    pub fn decode(source: *const DenseSource, task: pipelines.Task, scratch: *Scratch, report: *Report) Failure!void {
        const width: usize = source.plan.n_output;
        const values = std.mem.bytesAsSlice(f32, task.memory);
        assert(values.len == task.rows.len * width);
        const out = values[task.begin * width .. task.end * width];
        const rows = task.rows[task.begin..task.end];
        return matrices.decodeDense(source.matrix, &source.plan, rows, out, scratch, report);
    }

    pub fn willNeed(source: *const DenseSource, range: hints.RowRange) void {
        const matrix = source.matrix;
        assert(range.row_end <= matrix.n_rows);
        var row = range.row_start;
        while (row < range.row_end) {
            const shard = matrix.shardOf(row);
            matrix.file.willNeed(matrix.file.sections[shard.section_index].range());
            row = shard.row_start + shard.n_rows;
        }
    }
};
