//! What the catalog says of a shard's values.

const std = @import("std");

pub const ShardStats = struct {
    nnz: u64 = 0,
    value_min: ?u32 = null,
    value_max: u32 = 0,
    value_sum: u64 = 0,

    pub fn add(self: *ShardStats, other: ShardStats) void {
        self.nnz += other.nnz;
        self.value_max = @max(self.value_max, other.value_max);
        self.value_sum +%= other.value_sum;
        if (other.value_min) |least| self.value_min = @min(least, self.value_min orelse least);
    }

    /// Integers only: of floats and of negative numbers the fields can say nothing.
    pub fn count(self: *ShardStats, comptime T: type, values: []const T) void {
        self.nnz += values.len;
        if (@typeInfo(T) != .int or values.len == 0) return;
        var least = values[0];
        var largest = values[0];
        for (values) |value| {
            least = @min(least, value);
            largest = @max(largest, value);
            if (value > 0) self.value_sum +%= @intCast(value);
        }
        const least_clipped = clip(least);
        self.value_min = @min(least_clipped, self.value_min orelse least_clipped);
        self.value_max = @max(self.value_max, clip(largest));
    }

    fn clip(value: anytype) u32 {
        if (value < 0) return 0;
        return std.math.cast(u32, value) orelse std.math.maxInt(u32);
    }
};

const testing = std.testing;

test "integers are counted, clipped to what the fields hold" {
    var stats: ShardStats = .{};
    stats.count(i64, &.{ 3, -7, 1 << 40 });
    try testing.expectEqual(ShardStats{ .nnz = 3, .value_min = 0, .value_max = std.math.maxInt(u32), .value_sum = 3 + (1 << 40) }, stats);
    stats = .{};
    stats.count(u16, &.{ 9, 4, 65535 });
    stats.count(u16, &.{});
    try testing.expectEqual(ShardStats{ .nnz = 3, .value_min = 4, .value_max = 65535, .value_sum = 65548 }, stats);
    var floats: ShardStats = .{};
    floats.count(f32, &.{ 0.5, 2 });
    try testing.expectEqual(ShardStats{ .nnz = 2 }, floats);
}

test "parts add up, those without values as well" {
    var all: ShardStats = .{};
    all.add(.{});
    try testing.expectEqual(ShardStats{}, all);
    all.add(.{ .nnz = 2, .value_min = 5, .value_max = 6, .value_sum = 11 });
    all.add(.{});
    all.add(.{ .nnz = 1, .value_min = 3, .value_max = 3, .value_sum = 3 });
    try testing.expectEqual(ShardStats{ .nnz = 3, .value_min = 3, .value_max = 6, .value_sum = 14 }, all);
}
