//! Batches of one matrix, dense or CSR, as the source of a pipeline.

const std = @import("std");
const Allocator = std.mem.Allocator;

const buffers = @import("buffers.zig");
const errors = @import("../errors.zig");
const hints = @import("hints.zig");
const map_guard = @import("../container/map_guard.zig");
const matrices = @import("../codec/matrix.zig");
const pipelines = @import("pipeline.zig");
const row_reads = @import("../codec/row_reads.zig");
const CsrSource = @import("csr_source.zig").CsrSource;
const DenseSource = @import("dense_source.zig").DenseSource;
const Failure = errors.Failure;
const ConcatenatedSource = @import("concatenated_source.zig").ConcatenatedSource;
const Report = errors.Report;

const Memory = []align(buffers.alignment.toByteUnits()) u8;

pub const MatrixSource = union(enum) {
    dense: DenseSource,
    csr: CsrSource,
    concatenated: ConcatenatedSource,

    pub const Scratch = matrices.Scratch;

    pub fn deinit(source: *MatrixSource) void {
        switch (source.*) {
            inline else => |*own| own.deinit(),
        }
    }

    /// How many rows batches can be of.
    pub fn rowCount(source: *const MatrixSource) u64 {
        return switch (source.*) {
            .concatenated => |*own| own.whole.rowCount(),
            inline else => |*own| own.matrix.n_rows,
        };
    }

    /// Whether batches are CSR.
    pub fn isCsr(source: *const MatrixSource) bool {
        return switch (source.*) {
            .dense => false,
            .csr => true,
            .concatenated => |own| own.layout == .csr,
        };
    }

    /// Where a row lies; null where there is none.
    pub fn placeOf(source: *const MatrixSource, row: i64) ?row_reads.Place {
        if (row < 0 or row >= source.rowCount()) return null;
        const number: u64 = @intCast(row);
        switch (source.*) {
            .concatenated => |*own| {
                const place = own.whole.places.placeOf(number);
                return own.whole.members[place.member].matrix.placeOf(place.row);
            },
            inline else => |*own| return own.matrix.placeOf(number),
        }
    }

    /// See `Matrix.expectScattered`.
    pub fn expectScattered(source: *const MatrixSource, scattered: bool) void {
        switch (source.*) {
            .concatenated => |*own| for (own.whole.members) |*member| member.matrix.expectScattered(scattered),
            inline else => |*own| own.matrix.expectScattered(scattered),
        }
    }

    /// See `File.expectUnchanged`.
    pub fn expectUnchanged(source: *const MatrixSource, report: *Report) Failure!void {
        switch (source.*) {
            .concatenated => |*own| for (own.whole.members) |*member| try member.matrix.file.expectUnchanged(report),
            inline else => |*own| try own.matrix.file.expectUnchanged(report),
        }
    }

    /// See `File.afterReading`.
    pub fn afterReading(source: *const MatrixSource, result: Failure!void, report: *Report) Failure!void {
        if (result) |_| {
            if (!map_guard.anyCut()) return;
        } else |_| {}
        switch (source.*) {
            .concatenated => |*own| for (own.whole.members) |*member| try member.matrix.file.changes.afterReading(report),
            inline else => |*own| try own.matrix.file.changes.afterReading(report),
        }
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
        return switch (source.*) {
            .concatenated => |*own| own.whole.initScratch(allocator),
            inline else => |*own| Scratch.init(allocator, own.matrix.n_cols),
        };
    }

    pub fn batchBytes(source: *const MatrixSource, rows: []const i64, report: *Report) Failure!usize {
        return switch (source.*) {
            inline else => |*own| own.batchBytes(rows, report),
        };
    }

    pub fn prepare(source: *const MatrixSource, rows: []const i64, memory: Memory) void {
        switch (source.*) {
            .dense => {},
            inline .csr, .concatenated => |*own| own.prepare(rows, memory),
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
            inline .csr, .concatenated => |*own| own.finish(n_rows, memory),
        }
    }

    pub fn seemsResident(source: *const MatrixSource, range: hints.RowRange) bool {
        return switch (source.*) {
            .concatenated => |*own| own.seemsResident(range),
            inline else => |*own| own.matrix.seemsResident(range.row_start, range.row_end),
        };
    }

    pub fn willNeed(source: *const MatrixSource, range: hints.RowRange) void {
        switch (source.*) {
            .concatenated => |*own| own.willNeed(range),
            inline else => |*own| own.matrix.willNeed(range.row_start, range.row_end),
        }
    }
};
