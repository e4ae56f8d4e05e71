//! CSR batches of one matrix, as the source of a pipeline.
//!
//! How many values a batch has is known only when its rows are decoded: a panel keeps some of them. So each row has
//! room for all that it stores, and the rows are moved together when the batch is received. Without a panel nothing
//! moves. The memory of a batch: indptr and the rows' counts, then columns and values, each from a cache line on.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;

const buffers = @import("buffers.zig");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const matrices = @import("../codec/matrix.zig");
const pipelines = @import("pipeline.zig");
const Failure = errors.Failure;
const Matrix = matrices.Matrix;
const Report = errors.Report;
const Scratch = matrices.Scratch;

const line = buffers.alignment.toByteUnits();
const Memory = []align(line) u8;

pub const CsrSource = struct {
    matrix: *const Matrix,
    plan: matrices.DensePlan,
    has_panel: bool,

    pub fn init(
        allocator: Allocator,
        matrix: *const Matrix,
        options: matrices.DenseOptions,
        report: *Report,
    ) Failure!CsrSource {
        if (options.pflog_alpha != 0) return report.fail(
            error.BadArgument,
            "PFlog leaves no value at zero: it has dense batches alone",
            .{},
        );
        return .{
            .matrix = matrix,
            .plan = try .init(allocator, matrix, options, report),
            .has_panel = options.panel != null,
        };
    }

    pub fn deinit(source: *CsrSource) void {
        source.plan.deinit();
    }

    pub fn batchBytes(source: *const CsrSource, rows: []const i64, report: *Report) Failure!usize {
        try source.matrix.checkRows(rows, report);
        return bytesOfRows(source, rows, report);
    }

    /// Before the first row is decoded.
    pub fn prepare(source: *const CsrSource, rows: []const i64, memory: Memory) void {
        placeRows(source, rows, memory);
    }

    pub fn decode(source: *const CsrSource, task: pipelines.Task, scratch: *Scratch, report: *Report) Failure!void {
        const views: Views = .of(task.rows.len, task.memory);
        const way = source.wayOf(task.memory.len);
        defer if (way == .past_caches) emit.finishStreaming();
        for (task.rows[task.begin..task.end], task.begin..) |row, index| {
            source.matrix.prefetch(task.rows[0..task.end], index);
            const begin: usize = @intCast(views.indptr[index]);
            const end: usize = @intCast(views.indptr[index + 1]);
            const found = try source.matrix.openRow(row, scratch, report);
            if (found.row.n_values != end - begin) {
                return report.fail(error.Corrupt, "row {d} has another number of values than the table of its shard says", .{row});
            }
            const indices = views.indices[begin..end];
            const values = views.values[begin..end];
            views.counts[index] = @intCast(try source.decodeRow(&found, scratch, way, indices, values, report));
        }
    }

    /// After the last row.
    pub fn finish(source: *const CsrSource, n_rows: usize, memory: Memory) void {
        if (source.has_panel) moveTogether(n_rows, memory);
    }

    /// With a panel the rows are moved together afterwards, and read again for it.
    fn wayOf(source: *const CsrSource, batch_bytes: usize) emit.Way {
        return if (source.has_panel) .through_caches else .ofBatch(batch_bytes);
    }

    /// Answers how many values the row has in the batch.
    pub fn decodeRow(
        source: *const CsrSource,
        found: *const matrices.FoundRow,
        scratch: *Scratch,
        way: emit.Way,
        indices: []i32,
        values: []f32,
        report: *Report,
    ) Failure!usize {
        const level = source.matrix.level;
        if (!source.has_panel and source.plan.row_plan.transform.isIdentity()) {
            const decoded: [*]const u32 = @ptrCast(scratch.arrays.values);
            try source.matrix.rowValues(found, .f32, scratch, @ptrCast(scratch.arrays.values), report);
            level.copyWords(way, scratch.arrays.row.columns, indices.len, @ptrCast(indices.ptr));
            level.copyWords(way, decoded, values.len, @ptrCast(values.ptr));
            return values.len;
        }
        const selected = try source.matrix.selectRow(&source.plan, found, scratch, report);
        assert(selected.count <= indices.len and selected.count <= values.len);
        level.copyWords(way, selected.columns, selected.count, @ptrCast(indices.ptr));
        level.copyWords(way, @ptrCast(selected.values), selected.count, @ptrCast(values.ptr));
        return selected.count;
    }

    pub fn roomOf(source: *const CsrSource, row: i64) u64 {
        return source.matrix.roomOf(@intCast(row));
    }
};

