//! Rows of several matrices at once, each matrix with its own way into a shared set of columns.
//!
//! What happens to a row, in this order:
//!
//!   1. it is decoded;
//!   2. where its matrix has a remap: values of columns without a place are left out, the others are clipped at 0 (NaN
//!      becomes 0), put in the order of their new columns, and summed where several have the same one;
//!   3. it is downsampled, if asked for (kernels/downsample.zig), and what became 0 is left out;
//!   4. it is normalised and logged, if asked for (kernels/transform.zig). The depth is the total of all that the row
//!      stores, also of what has no place; of a downsampled row it is the total that was drawn.

const std = @import("std");
const downsample = @import("../kernels/downsample.zig");
const errors = @import("../errors.zig");
const matrix_module = @import("matrix.zig");
const parallel = @import("parallel.zig");
const transform_kernel = @import("../kernels/transform.zig");

const Allocator = std.mem.Allocator;
const Failure = errors.Failure;
const Matrix = matrix_module.Matrix;
const Report = errors.Report;
const Transform = transform_kernel.Transform;

/// Fewer rows than this are not worth a thread of their own.
const rows_per_thread_min = 64;
const lanes = 8;

pub const Source = struct {
    matrix: *const Matrix,
    /// Null, or for each column its new one; negative: it has none.
    remap: ?[]const i32,
    file_identity: u64,
};

pub const JoinedGather = struct {
    allocator: Allocator,
    sources: []const Source,
    /// For each row: which source.
    source_of_row: []const u32,
    rows: []const i64,
    /// Where each row begins in the outputs, and how many values it stores, which is the room it has.
    starts: []const i64,
    counts: []const i64,
    transform: Transform,
    draw: ?downsample.Draw,
    indices: [*]i32,
    values: [*]f32,
    /// How many values became of each row.
    kept: []i64,
    parts: usize = 1,

    /// The rows have been checked.
    pub fn run(self: *JoinedGather, threads: u32, failed_source: *u64, report: *Report) Failure!void {
        self.parts = parallel.threadCount(threads, self.rows.len / rows_per_thread_min);
        parallel.run(self.parts, self, runPart, report) catch |failure| {
            // the report is that of the lowest part that failed, and says the position of its row
            failed_source.* = self.source_of_row[@intCast(report.row)];
            const row: u64 = @intCast(self.rows[@intCast(report.row)]);
            report.row = row;
            return failure;
        };
    }

    fn runPart(self: *JoinedGather, part: usize, report: *Report) Failure!void {
        const range = parallel.rangeOf(self.rows.len, self.parts, part);
        report.row = range.start;
        if (range.start == range.stop) return;
        var scratch: JoinedScratch = try .init(self.allocator, self.sources[self.source_of_row[range.start]].matrix);
        defer scratch.deinit();
        for (range.start..range.stop) |index| {
            self.prefetchAhead(index, range.stop);
            self.gatherRow(index, &scratch, report) catch |failure| {
                report.row = index;
                return failure;
            };
        }
    }

    /// As `Matrix.prefetch` does for the rows of one matrix.
    inline fn prefetchAhead(self: *const JoinedGather, index: usize, stop: usize) void {
        if (index + Matrix.entry_rows_ahead < stop) {
            const view, const local = self.find(index + Matrix.entry_rows_ahead);
            view.prefetchEntry(local);
        }
        if (index + Matrix.payload_rows_ahead < stop) {
            const view, const local = self.find(index + Matrix.payload_rows_ahead);
            view.prefetchPayload(local);
        }
    }

    inline fn find(self: *const JoinedGather, index: usize) struct { *const @import("shard_view.zig").ShardView, u64 } {
        const row: u64 = @intCast(self.rows[index]);
        const view = self.sources[self.source_of_row[index]].matrix.shardOf(row);
        return .{ view, row - view.row_start };
    }

    fn gatherRow(self: *JoinedGather, index: usize, scratch: *JoinedScratch, report: *Report) Failure!void {
        const source = &self.sources[self.source_of_row[index]];
        const matrix = source.matrix;
        scratch.row.capacity_max = @max(scratch.row.capacity_max, matrix.n_cols);
        const found = try matrix.openRow(self.rows[index], &scratch.row, report);
        const length: usize = found.row.n_values;
        if (self.counts[index] != length) return report.fail(error.BadArgument, "row {d} has room for {d} values, but it stores " ++
            "{d}: take the counts from scx_joined_counts", .{ self.rows[index], self.counts[index], length });
        const start: usize = @intCast(self.starts[index]);
        const indices = self.indices[start..][0..length];
        const values = self.values[start..][0..length];
        const columns: []const i32 = @ptrCast(scratch.row.arrays.row.columns[0..length]);
        if (source.remap == null and self.draw == null and self.transform.isIdentity()) {
            @memcpy(indices, columns);
            try matrix.rowValues(&found, .f32, &scratch.row, @ptrCast(values.ptr), report);
            self.kept[index] = @intCast(length);
            return;
        }
        const stored = scratch.row.arrays.values[0..length];
        try matrix.rowValues(&found, .f64, &scratch.row, @ptrCast(stored.ptr), report);
        var depth = if (self.transform.normalize and self.draw == null) transform_kernel.depthOf(stored, self.transform.log1p) else 0;
        var kept = length;
        if (source.remap) |remap| {
            kept = try scratch.remapRow(remap, columns, stored, indices);
        } else {
            @memcpy(indices, columns);
        }
        if (self.draw) |draw| {
            for (stored[0..kept], values[0..kept]) |value, *count| count.* = @floatCast(value);
            draw.drawRow(source.file_identity, @intCast(self.rows[index]), values[0..kept]) catch
                return report.fail(error.BadArgument, "row {d} holds " ++ downsample.too_large, .{self.rows[index]});
            kept = downsample.dropZeros(indices[0..kept], values[0..kept]);
            for (values[0..kept], stored[0..kept]) |count, *value| value.* = count;
            depth = transform_kernel.depthOf(stored[0..kept], true);
        }
        apply(self.transform, stored[0..kept], self.transform.factor(depth), values[0..kept]);
        self.kept[index] = @intCast(kept);
    }
};

