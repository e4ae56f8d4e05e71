//! Values that many places of a row share, taken out of it before the rest is sorted: most values of a cell are the
//! same few, and those are its smallest ones. Compiled once per CPU level.
//!
//! A pass over the row parts the smallest positive value from those above it, both in the order of the row, and finds
//! the smallest of what is left, which is the next one. What was taken needs no sorting: it follows the others, the
//! value that was taken last first. A sample of the row says beforehand whether a pass is worth its time.

const std = @import("std");
const word_sort = @import("word_sort.zig");

const assert = std.debug.assert;

/// Values at most that are taken out.
const groups_max = 16;
/// So few values are sorted sooner than parted.
const rest_min = 32;
/// A value is looked for when it makes up this part of a sample, and the next one if it made up half this part of all.
const worth_of = 8;

const lanes = if (word_sort.lanes > 0) word_sort.lanes else 4;
const Ids = @Vector(lanes, i32);
const Words = @Vector(lanes, u32);
const Floats = @Vector(lanes, f32);

/// Elements that may be written past the last one.
pub const over_write_max = 16;

/// Room for a row and `over_write_max` elements each.
pub const Space = extern struct {
    taken_ids: [*]i32,
    rest_ids: [*]i32,
    rest_values: [*]f32,
};

const Group = struct {
    value: f32,
    /// Ids that were taken up to the end of this group.
    end: usize,
};

/// A row without what was taken out of it. Ids and values lie in the row itself, or in the space.
pub const Parted = struct {
    ids: []const i32,
    values: []const f32,
    taken_ids: [*]const i32,
    groups: [groups_max]Group = undefined,
    n_groups: usize = 0,

    /// Writes what was taken, in the order of a ranking, as far as there is room; gives how much.
    pub fn writeTaken(parted: *const Parted, ids_out: []i32, values_out: [*]f32) usize {
        var found: usize = 0;
        var number = parted.n_groups;
        while (number > 0 and found < ids_out.len) {
            number -= 1;
            const group = parted.groups[number];
            const start = if (number == 0) 0 else parted.groups[number - 1].end;
            const count = @min(group.end - start, ids_out.len - found);
            @memcpy(ids_out[found..][0..count], parted.taken_ids[start..][0..count]);
            fill(values_out[found..][0..count], group.value);
            found += count;
        }
        return found;
    }
};

/// By vectors, which `@memset` of floats does not become.
fn fill(out: []f32, value: f32) void {
    var at: usize = 0;
    while (at + lanes <= out.len) : (at += lanes) out[at..][0..lanes].* = @as(Floats, @splat(value));
    for (out[at..]) |*place| place.* = value;
}

pub fn part(ids: []const i32, values: []const f32, space: Space) Parted {
    assert(ids.len == values.len);
    var parted: Parted = .{ .ids = ids, .values = values, .taken_ids = space.taken_ids };
    if (values.len <= rest_min) return parted;
    var smallest = smallestOf(values) orelse return parted;
    var taken: usize = 0;
    while (parted.n_groups < groups_max and parted.values.len > rest_min and isShared(parted.values, smallest)) {
        const before = parted.values.len;
        const split = takeOut(parted.ids, parted.values, smallest, space.taken_ids + taken, space);
        taken += split.n_taken;
        parted.groups[parted.n_groups] = .{ .value = smallest, .end = taken };
        parted.n_groups += 1;
        parted.ids = space.rest_ids[0..split.n_rest];
        parted.values = space.rest_values[0..split.n_rest];
        if (split.n_taken < before / (2 * worth_of)) break;
        smallest = split.next;
    }
    return parted;
}

const infinity: Floats = @splat(std.math.inf(f32));
const infinity_bits: u32 = @bitCast(std.math.inf(f32));

