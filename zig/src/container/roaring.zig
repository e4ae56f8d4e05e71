//! Roaring bitmaps in their portable form, read where they lie and checked in full.
//!
//!   u32 cookie: 12346, then u32 n_containers; or 12347 in the lower half and n_containers - 1 in the upper one,
//!   then a bit for each container that says whether it holds runs
//!   per container: u16 key (the upper half of its values), u16 cardinality - 1
//!   per container u32, where it starts in the bitmap; left out when there are runs and fewer than 4 containers
//!   per container, the lower halves: up to 4096 of them as ascending u16; more as 1024 words of bits;
//!   or u16 n_runs and for each u16 first, u16 length - 1
//!
//!   walk(bytes, context, visit) error{Damaged}!void      visits every value, ascending
//!
//! Damage is noticed at the value where it shows: those before it have been visited.

const std = @import("std");

pub const Damaged = error{Damaged};

const cookie_plain = 12346;
const cookie_runs = 12347;
const containers_max = 1 << 16;
const array_values_max = 4096;
const bitset_bytes = 8192;
/// Bitmaps with runs leave the places out when they have fewer containers.
const places_containers_min = 4;

pub fn walk(
    bytes: []const u8,
    context: anytype,
    comptime visit: fn (@TypeOf(context), u32) Damaged!void,
) Damaged!void {
    const shape = try Shape.of(bytes);
    var at = shape.containers_at;
    var key_before: ?u16 = null;
    for (0..shape.n_containers) |number| {
        const key = try int(u16, bytes, shape.keys_at + 4 * number);
        const cardinality = @as(u32, try int(u16, bytes, shape.keys_at + 4 * number + 2)) + 1;
        if (key_before) |before| if (key <= before) return error.Damaged;
        key_before = key;
        if (shape.places_at) |places_at| {
            if (try int(u32, bytes, places_at + 4 * number) != at) return error.Damaged;
        }
        const high = @as(u32, key) << 16;
        if (shape.hasRuns(bytes, number)) {
            at = try walkRuns(bytes, at, high, cardinality, context, visit);
        } else if (cardinality <= array_values_max) {
            at = try walkArray(bytes, at, high, cardinality, context, visit);
        } else {
            at = try walkBitset(bytes, at, high, cardinality, context, visit);
        }
    }
    if (at != bytes.len) return error.Damaged;
}

const Shape = struct {
    n_containers: usize,
    runs_at: ?usize,
    keys_at: usize,
    places_at: ?usize,
    containers_at: usize,

    fn of(bytes: []const u8) Damaged!Shape {
        const cookie = try int(u32, bytes, 0);
        const has_runs = cookie & 0xffff == cookie_runs;
        if (!has_runs and cookie != cookie_plain) return error.Damaged;
        const n_containers: usize = if (has_runs) (cookie >> 16) + 1 else try int(u32, bytes, 4);
        if (n_containers > containers_max) return error.Damaged;
        const keys_at: usize = if (has_runs) 4 + (n_containers + 7) / 8 else 8;
        const keys_end = keys_at + 4 * n_containers;
        const has_places = !has_runs or n_containers >= places_containers_min;
        return .{
            .n_containers = n_containers,
            .runs_at = if (has_runs) 4 else null,
            .keys_at = keys_at,
            .places_at = if (has_places) keys_end else null,
            .containers_at = keys_end + if (has_places) 4 * n_containers else 0,
        };
    }

    /// The keys lie behind the bits, and have been read.
    fn hasRuns(shape: *const Shape, bytes: []const u8, number: usize) bool {
        const runs_at = shape.runs_at orelse return false;
        return bytes[runs_at + number / 8] >> @intCast(number % 8) & 1 == 1;
    }
};

fn walkArray(
    bytes: []const u8,
    at: usize,
    high: u32,
    cardinality: u32,
    context: anytype,
    comptime visit: fn (@TypeOf(context), u32) Damaged!void,
) Damaged!usize {
    var before: ?u16 = null;
    for (0..cardinality) |number| {
        const low = try int(u16, bytes, at + 2 * number);
        if (before) |value| if (low <= value) return error.Damaged;
        before = low;
        try visit(context, high | low);
    }
    return at + 2 * cardinality;
}

fn walkBitset(
    bytes: []const u8,
    at: usize,
    high: u32,
    cardinality: u32,
    context: anytype,
    comptime visit: fn (@TypeOf(context), u32) Damaged!void,
) Damaged!usize {
    var found: u32 = 0;
    for (0..bitset_bytes / 8) |word_number| {
        var word = try int(u64, bytes, at + 8 * word_number);
        found += @popCount(word);
        while (word != 0) : (word &= word - 1) {
            try visit(context, high | @as(u32, @intCast(64 * word_number + @ctz(word))));
        }
    }
    if (found != cardinality) return error.Damaged;
    return at + bitset_bytes;
}

