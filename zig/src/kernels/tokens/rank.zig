//! Genes of a cell in the order of their normalised value over a gene's own statistic, largest first, ties by id.

const std = @import("std");
const dispatch = @import("../../levels/dispatch.zig");
const errors = @import("../../errors.zig");
const parallel = @import("../../codec/parallel.zig");
const per_row = @import("per_row.zig");
const top_k = @import("../top_k.zig");
const value_modes = @import("../value_modes.zig");
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

    /// Needs ids below the number of statistics.
    pub fn run(job: *const Ranking, threads: u32, report: *Report) Failure!void {
        const wide = try job.allocator.alloc(f64, job.statistics.len);
        defer job.allocator.free(wide);
        for (job.statistics, wide) |narrow, *statistic| statistic.* = narrow;
        const shared: Shared = .{ .job = job, .statistics = wide };
        try per_row.run(.{ .rows = job.rows, .width = job.l_max, .threads = threads }, &shared, Shared.part, report);
    }

    const Shared = struct {
        job: *const Ranking,
        statistics: []const f64,

        fn part(shared: *const Shared, range: parallel.Range, _: *Report) Failure!void {
            const job = shared.job;
            const longest = per_row.longestIn(job.rows, range);
            var scratch: top_k.Scratch = try .init(job.allocator, longest);
            defer scratch.deinit();
            const keys = try job.allocator.alloc(f32, longest);
            defer job.allocator.free(keys);
            for (range.start..range.stop) |row| shared.one(row, keys, &scratch);
        }

        fn one(shared: *const Shared, row: usize, all_keys: []f32, scratch: *top_k.Scratch) void {
            const job = shared.job;
            const genes = job.rows.ids(row);
            const values = job.rows.rowValues(row);
            const keys = all_keys[0..genes.len];
            const factor = job.target_sum / value_modes.librarySize(values);
            dispatch.table().rankValues(genes.ptr, values.ptr, genes.len, shared.statistics.ptr, factor, keys.ptr);
            const ranked = top_k.topK(keys, job.l_max, scratch);
            const ids = job.ids[row * job.l_max ..][0..job.l_max];
            for (ranked, ids[0..ranked.len]) |entry, *id| id.* = genes[entry.place()];
            @memset(ids[ranked.len..], 0);
            job.lengths[row] = @intCast(ranked.len);
        }
    };
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
