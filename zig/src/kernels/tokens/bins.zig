//! The bin of each value: between edges that are given, or between quantiles of the cell's own positive values.
//!
//! Quantile j of m = n_bins - 1 is at q = j * (1 / (m - 1)), the last one at 1: with h = (n - 1) * q and l = floor(h),
//! s[l] + (h - l) * (s[l + 1] - s[l]) of the n positive values s in ascending order. All in f64.
//!
//! For a value, `right` edges are below it, and `left` edges are not above it. Its bin is the one or the other, or a
//! random one between: ceil(u * (right - left) + left), with a draw u for each positive value of the row in turn.

const std = @import("std");
const bin_lookup = @import("bin_lookup.zig");
const dispatch = @import("../../levels/dispatch.zig");
const errors = @import("../../errors.zig");
const groups_module = @import("groups.zig");
const parallel = @import("../../codec/parallel.zig");
const per_row = @import("per_row.zig");
const rng = @import("../../rng.zig");
const CsrRows = @import("../csr_rows.zig").CsrRows;

const Bounds = bin_lookup.Bounds;
const Failure = errors.Failure;
const Grouped = groups_module.Grouped;
const Report = errors.Report;

pub const tag = rng.tagOf("SCXTKBIN");
pub const n_bins_min = 3;
/// So that bounds fit into 16 bits.
pub const n_bins_max = 1 << 16;

pub const Tie = enum(u32) { left = 0, right = 1, seeded = 2 };

pub const Binning = struct {
    pub const who = "bin_values: ";

    allocator: std.mem.Allocator,
    rows: CsrRows,
    n_bins: u32,
    /// n_bins - 1 of them, ascending; null for the quantiles of each cell.
    edges: ?[]const f64,
    tie: Tie,
    seed: u64,
    file_identity: u64,
    /// One for each row; null for its place in the batch.
    row_numbers: ?[]const u64,
    /// Parallel to the values.
    out: []i32,

    /// Needs checked ids and edges.
    pub fn run(job: *const Binning, threads: u32, report: *Report) Failure!void {
        try per_row.run(.{ .rows = job.rows, .threads = threads }, job, part, report);
    }

    fn part(job: *const Binning, range: parallel.Range, report: *Report) Failure!void {
        const longest = per_row.longestIn(job.rows, range);
        var scratch: groups_module.Scratch = try .init(job.allocator, longest);
        defer scratch.deinit();
        const edges = try job.allocator.alloc(f64, job.n_bins - 1);
        defer job.allocator.free(edges);
        const bounds = try job.allocator.alloc(Bounds, scratch.codeCount());
        defer job.allocator.free(bounds);
        for (range.start..range.stop) |row| {
            const grouped = groups_module.group(job.rows.rowValues(row), &scratch);
            try job.one(row, grouped, edges, bounds, report);
        }
    }

    fn one(job: *const Binning, row: usize, grouped: Grouped, scratch: []f64, bounds: []Bounds, report: *Report) Failure!void {
        const out = job.out[job.rows.start(row)..job.rows.start(row + 1)];
        if (grouped.groups.len == 0) return @memset(out, 0);
        const edges = job.edges orelse try job.quantiles(row, grouped, scratch, report);
        if (grouped.groups[0].value < edges[0]) return job.refuseSmall(row, edges[0], report);
        boundsOf(grouped, edges, bounds);
        const table = dispatch.table();
        const codes = grouped.codes;
        switch (job.tie) {
            .left => table.lookUpBins(codes.ptr, codes.len, bounds.ptr, .left, out.ptr),
            .right => table.lookUpBins(codes.ptr, codes.len, bounds.ptr, .right, out.ptr),
            .seeded => table.drawBins(job.streamOf(row), codes.ptr, codes.len, bounds.ptr, grouped.valueCount(), out.ptr),
        }
    }

    fn streamOf(job: *const Binning, row: usize) u64 {
        return rng.rowStream(.{
            .seed = job.seed,
            .tag = tag,
            .file_identity = job.file_identity,
            .row = if (job.row_numbers) |numbers| numbers[row] else row,
        });
    }

    fn quantiles(job: *const Binning, row: usize, grouped: Grouped, edges: []f64, report: *Report) Failure![]const f64 {
        const groups = grouped.groups;
        if (std.math.isInf(groups[groups.len - 1].value)) {
            const place = std.mem.indexOfScalar(f32, job.rows.rowValues(row), std.math.inf(f32)).?;
            return report.fail(error.BadArgument, who ++
                "the value of gene {d} in row {d} is infinite, so the row has no quantiles; pass edges, or a finite value", .{
                job.rows.ids(row)[place], row,
            });
        }
        const step = 1.0 / @as(f64, @floatFromInt(edges.len - 1));
        const last: f64 = @floatFromInt(grouped.valueCount() - 1);
        var near: usize = 0;
        for (edges, 0..) |*edge, number| {
            const q = if (number == edges.len - 1) 1.0 else @as(f64, @floatFromInt(number)) * step;
            const h = last * q;
            const low = @floor(h);
            const place: u32 = @intFromFloat(low);
            const a = grouped.sortedAt(place, &near);
            var next = near;
            const b = grouped.sortedAt(@min(place + 1, grouped.valueCount() - 1), &next);
            edge.* = a + (h - low) * (b - a);
        }
        return edges;
    }

    fn refuseSmall(job: *const Binning, row: usize, edge: f64, report: *Report) Failure {
        for (job.rows.ids(row), job.rows.rowValues(row)) |id, value| {
            if (value > 0 and value < edge) return report.fail(error.BadArgument, who ++
                "the value {d} of gene {d} in row {d} lies below the first edge, {d}: it would fall into bin 0, which is " ++
                "reserved for unexpressed genes", .{ value, id, row, edge });
        }
        unreachable;
    }
};

