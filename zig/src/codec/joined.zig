//! Rows of several matrices at once, each matrix with its own way into a shared set of columns.
//!
//! What happens to a row, in this order:
//!
//!   1. it is decoded, and its values are clipped at 0 (NaN becomes 0);
//!   2. where its matrix has a remap: values of columns without a place are left out, the others put in the order of
//!      their new columns, and summed where several have the same one;
//!   3. it is downsampled, if asked for (kernels/downsample.zig), and what became 0 is left out;
//!   4. it is normalised and logged, if asked for (kernels/transform.zig). The depth is the total of all that the row
//!      stores, also of what has no place; of a downsampled row it is the total that was drawn.

const std = @import("std");
const downsample = @import("../kernels/downsample.zig");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const matrix_module = @import("matrix.zig");
const parallel = @import("parallel.zig");
const row_reads = @import("row_reads.zig");
const sort_row = @import("sort_row.zig");
const transform_kernel = @import("../kernels/transform.zig");

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const Failure = errors.Failure;
const Matrix = matrix_module.Matrix;
const Report = errors.Report;
const Scratch = matrix_module.Scratch;
const ShardView = @import("shard_view.zig").ShardView;
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

pub const Changes = struct {
    transform: Transform,
    draw: ?downsample.Draw,
};

/// Memory for rows of any of the sources.
pub fn initScratch(allocator: Allocator, sources: []const Source) Failure!Scratch {
    var widest: u32 = 0;
    for (sources) |source| widest = @max(widest, source.matrix.n_cols);
    return Scratch.init(allocator, widest);
}

/// Decodes a row and does all that happens to it. `indices` and `values` have as many places as the row stores values.
/// Answers how many are left, which stand at the front. `way` matters where the row is stored as it is.
pub fn decodeRow(
    source: *const Source,
    row: i64,
    changes: *const Changes,
    scratch: *Scratch,
    way: emit.Way,
    indices: []i32,
    values: []f32,
    report: *Report,
) Failure!usize {
    assert(indices.len == values.len);
    const matrix = source.matrix;
    const found = try matrix.openRow(row, scratch, report);
    const length: usize = found.row.n_values;
    if (values.len != length) return report.fail(error.BadArgument, "row {d} has room for {d} values, but it stores {d}", .{
        row, values.len, length,
    });
    const columns: []const i32 = @ptrCast(scratch.arrays.row.columns[0..length]);
    const transform = changes.transform;
    if (source.remap == null and changes.draw == null and transform.isIdentity()) {
        if (way == .past_caches) {
            try matrix.rowValues(&found, .f32, scratch, @ptrCast(scratch.arrays.values), report);
            const floats: [*]f32 = @ptrCast(scratch.arrays.values);
            if (matrix.value_type.isSigned()) clip(f32, floats[0..length]);
            const decoded: [*]const u32 = @ptrCast(floats);
            matrix.level.copyWords(way, scratch.arrays.row.columns, length, @ptrCast(indices.ptr));
            matrix.level.copyWords(way, decoded, length, @ptrCast(values.ptr));
            return length;
        }
        @memcpy(indices, columns);
        try matrix.rowValues(&found, .f32, scratch, @ptrCast(values.ptr), report);
        if (matrix.value_type.isSigned()) clip(f32, values);
        return length;
    }
    const stored = scratch.arrays.values[0..length];
    try matrix.rowValues(&found, .f64, scratch, @ptrCast(stored.ptr), report);
    if (matrix.value_type.isSigned()) clip(f64, stored);
    var depth = if (transform.normalize and changes.draw == null) transform_kernel.depthOf(stored, true) else 0;
    var kept = length;
    if (source.remap) |remap| {
        kept = remapRow(remap, scratch, length, indices);
    } else {
        @memcpy(indices, columns);
    }
    if (changes.draw) |draw| {
        for (stored[0..kept], values[0..kept]) |value, *count| count.* = @floatCast(value);
        draw.drawRow(source.file_identity, @intCast(row), values[0..kept]) catch
            return report.fail(error.BadArgument, "row {d} holds " ++ downsample.too_large, .{row});
        kept = downsample.dropZeros(indices[0..kept], values[0..kept]);
        for (values[0..kept], stored[0..kept]) |count, *value| value.* = count;
        depth = transform_kernel.depthOf(stored[0..kept], true);
    }
    const scale = transform.factor(depth);
    apply(transform, stored[0..kept], scale, values[0..kept]);
    return kept;
}

fn clip(comptime T: type, values: []T) void {
    for (values) |*value| value.* = if (value.* > 0) value.* else 0;
}

