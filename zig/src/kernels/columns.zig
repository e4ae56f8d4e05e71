//! Rows in CSR turned to columns: what each column holds is counted in a first pass over all rows, and put in its
//! place in a second one. Both take the rows in pieces, so that only the result has to fit into memory.
//!
//! The second pass writes to as many places as there are columns. Threads share the columns among them, each reads
//! all rows and takes what is its own: no two write to one place, and the result does not depend on their number.

const std = @import("std");
const assert = std.debug.assert;
const errors = @import("../errors.zig");
const parallel = @import("../codec/parallel.zig");
const value_types = @import("../codec/value_type.zig");
const Failure = errors.Failure;
const Report = errors.Report;

/// Above this float32 does not hold every whole number.
const whole_f32_max = 1 << 24;

pub fn CsrRows(comptime Index: type, comptime Value: type) type {
    return struct {
        /// An entry more than there are rows, any start; `indices[0]` belongs to `indptr[0]`.
        indptr: []const i64,
        indices: []const Index,
        values: []const Value,
    };
}

/// Which column of the result a column of the rows becomes.
pub const Selection = struct {
    n_cols: usize,
    /// The place of each column, negative for those that are left out; null where all stay as they are.
    places: ?[]const i32,

    pub inline fn place(self: Selection, column: usize) ?usize {
        const places = self.places orelse return column;
        return if (places[column] < 0) null else @intCast(places[column]);
    }
};

/// Figures about the values, added up over calls.
pub const Scan = struct {
    stored_zeros: u64 = 0,
    nan_values: u64 = 0,
    positive_infinities: u64 = 0,
    negative_infinities: u64 = 0,
    beyond_f32: u64 = 0,
    fractional_values: u64 = 0,
    above_whole_f32: u64 = 0,
    unordered_rows: u64 = 0,
};

/// Adds to `counts` how many values other than zero each column of the selection gets.
pub fn scanRows(
    comptime Index: type,
    comptime Value: type,
    rows: CsrRows(Index, Value),
    selection: Selection,
    counts: []i64,
    scan: *Scan,
    report: *Report,
) Failure!void {
    const first = rows.indptr[0];
    var left_out: Scan = .{};
    for (rows.indptr[0 .. rows.indptr.len - 1], rows.indptr[1..], 0..) |start, stop, row| {
        var previous: i64 = -1;
        var ordered = true;
        const low: usize = @intCast(start - first);
        const high: usize = @intCast(stop - first);
        for (rows.indices[low..high], rows.values[low..high]) |column, value| {
            if (column < 0 or column >= selection.n_cols) return report.fail(
                error.OutOfRange,
                "row {d} of the block has a value in column {d}; there are {d}",
                .{ row, column, selection.n_cols },
            );
            ordered = ordered and column > previous;
            previous = column;
            const target = selection.place(@intCast(column)) orelse {
                judge(Value, value, &left_out);
                continue;
            };
            if (value == 0) {
                scan.stored_zeros += 1;
            } else {
                counts[target] += 1;
                judge(Value, value, scan);
            }
        }
        scan.unordered_rows += @intFromBool(!ordered);
    }
    // a value that is no number is a fault of the matrix, whichever columns are wanted
    inline for (.{ "nan_values", "positive_infinities", "negative_infinities", "beyond_f32" }) |name| {
        @field(scan, name) += @field(left_out, name);
    }
}

inline fn judge(comptime Value: type, value: Value, scan: *Scan) void {
    if (@typeInfo(Value) == .int) {
        const size = if (@typeInfo(Value).int.signedness == .signed) @abs(value) else value;
        if (@bitSizeOf(Value) > 24) scan.above_whole_f32 += @intFromBool(size > whole_f32_max);
        return;
    }
    if (Value == f16) return judge(f32, value, scan);
    const size = @abs(value);
    if (size <= whole_f32_max) { // most values, and no NaN
        scan.fractional_values += @intFromBool(@trunc(value) != value);
    } else if (std.math.isNan(value)) {
        scan.nan_values += 1;
    } else if (std.math.isInf(value)) {
        if (value > 0) scan.positive_infinities += 1 else scan.negative_infinities += 1;
    } else {
        scan.above_whole_f32 += 1;
        scan.fractional_values += @intFromBool(@trunc(value) != value);
        scan.beyond_f32 += @intFromBool(std.math.isInf(value_types.convert(f32, @as(f64, value))));
    }
}

