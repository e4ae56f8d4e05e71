//! Batches of the rows of several matrices, dense or CSR, as the source of a pipeline.

const std = @import("std");
const assert = std.debug.assert;

const buffers = @import("buffers.zig");
const csr_source = @import("csr_source.zig");
const early_rows = @import("early_rows.zig");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const hints = @import("hints.zig");
const matrices = @import("../codec/matrix.zig");
const pipelines = @import("pipeline.zig");
const DenseRowPlan = @import("../kernels/dense.zig").DenseRowPlan;
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
        if (task.early) |early| return early_rows.decodeBeside(early, source, task, scratch, report);
        defer if (source.layout == .dense) emit.finishStreaming();
        for (task.rows[task.begin..task.end], task.begin..) |row, index| {
            source.whole.prefetch(task.rows[0..task.end], index);
            try source.decodeRow(task, index, @intCast(row), scratch, report);
        }
    }

    fn decodeRow(
        source: *const ConcatenatedSource,
        task: pipelines.Task,
        index: usize,
        row: u64,
        scratch: *Scratch,
        report: *Report,
    ) Failure!void {
        const place = source.whole.places.placeOf(row);
        switch (source.layout) {
            .dense => {
                const width = source.whole.rowBytes();
                assert(task.memory.len == task.rows.len * width);
                const way: emit.Way = .ofBatch(task.memory.len);
                try source.whole.denseRow(place, scratch, way, task.memory.ptr + index * width, report);
            },
            .csr => {
                const views: csr_source.Views = .of(task.rows.len, task.memory);
                const begin: usize = @intCast(views.indptr[index]);
                const end: usize = @intCast(views.indptr[index + 1]);
                const count = try source.whole.csrRow(place, scratch, views.indices[begin..end], views.values[begin..end], report);
                views.counts[index] = @intCast(count);
            },
        }
    }

    pub fn rowBytes(source: *const ConcatenatedSource) usize {
        return source.whole.rowBytes();
    }

    /// That of the first member: rows of all are put together in the same way.
    pub fn emission(source: *const ConcatenatedSource) *const DenseRowPlan {
        return &source.whole.members[0].columns.plan.row_plan;
    }

    pub fn denseRow(
        source: *const ConcatenatedSource,
        row: i64,
        scratch: *Scratch,
        way: emit.Way,
        out: [*]u8,
        report: *Report,
    ) Failure!void {
        return source.whole.denseRow(source.whole.places.placeOf(@intCast(row)), scratch, way, out, report);
    }

    pub fn prefetchEntry(source: *const ConcatenatedSource, row: i64) void {
        source.whole.prefetchEntry(row);
    }

    pub fn prefetchPayload(source: *const ConcatenatedSource, row: i64) void {
        source.whole.prefetchPayload(row);
    }

    /// Columns of a dense batch.
    pub fn keptColumns(source: *const ConcatenatedSource) ?u32 {
        return if (source.layout == .dense) source.whole.n_output else null;
    }

    pub fn decodeEarly(source: *const ConcatenatedSource, claim: early_rows.Claim, scratch: *Scratch) void {
        var report: Report = .{};
        for (claim.rows(), claim.begin..) |row, place| {
            source.whole.prefetch(claim.early.rows, place);
            const selected = source.whole.selectRow(row, .codes, scratch, &report) catch continue;
            claim.early.keep(place, &selected);
        }
    }

    pub fn finish(source: *const ConcatenatedSource, n_rows: usize, memory: Memory) void {
        if (source.layout == .csr) csr_source.moveTogether(n_rows, memory);
    }

    pub fn willNeed(source: *const ConcatenatedSource, range: hints.RowRange, progress: anytype) void {
        const Shifted = struct {
            whole: @TypeOf(progress),
            start: u64,

            pub fn reached(own: @This(), row_stop: u64) void {
                own.whole.reached(own.start + row_stop);
            }
        };
        var parts: Parts = .{ .whole = &source.whole, .range = range };
        while (parts.next()) |part| {
            part.matrix.willNeed(part.row_start, part.row_stop, Shifted{ .whole = progress, .start = part.start });
        }
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

    /// Its rows count from its own first one, which is row `start` of the whole.
    const Part = struct { matrix: *const matrices.Matrix, start: u64, row_start: u64, row_stop: u64 };

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
            .start = start,
            .row_start = row - start,
            .row_stop = stop - start,
        };
    }
};
