//! The positive values of a row in groups of equal ones, the groups ascending.
//!
//! A cell has few distinct values, be they counts or what a transform made of them. Small counts are their own codes.
//! Other values are found through a small table, and only the groups are sorted. A row with more of them is sorted as
//! a whole.

const std = @import("std");
const dispatch = @import("../../levels/dispatch.zig");
const top_k = @import("../top_k.zig");
const whole_codes = @import("whole_codes.zig");
const Allocator = std.mem.Allocator;

pub const Group = struct {
    value: f32,
    /// Positive values of the row up to the end of this group.
    end: u32,
    /// What stands for it in the codes.
    code: u32,
};

/// The code of a value that is not positive.
pub const no_code = 0;

const table_places = 2048;
/// A quarter of the table, so that a search seldom takes a second step.
const distinct_max = table_places / 4;

pub const Scratch = struct {
    allocator: Allocator,
    ranking: top_k.Scratch,
    groups: []Group,
    codes: []u32,
    table: *Table,
    counters: *whole_codes.Counters,

    pub fn init(allocator: Allocator, row_values_max: usize) Allocator.Error!Scratch {
        var ranking: top_k.Scratch = try .init(allocator, row_values_max);
        errdefer ranking.deinit();
        const groups = try allocator.alloc(Group, @max(row_values_max, distinct_max));
        errdefer allocator.free(groups);
        const codes = try allocator.alloc(u32, row_values_max);
        errdefer allocator.free(codes);

        const table = try allocator.create(Table);
        errdefer allocator.destroy(table);

        const counters = try allocator.create(whole_codes.Counters);
        table.* = .{};
        return .{
            .allocator = allocator,
            .ranking = ranking,
            .groups = groups,
            .codes = codes,
            .table = table,
            .counters = counters,
        };
    }

    /// Codes are below this.
    pub fn codeCount(scratch: *const Scratch) usize {
        return @max(scratch.groups.len + 1, whole_codes.limit);
    }

    pub fn deinit(scratch: *Scratch) void {
        scratch.allocator.destroy(scratch.counters);
        scratch.allocator.destroy(scratch.table);
        scratch.allocator.free(scratch.codes);
        scratch.allocator.free(scratch.groups);
        scratch.ranking.deinit();
        scratch.* = undefined;
    }
};

pub const Grouped = struct {
    groups: []const Group,
    /// Parallel to the values: `no_code`, or the code of a group.
    codes: []const u32,

    pub fn valueCount(grouped: Grouped) u32 {
        return if (grouped.groups.len == 0) 0 else grouped.groups[grouped.groups.len - 1].end;
    }

    /// The positive value at a place of the ascending order; `near` is a group at or before it, and moves there.
    pub fn sortedAt(grouped: Grouped, place: u32, near: *usize) f64 {
        while (grouped.groups[near.*].end <= place) near.* += 1;
        return grouped.groups[near.*].value;
    }
};

pub fn group(values: []const f32, scratch: *Scratch) Grouped {
    const codes = scratch.codes[0..values.len];
    const groups = byCounts(values, codes, scratch) orelse scratch.table.group(values, codes, scratch.groups) orelse bySorting(values, codes, scratch);
    return .{ .groups = groups, .codes = codes };
}

fn byCounts(values: []const f32, codes: []u32, scratch: *Scratch) ?[]Group {
    var highest: u32 = undefined;
    const is_whole = dispatch.table().wholeCodes(values.ptr, values.len, codes.ptr, scratch.counters, &highest);
    if (!is_whole) return null;
    var n_groups: usize = 0;
    var end: u32 = 0;
    for (scratch.counters[1 .. highest + 1], 1..) |count, code| {
        if (count == 0) continue;
        end += count;
        scratch.groups[n_groups] = .{ .value = @floatFromInt(code), .end = end, .code = @intCast(code) };
        n_groups += 1;
    }
    return scratch.groups[0..n_groups];
}

