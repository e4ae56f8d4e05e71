//! The k largest values of a row in a fixed order: value descending, then place in the row ascending, which is the
//! gene id ascending, because the ids of a row ascend. Only positive values take part; NaN is not positive. Compiled
//! once per CPU level.
//!
//! Where there is a sort by vectors, a value becomes a 32-bit word: as many of its leading bits as there is room for,
//! counted down from the largest value of the row, above its place. The words are distinct, and in ascending order
//! they are the ranking, but for values that agree in all bits that were kept: those are neighbours, and are put right
//! one by one. Counts keep all their bits. Other rows, and other levels, are sorted by counting.

const std = @import("std");
const digit_sort = @import("digit_sort.zig");
const shared_values = @import("shared_values.zig");
const word_sort = @import("word_sort.zig");

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const Entry = digit_sort.Entry;

/// Beyond, too few bits would be left for the values.
const word_values_max = 1 << 14;

/// Where a ranking works: room for rows of `values_max` values.
pub const Space = extern struct {
    values_max: usize,
    /// 2 x values_max
    entries: [*]Entry,
    /// digit_sort.counter_count
    counters: [*]u32,
    /// values_max and word_sort.over_write_max each, as all that follow
    words: [*]u32,
    spare: [*]u32,
    places: [*]u32,
    shared: shared_values.Space,
};

/// The space, and its memory. Any level may work in it.
pub const Scratch = struct {
    allocator: Allocator,
    entries: []Entry,
    words: []u32,
    space: Space,

    pub fn init(allocator: Allocator, row_values_max: usize) Allocator.Error!Scratch {
        const entries = try allocator.alloc(Entry, 2 * row_values_max);
        errdefer allocator.free(entries);

        const room = row_values_max + word_sort.over_write_max;
        const words = try allocator.alloc(u32, digit_sort.counter_count + 6 * room);
        const behind_counters = words.ptr + digit_sort.counter_count;
        return .{ .allocator = allocator, .entries = entries, .words = words, .space = .{
            .values_max = row_values_max,
            .entries = entries.ptr,
            .counters = words.ptr,
            .words = behind_counters,
            .spare = behind_counters + room,
            .places = behind_counters + 2 * room,
            .shared = .{
                .taken_ids = @ptrCast(behind_counters + 3 * room),
                .rest_ids = @ptrCast(behind_counters + 4 * room),
                .rest_values = @ptrCast(behind_counters + 5 * room),
            },
        } };
    }

    pub fn deinit(scratch: *Scratch) void {
        scratch.allocator.free(scratch.words);
        scratch.allocator.free(scratch.entries);
        scratch.* = undefined;
    }
};

/// Where in the row the at most k first of the ranking stand. They lie in the space, until its next use.
pub fn rankedPlaces(values: []const f32, k: usize, space: Space) []const u32 {
    assert(values.len <= space.values_max);
    if (word_sort.lanes > 0 and values.len <= word_values_max) {
        if (byWords(values, k, space)) |ranked| return ranked.places();
    }
    return byDigits(values, k, space);
}

/// Ids and values of the same, as many as there are ids to write at most; gives their number.
pub fn rankedRow(ids: []const i32, values: []const f32, space: Space, ids_out: []i32, values_out: [*]f32) usize {
    assert(values.len <= space.values_max);
    const parted = shared_values.part(ids, values, space.shared);
    const found = sortedRow(parted.ids, parted.values, space, ids_out, values_out);
    return found + parted.writeTaken(ids_out[found..], values_out + found);
}

fn sortedRow(ids: []const i32, values: []const f32, space: Space, ids_out: []i32, values_out: [*]f32) usize {
    if (word_sort.lanes > 0 and values.len <= word_values_max) {
        if (byWords(values, ids_out.len, space)) |ranked| {
            ranked.writeValues(values, values_out);
            return writeIds(ids, ranked.places(), ids_out);
        }
    }
    const places = byDigits(values, ids_out.len, space);
    for (places, values_out) |place, *value| value.* = values[place];
    return writeIds(ids, places, ids_out);
}

