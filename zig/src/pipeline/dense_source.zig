//! Dense float32 batches of one matrix, as the source of a pipeline.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;

const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const matrices = @import("../codec/matrix.zig");
const pipelines = @import("pipeline.zig");
const DenseRowPlan = @import("../kernels/dense.zig").DenseRowPlan;
const Failure = errors.Failure;
const Matrix = matrices.Matrix;
const Report = errors.Report;
const Scratch = matrices.Scratch;

pub const DenseSource = struct {
    matrix: *const Matrix,
    plan: matrices.DensePlan,

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

    pub fn batchBytes(source: *const DenseSource, rows: []const i64, report: *Report) Failure!usize {
        try source.matrix.checkRows(rows, report);
        return std.math.mul(usize, rows.len, source.plan.rowBytes()) catch error.OutOfMemory;
    }

    pub fn decode(source: *const DenseSource, task: pipelines.Task, scratch: *Scratch, report: *Report) Failure!void {
        const width = source.plan.rowBytes();
        assert(task.memory.len == task.rows.len * width);
        const out = task.memory[task.begin * width .. task.end * width];
        const rows = task.rows[task.begin..task.end];
        return matrices.decodeDense(source.matrix, &source.plan, rows, out, .ofBatch(task.memory.len), scratch, report);
    }
};
