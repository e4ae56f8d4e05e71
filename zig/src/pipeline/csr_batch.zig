//! The memory of a CSR batch.
//!
//! How many values a batch has is known only when its rows are decoded: a panel keeps some of them, and a draw drops
//! some. So each row has room for all that it stores, and the rows are moved together when the batch is received. Where
//! all values stay nothing moves. Indptr and the rows' counts come first, then columns and values, each from a cache line on.

const std = @import("std");
const assert = std.debug.assert;

const buffers = @import("buffers.zig");
const errors = @import("../errors.zig");
const Failure = errors.Failure;
const Report = errors.Report;

const line = buffers.alignment.toByteUnits();
const Memory = []align(line) u8;

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
