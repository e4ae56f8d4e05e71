//! Rows in CSR turned to columns where all rows lie in memory: the result is made from its start to its end, a stretch
//! at a time, and no more of it than the stretch has to be there.
//!
//! Each row remembers how far it has been taken, each column where its next value goes. A row is followed until a value
//! belongs behind the stretch, which holds for all that come after it: columns ascend.

const std = @import("std");
const columns = @import("columns.zig");
const errors = @import("../errors.zig");
const value_types = @import("../codec/value_type.zig");
const Failure = errors.Failure;
const Report = errors.Report;

/// Rows that are fetched before they are looked at.
const rows_ahead = 8;

pub fn Stretch(comptime Index: type, comptime Value: type, comptime Out: type) type {
    return struct {
        const Self = @This();

        /// Columns ascend in each row, and so do the places that the selection gives them.
        rows: columns.CsrRows(Index, Value),
        selection: columns.Selection,
        /// How many values of the result stand before the stretch.
        first: i64,
        /// The entry with which each row goes on, counted as `indptr` does.
        row_at: []i64,
        /// Where the next value of each column goes, counted from the start of the result.
        cursors: []i64,
        rows_out: []i32,
        values_out: []Out,

        pub fn fill(self: *const Self, report: *Report) Failure!void {
            const indptr = self.rows.indptr;
            const origin = indptr[0];
            var filled: usize = 0;
            for (self.row_at, indptr[0..self.row_at.len], indptr[1..], 0..) |*row_at, start, stop, row| {
                if (row_at.* < start or row_at.* > stop) return report.fail(
                    error.BadArgument,
                    "row {d} goes on with entry {d}, and has those from {d} to {d}",
                    .{ row, row_at.*, start, stop },
                );
                if (row + rows_ahead < self.row_at.len) self.fetch(self.row_at[row + rows_ahead] -% origin);
                const at: usize = @intCast(row_at.* - origin);
                const taken = self.followRow(@intCast(row), self.rows.indices[at..@intCast(stop - origin)], self.rows.values[at..]);
                filled += taken.filled;
                row_at.* += @intCast(taken.entries);
            }
            if (filled != self.rows_out.len) return report.fail(
                error.OutOfRange,
                "the rows have {d} values for {d} places: they have changed meanwhile",
                .{ filled, self.rows_out.len },
            );
        }

        const Taken = struct { entries: usize, filled: usize };

        inline fn followRow(self: *const Self, row: i32, indices: []const Index, values: []const Value) Taken {
            // what is written may lie anywhere as far as the compiler knows: in variables nothing is read again
            const cursors = self.cursors;
            const rows_out = self.rows_out;
            const values_out = self.values_out;
            const first = self.first;
            const selection = self.selection;
            var passed: usize = 0;
            for (indices, values[0..indices.len], 0..) |column, value, n| {
                // a column beyond what the first pass has seen is none of ours
                const place = if (column < 0 or column >= selection.n_cols) null else selection.place(@intCast(column));
                if (place == null or place.? >= cursors.len or value == 0) {
                    passed += 1;
                    continue;
                }
                const to: u64 = @bitCast(cursors[place.?] -% first);
                if (to >= rows_out.len) return .{ .entries = n, .filled = n - passed };
                rows_out[to] = row;
                values_out[to] = value_types.convert(Out, value);
                cursors[place.?] += 1;
            }
            return .{ .entries = indices.len, .filled = indices.len - passed };
        }

        inline fn fetch(self: *const Self, at: i64) void {
            if (at < 0 or at >= self.rows.indices.len) return;
            @prefetch(&self.rows.indices[@intCast(at)], .{});
            @prefetch(&self.rows.values[@intCast(at)], .{});
        }
    };
}

const testing = std.testing;

test "stretches of any length give the columns, one after the other" {
    // columns 0 and 2 are kept: of the second row a stored zero is dropped
    const indptr = [_]i64{ 3, 6, 8, 9, 11 };
    const indices = [_]i64{ 0, 1, 2, 0, 2, 2, 0, 2 };
    const values = [_]u8{ 1, 9, 2, 3, 0, 4, 5, 6 };
    const places = [_]i32{ 0, -1, 1 };
    const expected_rows = [_]i32{ 0, 1, 3, 0, 2, 3 };
    const expected_values = [_]f64{ 1, 3, 5, 2, 4, 6 };
    for (1..7) |step| {
        var row_at: [4]i64 = indptr[0..4].*;
        var cursors = [_]i64{ 0, 3 };
        var rows_out: [6]i32 = undefined;
        var values_out: [6]f64 = undefined;
        var report: Report = .{};
        var first: usize = 0;
        while (first < 6) : (first += step) {
            const stop = @min(6, first + step);
            const stretch: Stretch(i64, u8, f64) = .{
                .rows = .{ .indptr = &indptr, .indices = &indices, .values = &values },
                .selection = .{ .n_cols = 3, .places = &places },
                .first = @intCast(first),
                .row_at = &row_at,
                .cursors = &cursors,
                .rows_out = rows_out[first..stop],
                .values_out = values_out[first..stop],
            };
            try stretch.fill(&report);
        }
        try testing.expectEqualSlices(i32, &expected_rows, &rows_out);
        try testing.expectEqualSlices(f64, &expected_values, &values_out);
        try testing.expectEqualSlices(i64, &.{ 3, 6 }, &cursors);
    }
}

test "rows with more or fewer values than places are refused" {
    const indptr = [_]i64{ 0, 1, 2 };
    for ([_]usize{ 1, 3 }) |n_places| {
        for ([_]i64{ 0, 5 }) |first_row_at| {
            var row_at = [_]i64{ first_row_at, 1 };
            var cursors = [_]i64{0};
            var rows_out: [3]i32 = undefined;
            var values_out: [3]f32 = undefined;
            var report: Report = .{};
            const stretch: Stretch(i32, f32, f32) = .{
                .rows = .{ .indptr = &indptr, .indices = &.{ 0, 0 }, .values = &.{ 1, 1 } },
                .selection = .{ .n_cols = 1, .places = null },
                .first = 0,
                .row_at = &row_at,
                .cursors = &cursors,
                .rows_out = rows_out[0..n_places],
                .values_out = values_out[0..n_places],
            };
            if (first_row_at == 5) {
                try testing.expectError(error.BadArgument, stretch.fill(&report));
            } else if (n_places == 3) {
                try testing.expectError(error.OutOfRange, stretch.fill(&report));
            } else {
                try stretch.fill(&report); // what is left belongs to the next stretch
                try testing.expectEqual(1, row_at[0]);
                try testing.expectEqual(1, row_at[1]);
            }
        }
    }
}
