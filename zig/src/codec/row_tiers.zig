//! How wide the tiers of a row's codes are, and writing them.

const std = @import("std");
const bits = @import("bits.zig");
const rowpack = @import("rowpack.zig");

const Allocator = std.mem.Allocator;

/// Codes are counted one by one up to here; an escape starts below it.
const histogram_length = 2 * (1 << rowpack.escape_width_max);

pub const Tiers = struct { widths: [3]u8, cost_bits: u64 };

/// at_least[c]: how many codes are c or larger.
const Histogram = [histogram_length + 1]u32;

/// Fills `at_least` as far as `chooseTiers` looks and gives the largest code.
fn countAtLeast(codes: []const u64, at_least: *Histogram) u64 {
    var largest: u64 = 0;
    for (codes) |code| largest = @max(largest, code);
    const used: usize = @intCast(@min(largest, histogram_length));
    // two tables in turn, because most codes are equal and adding to one counter waits for the last addition
    var odd: Histogram = undefined;
    @memset(at_least, 0);
    @memset(odd[0 .. used + 1], 0);
    var index: usize = 0;
    while (index + 2 <= codes.len) : (index += 2) {
        at_least[@intCast(@min(codes[index], histogram_length))] += 1;
        odd[@intCast(@min(codes[index + 1], histogram_length))] += 1;
    }
    if (index < codes.len) at_least[@intCast(@min(codes[index], histogram_length))] += 1;
    var rest: u32 = 0;
    index = used + 1;
    while (index > 0) {
        index -= 1;
        rest += at_least[index] + odd[index];
        at_least[index] = rest;
    }
    return largest;
}

/// The cheapest widths by exact count, the first among equals.
pub fn chooseTiers(codes: []const u64) Tiers {
    var at_least: Histogram = undefined;
    const largest = countAtLeast(codes, &at_least);
    const count: u64 = codes.len;
    const plain_width = bitLength(largest);
    var best: Tiers = .{ .widths = .{ plain_width, 0, 0 }, .cost_bits = count * plain_width };
    for (1..escapeWidthsEnd(plain_width)) |width_0| {
        const escape_0 = bits.lowMask(@intCast(width_0));
        const escaped: u64 = at_least[@intCast(escape_0)];
        const cost_0 = count * width_0;
        const last_1 = @max(1, bitLength(largest - escape_0));
        keepCheaper(&best, .{ @intCast(width_0), last_1, 0 }, cost_0 + escaped * last_1);
        for (1..escapeWidthsEnd(last_1)) |width_1| {
            const escape_1 = bits.lowMask(@intCast(width_1));
            const escaped_again: u64 = at_least[@intCast(escape_0 + escape_1)];
            const last_2 = @max(1, bitLength(largest - escape_0 - escape_1));
            const cost = cost_0 + escaped * width_1 + escaped_again * last_2;
            keepCheaper(&best, .{ @intCast(width_0), @intCast(width_1), last_2 }, cost);
        }
    }
    return best;
}

/// Escapes pay only in tiers narrower than what would hold every code.
fn escapeWidthsEnd(width_needed: u8) usize {
    return @max(1, @min(@as(usize, width_needed), rowpack.escape_width_max + 1));
}

fn keepCheaper(best: *Tiers, widths: [3]u8, cost_bits: u64) void {
    if (cost_bits < best.cost_bits) best.* = .{ .widths = widths, .cost_bits = cost_bits };
}

fn bitLength(number: u64) u8 {
    return 64 - @as(u8, @clz(number));
}

/// Writes codes tier by tier; the escaped ones of a tier are collected for the next.
pub const TierWriter = struct {
    capped: std.ArrayList(u64) = .empty,
    escaped: [2]std.ArrayList(u64) = .{ .empty, .empty },

    pub fn deinit(self: *TierWriter, allocator: Allocator) void {
        self.capped.deinit(allocator);
        for (&self.escaped) |*list| list.deinit(allocator);
    }

    pub fn write(
        self: *TierWriter,
        allocator: Allocator,
        codes: []const u64,
        tiers: Tiers,
        target: *std.ArrayList(u8),
    ) Allocator.Error!void {
        var current = codes;
        for (tiers.widths, 0..) |width, tier| {
            const is_last = tier == 2 or tiers.widths[tier + 1] == 0;
            const bytes: usize = @intCast(bits.packedBytes(current.len, width));
            const area = try zeroedArea(allocator, bytes, target);
            if (is_last) {
                bits.pack(u64, current, width, area.ptr);
                target.items.len -= bits.pack_slack;
                return;
            }
            const next = &self.escaped[tier];
            try next.resize(allocator, current.len + 1);
            try self.capped.resize(allocator, current.len);
            const found = splitEscaped(current, bits.lowMask(width), self.capped.items, next.items);
            bits.pack(u64, self.capped.items, width, area.ptr);
            target.items.len -= bits.pack_slack;
            current = next.items[0..found];
        }
    }
};