fn writeIds(ids: []const i32, places: []const u32, ids_out: []i32) usize {
    for (places, ids_out[0..places.len]) |place, *id| id.* = ids[place];
    return places.len;
}

fn byDigits(values: []const f32, k: usize, space: Space) []const u32 {
    const entries = digit_sort.ranked(values, space.entries[0 .. 2 * space.values_max], space.counters[0..digit_sort.counter_count]);
    const places = space.places[0..@min(k, entries.len)];
    for (places, entries[0..places.len]) |*place, entry| place.* = entry.place();
    return places;
}

const lanes = if (word_sort.lanes > 0) word_sort.lanes else 4;
const Words = @Vector(lanes, u32);
const Floats = @Vector(lanes, f32);

/// How the words of a row are made.
const Form = struct {
    bits_max: u32,
    shift: u5,
    place_bits: u5,
    /// Whether values may differ in bits that the words leave out.
    is_rough: bool,

    const none: Form = .{ .bits_max = 0, .shift = 0, .place_bits = 0, .is_rough = false };

    fn placeMask(form: Form) u32 {
        return (@as(u32, 1) << form.place_bits) - 1;
    }

    fn of(values: []const f32) ?Form {
        var range: Range = .{};
        var at: usize = 0;
        while (at + lanes <= values.len) : (at += lanes) range.take(values[at..][0..lanes].*);
        range.take(lastFew(values[at..]));
        const bits_max = @reduce(.Max, range.largest);
        if (bits_max == 0) return null;
        const span = bits_max - @reduce(.Min, range.smallest);
        const differing = @reduce(.Or, range.any) & ~@reduce(.And, range.all);
        const place_bits: u5 = @intCast(std.math.log2_int_ceil(usize, values.len));
        const value_bits: u32 = 32 - @as(u32, place_bits);
        const same: u32 = if (differing == 0) 0 else @ctz(differing);
        const excess = (32 - @as(u32, @clz(span))) -| value_bits;
        return .{
            .bits_max = bits_max,
            .shift = @intCast(@max(same, excess)),
            .place_bits = place_bits,
            .is_rough = excess > same,
        };
    }

    inline fn words(form: Form, given: Floats, at: usize) Words {
        const below = @as(Words, @splat(form.bits_max)) -% @as(Words, @bitCast(given));
        const kept = below >> @splat(form.shift) << @splat(form.place_bits);
        return kept | (std.simd.iota(u32, lanes) + @as(Words, @splat(@intCast(at))));
    }
};

const Range = struct {
    smallest: Words = @splat(std.math.maxInt(u32)),
    largest: Words = @splat(0),
    any: Words = @splat(0),
    all: Words = @splat(std.math.maxInt(u32)),

    inline fn take(range: *Range, given: Floats) void {
        const is_positive = given > @as(Floats, @splat(0));
        const bits: Words = @bitCast(given);
        const or_none = @select(u32, is_positive, bits, @as(Words, @splat(0)));
        const or_all = @select(u32, is_positive, bits, @as(Words, @splat(std.math.maxInt(u32))));
        range.smallest = @min(range.smallest, or_all);
        range.largest = @max(range.largest, or_none);
        range.any |= or_none;
        range.all &= or_all;
    }
};

/// Filled up with zeros.
fn lastFew(values: []const f32) Floats {
    var filled: [lanes]f32 = @splat(0);
    @memcpy(filled[0..values.len], values);
    return filled;
}

