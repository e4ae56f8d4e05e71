//! Halving points by one of their coordinates: quickselect, which stays linear where many are equal.

const std = @import("std");

/// `Point` has its coordinates in `at`. Puts `points` in an order in which none of the first `middle` lies behind any of the others.
pub fn select(comptime Point: type, points: []Point, middle: usize, axis: usize) void {
    switch (axis) {
        inline 0...axisCount(Point) - 1 => |known| selectOn(Point, known, points, middle),
        else => unreachable,
    }
}

fn selectOn(comptime Point: type, comptime axis: usize, points: []Point, middle: usize) void {
    if (middle == 0 or middle >= points.len) return;
    var low: usize = 0;
    var high: usize = points.len - 1;
    while (low < high) {
        const pivot = medianOf(.{ points[low].at[axis], points[low + (high - low) / 2].at[axis], points[high].at[axis] });
        var left = low;
        var right = high;
        // Equal ones are exchanged as well: that keeps the halves even where many points are equal.
        while (true) {
            while (points[left].at[axis] < pivot) left += 1;
            while (points[right].at[axis] > pivot) right -= 1;
            if (left >= right) break;
            std.mem.swap(Point, &points[left], &points[right]);
            left += 1;
            right -= 1;
        }
        // Up to `right` all are at most the pivot, behind it at least; both sides have points.
        if (middle <= right) high = right else low = right + 1;
        if (middle == low) return;
    }
}

fn medianOf(values: [3]f32) f32 {
    const low = @min(values[0], values[1]);
    const high = @max(values[0], values[1]);
    return @max(low, @min(high, values[2]));
}

fn axisCount(comptime Point: type) comptime_int {
    return @typeInfo(@FieldType(Point, "at")).array.len;
}

test "the first half lies at or before all of the second, and no point is lost" {
    const Point = struct { at: [2]f32, number: u32 };
    var prng = std.Random.DefaultPrng.init(5);
    const random = prng.random();
    var points: [101]Point = undefined;
    for ([_]u8{ 1, 2, 7, 255 }) |n_values| for ([_]usize{ 0, 1, 2, 3, 50, 101 }) |length| {
        const some = points[0..length];
        for (some, 0..) |*point, number| {
            point.* = .{ .at = @splat(@floatFromInt(random.uintLessThan(u8, n_values))), .number = @intCast(number) };
            point.at[0] = -point.at[0];
        }
        for (0..2) |axis| for (0..length + 1) |middle| {
            select(Point, some, middle, axis);
            var highest = -std.math.inf(f32);
            var seen: u128 = 0;
            for (some, 0..) |point, place| {
                if (place < middle) highest = @max(highest, point.at[axis]) else try std.testing.expect(point.at[axis] >= highest);
                seen |= @as(u128, 1) << @intCast(point.number);
            }
            try std.testing.expectEqual((@as(u128, 1) << @intCast(length)) - 1, seen);
        };
    };
}