pub fn Scatter(comptime Index: type, comptime Value: type, comptime Out: type) type {
    return struct {
        const Self = @This();

        rows: CsrRows(Index, Value),
        selection: Selection,
        /// The number of the first of the rows.
        row_start: i32,
        /// The first column that is wanted.
        column_start: usize,
        /// Where the next value of each wanted column goes. Ascending.
        cursors: []i64,
        rows_out: []i32,
        values_out: []Out,

        pub fn run(self: *const Self, threads: u32, report: *Report) Failure!void {
            const parts = parallel.threadCount(threads, self.cursors.len);
            const edges = self.edgesOf(parts);
            const shared: Shared = .{ .scatter = self, .edges = &edges };
            try parallel.run(parts, shared, Shared.work, report);
        }

        const Edges = [parallel.threads_max + 1]usize;

        const Shared = struct {
            scatter: *const Self,
            edges: *const Edges,

            fn work(self: Shared, part: usize, report: *Report) Failure!void {
                return self.scatter.columns(self.edges[part], self.edges[part + 1], report);
            }
        };

        /// Cuts the columns so that each part has about as many values, judged by where they start.
        fn edgesOf(self: *const Self, parts: usize) Edges {
            var edges: Edges = undefined;
            for (edges[0..parts], 0..) |*edge, part| {
                const wanted: i64 = @intCast(self.rows_out.len * part / parts);
                edge.* = std.sort.lowerBound(i64, self.cursors, wanted, order);
            }
            edges[0] = 0;
            edges[parts] = self.cursors.len;
            return edges;
        }

        fn order(wanted: i64, cursor: i64) std.math.Order {
            return std.math.order(wanted, cursor);
        }

        fn columns(self: *const Self, low: usize, high: usize, report: *Report) Failure!void {
            const first = self.rows.indptr[0];
            const cursors = self.cursors[low..high];
            const indptr = self.rows.indptr;
            for (indptr[0 .. indptr.len - 1], indptr[1..], 0..) |start, stop, row| {
                const row_number: i32 = self.row_start + @as(i32, @intCast(row));
                const from: usize = @intCast(start - first);
                const to: usize = @intCast(stop - first);
                for (self.rows.indices[from..to], self.rows.values[from..to]) |column, value| {
                    // a column beyond what the first pass has seen is none of ours
                    if (column < 0 or column >= self.selection.n_cols) continue;
                    const place = self.selection.place(@intCast(column)) orelse continue;
                    const own = place -% (self.column_start + low);
                    if (own >= cursors.len or value == 0) continue;
                    const at: usize = @intCast(cursors[own]);
                    if (at >= self.rows_out.len) return report.fail(
                        error.OutOfRange,
                        "column {d} has more values than were counted: the rows have changed meanwhile",
                        .{place},
                    );
                    self.rows_out[at] = row_number;
                    self.values_out[at] = value_types.convert(Out, value);
                    cursors[own] += 1;
                }
            }
        }
    };
}

const testing = std.testing;

test "counts and figures" {
    var counts: [3]i64 = @splat(0);
    var scan: Scan = .{};
    var report: Report = .{};
    const rows: CsrRows(i32, f64) = .{
        .indptr = &.{ 5, 9, 9, 12 },
        .indices = &.{ 0, 2, 1, 1, 0, 1, 2 },
        .values = &.{ 1, 0.5, 0, std.math.nan(f64), 16777217, 1e300, -std.math.inf(f64) },
    };
    try scanRows(i32, f64, rows, .{ .n_cols = 3, .places = null }, &counts, &scan, &report);
    try testing.expectEqualSlices(i64, &.{ 2, 2, 2 }, &counts);
    try testing.expectEqual(@as(Scan, .{
        .stored_zeros = 1,
        .nan_values = 1,
        .negative_infinities = 1,
        .beyond_f32 = 1,
        .fractional_values = 1,
        .above_whole_f32 = 2,
        .unordered_rows = 1,
    }), scan);
}

test "of columns that are left out only values that are no numbers are told" {
    var counts: [1]i64 = @splat(0);
    var scan: Scan = .{};
    var report: Report = .{};
    const rows: CsrRows(i32, f64) = .{
        .indptr = &.{ 0, 3 },
        .indices = &.{ 0, 1, 2 },
        .values = &.{ 1, std.math.inf(f64), 16777217.5 },
    };
    const selection: Selection = .{ .n_cols = 3, .places = &.{ 0, -1, -1 } };
    try scanRows(i32, f64, rows, selection, &counts, &scan, &report);
    try testing.expectEqual(@as(Scan, .{ .positive_infinities = 1 }), scan);
    try testing.expectEqual(1, counts[0]);
}

