//! CSR batches of the rows of several matrices, each with its own way into the columns, as the source of a pipeline.
//!
//! The memory of a batch is that of csr_source.zig.

const std = @import("std");
const Allocator = std.mem.Allocator;

const buffers = @import("buffers.zig");
const csr_source = @import("csr_source.zig");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const hints = @import("hints.zig");
const joined = @import("../codec/joined.zig");
const matrices = @import("../codec/matrix.zig");
const pipelines = @import("pipeline.zig");
const places_module = @import("../codec/places.zig");
const Failure = errors.Failure;
const Matrix = matrices.Matrix;
const Places = places_module.Places;
const Report = errors.Report;
const Scratch = matrices.Scratch;
const ShardView = @import("../codec/shard_view.zig").ShardView;

const Memory = []align(buffers.alignment.toByteUnits()) u8;

pub const JoinedSource = struct {
    allocator: Allocator,
    sources: []joined.Source,
    places: Places,
    changes: joined.Changes,
    /// Whether a row may end with fewer values than it stores.
    drops_values: bool,

    /// The list is copied; matrices and remaps must outlive it.
    pub fn init(allocator: Allocator, sources: []const joined.Source, changes: joined.Changes, report: *Report) Failure!JoinedSource {
        const row_counts = try allocator.alloc(u64, sources.len);
        defer allocator.free(row_counts);
        var drops_values = changes.draw != null;
        for (sources, row_counts) |source, *count| {
            count.* = source.matrix.n_rows;
            drops_values = drops_values or source.remap != null;
        }
        var places: Places = try .init(allocator, row_counts, report);
        errdefer places.deinit();
        return .{
            .allocator = allocator,
            .sources = try allocator.dupe(joined.Source, sources),
            .places = places,
            .changes = changes,
            .drops_values = drops_values,
        };
    }

    pub fn deinit(source: *JoinedSource) void {
        source.allocator.free(source.sources);
        source.places.deinit();
    }

    pub fn initScratch(source: *const JoinedSource, allocator: Allocator) Failure!Scratch {
        return joined.initScratch(allocator, source.sources);
    }

    pub fn batchBytes(source: *const JoinedSource, rows: []const i64, report: *Report) Failure!usize {
        try source.places.checkRows(rows, report);
        return csr_source.bytesOfRows(source, rows, report);
    }

    pub fn prepare(source: *const JoinedSource, rows: []const i64, memory: Memory) void {
        csr_source.placeRows(source, rows, memory);
    }

    pub fn decode(source: *const JoinedSource, task: pipelines.Task, scratch: *Scratch, report: *Report) Failure!void {
        const views: csr_source.Views = .of(task.rows.len, task.memory);
        const way: emit.Way = .ofBatch(task.memory.len);
        defer if (way == .past_caches) emit.finishStreaming();
        for (task.rows[task.begin..task.end], task.begin..) |row, index| {
            source.prefetchAhead(task.rows[0..task.end], index);
            const begin: usize = @intCast(views.indptr[index]);
            const end: usize = @intCast(views.indptr[index + 1]);
            const place = source.places.placeOf(@intCast(row));
            const count = joined.decodeRow(
                &source.sources[place.member],
                @intCast(place.row),
                &source.changes,
                scratch,
                way,
                views.indices[begin..end],
                views.values[begin..end],
                report,
            ) catch |failure| return places_module.inMember(place.member, failure, report);
            views.counts[index] = @intCast(count);
        }
    }

    pub fn finish(source: *const JoinedSource, n_rows: usize, memory: Memory) void {
        if (source.drops_values) csr_source.moveTogether(n_rows, memory);
    }

    pub fn willNeed(source: *const JoinedSource, range: hints.RowRange) void {
        var row = range.row_start;
        while (row < range.row_end) {
            const place = source.places.placeOf(row);
            const stop = @min(range.row_end, source.places.starts[place.member + 1]);
            source.sources[place.member].matrix.willNeed(place.row, place.row + (stop - row));
            row = stop;
        }
    }

    /// How many values a row stores by the table of its shard.
    pub fn roomOf(source: *const JoinedSource, row: i64) u64 {
        const place = source.places.placeOf(@intCast(row));
        return source.sources[place.member].matrix.roomOf(place.row);
    }

    /// As `Matrix.prefetch`.
    inline fn prefetchAhead(source: *const JoinedSource, rows: []const i64, index: usize) void {
        if (index + Matrix.entry_rows_ahead < rows.len) {
            const view, const local = source.find(rows[index + Matrix.entry_rows_ahead]);
            view.prefetchEntry(local);
        }
        if (index + Matrix.payload_rows_ahead < rows.len) {
            const view, const local = source.find(rows[index + Matrix.payload_rows_ahead]);
            view.prefetchPayload(local);
        }
    }

    inline fn find(source: *const JoinedSource, row: i64) struct { *const ShardView, u64 } {
        const place = source.places.placeOf(@intCast(row));
        const view = source.sources[place.member].matrix.shardOf(place.row);
        return .{ view, place.row - view.row_start };
    }
};
