//! Splitting a loop over rows among threads that live as long as the call.

const std = @import("std");
const errors = @import("../errors.zig");

const Failure = errors.Failure;
const Report = errors.Report;

pub const threads_max = 64;

/// `requested` = 0: as many as the machine has. Never more than there are pieces of work.
pub fn threadCount(requested: u32, pieces: u64) usize {
    const wanted: u64 = if (requested > 0) requested else std.Thread.getCpuCount() catch 1;
    return @intCast(@max(1, @min(wanted, threads_max, pieces)));
}

pub const Range = struct { start: usize, stop: usize };

pub fn rangeOf(total: usize, parts: usize, part: usize) Range {
    return .{ .start = total * part / parts, .stop = total * (part + 1) / parts };
}

/// Calls `function(context, part, report)` for every part at once, part 0 on the calling thread. The failure of the
/// lowest part wins, so that the answer does not depend on timing. A part whose thread cannot be started runs here.
pub fn run(
    parts: usize,
    context: anytype,
    comptime function: fn (@TypeOf(context), usize, *Report) Failure!void,
    report: *Report,
) Failure!void {
    if (parts == 1) return function(context, 0, report);
    const Worker = struct {
        report: Report = .{},
        result: Failure!void = {},

        fn work(self: *@This(), shared: @TypeOf(context), part: usize) void {
            self.result = function(shared, part, &self.report);
        }
    };
    var workers: [threads_max]Worker = undefined;
    var threads: [threads_max]?std.Thread = @splat(null);
    for (workers[1..parts], threads[1..parts], 1..) |*worker, *thread, part| {
        worker.* = .{};
        thread.* = std.Thread.spawn(.{}, Worker.work, .{ worker, context, part }) catch null;
    }
    workers[0] = .{};
    workers[0].work(context, 0);
    for (workers[1..parts], threads[1..parts], 1..) |*worker, thread, part| {
        if (thread) |started| started.join() else worker.work(context, part);
    }
    for (workers[0..parts]) |*worker| {
        worker.result catch |failure| {
            report.* = worker.report;
            return failure;
        };
    }
}

test "every part runs once, and the lowest failure wins" {
    const Shared = struct {
        seen: [5]u32 = @splat(0),

        fn work(self: *@This(), part: usize, report: *Report) Failure!void {
            self.seen[part] += 1;
            if (part >= 3) return report.fail(error.Corrupt, "part {d}", .{part});
        }
    };
    var shared: Shared = .{};
    var report: Report = .{};
    try std.testing.expectError(error.Corrupt, run(5, &shared, Shared.work, &report));
    try std.testing.expectEqualStrings("part 3", report.messageText());
    try std.testing.expectEqualSlices(u32, &.{ 1, 1, 1, 1, 1 }, &shared.seen);
}

test "ranges cover the rows" {
    var next: usize = 0;
    for (0..7) |part| {
        const range = rangeOf(100, 7, part);
        try std.testing.expectEqual(next, range.start);
        next = range.stop;
    }
    try std.testing.expectEqual(100, next);
}