/// New columns of the row in the scratch into `indices`, and their values to the front of its values; answers how many
/// there are.
fn remapRow(remap: []const i32, scratch: *Scratch, length: usize, indices: []i32) usize {
    const stored = scratch.arrays.values[0..length];
    var kept: usize = 0;
    var last: i32 = -1;
    var highest: i32 = -1;
    var is_ascending = true;
    for (scratch.arrays.row.columns[0..length], 0..) |column, place| {
        const new = remap[column];
        if (new < 0) continue;
        is_ascending = is_ascending and new > last;
        last = new;
        highest = @max(highest, new);
        indices[kept] = new;
        stored[kept] = stored[place];
        kept += 1;
    }
    if (is_ascending) return kept;
    return sortAndSum(scratch, indices[0..kept], @intCast(highest));
}

/// As many values of the scratch as there are indices, which go together: puts them in the order of their index, and
/// adds those that have the same one in the order in which they stand. Answers how many are left.
fn sortAndSum(scratch: *Scratch, indices: []i32, highest: u32) usize {
    const stored = scratch.arrays.values[0..indices.len];
    const entries = scratch.entries(indices.len);
    const spare = scratch.spareEntries(indices.len);
    for (entries, indices, 0..) |*entry, index, place| entry.* = sort_row.entry(@intCast(index), @intCast(place));
    const sorted = sort_row.sort(entries, spare, highest +| 1);
    // The values are read in any order, so that sums go where the sorted entries are not.
    const sums: []align(4) f64 = @ptrCast(if (sorted.ptr == entries.ptr) spare else entries);
    var length: usize = 0;
    for (sorted) |entry| {
        const column: i32 = @intCast(sort_row.columnOf(entry));
        const value = stored[sort_row.payloadOf(entry)];
        if (length > 0 and indices[length - 1] == column) {
            sums[length - 1] += value;
            continue;
        }
        indices[length] = column;
        sums[length] = value;
        length += 1;
    }
    @memcpy(stored[0..length], sums[0..length]);
    return length;
}

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

pub const JoinedGather = struct {
    allocator: Allocator,
    sources: []const Source,
    /// For each row: which source.
    source_of_row: []const u32,
    rows: []const i64,
    /// Where each row begins in the outputs, and how many values it stores, which is the room it has.
    starts: []const i64,
    counts: []const i64,
    changes: Changes,
    indices: [*]i32,
    values: [*]f32,
    /// How many values became of each row.
    kept: []i64,
    parts: usize = 1,

    /// How many entries the outputs have, by rows that ascend without overlaps and have room for what they store.
    pub fn checkRoom(self: *const JoinedGather, failed_source: *u64, report: *Report) Failure!u64 {
        var end: i64 = 0;
        for (self.rows, self.source_of_row, self.starts, self.counts, 0..) |row, source, start, count, index| {
            errdefer failed_source.* = source;
            const stored = try self.sources[source].matrix.rowCount(@intCast(row), report);
            if (start < end or count != stored or start > std.math.maxInt(i64) - count) {
                return report.fail(error.BadArgument, "position {d} has room for {d} values from {d} on: row {d} stores {d}, and the " ++
                    "rows before it end at {d}", .{ index, count, start, row, stored, end });
            }
            end = start + count;
        }
        return @intCast(end);
    }

    /// Rows and their room have been checked.
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
        var scratch = try initScratch(self.allocator, self.sources);
        defer scratch.deinit();
        // files that are read together are mostly in memory, or not, alike
        var ahead: row_reads.Ahead = .init(self.allocator, self.sources[0].matrix.watch, row_reads.isScattered(self.rows), range.start);
        defer ahead.deinit();
        for (range.start..range.stop) |index| {
            ahead.reach(self, index, range.stop);
            self.prefetchAhead(index, range.stop);
            const start: usize = @intCast(self.starts[index]);
            const length: usize = @intCast(self.counts[index]);
            const kept = decodeRow(
                &self.sources[self.source_of_row[index]],
                self.rows[index],
                &self.changes,
                &scratch,
                .through_caches,
                self.indices[start..][0..length],
                self.values[start..][0..length],
                report,
            ) catch |failure| {
                report.row = index;
                return failure;
            };
            self.kept[index] = @intCast(kept);
        }
    }

    /// Where row `index` of the batch lies.
    pub fn at(self: *const JoinedGather, index: usize) ?row_reads.Place {
        return self.sources[self.source_of_row[index]].matrix.placeOf(@intCast(self.rows[index]));
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

    inline fn find(self: *const JoinedGather, index: usize) struct { *const ShardView, u64 } {
        const row: u64 = @intCast(self.rows[index]);
        const view = self.sources[self.source_of_row[index]].matrix.shardOf(row);
        return .{ view, row - view.row_start };
    }
};
