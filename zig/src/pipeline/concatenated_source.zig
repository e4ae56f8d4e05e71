//! Batches of the rows of several matrices, dense or CSR, as the source of a pipeline.

const std = @import("std");
const assert = std.debug.assert;

const buffers = @import("buffers.zig");
const csr_source = @import("csr_source.zig");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const hints = @import("hints.zig");
const matrices = @import("../codec/matrix.zig");
const pipelines = @import("pipeline.zig");
const Failure = errors.Failure;
const Concatenation = @import("concatenation.zig").Concatenation;
const Report = errors.Report;
const Scratch = matrices.Scratch;

const Memory = []align(buffers.alignment.toByteUnits()) u8;

pub const Layout = enum(u32) { dense = 0, csr = 1 };

pub const ConcatenatedSource = struct {
    whole: Concatenation,
    layout: Layout,

    pub fn deinit(source: *ConcatenatedSource) void {
        source.whole.deinit();
    }

    pub fn batchBytes(source: *const ConcatenatedSource, rows: []const i64, report: *Report) Failure!usize {
        try source.whole.places.checkRows(rows, report);
        if (source.layout == .csr) return csr_source.bytesOfRows(&source.whole, rows, report);
        return std.math.mul(usize, rows.len, source.whole.rowBytes()) catch error.OutOfMemory;
    }

    pub fn prepare(source: *const ConcatenatedSource, rows: []const i64, memory: Memory) void {
        if (source.layout == .csr) csr_source.placeRows(&source.whole, rows, memory);
    }

    pub fn decode(source: *const ConcatenatedSource, task: pipelines.Task, scratch: *Scratch, report: *Report) Failure!void {
        const way: emit.Way = if (source.layout == .csr and source.whole.drops_values) .through_caches else .ofBatch(task.memory.len);
        defer if (way == .past_caches) emit.finishStreaming();
        for (task.rows[task.begin..task.end], task.begin..) |row, index| {
            source.whole.prefetch(task.rows[0..task.end], index);
            try source.decodeRow(task, index, @intCast(row), way, scratch, report);
        }
    }

    fn decodeRow(
        source: *const ConcatenatedSource,
        task: pipelines.Task,
        index: usize,
        row: u64,
        way: emit.Way,
        scratch: *Scratch,
        report: *Report,
    ) Failure!void {
        const place = source.whole.places.placeOf(row);
        switch (source.layout) {
            .dense => {
                const width = source.whole.rowBytes();
                assert(task.memory.len == task.rows.len * width);
                try source.whole.denseRow(place, scratch, way, task.memory.ptr + index * width, report);
            },
            .csr => {
                const views: csr_source.Views = .of(task.rows.len, task.memory);
                const begin: usize = @intCast(views.indptr[index]);
                const end: usize = @intCast(views.indptr[index + 1]);
                const count = try source.whole.csrRow(place, scratch, way, views.indices[begin..end], views.values[begin..end], report);
                views.counts[index] = @intCast(count);
            },
        }
    }

    pub fn finish(source: *const ConcatenatedSource, n_rows: usize, memory: Memory) void {
        if (source.layout == .csr and source.whole.drops_values) csr_source.moveTogether(n_rows, memory);
    }

    pub fn willNeed(source: *const ConcatenatedSource, range: hints.RowRange) void {
        var parts: Parts = .{ .whole = &source.whole, .range = range };
        while (parts.next()) |part| part.matrix.willNeed(part.row_start, part.row_stop);
    }

    pub fn seemsResident(source: *const ConcatenatedSource, range: hints.RowRange) bool {
        var parts: Parts = .{ .whole = &source.whole, .range = range };
        while (parts.next()) |part| {
            if (!part.matrix.seemsResident(part.row_start, part.row_stop)) return false;
        }
        return true;
    }
};

/// A range of rows by the matrices that they are of.
const Parts = struct {
    whole: *const Concatenation,
    /// What is left of it.
    range: hints.RowRange,

    /// Its rows count from its own first one.
    const Part = struct { matrix: *const matrices.Matrix, row_start: u64, row_stop: u64 };

    fn next(self: *Parts) ?Part {
        const row = self.range.row_start;
        assert(self.range.row_end <= self.whole.rowCount());
        if (row >= self.range.row_end) return null;
        const member = self.whole.places.placeOf(row).member;
        const start = self.whole.places.starts[member];
        const stop = @min(self.range.row_end, self.whole.places.starts[member + 1]);
        self.range.row_start = stop;
        return .{
            .matrix = self.whole.members[member].matrix,
            .row_start = row - start,
            .row_stop = stop - start,
        };
    }
};
