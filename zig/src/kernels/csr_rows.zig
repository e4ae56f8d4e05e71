//! A batch in CSR as the kernels on batches take it: where its rows lie, and whether their gene ids are in order.

const std = @import("std");
const errors = @import("../errors.zig");
const parallel = @import("../codec/parallel.zig");

const assert = std.debug.assert;
const Failure = errors.Failure;
const Report = errors.Report;

pub const CsrRows = struct {
    /// One more than rows; from 0, ascending, up to the number of values.
    indptr: []const i64,
    indices: []const i32,
    values: []const f32,

    pub fn count(rows: CsrRows) usize {
        return rows.indptr.len - 1;
    }

    pub fn ids(rows: CsrRows, row: usize) []const i32 {
        return rows.indices[rows.start(row)..rows.start(row + 1)];
    }

    pub fn rowValues(rows: CsrRows, row: usize) []const f32 {
        return rows.values[rows.start(row)..rows.start(row + 1)];
    }

    pub fn start(rows: CsrRows, row: usize) usize {
        return @intCast(rows.indptr[row]);
    }

    pub fn longest(rows: CsrRows) usize {
        var length: usize = 0;
        for (0..rows.count()) |row| length = @max(length, rows.start(row + 1) - rows.start(row));
        return length;
    }

    /// `who` begins the messages.
    pub fn checkIndptr(rows: CsrRows, comptime who: []const u8, report: *Report) Failure!void {
        const indptr = rows.indptr;
        if (indptr[0] != 0) return report.fail(error.BadArgument, who ++ "indptr[0] is {d}, not 0", .{indptr[0]});
        for (indptr[1..], 1..) |end, at| {
            if (end < indptr[at - 1]) return report.fail(error.BadArgument, who ++
                "indptr must not descend, but indptr[{d}] = {d} follows {d}", .{ at, end, indptr[at - 1] });
        }
        const last = indptr[indptr.len - 1];
        if (last != rows.indices.len) return report.fail(error.BadArgument, who ++
            "indptr ends with {d}, but there are {d} indices", .{ last, rows.indices.len });
    }

    /// Non-negative, strictly ascending ids below `n_genes_total` in every row; the first row that is wrong is named.
    /// Needs a checked indptr.
    pub fn checkIds(
        rows: CsrRows,
        comptime who: []const u8,
        n_genes_total: u64,
        threads: u32,
        report: *Report,
    ) Failure!void {
        const Check = struct {
            rows: CsrRows,
            n_genes_total: u64,
            parts: usize,

            fn part(self: *const @This(), number: usize, part_report: *Report) Failure!void {
                const range = parallel.rangeOf(self.rows.count(), self.parts, number);
                for (range.start..range.stop) |row| {
                    try self.rows.checkRow(who, row, self.n_genes_total, part_report);
                }
            }
        };
        const parts = parallel.threadCount(threads, rows.indices.len / values_per_thread_min);
        const check: Check = .{ .rows = rows, .n_genes_total = n_genes_total, .parts = parts };
        try parallel.run(parts, &check, Check.part, report);
    }

    /// The same of one row, for those who come by it anyway.
    pub fn checkRow(rows: CsrRows, comptime who: []const u8, row: usize, n_genes_total: u64, report: *Report) Failure!void {
        try checkRowIds(who, rows.ids(row), row, n_genes_total, report);
    }
};

/// No limit on the ids but that of their type.
pub const any_genes: u64 = 1 << 31;

/// Checking fewer values than this is quicker than starting a thread.
const values_per_thread_min = 1 << 20;

fn checkRowIds(comptime who: []const u8, ids: []const i32, row: usize, n_genes_total: u64, report: *Report) Failure!void {
    if (ids.len == 0) return;
    if (ids[0] < 0) return report.fail(error.BadArgument, who ++
        "row {d} holds gene id {d}: gene ids are non-negative and strictly ascending in each row", .{ row, ids[0] });
    if (!isStrictlyAscending(ids)) {
        for (ids[0 .. ids.len - 1], ids[1..]) |id, next| {
            if (next <= id) return report.fail(error.BadArgument, who ++
                "the gene ids of row {d} are not strictly ascending: {d} follows {d}. Sort the indices of each row " ++
                "and sum duplicates, as scipy's sum_duplicates() does", .{ row, next, id });
        }
    }
    const last = ids[ids.len - 1];
    if (last >= n_genes_total) {
        for (ids) |id| {
            if (id >= n_genes_total) return report.fail(error.BadArgument, who ++
                "row {d} holds gene id {d}, which is outside the vocabulary of n_genes_total = {d} genes", .{
                row, id, n_genes_total,
            });
        }
    }
}

fn isStrictlyAscending(ids: []const i32) bool {
    const lanes = 8;
    const Ids = @Vector(lanes, i32);
    // a row out of order is rare: to look at the end alone is quicker
    var descents: Ids = @splat(0);
    var at: usize = 0;
    // pairs (at + lane, at + lane + 1): the second load ends at or before the last id
    while (at + lanes + 1 <= ids.len) : (at += lanes) {
        const here: Ids = ids[at..][0..lanes].*;
        const next: Ids = ids[at + 1 ..][0..lanes].*;
        descents |= @select(i32, next <= here, @as(Ids, @splat(1)), @as(Ids, @splat(0)));
    }
    if (@reduce(.Or, descents) != 0) return false;
    while (at + 1 < ids.len) : (at += 1) {
        if (ids[at + 1] <= ids[at]) return false;
    }
    return true;
}

const testing = std.testing;

fn expectFault(expected: ?[]const u8, indptr: []const i64, indices: []const i32, n_genes_total: u64) !void {
    var report: Report = .{};
    const rows: CsrRows = .{ .indptr = indptr, .indices = indices, .values = &.{} };
    const result = if (rows.checkIndptr("me: ", &report)) rows.checkIds("me: ", n_genes_total, 1, &report) else |failure| failure;
    const wanted = expected orelse return result;
    try testing.expectError(error.BadArgument, result);
    try testing.expect(std.mem.indexOf(u8, report.messageText(), wanted) != null);
}

test "what is wrong with a batch is named" {
    try expectFault(null, &.{0}, &.{}, 1);
    try expectFault(null, &.{ 0, 0, 2, 2 }, &.{ 0, 4 }, 5);
    try expectFault("me: indptr[0] is 1", &.{ 1, 1 }, &.{0}, 5);
    try expectFault("indptr[2] = 0 follows 1", &.{ 0, 1, 0 }, &.{}, 5);
    try expectFault("ends with 1, but there are 2", &.{ 0, 1 }, &.{ 0, 1 }, 5);
    try expectFault("row 1 holds gene id -2", &.{ 0, 1, 2 }, &.{ 0, -2 }, 5);
    try expectFault("row 0 are not strictly ascending: 3 follows 3", &.{ 0, 2 }, &.{ 3, 3 }, 5);
    try expectFault("outside the vocabulary", &.{ 0, 2 }, &.{ 3, 5 }, 5);
}

test "a descent is found at every place" {
    var ids: [40]i32 = undefined;
    for (0..ids.len - 1) |place| {
        for (&ids, 0..) |*id, at| id.* = @intCast(3 * at);
        try testing.expect(isStrictlyAscending(ids[0 .. place + 2]));
        ids[place + 1] = ids[place];
        try testing.expect(!isStrictlyAscending(&ids));
        try testing.expect(!isStrictlyAscending(ids[0 .. place + 2]));
    }
}