fn apply(transform: Transform, stored: []const f64, scale: f64, values: []f32) void {
    if (transform.isIdentity()) {
        for (stored, values) |value, *result| result.* = @floatCast(value);
        return;
    }
    var at: usize = 0;
    while (at < stored.len) : (at += lanes) {
        const live = @min(lanes, stored.len - at);
        var block: [lanes]f64 = @splat(0);
        @memcpy(block[0..live], stored[at..][0..live]);
        const results: [lanes]f32 = transform.apply(lanes, block, scale);
        @memcpy(values[at..][0..live], results[0..live]);
    }
}

/// The memory of one thread.
const JoinedScratch = struct {
    row: matrix_module.Scratch,
    /// Columns of a row that came out of order: the new one above the place of its value.
    order: std.ArrayList(u64) = .empty,
    unsorted: std.ArrayList(f64) = .empty,

    fn init(allocator: Allocator, matrix: *const Matrix) Failure!JoinedScratch {
        return .{ .row = try .init(allocator, matrix) };
    }

    fn deinit(scratch: *JoinedScratch) void {
        scratch.unsorted.deinit(scratch.row.allocator);
        scratch.order.deinit(scratch.row.allocator);
        scratch.row.deinit();
    }

    /// New columns into `indices` and their values, clipped, to the front of `stored`; answers how many.
    fn remapRow(scratch: *JoinedScratch, remap: []const i32, columns: []const i32, stored: []f64, indices: []i32) Failure!usize {
        var kept: usize = 0;
        var last: i32 = -1;
        var is_ascending = true;
        for (columns, 0..) |column, place| {
            const new = remap[@intCast(column)];
            if (new < 0) continue;
            is_ascending = is_ascending and new > last;
            last = new;
            indices[kept] = new;
            stored[kept] = if (stored[place] > 0) stored[place] else 0;
            kept += 1;
        }
        if (is_ascending) return kept;
        return scratch.sortAndSum(indices[0..kept], stored[0..kept]);
    }

    fn sortAndSum(scratch: *JoinedScratch, indices: []i32, stored: []f64) Failure!usize {
        const allocator = scratch.row.allocator;
        try scratch.order.resize(allocator, indices.len);
        try scratch.unsorted.resize(allocator, indices.len);
        @memcpy(scratch.unsorted.items, stored);
        for (scratch.order.items, indices, 0..) |*entry, column, place| entry.* = @as(u64, @intCast(column)) << 32 | place;
        std.mem.sortUnstable(u64, scratch.order.items, {}, std.sort.asc(u64));
        var length: usize = 0;
        for (scratch.order.items) |entry| {
            const column: i32 = @intCast(entry >> 32);
            const value = scratch.unsorted.items[@as(u32, @truncate(entry))];
            if (length > 0 and indices[length - 1] == column) {
                stored[length - 1] += value;
                continue;
            }
            indices[length] = column;
            stored[length] = value;
            length += 1;
        }
        return length;
    }
};