/// Distinct values under the bits of each; 0 is no positive value's.
const Table = struct {
    bits: [table_places]u32 = @splat(0),
    codes: [table_places]u32 = undefined,
    /// By code less 1.
    places: [distinct_max]u32 = undefined,
    counts: [distinct_max]u32 = undefined,

    /// Null when there are too many distinct values. The table is empty before and after.
    fn group(table: *Table, values: []const f32, codes: []u32, groups: []Group) ?[]Group {
        var n_distinct: u32 = 0;
        defer for (table.places[0..n_distinct]) |place| {
            table.bits[place] = 0;
        };
        for (values, codes) |value, *code| {
            if (!(value > 0)) {
                code.* = no_code;
                continue;
            }
            const bits: u32 = @bitCast(value);
            var place = firstPlace(bits);
            while (table.bits[place] != bits) : (place = (place + 1) % table_places) {
                if (table.bits[place] != 0) continue;
                if (n_distinct == distinct_max) return null;
                table.bits[place] = bits;
                table.places[n_distinct] = place;
                table.counts[n_distinct] = 0;
                n_distinct += 1;
                table.codes[place] = n_distinct;
                break;
            }
            code.* = table.codes[place];
            table.counts[code.* - 1] += 1;
        }
        for (table.places[0..n_distinct], groups[0..n_distinct], 1..) |place, *entry, code| {
            entry.* = .{ .value = @bitCast(table.bits[place]), .end = table.counts[code - 1], .code = @intCast(code) };
        }
        std.sort.pdq(Group, groups[0..n_distinct], {}, isSmaller);
        var end: u32 = 0;
        for (groups[0..n_distinct]) |*entry| {
            end += entry.end;
            entry.end = end;
        }
        return groups[0..n_distinct];
    }

    /// Multiplied by the golden ratio's odd neighbour, the upper bits depend on all bits of the value.
    fn firstPlace(bits: u32) u32 {
        return (bits *% 0x9E3779B1) >> comptime @intCast(@clz(@as(u32, table_places - 1)));
    }
};

fn isSmaller(_: void, a: Group, b: Group) bool {
    return a.value < b.value;
}

fn bySorting(values: []const f32, codes: []u32, scratch: *Scratch) []Group {
    @memset(codes, no_code);
    const ranked = top_k.topK(values, values.len, &scratch.ranking);
    var n_groups: u32 = 0;
    var rest = ranked.len;
    while (rest > 0) {
        rest -= 1;
        const value = values[ranked[rest]];
        if (n_groups == 0 or scratch.groups[n_groups - 1].value != value) {
            n_groups += 1;
            scratch.groups[n_groups - 1] = .{ .value = value, .end = undefined, .code = n_groups };
        }
        scratch.groups[n_groups - 1].end = @intCast(ranked.len - rest);
        codes[ranked[rest]] = n_groups;
    }
    return scratch.groups[0..n_groups];
}

fn expectGroups(values: []const f32, scratch: *Scratch) !void {
    const grouped = group(values, scratch);
    var before: f32 = 0;
    for (grouped.groups) |entry| {
        try std.testing.expect(entry.value > before);
        before = entry.value;
        var up_to: u32 = 0;
        for (values, grouped.codes) |value, code| {
            up_to += @intFromBool(value > 0 and value <= entry.value);
            try std.testing.expectEqual(value == entry.value, code == entry.code);
        }
        try std.testing.expectEqual(up_to, entry.end);
    }
    for (values, grouped.codes) |value, code| try std.testing.expectEqual(value > 0, code != no_code);
}

test "groups are the distinct values, few or many" {
    var random: @import("../../rng.zig").Generator = .init(3);
    var values: [1500]f32 = undefined;
    var scratch: Scratch = try .init(std.testing.allocator, values.len);
    defer scratch.deinit();
    for ([_]u32{ 1, 5, 500, 600, 1 << 20, 3 }) |bound| {
        for ([_]f32{ 1, 0.37 }) |unit| { // counts, and other values
            for (&values) |*value| value.* = unit * @as(f32, @floatFromInt(random.below(bound)));
            try expectGroups(values[0..40], &scratch);
            if (bound < 1 << 20) try expectGroups(&values, &scratch) else try expectGroups(values[0..700], &scratch);
        }
    }
    try expectGroups(&.{ -1, std.math.nan(f32), 0, std.math.inf(f32), 2, 2 }, &scratch);
    try expectGroups(&.{}, &scratch);
}
