//! Genes of a cell in the order of their normalised value over a gene's own statistic, largest first, ties by id.

const std = @import("std");
const dispatch = @import("../../levels/dispatch.zig");
const errors = @import("../../errors.zig");
const parallel = @import("../../codec/parallel.zig");
const per_row = @import("per_row.zig");
const rank_values = @import("rank_values.zig");
const top_k = @import("../top_k.zig");
const CsrRows = @import("../csr_rows.zig").CsrRows;

const Failure = errors.Failure;
const Report = errors.Report;

pub const Ranking = struct {
    allocator: std.mem.Allocator,
    rows: CsrRows,
    statistics: []const f32,
    target_sum: f64,
    l_max: usize,
    /// rows x l_max; 0 behind the tokens of a row.
    ids: []i32,
    /// Tokens of each row.
    lengths: []i32,

    pub const who = "rank_tokens: ";

    /// Fails at ids that are out of order or have no statistic.
    pub fn run(job: *const Ranking, threads: u32, report: *Report) Failure!void {
        try per_row.run(.{ .rows = job.rows, .width = job.l_max, .threads = threads }, job, part, report);
    }

    fn part(job: *const Ranking, range: parallel.Range, report: *Report) Failure!void {
        const longest = per_row.longestIn(job.rows, range);
        var scratch: top_k.Scratch = try .init(job.allocator, longest);
        defer scratch.deinit();
        const keys = try job.allocator.alloc(f32, longest);
        defer job.allocator.free(keys);
        for (range.start..range.stop) |row| {
            try job.rows.checkRow(who, row, job.statistics.len, report);
            job.one(row, keys, &scratch);
        }
    }

    fn one(job: *const Ranking, row: usize, keys: []f32, scratch: *top_k.Scratch) void {
        const values = job.rows.rowValues(row);
        const ids = job.ids[row * job.l_max ..][0..job.l_max];
        const ranked: rank_values.Row = .{
            .ids = job.rows.ids(row).ptr,
            .values = values.ptr,
            .n_values = values.len,
            .statistics = job.statistics.ptr,
            .target_sum = job.target_sum,
        };
        const length = dispatch.table().rankRow(&ranked, keys.ptr, &scratch.space, ids.ptr, ids.len);
        @memset(ids[length..], 0);
        job.lengths[row] = @intCast(length);
    }
};

/// Each statistic finite and strictly positive; the first gene whose is not is named.
pub fn checkStatistics(comptime who: []const u8, statistics: []const f32, report: *Report) Failure!void {
    if (statistics.len == 0) return report.fail(error.BadArgument, who ++
        "gene_stats is empty, but it has a statistic for each gene, finite and strictly positive", .{});
    for (statistics, 0..) |statistic, gene| {
        if (!(statistic > 0 and std.math.isFinite(statistic))) return report.fail(error.BadArgument, who ++
            "gene_stats of gene {d} is {d}, but each statistic has to be finite and strictly positive", .{ gene, statistic });
    }
}

test "a worked batch" {
    // target 10 on totals of 10: the values over their statistics are 2, 6, 2, 0.25
    var ids: [8]i32 = undefined;
    var lengths: [2]i32 = undefined;
    const job: Ranking = .{
        .allocator = std.testing.allocator,
        .rows = .{
            .indptr = &.{ 0, 4, 5 },
            .indices = &.{ 0, 1, 3, 4, 2 },
            .values = &.{ 4, 3, 2, 1, 0 },
        },
        .statistics = &.{ 2, 0.5, 1, 1, 4 },
        .target_sum = 10,
        .l_max = 4,
        .ids = &ids,
        .lengths = &lengths,
    };
    var report: Report = .{};
    try job.run(1, &report);
    try std.testing.expectEqualSlices(i32, &.{ 4, 0 }, &lengths);
    try std.testing.expectEqualSlices(i32, &.{ 1, 0, 3, 4 }, ids[0..4]);
    try std.testing.expectError(error.BadArgument, checkStatistics("", &.{ 1, 0 }, &report));
    try std.testing.expect(std.mem.startsWith(u8, report.messageText(), "gene_stats of gene 1 is 0"));
}