/// Sorted words, in the order of the ranking.
const Ranked = struct {
    words: []u32,
    form: Form,

    /// The words become what they say of the places.
    fn places(ranked: Ranked) []const u32 {
        const mask: Words = @splat(ranked.form.placeMask());
        const start = ranked.words.ptr;
        var at: usize = 0;
        // past the last one there is room
        while (at < ranked.words.len) : (at += lanes) start[at..][0..lanes].* = @as(Words, start[at..][0..lanes].*) & mask;
        return ranked.words;
    }

    /// Where the words hold the values, no value needs to be looked for.
    fn writeValues(ranked: Ranked, values: []const f32, out: [*]f32) void {
        const form = ranked.form;
        var at: usize = 0;
        if (!form.is_rough) {
            while (at + lanes <= ranked.words.len) : (at += lanes) {
                const below = @as(Words, ranked.words[at..][0..lanes].*) >> @splat(form.place_bits) << @splat(form.shift);
                out[at..][0..lanes].* = @as(Floats, @bitCast(@as(Words, @splat(form.bits_max)) - below));
            }
        }
        const mask = form.placeMask();
        for (ranked.words[at..], out[at..ranked.words.len]) |word, *value| value.* = values[word & mask];
    }
};

/// Null where too many values agree in the bits that were kept.
fn byWords(values: []const f32, k: usize, space: Space) ?Ranked {
    const form = Form.of(values) orelse return .{ .words = space.places[0..0], .form = .none };
    const count = collect(values, form, space.words);
    const border: word_sort.Border = if (form.is_rough) .{ .ignored_bits = form.place_bits, .apart = 1 } else .{};
    const room: word_sort.Room = .{ .words = space.words, .spare = space.spare, .sorted = space.places };
    const wanted = @min(k, count);
    const done = word_sort.sort(room, count, wanted, border);
    if (form.is_rough and !mended(space.places[0..done], values, form.place_bits)) return null;
    return .{ .words = space.places[0..wanted], .form = form };
}

fn collect(values: []const f32, form: Form, words: [*]u32) usize {
    var found: usize = 0;
    var at: usize = 0;
    while (at + lanes <= values.len) : (at += lanes) found += take(values[at..][0..lanes].*, form, at, words + found);
    return found + take(lastFew(values[at..]), form, at, words + found);
}

inline fn take(given: Floats, form: Form, at: usize, words: [*]u32) usize {
    const is_positive: word_sort.Mask = @bitCast(given > @as(Floats, @splat(0)));
    words[0..lanes].* = word_sort.press(is_positive, form.words(given, at));
    return @popCount(is_positive);
}

/// Insertion among neighbours that agree in the bits above the place. Gives up when it has moved as many as there
/// are: values that crowd beside an outlier agree in what is kept of them.
fn mended(words: []u32, values: []const f32, place_bits: u5) bool {
    var moves_left = words.len;
    var at: usize = 1;
    while (at < words.len) : (at += lanes) {
        var agreeing = agreeingMask(words, at, place_bits);
        while (agreeing != 0) : (agreeing &= agreeing - 1) {
            if (!inserted(words, at + @ctz(agreeing), values, place_bits, &moves_left)) return false;
        }
    }
    return true;
}

/// Bit i: word at + i agrees with the one before it.
inline fn agreeingMask(words: []const u32, at: usize, place_bits: u5) word_sort.Mask {
    // there is room behind the words, whatever it holds
    const before: Words = (words.ptr + at - 1)[0..lanes].*;
    const here: Words = (words.ptr + at)[0..lanes].*;
    const is_equal: word_sort.Mask = @bitCast((before ^ here) >> @splat(place_bits) == @as(Words, @splat(0)));
    return is_equal & word_sort.lowMask(@min(lanes, words.len - at));
}

fn inserted(words: []u32, number: usize, values: []const f32, place_bits: u5, moves_left: *usize) bool {
    const moving = words[number];
    const mask = (@as(u32, 1) << place_bits) - 1;
    const value = values[moving & mask];
    var at = number;
    while (at > 0 and (words[at - 1] ^ moving) >> place_bits == 0 and values[words[at - 1] & mask] < value) : (at -= 1) {
        if (moves_left.* == 0) return false;
        moves_left.* -= 1;
        words[at] = words[at - 1];
    }
    words[at] = moving;
    return true;
}

const testing = std.testing;