/// The size of a batch; `source.roomOf` tells how many values a row has room for.
pub fn bytesOfRows(source: anytype, rows: []const i64, report: *Report) Failure!usize {
    var n_values: u64 = 0;
    for (rows) |row| n_values += source.roomOf(row);
    if (n_values > std.math.maxInt(i32)) return report.fail(
        error.Limit,
        "a batch of {d} rows with {d} values is too large: at most {d} values are possible",
        .{ rows.len, n_values, @as(u32, std.math.maxInt(i32)) },
    );
    const value_bytes = std.mem.alignForward(usize, @as(usize, @intCast(n_values)) * 4, line);
    return headBytes(rows.len) + 2 * value_bytes;
}

/// Where each row has its place. Who writes into a mapped file changes what its tables say: where they ask for more room
/// than when the batch's memory was taken, there is none, and the row fails when it is decoded.
pub fn placeRows(source: anytype, rows: []const i64, memory: Memory) void {
    const views: Views = .of(rows.len, memory);
    const room = @min(views.indices.len, std.math.maxInt(i32));
    var at: usize = 0;
    for (rows, views.indptr[0..rows.len]) |row, *start| {
        start.* = @intCast(at);
        at += @intCast(@min(source.roomOf(row), room - at));
    }
    views.indptr[rows.len] = @intCast(at);
}

/// Moves rows that have fewer values than room together.
pub fn moveTogether(n_rows: usize, memory: Memory) void {
    const views: Views = .of(n_rows, memory);
    var at: usize = 0;
    for (0..n_rows) |row| {
        const from: usize = @intCast(views.indptr[row]);
        const count: usize = @intCast(views.counts[row]);
        views.indptr[row] = @intCast(at);
        assert(at <= from);
        @memmove(views.indices[at..][0..count], views.indices[from..][0..count]);
        @memmove(views.values[at..][0..count], views.values[from..][0..count]);
        at += count;
    }
    views.indptr[n_rows] = @intCast(at);
}

fn headBytes(n_rows: usize) usize {
    return std.mem.alignForward(usize, (2 * n_rows + 1) * 4, line);
}

/// A batch's memory taken apart.
pub const Views = struct {
    indptr: []i32,
    counts: []i32,
    /// With room to spare; indptr says how much is used.
    indices: []i32,
    values: []f32,

    pub fn of(n_rows: usize, memory: Memory) Views {
        const head = headBytes(n_rows);
        const half = (memory.len - head) / 2;
        assert(half % line == 0);
        const words: []i32 = @ptrCast(@alignCast(memory[0 .. (2 * n_rows + 1) * 4]));
        return .{
            .indptr = words[0 .. n_rows + 1],
            .counts = words[n_rows + 1 ..],
            .indices = @ptrCast(@alignCast(memory[head..][0..half])),
            .values = @ptrCast(@alignCast(memory[head + half ..][0..half])),
        };
    }
};

test "the parts of a batch lie apart, each from a cache line on" {
    var memory: [headBytes(3) + 2 * line]u8 align(line) = undefined;
    const views: Views = .of(3, &memory);
    try std.testing.expectEqual(@as(usize, 4), views.indptr.len);
    try std.testing.expectEqual(@as(usize, 3), views.counts.len);
    try std.testing.expectEqual(@as(usize, line / 4), views.indices.len);
    try std.testing.expectEqual(@as(usize, line / 4), views.values.len);
    try std.testing.expectEqual(@intFromPtr(&memory) + headBytes(3), @intFromPtr(views.indices.ptr));
    try std.testing.expectEqual(@intFromPtr(&memory) + headBytes(3) + line, @intFromPtr(views.values.ptr));
}

test "rows of a table that grows after the memory was taken stay within it" {
    const Table = struct {
        counts: []const u64,

        pub fn roomOf(table: *const @This(), row: i64) u64 {
            return table.counts[@intCast(row)];
        }
    };
    var report: Report = .{};
    const before: Table = .{ .counts = &.{ 3, 5, 2 } };
    const rows = [_]i64{ 0, 1, 2 };
    var memory: [256]u8 align(line) = undefined;
    const taken = memory[0..try bytesOfRows(&before, &rows, &report)];
    placeRows(&before, &rows, taken);
    try std.testing.expectEqualSlices(i32, &.{ 0, 3, 8, 10 }, Views.of(3, taken).indptr);

    const room: i32 = @intCast(Views.of(3, taken).indices.len);
    placeRows(&Table{ .counts = &.{ 3, std.math.maxInt(u64), 2 } }, &rows, taken);
    try std.testing.expectEqualSlices(i32, &.{ 0, 3, room, room }, Views.of(3, taken).indptr);
}
