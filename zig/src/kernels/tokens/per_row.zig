//! What the token kernels share: the loop over rows, split among threads. A row's result depends on the row alone,
//! so it does not matter which thread makes it.

const std = @import("std");
const errors = @import("../../errors.zig");
const parallel = @import("../../codec/parallel.zig");
const CsrRows = @import("../csr_rows.zig").CsrRows;

const Failure = errors.Failure;
const Report = errors.Report;

/// Fewer values than this are worked on sooner than a thread is started.
const values_per_thread_min = 1 << 15;

/// How much of a batch a kernel goes over.
pub const Work = struct {
    rows: CsrRows,
    /// Tokens that are written for each row, whether it has values or not.
    width: usize = 0,
    /// 0: as many as the process may use.
    threads: u32,
};

/// Calls `work(context, rows.start, rows.stop, report)` for ranges that cover all rows, at once.
pub fn run(
    work: Work,
    context: anytype,
    comptime function: fn (@TypeOf(context), parallel.Range, *Report) Failure!void,
    report: *Report,
) Failure!void {
    const n_rows = work.rows.count();
    if (n_rows == 0) return;
    const amount = work.rows.indices.len +| n_rows *| work.width;
    const Split = struct {
        context: @TypeOf(context),
        n_rows: usize,
        parts: usize,

        fn part(self: *const @This(), number: usize, part_report: *Report) Failure!void {
            return function(self.context, parallel.rangeOf(self.n_rows, self.parts, number), part_report);
        }
    };
    const parts = parallel.threadCount(work.threads, @min(n_rows, amount / values_per_thread_min));
    const split: Split = .{ .context = context, .n_rows = n_rows, .parts = parts };
    try parallel.run(parts, &split, Split.part, report);
}

/// The most values that a row of the range holds.
pub fn longestIn(rows: CsrRows, range: parallel.Range) usize {
    var length: usize = 0;
    for (range.start..range.stop) |row| length = @max(length, rows.start(row + 1) - rows.start(row));
    return length;
}

test "ranges cover all rows, for any number of threads" {
    const Seen = struct {
        rows: [5]u8 = @splat(0),

        fn look(self: *@This(), range: parallel.Range, _: *Report) Failure!void {
            for (self.rows[range.start..range.stop]) |*row| row.* += 1;
        }
    };
    const rows: CsrRows = .{ .indptr = &.{ 0, 0, 0, 0, 0, 0 }, .indices = &.{}, .values = &.{} };
    for ([_]u32{ 0, 1, 2, 64 }) |threads| {
        var seen: Seen = .{};
        var report: Report = .{};
        try run(.{ .rows = rows, .width = 1 << 20, .threads = threads }, &seen, Seen.look, &report);
        try std.testing.expectEqualSlices(u8, &.{ 1, 1, 1, 1, 1 }, &seen.rows);
    }
}
