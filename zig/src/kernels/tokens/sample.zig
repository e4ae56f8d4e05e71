//! Genes drawn with replacement, in proportion to log1p(count) or to the count.

const std = @import("std");
const dispatch = @import("../../levels/dispatch.zig");
const errors = @import("../../errors.zig");
const parallel = @import("../../codec/parallel.zig");
const per_row = @import("per_row.zig");
const rng = @import("../../rng.zig");
const CsrRows = @import("../csr_rows.zig").CsrRows;

const Failure = errors.Failure;
const Report = errors.Report;

pub const tag = rng.tagOf("SCXTKSMP");

pub const Weight = enum(u32) { log1p = 0, count = 1 };

/// Logarithms of counts below this are looked up.
const small_counts = 1024;

pub const Sampling = struct {
    allocator: std.mem.Allocator,
    rows: CsrRows,
    n: usize,
    weight: Weight,
    seed: u64,
    file_identity: u64,
    /// One for each row; null for its place in the batch.
    row_numbers: ?[]const u64,
    /// rows x n; 0 where a row has nothing to draw from.
    ids: []i32,
    /// n, or 0.
    lengths: []i32,

    /// Needs checked ids.
    pub fn run(job: *const Sampling, threads: u32, report: *Report) Failure!void {
        var logarithms: [small_counts]f64 = undefined;
        for (&logarithms, 0..) |*logarithm, count| logarithm.* = std.math.log1p(@as(f64, @floatFromInt(count)));
        const shared: Shared = .{ .job = job, .logarithms = &logarithms };
        try per_row.run(.{ .rows = job.rows, .width = job.n, .threads = threads }, &shared, Shared.part, report);
    }

    const Shared = struct {
        job: *const Sampling,
        logarithms: *const [small_counts]f64,

        fn part(shared: *const Shared, range: parallel.Range, _: *Report) Failure!void {
            const job = shared.job;
            const cumulative = try job.allocator.alloc(f64, per_row.longestIn(job.rows, range));
            defer job.allocator.free(cumulative);
            for (range.start..range.stop) |row| shared.one(row, cumulative);
        }

        fn one(shared: *const Shared, row: usize, scratch: []f64) void {
            const job = shared.job;
            const values = job.rows.rowValues(row);
            const ids = job.ids[row * job.n ..][0..job.n];
            const cumulative = scratch[0..values.len];
            const total = switch (job.weight) {
                .log1p => logarithmSums(values, shared.logarithms, cumulative),
                .count => countSums(values, cumulative),
            };
            const has_draws = total > 0;
            job.lengths[row] = if (has_draws) @intCast(job.n) else 0;
            if (!has_draws) return @memset(ids, 0);
            const stream = rng.rowStream(.{
                .seed = job.seed,
                .tag = tag,
                .file_identity = job.file_identity,
                .row = if (job.row_numbers) |numbers| numbers[row] else row,
            });
            dispatch.table().choose(stream, job.rows.ids(row).ptr, cumulative.ptr, values.len, ids.ptr, ids.len);
        }
    };
};

fn logarithmSums(values: []const f32, logarithms: *const [small_counts]f64, cumulative: []f64) f64 {
    var sum: f64 = 0;
    for (values, cumulative) |value, *entry| {
        if (value > 0) sum += logarithmOf(value, logarithms);
        entry.* = sum;
    }
    return sum;
}

inline fn logarithmOf(value: f32, logarithms: *const [small_counts]f64) f64 {
    if (value < small_counts) {
        const whole: u32 = @intFromFloat(value);
        if (@as(f32, @floatFromInt(whole)) == value) return logarithms[whole];
    }
    return std.math.log1p(@as(f64, value));
}

fn countSums(values: []const f32, cumulative: []f64) f64 {
    var sum: f64 = 0;
    for (values, cumulative) |value, *entry| {
        sum += if (value > 0) value else 0;
        entry.* = sum;
    }
    return sum;
}

test "the published draws" {
    var ids: [24]i32 = undefined;
    var lengths: [2]i32 = undefined;
    const job: Sampling = .{
        .allocator = std.testing.allocator,
        .rows = .{ .indptr = &.{ 0, 2, 3 }, .indices = &.{ 3, 8, 1 }, .values = &.{ 5, 5, 0 } },
        .n = 12,
        .weight = .log1p,
        .seed = 1,
        .file_identity = 2,
        .row_numbers = null,
        .ids = &ids,
        .lengths = &lengths,
    };
    var report: Report = .{};
    try job.run(1, &report);
    try std.testing.expectEqualSlices(i32, &.{ 3, 8, 8, 8, 3, 8, 3, 8, 3, 8, 3, 3 }, ids[0..12]);
    try std.testing.expectEqualSlices(i32, &.{ 12, 0 }, &lengths);
}
