//! Downsampling of the counts of a row to a target library size.
//!
//! Counts are clipped, rounded half to even and summed in float64. A total of at most the target draws nothing, and
//! the rounded counts are the result. Above it:
//!
//!   binomial      each gene on its own: Binomial(count, target / total)
//!   multinomial   a draw of `target` counts without regard to order: gene after gene Binomial(left, count / rest),
//!                 the last gene that has counts takes what is left, so that the sum is the target exactly
//!
//! Each row has its own generator, seeded by (seed, method, file identity, row number): the result of a row does not
//! depend on its batch, its place or the number of threads.
//!
//! Single draws are those of binomial.zig.

const std = @import("std");
const binomial = @import("binomial.zig");
const errors = @import("../errors.zig");
const parallel = @import("../codec/parallel.zig");
const rng = @import("../rng.zig");
const CsrRows = @import("csr_rows.zig").CsrRows;

const assert = std.debug.assert;
const Failure = errors.Failure;
const Report = errors.Report;

/// The numbers are the tags of the methods' row streams.
pub const Method = enum(u32) {
    binomial = 1,
    multinomial = 2,
};

const rows_per_thread_min = 64;

pub const Downsampling = struct {
    rows: CsrRows,
    method: Method,
    /// A whole number of at least 1.
    target: u64,
    seed: u64,
    /// One for each row: that of the row's file.
    file_identities: []const u64,
    /// One for each row: its number in its file.
    row_numbers: []const u64,
    /// Parallel to the values of `rows`. A row's results begin where its values do; `kept` says how many they are.
    out_indices: []i32,
    out_values: []f32,
    kept: []i64,
    parts: usize = 1,

    pub fn run(self: *Downsampling, threads: u32, report: *Report) Failure!void {
        assert(self.target >= 1);
        self.parts = parallel.threadCount(threads, self.rows.count() / rows_per_thread_min);
        try parallel.run(self.parts, @as(*const Downsampling, self), runPart, report);
    }

    fn runPart(self: *const Downsampling, part: usize, report: *Report) Failure!void {
        const range = parallel.rangeOf(self.rows.count(), self.parts, part);
        for (range.start..range.stop) |row| try self.downsampleRow(row, report);
    }

    fn downsampleRow(self: *const Downsampling, row: usize, report: *Report) Failure!void {
        const start = self.rows.start(row);
        const given = self.rows.rowValues(row);
        const counts = self.out_values[start..][0..given.len];
        @memcpy(counts, given);
        const draw: Draw = .{ .method = self.method, .target = self.target, .seed = self.seed };
        draw.drawRow(self.file_identities[row], self.row_numbers[row], counts) catch
            return report.fail(error.BadArgument, "row {d} holds " ++ too_large, .{row});
        const ids = self.out_indices[start..][0..given.len];
        @memcpy(ids, self.rows.ids(row));
        self.kept[row] = @intCast(dropZeros(ids, counts));
    }
};

pub const too_large = "a value above 2^53, which is too large for a count: downsampling takes raw counts";

pub const Draw = struct {
    method: Method,
    /// A whole number of at least 1.
    target: u64,
    seed: u64,

    /// Clips and rounds the values of a row, and draws them down, in place.
    pub fn drawRow(draw: Draw, file_identity: u64, row_number: u64, counts: []f32) error{TooLarge}!void {
        var total: f64 = 0;
        for (counts) |*count| {
            if (count.* > count_max) return error.TooLarge;
            count.* = if (count.* > 0) roundHalfToEven(count.*) else 0;
            total += count.*;
        }
        const target: f64 = @floatFromInt(draw.target);
        if (!(total > target)) return;
        var generator: rng.Generator = .init(rng.rowStream(.{
            .seed = draw.seed,
            .tag = @backingInt(draw.method),
            .file_identity = file_identity,
            .row = row_number,
        }));
        switch (draw.method) {
            .binomial => drawEach(&generator, target / total, counts),
            .multinomial => drawTogether(&generator, draw.target, total, counts),
        }
    }
};

/// Whole floats up to 2^53 are exact in the sum's type.
const count_max: f32 = 0x1p53;

fn roundHalfToEven(value: f32) f32 {
    if (value >= 0x1p23) return value; // whole already
    return (value + 0x1p23) - 0x1p23; // the sum is rounded to a whole number, half to even
}

fn drawEach(generator: *rng.Generator, probability: f64, counts: []f32) void {
    for (counts) |*count| {
        if (count.* > 0) count.* = @floatFromInt(binomial.draw(generator, @intFromFloat(count.*), probability));
    }
}

fn drawTogether(generator: *rng.Generator, target: u64, total: f64, counts: []f32) void {
    var last = counts.len;
    while (counts[last - 1] == 0) last -= 1; // the total is positive: there is one
    var left = target;
    var rest = total;
    for (counts[0 .. last - 1]) |*count| {
        if (count.* == 0) continue;
        const drawn = if (left == 0) 0 else binomial.draw(generator, left, @min(1, count.* / rest));
        rest -= count.*;
        left -= drawn;
        count.* = @floatFromInt(drawn);
    }
    counts[last - 1] = @floatFromInt(left);
}

/// Moves what is not 0 to the front; how many those are.
pub fn dropZeros(ids: []i32, counts: []f32) usize {
    var length: usize = 0;
    for (ids, counts) |id, count| {
        ids[length] = id;
        counts[length] = count;
        length += @intFromBool(count != 0);
    }
    return length;
}

const testing = std.testing;

test "rounding is half to even, as a float64 rounding of the same value" {
    for ([_]f32{ 0.5, 1.5, 2.5, 0.4999999, 0.50000006, 1e-30, 8388607.5, 8388606.5, 8388609, 3e9 }, [_]f32{
        0, 2, 2, 0, 1, 0, 8388608, 8388606, 8388609, 3e9,
    }) |value, expected| try testing.expectEqual(expected, roundHalfToEven(value));
}

test "nothing is drawn at or below the target, and a multinomial meets it" {
    var indices = [_]i32{ 1, 3, 5, 8 };
    const values = [_]f32{ 2.5, std.math.nan(f32), 900, 1.5 };
    var out_indices: [4]i32 = undefined;
    var out_values: [4]f32 = undefined;
    var kept: [1]i64 = undefined;
    var job: Downsampling = .{
        .rows = .{ .indptr = &.{ 0, 4 }, .indices = &indices, .values = &values },
        .method = .multinomial,
        .target = 904,
        .seed = 1,
        .file_identities = &.{2},
        .row_numbers = &.{3},
        .out_indices = &out_indices,
        .out_values = &out_values,
        .kept = &kept,
    };
    var report: Report = .{};
    try job.run(1, &report);
    try testing.expectEqual(3, kept[0]);
    try testing.expectEqualSlices(i32, &.{ 1, 5, 8 }, out_indices[0..3]);
    try testing.expectEqualSlices(f32, &.{ 2, 900, 2 }, out_values[0..3]);
    for (1..200) |target| {
        job.target = target;
        try job.run(1, &report);
        var total: f32 = 0;
        for (out_values[0..@intCast(kept[0])]) |value| total += value;
        try testing.expectEqual(@as(f32, @floatFromInt(target)), total);
    }
}