fn walkRuns(
    bytes: []const u8,
    at: usize,
    high: u32,
    cardinality: u32,
    context: anytype,
    comptime visit: fn (@TypeOf(context), u32) Damaged!void,
) Damaged!usize {
    const n_runs: usize = try int(u16, bytes, at);
    var found: u32 = 0;
    var free_from: u32 = 0;
    for (0..n_runs) |number| {
        const first: u32 = try int(u16, bytes, at + 2 + 4 * number);
        const end = first + try int(u16, bytes, at + 4 + 4 * number) + 1;
        if (first < free_from or end > 1 << 16) return error.Damaged;
        for (first..end) |low| try visit(context, high | @as(u32, @intCast(low)));
        found += end - first;
        free_from = end;
    }
    if (found != cardinality) return error.Damaged;
    return at + 2 + 4 * n_runs;
}

fn int(comptime T: type, bytes: []const u8, at: usize) Damaged!T {
    if (at > bytes.len or bytes.len - at < @sizeOf(T)) return error.Damaged;
    return std.mem.readInt(T, bytes[at..][0..@sizeOf(T)], .little);
}

// ---- tests ----

const testing = std.testing;

const Collector = struct {
    values: std.ArrayList(u32) = .empty,

    fn visit(collector: *Collector, value: u32) Damaged!void {
        collector.values.append(testing.allocator, value) catch return error.Damaged;
    }

    fn expect(bytes: []const u8, expected: []const u32) !void {
        var collector: Collector = .{};
        defer collector.values.deinit(testing.allocator);
        try walk(bytes, &collector, visit);
        try testing.expectEqualSlices(u32, expected, collector.values.items);
    }

    fn expectDamage(bytes: []const u8) !void {
        var collector: Collector = .{};
        defer collector.values.deinit(testing.allocator);
        try testing.expectError(error.Damaged, walk(bytes, &collector, visit));
    }
};

// {1, 3, 65541}: two arrays
const arrays = "\x3a\x30\x00\x00\x02\x00\x00\x00" ++ "\x00\x00\x01\x00\x01\x00\x00\x00" ++
    "\x18\x00\x00\x00\x1c\x00\x00\x00" ++ "\x01\x00\x03\x00" ++ "\x05\x00";
// {7, 8, 9} as one run, without places
const one_run = "\x3b\x30\x00\x00\x01" ++ "\x00\x00\x02\x00" ++ "\x01\x00\x07\x00\x02\x00";

test "arrays, runs and nothing" {
    try Collector.expect(arrays, &.{ 1, 3, 65541 });
    try Collector.expect(one_run, &.{ 7, 8, 9 });
    try Collector.expect("\x3a\x30\x00\x00\x00\x00\x00\x00", &.{});
}

test "a bitset" {
    var bytes: [8 + 4 + 4 + bitset_bytes]u8 = @splat(0);
    bytes[0..16].* = ("\x3a\x30\x00\x00\x01\x00\x00\x00" ++ "\x02\x00\x00\x10" ++ "\x10\x00\x00\x00").*;
    @memset(bytes[16..][0 .. 4096 / 8], 0xff);
    bytes[16 + 4096 / 8] = 0x80; // and one more
    var expected: [4097]u32 = undefined;
    for (&expected, 0..) |*value, number| value.* = 0x20000 + @as(u32, @intCast(number));
    expected[4096] = 0x20000 + 4096 + 7;
    try Collector.expect(&bytes, &expected);
    bytes[16] = 0xfe;
    try Collector.expectDamage(&bytes);
}

test "bitmaps cut off, too long or out of order are damaged" {
    for ([_][]const u8{ arrays, one_run }) |good| {
        for (0..good.len) |length| try Collector.expectDamage(good[0..length]);
        var longer: [64]u8 = undefined;
        @memcpy(longer[0..good.len], good);
        try Collector.expectDamage(longer[0 .. good.len + 1]);
    }
    for ([_]struct { []const u8, usize, u8 }{
        .{ arrays, 0, 0x3c }, // no cookie
        .{ arrays, 6, 2 }, // containers without number
        .{ arrays, 12, 0 }, // the same key twice
        .{ arrays, 16, 0x19 }, // a place that is none
        .{ arrays, 24, 3 }, // a value twice
        .{ one_run, 7, 3 }, // more values than there are
        .{ one_run, 9, 2 }, // more runs
        .{ one_run, 13, 3 }, // a run that is longer
    }) |case| {
        const good, const at, const byte = case;
        var bytes: [64]u8 = undefined;
        @memcpy(bytes[0..good.len], good);
        bytes[at] = byte;
        try Collector.expectDamage(bytes[0..good.len]);
    }
}
