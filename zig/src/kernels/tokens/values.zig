//! Kernels that need no ranking: changed values, library sizes, and which genes of a panel a row carries.

const std = @import("std");
const errors = @import("../../errors.zig");
const parallel = @import("../../codec/parallel.zig");
const per_row = @import("per_row.zig");
const value_modes = @import("../value_modes.zig");
const CsrRows = @import("../csr_rows.zig").CsrRows;

const Failure = errors.Failure;
const Report = errors.Report;

pub const Transformation = struct {
    rows: CsrRows,
    parameters: value_modes.Parameters,
    /// One for each row, for pflog_raw.
    n_measured: ?[]const i64,
    /// Parallel to the values.
    out: []f32,

    pub fn run(job: *const Transformation, threads: u32, report: *Report) Failure!void {
        try per_row.run(.{ .rows = job.rows, .threads = threads }, job, part, report);
    }

    fn part(job: *const Transformation, range: parallel.Range, _: *Report) Failure!void {
        for (range.start..range.stop) |row| {
            const values = job.rows.rowValues(row);
            const out = job.out[job.rows.start(row)..job.rows.start(row + 1)];
            const measured: u64 = if (job.n_measured) |measured| @intCast(measured[row]) else 1;
            const total = value_modes.librarySize(values);
            value_modes.transformRow(job.parameters, values, total, measured, out);
        }
    }
};

pub const LibrarySizes = struct {
    rows: CsrRows,
    out: []f64,

    pub fn run(job: *const LibrarySizes, threads: u32, report: *Report) Failure!void {
        try per_row.run(.{ .rows = job.rows, .threads = threads }, job, part, report);
    }

    fn part(job: *const LibrarySizes, range: parallel.Range, _: *Report) Failure!void {
        for (range.start..range.stop, job.out[range.start..range.stop]) |row, *total| {
            total.* = value_modes.librarySize(job.rows.rowValues(row));
        }
    }
};

pub const Measured = struct {
    rows: CsrRows,
    /// Strictly ascending gene ids.
    panel: []const i32,
    /// rows x panel: 1 where the row carries the gene, whatever its value.
    out: []u8,

    /// Needs checked ids.
    pub fn run(job: *const Measured, threads: u32, report: *Report) Failure!void {
        try per_row.run(.{ .rows = job.rows, .width = job.panel.len, .threads = threads }, job, part, report);
    }

    fn part(job: *const Measured, range: parallel.Range, _: *Report) Failure!void {
        const width = job.panel.len;
        for (range.start..range.stop) |row| common(job.rows.ids(row), job.panel, job.out[row * width ..][0..width]);
    }
};

/// Both lists ascend: the smaller head moves on, both where they are equal.
fn common(ids: []const i32, panel: []const i32, out: []u8) void {
    @memset(out, 0);
    var at_id: usize = 0;
    var at_panel: usize = 0;
    while (at_id < ids.len and at_panel < panel.len) {
        const id = ids[at_id];
        const gene = panel[at_panel];
        out[at_panel] = @intFromBool(id == gene);
        at_id += @intFromBool(id <= gene);
        at_panel += @intFromBool(gene <= id);
    }
}

test "which genes a row carries" {
    var out: [5]u8 = undefined;
    common(&.{ 1, 4, 7, 9 }, &.{ 0, 4, 5, 9, 11 }, &out);
    try std.testing.expectEqualSlices(u8, &.{ 0, 1, 0, 1, 0 }, &out);
    common(&.{}, &.{ 0, 4, 5, 9, 11 }, &out);
    try std.testing.expectEqualSlices(u8, &.{ 0, 0, 0, 0, 0 }, &out);
}
