//! How far a cell lies from the centre of its category, as a share: the part of the category's cells that are at
//! the same distance or closer.
//!
//! Sums run in the order of the cells, in f64, one axis after the other in each distance; distances are Euclidean
//! and their ties count together; the share is a quotient of two f32. Others compute the same bytes by these rules.

const std = @import("std");

pub const Input = struct {
    n_cells: usize,
    n_axes: usize,
    /// Row-major, a row for each cell.
    coordinates: []const f32,
    /// The category of each cell, negative for none.
    codes: []const i32,
    n_categories: usize,
    /// Categories with fewer cells get no shares.
    cells_min: u64,
};

/// Fills `shares` with a number for each cell, NaN where its category is none or too small.
pub fn shareOfCategory(allocator: std.mem.Allocator, input: Input, shares: []f32) error{OutOfMemory}!void {
    const n_axes = input.n_axes;
    const counts = try allocator.alloc(u64, input.n_categories);
    defer allocator.free(counts);
    const centres = try allocator.alloc(f64, input.n_categories * n_axes);
    defer allocator.free(centres);
    const distances = try allocator.alloc(f64, input.n_cells);
    defer allocator.free(distances);

    centresOf(input, counts, centres);
    const starts = try allocator.alloc(usize, input.n_categories + 1);
    defer allocator.free(starts);
    starts[0] = 0;
    for (counts, starts[0..counts.len], starts[1..]) |count, start, *next| next.* = start + @as(usize, @intCast(count));
    const sorted = try allocator.alloc(f64, starts[counts.len]);
    defer allocator.free(sorted);

    for (0..input.n_cells) |cell| {
        const category = categoryOf(input, cell) orelse continue;
        const row = input.coordinates[cell * n_axes ..][0..n_axes];
        var sum: f64 = 0;
        for (row, centres[category * n_axes ..][0..n_axes]) |value, centre| {
            const difference = @as(f64, value) - centre;
            sum += difference * difference;
        }
        distances[cell] = @sqrt(sum);
        sorted[starts[category]] = distances[cell];
        starts[category] += 1;
    }
    // filling has moved each start to the end of its category
    var start: usize = 0;
    for (starts[0..counts.len]) |stop| {
        std.mem.sortUnstable(f64, sorted[start..stop], {}, std.sort.asc(f64));
        start = stop;
    }
    for (shares, 0..) |*share, cell| {
        share.* = std.math.nan(f32);
        const category = categoryOf(input, cell) orelse continue;
        if (counts[category] < input.cells_min) continue;
        const stop = starts[category];
        const own = sorted[stop - @as(usize, @intCast(counts[category])) .. stop];
        const closer = std.sort.upperBound(f64, own, distances[cell], compare);
        share.* = @as(f32, @floatFromInt(closer)) / @as(f32, @floatFromInt(counts[category]));
    }
}

fn centresOf(input: Input, counts: []u64, centres: []f64) void {
    @memset(counts, 0);
    @memset(centres, 0);
    for (0..input.n_cells) |cell| {
        const category = categoryOf(input, cell) orelse continue;
        counts[category] += 1;
        const row = input.coordinates[cell * input.n_axes ..][0..input.n_axes];
        for (row, centres[category * input.n_axes ..][0..input.n_axes]) |value, *sum| sum.* += value;
    }
    for (counts, 0..) |count, category| {
        for (centres[category * input.n_axes ..][0..input.n_axes]) |*sum| sum.* /= @floatFromInt(count);
    }
}

inline fn categoryOf(input: Input, cell: usize) ?usize {
    const code = input.codes[cell];
    return if (code < 0 or code >= input.n_categories) null else @intCast(code);
}

fn compare(wanted: f64, item: f64) std.math.Order {
    return std.math.order(wanted, item);
}

test "shares of a category, ties together, gaps and small categories apart" {
    const nan = std.math.nan(f32);
    var shares: [7]f32 = undefined;
    try shareOfCategory(std.testing.allocator, .{
        .n_cells = 7,
        .n_axes = 1,
        .coordinates = &.{ -2, 2, 0, 100, 5, 1, -1 },
        .codes = &.{ 0, 0, 0, -1, 1, 0, 0 },
        .n_categories = 3,
        .cells_min = 2,
    }, &shares);
    const expected = [_]f32{ 1, 1, 0.2, nan, nan, 0.6, 0.6 };
    for (expected, shares) |wanted, got| {
        if (std.math.isNan(wanted)) try std.testing.expect(std.math.isNan(got)) else try std.testing.expectEqual(wanted, got);
    }
}

test "distances that only differ before the root are equal" {
    var shares: [6]f32 = undefined;
    try shareOfCategory(std.testing.allocator, .{
        .n_cells = 6,
        .n_axes = 2,
        .coordinates = &.{ 1, 0, 1, 1.6e-8, -1, 0, -1, -1.6e-8, 0.5, 0, -0.5, 0 },
        .codes = &.{ 0, 0, 0, 0, 0, 0 },
        .n_categories = 1,
        .cells_min = 1,
    }, &shares);
    try std.testing.expectEqualSlices(f32, &.{ 1, 1, 1, 1, 2.0 / 6.0, 2.0 / 6.0 }, &shares);
}
