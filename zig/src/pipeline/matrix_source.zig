//! Batches of the rows of matrices, dense or CSR, as the source of a pipeline.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;

const buffers = @import("buffers.zig");
const csr_batch = @import("csr_batch.zig");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const hints = @import("hints.zig");
const map_guard = @import("../container/map_guard.zig");
const matrices = @import("../codec/matrix.zig");
const pipelines = @import("pipeline.zig");
const row_reads = @import("../codec/row_reads.zig");
const Concatenation = @import("concatenation.zig").Concatenation;
const Failure = errors.Failure;
const Report = errors.Report;

const Memory = []align(buffers.alignment.toByteUnits()) u8;

pub const Layout = enum(u32) { dense = 0, csr = 1 };

pub const MatrixSource = struct {
    whole: Concatenation,
    layout: Layout,

    pub const Scratch = matrices.Scratch;

    pub fn deinit(source: *MatrixSource) void {
        source.whole.deinit();
    }

    /// How many rows batches can be of.
    pub fn rowCount(source: *const MatrixSource) u64 {
        return source.whole.rowCount();
    }

    /// Of a dense batch the size is known without the counts of its rows.
    pub fn readsTables(source: *const MatrixSource) bool {
        return source.layout == .csr;
    }

    /// Where a row lies; null where there is none.
    pub fn placeOf(source: *const MatrixSource, row: i64) ?row_reads.Place {
        if (row < 0 or row >= source.rowCount()) return null;
        const place = source.whole.places.placeOf(@intCast(row));
        return source.whole.members[place.member].matrix.placeOf(place.row);
    }

    /// See `Matrix.expectScattered`.
    pub fn expectScattered(source: *const MatrixSource, scattered: bool) void {
        for (source.whole.members) |*member| member.matrix.expectScattered(scattered);
    }

    /// See `File.expectUnchanged`.
    pub fn expectUnchanged(source: *const MatrixSource, report: *Report) Failure!void {
        for (source.whole.members) |*member| try member.matrix.file.expectUnchanged(report);
    }

    /// See `File.afterReading`.
    pub fn afterReading(source: *const MatrixSource, result: Failure!void, report: *Report) Failure!void {
        if (result) |_| {
            if (!map_guard.anyCut()) return;
        } else |_| {}
        for (source.whole.members) |*member| try member.matrix.file.changes.afterReading(report);
        result catch |failure| {
            if (errors.isDamage(failure)) {
                var of_change: Report = .{};
                source.expectUnchanged(&of_change) catch |change| {
                    report.* = of_change;
                    return change;
                };
            }
            return failure;
        };
    }

    pub fn initScratch(source: *const MatrixSource, allocator: Allocator) Failure!Scratch {
        return source.whole.initScratch(allocator);
    }

    pub fn batchBytes(source: *const MatrixSource, rows: []const i64, report: *Report) Failure!usize {
        try source.whole.checkRows(rows, report);
        if (source.layout == .csr) return csr_batch.bytesOfRows(&source.whole, rows, report);
        return std.math.mul(usize, rows.len, source.whole.rowBytes()) catch error.OutOfMemory;
    }

    pub fn prepare(source: *const MatrixSource, rows: []const i64, memory: Memory) void {
        if (source.layout == .csr) csr_batch.placeRows(&source.whole, rows, memory);
    }

    pub fn decode(source: *const MatrixSource, task: pipelines.Task, scratch: *Scratch, report: *Report) Failure!void {
        const way = source.wayOf(task.memory.len);
        defer if (way == .past_caches) emit.finishStreaming();
        for (task.rows[task.begin..task.end], task.begin..) |row, index| {
            source.whole.prefetch(task.rows[0..task.end], index);
            try source.decodeRow(task, index, @intCast(row), way, scratch, report);
        }
    }

    /// Rows that are moved together afterwards are read again for it.
    fn wayOf(source: *const MatrixSource, batch_bytes: usize) emit.Way {
        return if (source.movesRows()) .through_caches else .ofBatch(batch_bytes);
    }

    fn movesRows(source: *const MatrixSource) bool {
        return source.layout == .csr and source.whole.drops_values;
    }

    inline fn decodeRow(
        source: *const MatrixSource,
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
                const views: csr_batch.Views = .of(task.rows.len, task.memory);
                const begin: usize = @intCast(views.indptr[index]);
                const end: usize = @intCast(views.indptr[index + 1]);
                const count = try source.whole.csrRow(place, scratch, way, views.indices[begin..end], views.values[begin..end], report);
                views.counts[index] = @intCast(count);
            },
        }
    }

    pub fn finish(source: *const MatrixSource, n_rows: usize, memory: Memory) void {
        if (source.movesRows()) csr_batch.moveTogether(n_rows, memory);
    }

    pub fn willNeed(source: *const MatrixSource, range: hints.RowRange) void {
        var parts: Parts = .{ .whole = &source.whole, .range = range };
        while (parts.next()) |part| part.matrix.willNeed(part.row_start, part.row_stop);
    }

    pub fn seemsResident(source: *const MatrixSource, range: hints.RowRange) bool {
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