/// Of the positive ones, if there are any.
fn smallestOf(values: []const f32) ?f32 {
    var smallest = infinity;
    var is_any: @Vector(lanes, bool) = @splat(false);
    var at: usize = 0;
    while (at + lanes <= values.len) : (at += lanes) {
        // the row that lies behind this one is likely to be the next
        @prefetch(values.ptr + at + values.len, .{});
        const given: Floats = values[at..][0..lanes].*;
        const is_positive = given > @as(Floats, @splat(0));
        is_any = @select(bool, is_positive, is_positive, is_any);
        smallest = @min(smallest, @select(f32, is_positive, given, infinity));
    }
    var least = @reduce(.Min, smallest);
    var any = @reduce(.Or, is_any);
    for (values[at..]) |value| {
        if (!(value > 0)) continue;
        any = true;
        least = @min(least, value);
    }
    return if (any) least else null;
}

/// Looks at four vectors that are spread over the row.
fn isShared(values: []const f32, value: f32) bool {
    if (values.len < 4 * lanes) return true;
    var found: usize = 0;
    for (0..4) |quarter| {
        const given: Floats = values[quarter * (values.len / 4) ..][0..lanes].*;
        found += std.simd.countTrues(given == @as(Floats, @splat(value)));
    }
    return found >= 4 * lanes / worth_of;
}

const Split = struct {
    n_taken: usize,
    n_rest: usize,
    /// The smallest of the rest, infinite if there is none.
    next: f32,
};

/// Places of this value into `taken`, those above it to the rest, and no others. The row may lie in the rest itself:
/// what is written there has been read.
///
/// Positive floats order as their bits do. Counted from just above the wanted value, those above it come first, up to
/// infinity, then NaN, negatives and what is not above, down to the value itself, which is the last of all.
fn takeOut(ids: []const i32, values: []const f32, value: f32, taken: [*]i32, space: Space) Split {
    const wanted: u32 = @bitCast(value);
    const limit = infinity_bits - wanted;
    var n_taken: usize = 0;
    var n_rest: usize = 0;
    var nearest = limit;
    var at: usize = 0;
    if (word_sort.lanes > 0) {
        const splat_wanted: Words = @splat(wanted);
        const above_wanted: Words = @splat(wanted + 1);
        var nearest_lanes: Words = @splat(limit);
        while (at + lanes <= values.len) : (at += lanes) {
            @prefetch(ids.ptr + at + ids.len, .{});
            const here: Words = @bitCast(@as(Ids, ids[at..][0..lanes].*));
            const bits: Words = @bitCast(@as(Floats, values[at..][0..lanes].*));
            const distance = bits -% above_wanted;
            const equal: word_sort.Mask = @bitCast(bits == splat_wanted);
            const above: word_sort.Mask = @bitCast(distance < @as(Words, @splat(limit)));
            nearest_lanes = @min(nearest_lanes, distance);
            taken[n_taken..][0..lanes].* = @bitCast(word_sort.press(equal, here));
            space.rest_ids[n_rest..][0..lanes].* = @bitCast(word_sort.press(above, here));
            space.rest_values[n_rest..][0..lanes].* = @bitCast(word_sort.press(above, bits));
            n_taken += @popCount(equal);
            n_rest += @popCount(above);
        }
        nearest = @reduce(.Min, nearest_lanes);
    }
    // a branch on the values would be mispredicted at every other one
    for (ids[at..], values[at..]) |id, given| {
        const bits: u32 = @bitCast(given);
        const distance = bits -% (wanted + 1);
        taken[n_taken] = id;
        space.rest_ids[n_rest] = id;
        space.rest_values[n_rest] = given;
        n_taken += @intFromBool(bits == wanted);
        n_rest += @intFromBool(distance < limit);
        nearest = @min(nearest, distance);
    }
    return .{ .n_taken = n_taken, .n_rest = n_rest, .next = if (n_rest == 0) std.math.inf(f32) else @bitCast(wanted + 1 + nearest) };
}

const testing = std.testing;
const Generator = @import("../rng.zig").Generator;

