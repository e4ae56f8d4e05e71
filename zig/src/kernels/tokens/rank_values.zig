//! What genes are ranked by: f32(max(v, 0) * (target_sum / library size) / statistic), the arithmetic in f64.
//! And the ids of a row in that order. Compiled once per CPU level.

const std = @import("std");
const ranked_places = @import("../ranked_places.zig");
const row_sum = @import("../row_sum.zig");

const lanes = 8;

/// A row, and what it is ranked by.
pub const Row = extern struct {
    ids: [*]const i32,
    values: [*]const f32,
    n_values: usize,
    /// One for each gene id.
    statistics: [*]const f32,
    target_sum: f64,
};

/// The at most `l_max` first ids of the ranking, and their number. `keys` has room for the values of the row.
pub fn rankRow(row: Row, keys: [*]f32, space: ranked_places.Space, ids_out: [*]i32, l_max: usize) usize {
    const ids = row.ids[0..row.n_values];
    const values = row.values[0..row.n_values];
    rankValues(ids, values, row.statistics, row.target_sum / row_sum.librarySize(values), keys);
    const places = ranked_places.rankedPlaces(keys[0..row.n_values], l_max, space);
    for (places, ids_out[0..places.len]) |place, *id| id.* = ids[place];
    return places.len;
}

/// `out` is what each value ranks by, 0 where the value is not positive. `statistics` is indexed by gene id.
pub fn rankValues(ids: []const i32, values: []const f32, statistics: [*]const f32, factor: f64, out: [*]f32) void {
    var at: usize = 0;
    while (at + lanes <= ids.len) : (at += lanes) {
        // The row that lies behind this one is likely to be the next: it arrives while this one is sorted.
        @prefetch(ids.ptr + at + ids.len, .{});
        @prefetch(values.ptr + at + ids.len, .{});
        out[at..][0..lanes].* = ofLanes(ids[at..][0..lanes], values[at..][0..lanes].*, statistics, factor);
    }
    if (at == ids.len) return;
    // The rest, filled up with its own last gene, so that every lane reads a statistic that there is.
    var last_ids: [lanes]i32 = @splat(ids[ids.len - 1]);
    var last_values: [lanes]f32 = @splat(0);
    @memcpy(last_ids[0 .. ids.len - at], ids[at..]);
    @memcpy(last_values[0 .. ids.len - at], values[at..]);
    const results: [lanes]f32 = ofLanes(&last_ids, last_values, statistics, factor);
    @memcpy(out[at..ids.len], results[0 .. ids.len - at]);
}

/// What one value ranks by.
pub fn keyOf(value: f32, factor: f64, statistic: f32) f32 {
    const clipped: f64 = if (value > 0) value else 0;
    return @floatCast(clipped * factor / @as(f64, statistic));
}

inline fn ofLanes(
    ids: *const [lanes]i32,
    values: @Vector(lanes, f32),
    statistics: [*]const f32,
    factor: f64,
) @Vector(lanes, f32) {
    var below: [lanes]f32 = undefined;
    inline for (0..lanes) |lane| below[lane] = statistics[@intCast(ids[lane])];
    const wide: @Vector(lanes, f64) = @floatCast(@as(@Vector(lanes, f32), below));
    const zero: @Vector(lanes, f32) = @splat(0);
    const clipped: @Vector(lanes, f64) = @floatCast(@select(f32, values > zero, values, zero));
    return @floatCast(clipped * @as(@Vector(lanes, f64), @splat(factor)) / wide);
}

test "every length gives the values of one at a time" {
    const statistics = [_]f32{ 0.5, 3, 1, 7, 0.1, 2, 9, 11, 4, 6, 8, 10, 12, 13, 14, 15, 16, 17, 18, 19 };
    var ids: [20]i32 = undefined;
    var values: [20]f32 = undefined;
    for (&ids, &values, 0..) |*id, *value, place| {
        id.* = @intCast(place);
        value.* = @as(f32, @floatFromInt(place % 7)) - 1;
    }
    values[9] = std.math.nan(f32);
    for (0..ids.len) |length| {
        var out: [21]f32 = @splat(-9);
        rankValues(ids[0..length], values[0..length], &statistics, 2.5, &out);
        for (values[0..length], statistics[0..length], out[0..length]) |value, statistic, result| {
            try std.testing.expectEqual(keyOf(value, 2.5, statistic), result);
        }
        try std.testing.expectEqual(@as(f32, -9), out[length]);
    }
}