test "a column that is not there is refused" {
    var counts: [3]i64 = @splat(0);
    var scan: Scan = .{};
    var report: Report = .{};
    for ([_]i32{ 3, -1 }) |column| {
        const rows: CsrRows(i32, f32) = .{ .indptr = &.{ 0, 1 }, .indices = &.{column}, .values = &.{1} };
        const selection: Selection = .{ .n_cols = 3, .places = null };
        try testing.expectError(error.OutOfRange, scanRows(i32, f32, rows, selection, &counts, &scan, &report));
    }
}

test "columns come out the same with any number of threads, whole and in ranges" {
    var random: std.Random.DefaultPrng = .init(7);
    const n_rows = 60;
    const n_cols = 40;
    var indptr: [n_rows + 1]i64 = undefined;
    var indices: [n_rows * n_cols]i64 = undefined;
    var values: [n_rows * n_cols]u16 = undefined;
    var dense: [n_cols][n_rows]u16 = @splat(@splat(0));
    var n: usize = 0;
    for (0..n_rows) |row| {
        indptr[row] = @intCast(n);
        for (0..n_cols) |column| {
            if (random.random().boolean()) continue;
            indices[n] = @intCast(column);
            values[n] = random.random().uintLessThan(u16, 3);
            dense[column][row] = values[n];
            n += 1;
        }
    }
    indptr[n_rows] = @intCast(n);
    // every third column is left out, the others come in the opposite order
    var places: [n_cols]i32 = undefined;
    for (&places, 0..) |*place, column| place.* = if (column % 3 == 0) -1 else @intCast(n_cols - 1 - column);
    const selection: Selection = .{ .n_cols = n_cols, .places = &places };
    const rows: CsrRows(i64, u16) = .{ .indptr = &indptr, .indices = indices[0..n], .values = values[0..n] };

    var counts: [n_cols]i64 = @splat(0);
    var scan: Scan = .{};
    var report: Report = .{};
    try scanRows(i64, u16, rows, selection, &counts, &scan, &report);
    for ([_]u32{ 1, 2, 5 }) |threads| {
        for ([_][2]usize{ .{ 0, n_cols }, .{ 10, 25 } }) |range| {
            var cursors: [n_cols]i64 = undefined;
            var total: usize = 0;
            for (range[0]..range[1]) |column| {
                cursors[column] = @intCast(total);
                total += @intCast(counts[column]);
            }
            var rows_out: [n_rows * n_cols]i32 = undefined;
            var values_out: [n_rows * n_cols]f32 = undefined;
            const scatter: Scatter(i64, u16, f32) = .{
                .rows = rows,
                .selection = selection,
                .row_start = 100,
                .column_start = range[0],
                .cursors = cursors[range[0]..range[1]],
                .rows_out = rows_out[0..total],
                .values_out = values_out[0..total],
            };
            try scatter.run(threads, &report);
            var at: usize = 0;
            for (range[0]..range[1]) |target| {
                const column = n_cols - 1 - target;
                if (column % 3 == 0) continue;
                for (dense[column], 0..) |value, row| {
                    if (value == 0) continue;
                    try testing.expectEqual(@as(i32, @intCast(100 + row)), rows_out[at]);
                    try testing.expectEqual(@as(f32, @floatFromInt(value)), values_out[at]);
                    at += 1;
                }
            }
            try testing.expectEqual(total, at);
        }
    }
}

test "more values than were counted are refused" {
    var cursors = [_]i64{0};
    var rows_out: [1]i32 = undefined;
    var values_out: [1]f64 = undefined;
    var report: Report = .{};
    const scatter: Scatter(i32, f32, f64) = .{
        .rows = .{ .indptr = &.{ 0, 1, 2 }, .indices = &.{ 0, 0 }, .values = &.{ 1, 1 } },
        .selection = .{ .n_cols = 1, .places = null },
        .row_start = 0,
        .column_start = 0,
        .cursors = &cursors,
        .rows_out = &rows_out,
        .values_out = &values_out,
    };
    try testing.expectError(error.OutOfRange, scatter.run(1, &report));
}