/// Taken and rest are the positive values, once each; each in the order of the row, what was taken below the rest.
fn expectParted(ids: []const i32, values: []const f32, n_groups_min: usize) !void {
    const memory = try testing.allocator.alloc(u32, 3 * (ids.len + over_write_max));
    defer testing.allocator.free(memory);
    const step = ids.len + over_write_max;
    const parted = part(ids, values, .{
        .taken_ids = @ptrCast(memory.ptr),
        .rest_ids = @ptrCast(memory.ptr + step),
        .rest_values = @ptrCast(memory.ptr + 2 * step),
    });
    try testing.expect(parted.n_groups >= n_groups_min);
    const ids_out = try testing.allocator.alloc(i32, ids.len);
    defer testing.allocator.free(ids_out);
    const values_out = try testing.allocator.alloc(f32, ids.len);
    defer testing.allocator.free(values_out);
    const n_taken = parted.writeTaken(ids_out, values_out.ptr);

    const bound = if (n_taken > 0) values_out[0] else 0;
    var at: usize = 0;
    for (ids, values) |id, value| {
        if (if (n_taken > 0) !(value > bound) else false) continue;
        try testing.expectEqual(id, parted.ids[at]);
        try testing.expectEqual(@as(u32, @bitCast(value)), @as(u32, @bitCast(parted.values[at])));
        at += 1;
    }
    try testing.expectEqual(parted.ids.len, at);

    at = 0;
    for (0..parted.n_groups) |back| {
        const wanted = parted.groups[parted.n_groups - 1 - back].value;
        try testing.expect(wanted > 0);
        for (ids, values) |id, value| {
            if (value != wanted) continue;
            try testing.expectEqual(id, ids_out[at]);
            try testing.expectEqual(value, values_out[at]);
            at += 1;
        }
    }
    try testing.expectEqual(n_taken, at);
    for (values) |value| at -= @intFromBool(value > 0 and value <= bound);
    try testing.expectEqual(0, at);
    for (0..@min(5, n_taken)) |room| try testing.expectEqual(room, parted.writeTaken(ids_out[0..room], values_out.ptr));
}

test "what is shared is taken, in the order of the row, for counts and for other values" {
    var random: Generator = .init(7);
    var ids: [900]i32 = undefined;
    var values: [ids.len]f32 = undefined;
    for (&ids, 0..) |*id, place| id.* = @intCast(3 * place + 1);
    for ([_]f32{ 1, 0.37, 1e-45, 1e38 }) |unit| {
        for ([_]u32{ 2, 3, 5, 1000 }) |bound| {
            for ([_]usize{ 0, 1, 33, 47, 64, 65, 100, 900 }) |length| {
                for (values[0..length]) |*value| {
                    value.* = unit * @as(f32, @floatFromInt(random.below(bound)));
                    switch (random.below(40)) {
                        0 => value.* = -value.*,
                        1 => value.* = std.math.nan(f32),
                        2 => value.* = std.math.inf(f32),
                        else => {},
                    }
                }
                try expectParted(ids[0..length], values[0..length], if (bound < 5 and length > 40) 1 else 0);
            }
        }
    }
}

test "a row of one value, of none, and of many that are no longer shared" {
    var ids: [600]i32 = undefined;
    var values: [ids.len]f32 = @splat(std.math.inf(f32));
    for (&ids, 0..) |*id, place| id.* = @intCast(place);
    try expectParted(&ids, &values, 1);
    @memset(&values, -1);
    try expectParted(&ids, &values, 0);
    // the sample of the row is of one value, the row is not
    for (&values, 0..) |*value, place| value.* = if (place % 150 < 16) 1 else 2 + @as(f32, @floatFromInt(place));
    try expectParted(&ids, &values, 1);
    // more values than are taken, each as often as the next
    for (&values, 0..) |*value, place| value.* = @floatFromInt(1 + @ctz(place | 1 << 20));
    try expectParted(&ids, &values, 3);
}
