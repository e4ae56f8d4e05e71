//! Dense float32 batches of one matrix, as the source of a pipeline.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;

const early_rows = @import("early_rows.zig");
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
        if (task.early) |early| return early_rows.decodeBeside(early, source, task, scratch, report);
        const width = source.rowBytes();
        assert(task.memory.len == task.rows.len * width);
        const out = task.memory[task.begin * width .. task.end * width];
        const rows = task.rows[task.begin..task.end];
        return matrices.decodeDense(source.matrix, &source.plan, rows, out, .ofBatch(task.memory.len), scratch, report);
    }

    pub fn rowBytes(source: *const DenseSource) usize {
        return source.plan.rowBytes();
    }

    pub fn emission(source: *const DenseSource) *const DenseRowPlan {
        return &source.plan.row_plan;
    }

    pub fn denseRow(source: *const DenseSource, row: i64, scratch: *Scratch, way: emit.Way, out: [*]u8, report: *Report) Failure!void {
        return source.matrix.denseRow(&source.plan, row, scratch, way, out, report);
    }

    pub fn prefetchEntry(source: *const DenseSource, row: i64) void {
        source.matrix.prefetchEntry(@intCast(row));
    }

    pub fn prefetchPayload(source: *const DenseSource, row: i64) void {
        source.matrix.prefetchPayload(@intCast(row));
    }

    /// Columns of a batch.
    pub fn keptColumns(source: *const DenseSource) ?u32 {
        return source.plan.n_output;
    }

    pub fn decodeEarly(source: *const DenseSource, claim: early_rows.Claim, scratch: *Scratch) void {
        var report: Report = .{};
        for (claim.rows(), claim.begin..) |row, place| {
            source.matrix.prefetch(claim.early.rows, place);
            const found = source.matrix.openRow(row, scratch, &report) catch continue;
            const selected = source.matrix.selectRow(&source.plan, &found, .codes, scratch, &report) catch continue;
            claim.early.keep(place, &selected);
        }
    }
};