/// `capped` gets every code, at most `escape`; `excess` what the escaped ones are beyond it, one element more than
/// there can be.
fn splitEscaped(codes: []const u64, escape: u64, capped: []u64, excess: []u64) usize {
    var found: usize = 0;
    for (codes, capped) |code, *kept| {
        kept.* = @min(code, escape);
        excess[found] = code -% escape;
        found += @intFromBool(code >= escape);
    }
    return found;
}

/// Zero bytes at the end of `target`, with the slack of `bits.pack` behind them, which the caller cuts off again.
pub fn zeroedArea(allocator: Allocator, bytes: usize, target: *std.ArrayList(u8)) Allocator.Error![]u8 {
    const area = try target.addManyAsSlice(allocator, bytes + bits.pack_slack);
    @memset(area, 0);
    return area;
}

const testing = std.testing;

/// Bits that codes take in tiers of these widths; null where a code does not fit.
fn plainCost(codes: []const u64, widths: [3]u8) ?u64 {
    var cost: u64 = 0;
    for (codes) |code| {
        var rest = code;
        for (widths, 0..) |width, tier| {
            const largest = bits.lowMask(width);
            cost += width;
            if (tier == 2 or widths[tier + 1] == 0) {
                if (rest > largest) return null;
                break;
            }
            if (rest < largest) break;
            rest -= largest;
        }
    }
    return cost;
}

fn cheapest(codes: []const u64) u64 {
    var best: u64 = std.math.maxInt(u64);
    for (0..bits.width_max + 1) |width_0| {
        const has_escape_0 = width_0 >= 1 and width_0 <= rowpack.escape_width_max;
        for (0..if (has_escape_0) bits.width_max + 1 else 1) |width_1| {
            const has_escape_1 = width_1 >= 1 and width_1 <= rowpack.escape_width_max;
            for (0..if (has_escape_1) bits.width_max + 1 else 1) |width_2| {
                const cost = plainCost(codes, .{ @intCast(width_0), @intCast(width_1), @intCast(width_2) }) orelse continue;
                best = @min(best, cost);
            }
        }
    }
    return best;
}

test "the widths are the cheapest of all" {
    var prng = std.Random.DefaultPrng.init(21);
    const random = prng.random();
    var codes: [40]u64 = undefined;
    for ([_]u8{ 1, 2, 4, 9, 20, 64 }) |width_max| for ([_]usize{ 1, 2, 7, 40 }) |length| for (0..3) |_| {
        // most codes are small, as counts are
        for (codes[0..length]) |*code| {
            const width = if (random.uintLessThan(u8, 4) == 0) width_max else @min(width_max, 2);
            code.* = random.int(u64) & bits.lowMask(width);
        }
        const chosen = chooseTiers(codes[0..length]);
        try testing.expectEqual(chosen.cost_bits, plainCost(codes[0..length], chosen.widths));
        try testing.expectEqual(cheapest(codes[0..length]), chosen.cost_bits);
    };
    try testing.expectEqual(Tiers{ .widths = @splat(0), .cost_bits = 0 }, chooseTiers(&.{ 0, 0, 0 }));
}

test "escaped codes stand in the next tier, less the escape" {
    var writer: TierWriter = .{};
    defer writer.deinit(testing.allocator);
    var bytes: std.ArrayList(u8) = .empty;
    defer bytes.deinit(testing.allocator);
    try writer.write(testing.allocator, &.{ 0, 5, 1, 300 }, .{ .widths = .{ 1, 3, 9 }, .cost_bits = 0 }, &bytes);
    // 0, escape, escape, escape; then 4, 0, escape (7); then 300 - 1 - 7
    try testing.expectEqualSlices(u8, &.{ 0b1110, 0b1100_0100, 0b1, 0b0010_0100, 0b1 }, bytes.items);
}
