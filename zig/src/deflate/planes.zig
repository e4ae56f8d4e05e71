//! Values cut into planes: the first bytes of all values, then the second ones, and so on.

const std = @import("std");
const assert = std.debug.assert;

/// `planes` gets `values.len` bytes.
pub fn shuffle(element_bytes: usize, values: []const u8, planes: []u8) void {
    assert(values.len == planes.len and values.len % element_bytes == 0);
    switch (element_bytes) {
        1 => @memcpy(planes, values),
        inline 2, 4, 8 => |width| shuffleWide(width, values, planes),
        else => shuffleRest(element_bytes, 0, values, planes),
    }
}

fn shuffleWide(comptime width: usize, values: []const u8, planes: []u8) void {
    const step = 16;
    const n = values.len / width;
    var at: usize = 0;
    while (at + step <= n) : (at += step) {
        const group: @Vector(step * width, u8) = values[at * width ..][0 .. step * width].*;
        inline for (0..width) |plane| {
            const lanes = comptime blk: {
                var chosen: [step]i32 = undefined;
                for (&chosen, 0..) |*lane, index| lane.* = @intCast(index * width + plane);
                break :blk chosen;
            };
            planes[plane * n + at ..][0..step].* = @shuffle(u8, group, undefined, lanes);
        }
    }
    shuffleRest(width, at, values, planes);
}

fn shuffleRest(width: usize, first: usize, values: []const u8, planes: []u8) void {
    const n = values.len / width;
    for (first..n) |at| {
        for (0..width) |plane| planes[plane * n + at] = values[at * width + plane];
    }
}

/// How often a byte differs from the one before it.
pub fn changes(bytes: []const u8) usize {
    if (bytes.len == 0) return 0;
    const lanes = 32;
    const Lanes = @Vector(lanes, u8);
    var total: usize = 0;
    var at: usize = 1;
    while (at + lanes <= bytes.len) : (at += lanes) {
        const here: Lanes = bytes[at..][0..lanes].*;
        const before: Lanes = bytes[at - 1 ..][0..lanes].*;
        total += @popCount(@as(u32, @bitCast(here != before)));
    }
    for (at..bytes.len) |index| total += @intFromBool(bytes[index] != bytes[index - 1]);
    return total;
}

test "planes of every width" {
    var values: [8 * 37]u8 = undefined;
    for (&values, 0..) |*value, index| value.* = @truncate(index *% 151 >> 2);
    for ([_]usize{ 1, 2, 3, 4, 8 }) |width| {
        const n = 37;
        var planes: [8 * 37]u8 = undefined;
        shuffle(width, values[0 .. n * width], planes[0 .. n * width]);
        for (0..n) |at| {
            for (0..width) |plane| try std.testing.expectEqual(values[at * width + plane], planes[plane * n + at]);
        }
    }
}

test "changes are counted" {
    try std.testing.expectEqual(0, changes(""));
    var bytes: [100]u8 = @splat(3);
    try std.testing.expectEqual(0, changes(&bytes));
    bytes[0] = 1;
    bytes[50] = 4;
    bytes[99] = 5;
    try std.testing.expectEqual(4, changes(&bytes));
}
