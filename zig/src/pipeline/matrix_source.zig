//! Batches of one matrix, dense or CSR, as the source of a pipeline.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;

const buffers = @import("buffers.zig");
const errors = @import("../errors.zig");
const hints = @import("hints.zig");
const matrices = @import("../codec/matrix.zig");
const pipelines = @import("pipeline.zig");
const CsrSource = @import("csr_source.zig").CsrSource;
const DenseSource = @import("dense_source.zig").DenseSource;
const Failure = errors.Failure;
const Report = errors.Report;

const Memory = []align(buffers.alignment.toByteUnits()) u8;

pub const MatrixSource = union(enum) {
    dense: DenseSource,
    csr: CsrSource,

    pub const Scratch = matrices.Scratch;

    pub fn deinit(source: *MatrixSource) void {
        switch (source.*) {
            inline else => |*own| own.deinit(),
        }
    }

    pub fn matrixOf(source: *const MatrixSource) *const matrices.Matrix {
        return switch (source.*) {
            inline else => |*own| own.matrix,
        };
    }

    pub fn initScratch(source: *const MatrixSource, allocator: Allocator) Failure!Scratch {
        return Scratch.init(allocator, source.matrixOf());
    }

    pub fn batchBytes(source: *const MatrixSource, rows: []const i64, report: *Report) Failure!usize {
        return switch (source.*) {
            inline else => |*own| own.batchBytes(rows, report),
        };
    }

    pub fn prepare(source: *const MatrixSource, rows: []const i64, memory: Memory) void {
        switch (source.*) {
            .dense => {},
            .csr => |*own| own.prepare(rows, memory),
        }
    }

    pub fn decode(source: *const MatrixSource, task: pipelines.Task, scratch: *Scratch, report: *Report) Failure!void {
        return switch (source.*) {
            inline else => |*own| own.decode(task, scratch, report),
        };
    }

    pub fn finish(source: *const MatrixSource, n_rows: usize, memory: Memory) void {
        switch (source.*) {
            .dense => {},
            .csr => |*own| own.finish(n_rows, memory),
        }
    }

    pub fn willNeed(source: *const MatrixSource, range: hints.RowRange) void {
        const matrix = source.matrixOf();
        assert(range.row_end <= matrix.n_rows);
        var row = range.row_start;
        while (row < range.row_end) {
            const shard = matrix.shardOf(row);
            matrix.file.willNeed(matrix.file.sections[shard.section_index].range());
            row = shard.row_start + shard.n_rows;
        }
    }
};