/// The k first by looking for the next one k times.
fn expectRanking(values: []const f32, k: usize, scratch: *const Scratch) !void {
    try expectRow(values, k, scratch);
    const ranked = rankedPlaces(values, k, scratch.space);
    const taken = try testing.allocator.alloc(bool, values.len);
    defer testing.allocator.free(taken);
    @memset(taken, false);
    for (ranked) |place_found| {
        var best: ?usize = null;
        for (values, 0..) |value, place| {
            if (taken[place] or !(value > 0)) continue;
            if (best == null or value > values[best.?]) best = place;
        }
        try testing.expectEqual(best.?, place_found);
        taken[best.?] = true;
    }
    var n_left: usize = 0;
    for (values, taken) |value, was_taken| n_left += @intFromBool(value > 0 and !was_taken);
    try testing.expect(ranked.len == k or n_left == 0);
}

/// Ids and values are those at the places.
fn expectRow(values: []const f32, k: usize, scratch: *const Scratch) !void {
    const ids = try testing.allocator.alloc(i32, values.len);
    defer testing.allocator.free(ids);
    for (ids, 0..) |*id, place| id.* = @intCast(3 * place);
    const ids_out = try testing.allocator.alloc(i32, k);
    defer testing.allocator.free(ids_out);
    const values_out = try testing.allocator.alloc(f32, k + 1);
    defer testing.allocator.free(values_out);
    @memset(values_out, -9);
    const count = rankedRow(ids, values, scratch.space, ids_out, values_out.ptr);
    const ranked = rankedPlaces(values, k, scratch.space);
    try testing.expectEqual(ranked.len, count);
    for (ranked, ids_out[0..count], values_out[0..count]) |place, id, value| {
        try testing.expectEqual(ids[place], id);
        try testing.expectEqual(values[place], value);
    }
    for (values_out[count..]) |untouched| try testing.expectEqual(-9, untouched);
}

test "the ranking is that of repeated search, for counts and for any floats" {
    var random: @import("../rng.zig").Generator = .init(3);
    var values: [700]f32 = undefined;
    var scratch: Scratch = try .init(testing.allocator, values.len);
    defer scratch.deinit();
    const bounds = [_]u32{ 1, 2, 3, 60, 5000, 1 << 20 };
    for ([_]usize{ 0, 1, 2, 31, 32, 33, 34, 200, 700 }) |length| {
        for (bounds) |bound| {
            for (values[0..length]) |*value| value.* = @floatFromInt(random.below(bound));
            for ([_]usize{ 1, 5, 16, 33, 700 }) |k| try expectRanking(values[0..length], k, &scratch);
        }
        for (values[0..length]) |*value| value.* = @bitCast(random.next32()); // of any size, NaN among them
        try expectRanking(values[0..length], 700, &scratch);
    }
}

test "values that crowd beside an outlier" {
    var random: @import("../rng.zig").Generator = .init(4);
    var values: [700]f32 = undefined;
    var scratch: Scratch = try .init(testing.allocator, values.len);
    defer scratch.deinit();
    for ([_]f32{ 1e-30, 1e30 }) |outlier| {
        for (&values) |*value| value.* = @bitCast(@as(u32, 0x3f80_0000) + random.below(500));
        values[300] = outlier;
        for ([_]usize{ 33, 100, 301, 700 }) |length| try expectRanking(values[0..length], length, &scratch);
    }
}

test "ties keep the order of the row; zeros, negatives and NaN do not take part" {
    var scratch: Scratch = try .init(testing.allocator, 8);
    defer scratch.deinit();
    const values = [_]f32{ 2, std.math.nan(f32), 5, 0, 2, -7, std.math.inf(f32), 5 };
    const ranked = rankedPlaces(&values, 8, scratch.space);
    try testing.expectEqual(5, ranked.len);
    for (ranked, [_]u32{ 6, 2, 7, 0, 4 }) |found, place| try testing.expectEqual(place, found);
    try testing.expectEqual(0, rankedPlaces(values[0..0], 3, scratch.space).len);
}
