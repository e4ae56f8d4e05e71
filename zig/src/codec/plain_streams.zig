//! The indices and values of a shard with codec `none`, on their way into the file.
//!
//! Indices lie before values, and both grow with each row that is appended. They are not held in memory: values are
//! written some way behind the indices, moved away when the indices come up to them, and put in their place at the end.
//! Where the rows are about equally long nothing moves but at the end, by a little.

const std = @import("std");
const errors = @import("../errors.zig");
const Writer = @import("../container/writer.zig").Writer;

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const Failure = errors.Failure;
const Report = errors.Report;

/// Copied at a time.
const piece_bytes = 1 << 20;
/// Streams start at multiples of it.
const stream_alignment = 8;

pub const PlainStreams = struct {
    /// Place of the indices in the file.
    indices_at: u64,
    indices_bytes: u64 = 0,
    /// Place of the values in the file, for the time being; behind the indices.
    values_at: u64,
    values_bytes: u64 = 0,

    pub fn init(indices_at: u64) PlainStreams {
        return .{ .indices_at = indices_at, .values_at = indices_at };
    }

    pub const Rows = struct {
        indices: []const u8,
        values: []const u8,
        /// Rows that are through with these, and rows in all, for a guess of what is still to come.
        rows_done: u64,
        rows_total: u64,
    };

    pub fn append(self: *PlainStreams, allocator: Allocator, writer: *Writer, rows: Rows, report: *Report) Failure!void {
        const indices_end = self.indices_at + self.indices_bytes + rows.indices.len;
        if (indices_end > self.values_at) {
            const bytes = indices_end - self.indices_at;
            assert(rows.rows_done > 0 and rows.rows_done <= rows.rows_total);
            const expected: u64 = @intCast(@as(u128, bytes) * rows.rows_total / rows.rows_done);
            // a sixteenth more than expected, and not a little each time
            const room = @max(expected + expected / 16, bytes + bytes / 2);
            try self.moveValues(allocator, writer, aligned(self.indices_at + room), report);
        }
        try writer.writeAt(self.indices_at + self.indices_bytes, rows.indices, report);
        try writer.writeAt(self.values_at + self.values_bytes, rows.values, report);
        self.indices_bytes += rows.indices.len;
        self.values_bytes += rows.values.len;
    }

    /// Values right behind the indices, zeros in the gaps. Gives the end.
    pub fn finish(self: *PlainStreams, allocator: Allocator, writer: *Writer, report: *Report) Failure!u64 {
        const indices_end = self.indices_at + self.indices_bytes;
        try self.moveValues(allocator, writer, aligned(indices_end), report);
        const values_end = self.values_at + self.values_bytes;
        // what was moved has left bytes of its own everywhere
        const zeros: [stream_alignment]u8 = @splat(0);
        try writer.writeAt(indices_end, zeros[0..@intCast(aligned(indices_end) - indices_end)], report);
        try writer.writeAt(values_end, zeros[0..@intCast(aligned(values_end) - values_end)], report);
        return aligned(values_end);
    }

    fn aligned(place: u64) u64 {
        return std.mem.alignForward(u64, place, stream_alignment);
    }

    /// From whichever end is safe, since the places may overlap.
    fn moveValues(self: *PlainStreams, allocator: Allocator, writer: *Writer, target: u64, report: *Report) Failure!void {
        if (target == self.values_at or self.values_bytes == 0) {
            self.values_at = target;
            return;
        }
        const piece = try allocator.alloc(u8, @intCast(@min(piece_bytes, self.values_bytes)));
        defer allocator.free(piece);
        var done: u64 = 0;
        while (done < self.values_bytes) {
            const count = @min(piece.len, self.values_bytes - done);
            const at = if (target < self.values_at) done else self.values_bytes - done - count;
            const part = piece[0..@intCast(count)];
            try writer.readAt(self.values_at + at, part, report);
            try writer.writeAt(target + at, part, report);
            done += count;
        }
        self.values_at = target;
    }
};

const testing = std.testing;
const testing_files = @import("../container/testing_files.zig");

/// Rows of the given lengths, two bytes an index and three a value, appended one by one.
fn expectStreams(lengths: []const usize) !void {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const writer: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 1, .n_vars = 1 }, &report);
    defer writer.close();
    const start = try writer.beginSection(&report);
    var streams: PlainStreams = .init(start);
    var all_indices: std.ArrayList(u8) = .empty;
    defer all_indices.deinit(testing.allocator);
    var all_values: std.ArrayList(u8) = .empty;
    defer all_values.deinit(testing.allocator);
    var random = std.Random.DefaultPrng.init(lengths.len);
    for (lengths, 1..) |length, rows_done| {
        const indices = try all_indices.addManyAsSlice(testing.allocator, 2 * length);
        const values = try all_values.addManyAsSlice(testing.allocator, 3 * length);
        for (indices) |*byte| byte.* = random.random().int(u8) | 1; // no zeros, which the gaps have
        for (values) |*byte| byte.* = random.random().int(u8) | 1;
        try streams.append(testing.allocator, writer, .{
            .indices = indices,
            .values = values,
            .rows_done = rows_done,
            .rows_total = lengths.len,
        }, &report);
    }
    const end = try streams.finish(testing.allocator, writer, &report);
    const values_start = std.mem.alignForward(usize, all_indices.items.len, 8);
    try testing.expectEqual(start + values_start, streams.values_at);
    try testing.expectEqual(start + std.mem.alignForward(usize, values_start + all_values.items.len, 8), end);
    const expected = try testing.allocator.alloc(u8, @intCast(end - start));
    defer testing.allocator.free(expected);
    @memset(expected, 0);
    @memcpy(expected[0..all_indices.items.len], all_indices.items);
    @memcpy(expected[values_start..][0..all_values.items.len], all_values.items);
    const found = try testing.allocator.alloc(u8, expected.len);
    defer testing.allocator.free(found);
    if (found.len > 0) try writer.readAt(start, found, &report);
    try testing.expectEqualSlices(u8, expected, found);
}

test "rows of all lengths come to lie where they belong" {
    try expectStreams(&.{});
    try expectStreams(&.{0});
    try expectStreams(&.{7});
    try expectStreams(&.{ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 });
    try expectStreams(&.{ 0, 0, 0, 5, 900, 1, 0, 3, 4000, 2, 100, 100, 100 }); // the guesses are bad
    try expectStreams(&.{ 9000, 0, 0, 1, 0 });
    try expectStreams(&.{ 3, 400_000, 500_001, 1, 600_000 }); // more than a piece
}