/// By code. Groups and edges both ascend.
fn boundsOf(grouped: Grouped, edges: []const f64, bounds: []Bounds) void {
    bounds[groups_module.no_code] = .{ .left = 0, .right = 0 };
    var left: u16 = 0;
    var right: u16 = 0;
    for (grouped.groups) |entry| {
        while (right < edges.len and edges[right] < entry.value) right += 1;
        left = @max(left, right);
        while (left < edges.len and edges[left] <= entry.value) left += 1;
        bounds[entry.code] = .{ .left = left, .right = right };
    }
}

/// Edges of the caller: as many as the bins need, finite, ascending.
pub fn checkEdges(edges: []const f64, n_bins: u32, report: *Report) Failure!void {
    if (edges.len != n_bins - 1) return report.fail(error.BadArgument, Binning.who ++
        "edges has {d} entries, but exactly n_bins - 1 = {d} are needed", .{ edges.len, n_bins - 1 });
    for (edges, 0..) |edge, at| {
        if (!std.math.isFinite(edge)) return report.fail(error.BadArgument, Binning.who ++
            "edges have to be finite and non-decreasing, but edge {d} is {d}", .{ at, edge });
        if (at > 0 and edge < edges[at - 1]) return report.fail(error.BadArgument, Binning.who ++
            "edges have to be finite and non-decreasing, but edge {d}, {d}, follows {d}", .{ at, edge, edges[at - 1] });
    }
}

const testing = std.testing;

fn expectBins(expected: []const i32, values: []const f32, n_bins: u32, edges: ?[]const f64, tie: Tie) !void {
    var out: [8]i32 = undefined;
    const ids = [_]i32{ 0, 1, 2, 3, 4, 5, 6, 7 };
    const job: Binning = .{
        .allocator = testing.allocator,
        .rows = .{ .indptr = &.{ 0, @intCast(values.len) }, .indices = ids[0..values.len], .values = values },
        .n_bins = n_bins,
        .edges = edges,
        .tie = tie,
        .seed = 1,
        .file_identity = 2,
        .row_numbers = null,
        .out = out[0..values.len],
    };
    var report: Report = .{};
    try job.run(1, &report);
    try testing.expectEqualSlices(i32, expected, out[0..values.len]);
}

test "worked rows" {
    // quantiles 0, 1/2, 1 of 1, 1, 3, 4: 1, 2, 4
    try expectBins(&.{ 1, 2, 0, 3, 1 }, &.{ 1, 3, 0, 4, 1 }, 4, null, .left);
    try expectBins(&.{ 0, 2, 0, 2, 0 }, &.{ 1, 3, -1, 4, 1 }, 4, null, .right);
    try expectBins(&.{ 2, 0, 1, 3 }, &.{ 5, 0, 2, 9 }, 4, &.{ 1, 5, 7 }, .left);
    try expectBins(&.{ 1, 0, 1, 3 }, &.{ 5, 0, 2, 9 }, 4, &.{ 1, 5, 7 }, .right);
    try expectBins(&.{ 0, 0 }, &.{ 0, std.math.nan(f32) }, 4, null, .left);
    try expectBins(&.{ 8, 7 }, &.{ 5, 5 }, 9, null, .seeded);
    try testing.expectError(error.BadArgument, expectBins(&.{}, &.{0.5}, 4, &.{ 1, 5, 7 }, .left));
    try testing.expectError(error.BadArgument, expectBins(&.{}, &.{std.math.inf(f32)}, 4, null, .left));
}

test "edges that are refused" {
    var report: Report = .{};
    try checkEdges(&.{ 1, 1, 2 }, 4, &report);
    try testing.expectError(error.BadArgument, checkEdges(&.{ 1, 2 }, 4, &report));
    try testing.expectError(error.BadArgument, checkEdges(&.{ 1, std.math.nan(f64) }, 3, &report));
    try testing.expectError(error.BadArgument, checkEdges(&.{ 2, 1 }, 3, &report));
}
