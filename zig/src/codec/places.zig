//! Rows of several matrices as rows of one: the matrices end to end.

const std = @import("std");
const errors = @import("../errors.zig");

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const Failure = errors.Failure;
const Report = errors.Report;

/// Which row of which member.
pub const Place = struct {
    member: usize,
    row: u64,
};

pub const Places = struct {
    allocator: Allocator,
    /// First row of each member and, as the last entry, the number of rows.
    starts: []u64,

    /// `row_counts`: the rows of each member.
    pub fn init(allocator: Allocator, row_counts: []const u64, report: *Report) Failure!Places {
        const starts = try allocator.alloc(u64, row_counts.len + 1);
        errdefer allocator.free(starts);
        starts[0] = 0;
        for (row_counts, starts[0..row_counts.len], starts[1..]) |count, start, *stop| {
            stop.* = start +| count;
            if (stop.* > std.math.maxInt(i64)) return report.fail(error.Limit, "the files have too many rows", .{});
        }
        return .{ .allocator = allocator, .starts = starts };
    }

    pub fn deinit(self: *Places) void {
        self.allocator.free(self.starts);
    }

    pub fn rowCount(self: *const Places) u64 {
        return self.starts[self.starts.len - 1];
    }

    /// The member that holds a row; `row` is below rowCount().
    pub fn placeOf(self: *const Places, row: u64) Place {
        assert(row < self.rowCount());
        var low: usize = 0;
        var high: usize = self.starts.len - 1;
        while (high - low > 1) {
            const middle = low + (high - low) / 2;
            if (self.starts[middle] <= row) low = middle else high = middle;
        }
        return .{ .member = low, .row = row - self.starts[low] };
    }

    pub fn checkRows(self: *const Places, rows: []const i64, report: *Report) Failure!void {
        for (rows, 0..) |row, position| {
            if (row >= 0 and row < self.rowCount()) continue;
            return report.fail(error.OutOfRange, "row {d} (position {d}) is out of range: the files have {d} rows", .{
                row, position, self.rowCount(),
            });
        }
    }
};

/// The failure, saying in which file it was.
pub fn inMember(member: usize, failure: Failure, report: *Report) Failure {
    var message: [errors.message_bytes_max]u8 = undefined;
    const length = report.message_length;
    @memcpy(message[0..length], report.messageText());
    return report.fail(failure, "file {d}: {s}", .{ member, message[0..length] });
}

test "members without rows hold none" {
    var report: Report = .{};
    var places: Places = try .init(std.testing.allocator, &.{ 0, 2, 0, 0, 3, 0 }, &report);
    defer places.deinit();
    try std.testing.expectEqual(@as(u64, 5), places.rowCount());
    const members = [_]usize{ 1, 1, 4, 4, 4 };
    const rows = [_]u64{ 0, 1, 0, 1, 2 };
    for (members, rows, 0..) |member, row, number| {
        const place = places.placeOf(number);
        try std.testing.expectEqual(member, place.member);
        try std.testing.expectEqual(row, place.row);
    }
    try places.checkRows(&.{ 4, 0 }, &report);
    try std.testing.expectError(error.OutOfRange, places.checkRows(&.{ 4, 5 }, &report));
    try std.testing.expectError(error.OutOfRange, places.checkRows(&.{-1}, &report));
    try std.testing.expectError(error.Limit, Places.init(std.testing.allocator, &.{ 1, std.math.maxInt(u64) }, &report));
}
