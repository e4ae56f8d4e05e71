//! Sorting distinct 32-bit words, the smallest first, by vectors. Compiled once per CPU level.
//!
//! 1. A sorted sample of the words gives pivots. A pass over the words presses those up to the pivot to the left and
//!    the others to the right, a vector at a time and without a branch on the data.
//! 2. Parts that fit into a few vectors are sorted by networks. The columns of the vectors (their equal lanes) are
//!    sorted first. Then neighbouring columns are merged, twice as wide each time: a merge compares the vector from
//!    the top with the one from the bottom, mirrored, which is the first step of a bitonic merge, then halves that
//!    come of it in the same way, and at last the lanes within each vector.
//!
//! Whoever needs the k first alone stops after the part that holds the last of them.

const std = @import("std");
const compress = @import("../codec/compress.zig");

const assert = std.debug.assert;

/// 0 where the CPU has no instruction to press lanes together: there is no sort by vectors then.
pub const lanes = compress.press_lanes;
/// Words that may be read or written past the last one.
pub const over_write = leaf_words_max;
/// At any level.
pub const over_write_max = 256;

const width = if (lanes == 0) 4 else lanes;
const Lanes = @Vector(width, u32);
/// As many vectors as a network holds in registers, half of which AVX2 has.
const leaf_rows_max = if (width == 16) 16 else 8;
const leaf_words_max = leaf_rows_max * width;
/// The networks that there are: in finer steps than by two, since what a part leaves free is sorted too.
const leaf_rows: []const usize = if (leaf_rows_max == 16) &.{ 1, 2, 4, 6, 8, 10, 12, 14, 16 } else &.{ 1, 2, 3, 4, 6, 8 };
const sample_rows = 4;
const sample_words = sample_rows * width;
/// Splits above a part before it is sorted otherwise: some four times as many as a fair split of 2^16 words takes.
const depth_max = 40;

/// The room of a sort. Each has `over_write` words more than there are words to sort.
pub const Room = struct {
    /// In any order; left in any state.
    words: [*]u32,
    spare: [*]u32,
    sorted: [*]u32,
};

/// Where a sort of the first few may stop: when the words that follow, without their `ignored_bits`, are `apart` or
/// more from the last that is wanted.
pub const Border = struct {
    ignored_bits: u5 = 0,
    apart: u32 = 0,
};

/// Fills `room.sorted` from the left, and gives how many words it holds, at least `wanted`.
pub fn sort(room: Room, count: usize, wanted: usize, border: Border) usize {
    comptime assert(lanes > 0);
    assert(wanted <= count);
    var job: Job = .{ .room = room, .wanted = wanted, .border = border };
    if (wanted > 0) job.part(room.words, count, &.{}, 0);
    return job.done;
}

comptime {
    assert(over_write <= over_write_max);
}

const Job = struct {
    room: Room,
    wanted: usize,
    border: Border,
    done: usize = 0,

    fn isEnough(job: *const Job) bool {
        if (job.done < job.wanted) return false;
        const sorted = job.room.sorted;
        const ignored = job.border.ignored_bits;
        return (sorted[job.done - 1] >> ignored) - (sorted[job.wanted - 1] >> ignored) >= job.border.apart;
    }

    /// Words above what is sorted already, with pivots that lie among them.
    fn part(job: *Job, words: [*]u32, count: usize, pivots: []const u32, depth: u32) void {
        if (count <= leaf_words_max) return job.leaf(words, count);
        if (depth >= depth_max) return job.otherwise(words, count);
        // a pivot at the very end would part nothing off
        if (pivots.len < 2) {
            const sample = sampleOf(words, count);
            return job.part(words, count, &sample, depth + 1);
        }
        const middle = (pivots.len - 1) / 2;
        const left = partition(words, count, pivots[middle], job.room.spare);
        job.part(words, left, pivots[0..middle], depth + 1);
        if (job.isEnough()) return;
        job.part(words + left, count - left, pivots[middle + 1 ..], depth + 1);
    }

    fn leaf(job: *Job, words: [*]const u32, count: usize) void {
        const sorted = job.room.sorted + job.done;
        job.done += count;
        inline for (leaf_rows) |rows| {
            if (count <= rows * width) return sortRows(rows, words, count, sorted);
        }
        unreachable;
    }

    fn otherwise(job: *Job, words: [*]const u32, count: usize) void {
        const sorted = job.room.sorted[job.done..][0..count];
        @memcpy(sorted, words[0..count]);
        std.sort.heap(u32, sorted, {}, std.sort.asc(u32));
        job.done += count;
    }
};

/// From evenly spread places, in order; of no fewer words than a sample has.
fn sampleOf(words: [*]const u32, count: usize) [sample_words]u32 {
    var sample: [sample_words]u32 = undefined;
    const step = count / sample_words;
    for (&sample, 0..) |*word, number| word.* = words[number * step];
    var sorted: [sample_words]u32 = undefined;
    sortRows(sample_rows, &sample, sample_words, &sorted);
    return sorted;
}

/// Words up to the pivot go to the left, in their order, and the others behind them. Gives the number of the first.
fn partition(words: [*]u32, count: usize, pivot: u32, spare: [*]u32) usize {
    const bound: Lanes = @splat(pivot);
    const whole = count - count % width;
    var left: usize = 0;
    var right: usize = 0;
    var at: usize = 0;
    // What is written on the left has been read: it ends at or before the end of the vector in hand.
    while (at < whole) : (at += width) {
        const loaded: Lanes = words[at..][0..width].*;
        const is_left: Mask = @bitCast(loaded <= bound);
        words[left..][0..width].* = press(is_left, loaded);
        spare[right..][0..width].* = press(~is_left, loaded);
        const n_left = @popCount(is_left);
        left += n_left;
        right += width - n_left;
    }
    const loaded: Lanes = words[at..][0..width].*;
    const is_inside: Mask = lowMask(count - whole);
    const is_left = @as(Mask, @bitCast(loaded <= bound)) & is_inside;
    const is_right = ~is_left & is_inside;
    writeSome(words + left, press(is_left, loaded), @popCount(is_left));
    spare[right..][0..width].* = press(is_right, loaded);
    left += @popCount(is_left);
    right += @popCount(is_right);
    copy(words + left, spare, right);
    return left;
}

pub const Mask = @Int(.unsigned, width);

/// The lanes of the mask, lowest first; what follows them is rubbish.
pub inline fn press(mask: Mask, source: Lanes) Lanes {
    return compress.press(width, mask, source);
}

pub inline fn lowMask(count: usize) Mask {
    return @truncate((@as(u32, 1) << @intCast(count)) - 1);
}

/// The first lanes; what stands behind them stays.
inline fn writeSome(target: [*]u32, source: Lanes, count: usize) void {
    const before: Lanes = target[0..width].*;
    const is_written = std.simd.iota(u32, width) < @as(Lanes, @splat(@intCast(count)));
    target[0..width].* = @select(u32, is_written, source, before);
}

fn copy(target: [*]u32, source: [*]const u32, count: usize) void {
    var at: usize = 0;
    while (at + width <= count) : (at += width) target[at..][0..width].* = source[at..][0..width].*;
    writeSome(target + at, source[at..][0..width].*, count - at);
}

/// Reads and writes whole vectors, `rows` of them: what follows the words is taken for larger ones.
fn sortRows(comptime rows: usize, words: [*]const u32, count: usize, sorted: [*]u32) void {
    @setEvalBranchQuota(100_000);
    var vectors: [rows]Lanes = undefined;
    const total: Lanes = @splat(@intCast(count));
    const largest: Lanes = @splat(std.math.maxInt(u32));
    inline for (&vectors, 0..) |*vector, row| {
        const place = std.simd.iota(u32, width) + @as(Lanes, @splat(row * width));
        vector.* = @select(u32, place < total, @as(Lanes, words[row * width ..][0..width].*), largest);
    }
    sortColumns(rows, &vectors);
    comptime var merged = 2;
    inline while (merged <= width) : (merged *= 2) mergeColumns(rows, merged, &vectors);
    inline for (vectors, 0..) |vector, row| sorted[row * width ..][0..width].* = vector;
}

inline fn exchange(low: *Lanes, high: *Lanes) void {
    const smaller = @min(low.*, high.*);
    high.* = @max(low.*, high.*);
    low.* = smaller;
}

/// The smallest known networks, as Knuth gives them (The Art of Computer Programming, 5.3.4). Fewer rows than a power
/// of two take the next larger network, as if the rows that are missing held the largest words: they would stay where
/// they are, so what compares with them is left out.
inline fn sortColumns(comptime rows: usize, vectors: *[rows]Lanes) void {
    const pairs: []const [2]u8 = comptime switch (std.math.ceilPowerOfTwoAssert(usize, rows)) {
        1 => &.{},
        2 => &.{.{ 0, 1 }},
        4 => &.{ .{ 0, 1 }, .{ 2, 3 }, .{ 0, 2 }, .{ 1, 3 }, .{ 1, 2 } },
        8 => &.{
            .{ 0, 2 }, .{ 1, 3 }, .{ 4, 6 }, .{ 5, 7 }, .{ 0, 4 }, .{ 1, 5 }, .{ 2, 6 }, .{ 3, 7 }, .{ 0, 1 }, .{ 2, 3 },
            .{ 4, 5 }, .{ 6, 7 }, .{ 2, 4 }, .{ 3, 5 }, .{ 1, 4 }, .{ 3, 6 }, .{ 1, 2 }, .{ 3, 4 }, .{ 5, 6 },
        },
        16 => &.{
            .{ 0, 1 },  .{ 2, 3 },   .{ 4, 5 },   .{ 6, 7 },   .{ 8, 9 },  .{ 10, 11 }, .{ 12, 13 }, .{ 14, 15 },
            .{ 0, 2 },  .{ 4, 6 },   .{ 8, 10 },  .{ 12, 14 }, .{ 1, 3 },  .{ 5, 7 },   .{ 9, 11 },  .{ 13, 15 },
            .{ 0, 4 },  .{ 8, 12 },  .{ 1, 5 },   .{ 9, 13 },  .{ 2, 6 },  .{ 10, 14 }, .{ 3, 7 },   .{ 11, 15 },
            .{ 0, 8 },  .{ 1, 9 },   .{ 2, 10 },  .{ 3, 11 },  .{ 4, 12 }, .{ 5, 13 },  .{ 6, 14 },  .{ 7, 15 },
            .{ 5, 10 }, .{ 6, 9 },   .{ 3, 12 },  .{ 13, 14 }, .{ 4, 8 },  .{ 7, 11 },  .{ 1, 2 },   .{ 1, 4 },
            .{ 7, 13 }, .{ 2, 8 },   .{ 11, 14 }, .{ 2, 4 },   .{ 5, 6 },  .{ 9, 10 },  .{ 11, 13 }, .{ 3, 8 },
            .{ 7, 12 }, .{ 6, 8 },   .{ 10, 12 }, .{ 3, 5 },   .{ 7, 9 },  .{ 3, 4 },   .{ 5, 6 },   .{ 7, 8 },
            .{ 9, 10 }, .{ 11, 12 }, .{ 6, 7 },   .{ 8, 9 },
        },
        else => unreachable,
    };
    inline for (pairs) |pair| {
        if (pair[1] < rows) exchange(&vectors[pair[0]], &vectors[pair[1]]);
    }
}

/// Each `merged` lanes hold two sorted runs of half as many lanes, row after row, and become one. Missing rows are
/// left out here as well.
inline fn mergeColumns(comptime rows: usize, comptime merged: usize, vectors: *[rows]Lanes) void {
    comptime var block = std.math.ceilPowerOfTwoAssert(usize, rows);
    inline while (block >= 2) : (block /= 2) {
        comptime var first = 0;
        inline while (first < rows) : (first += block) {
            inline for (0..block / 2) |row| {
                const last = first + block - 1 - row;
                if (last < rows) {
                    vectors[last] = mirrored(merged, vectors[last]);
                    exchange(&vectors[first + row], &vectors[last]);
                }
            }
        }
    }
    inline for (vectors) |*vector| {
        vector.* = exchangeLanes(merged / 2, vector.*, mirrored(merged, vector.*));
        comptime var distance = merged / 4;
        inline while (distance >= 1) : (distance /= 2) {
            vector.* = exchangeLanes(distance, vector.*, shuffled(distance, vector.*));
        }
    }
}

/// Of each 2 x `half` lanes the first half takes the smaller ones.
inline fn exchangeLanes(comptime half: usize, here: Lanes, there: Lanes) Lanes {
    const is_low = comptime blk: {
        var mask: [width]bool = undefined;
        for (&mask, 0..) |*low, lane| low.* = lane % (2 * half) < half;
        break :blk @as(@Vector(width, bool), mask);
    };
    return @select(u32, is_low, @min(here, there), @max(here, there));
}

/// The lanes of each `group` in reverse.
inline fn mirrored(comptime group: usize, source: Lanes) Lanes {
    return shuffled(group - 1, source);
}

/// Lane i becomes lane i ^ difference.
inline fn shuffled(comptime difference: usize, source: Lanes) Lanes {
    const from = comptime blk: {
        var places: [width]i32 = undefined;
        for (&places, 0..) |*place, lane| place.* = lane ^ difference;
        break :blk places;
    };
    return @shuffle(u32, source, undefined, from);
}

const testing = std.testing;

fn expectSorted(words: []const u32, wanted: usize, border: Border) !void {
    const reference = try testing.allocator.dupe(u32, words);
    defer testing.allocator.free(reference);
    std.sort.heap(u32, reference, {}, std.sort.asc(u32));
    const space = try testing.allocator.alloc(u32, 3 * (words.len + over_write));
    defer testing.allocator.free(space);
    @memset(space, 7);
    const step = words.len + over_write;
    @memcpy(space[0..words.len], words);
    const room: Room = .{ .words = space.ptr, .spare = space.ptr + step, .sorted = space.ptr + 2 * step };
    const done = sort(room, words.len, wanted, border);
    try testing.expect(done >= wanted and done <= words.len);
    try testing.expectEqualSlices(u32, reference[0..done], room.sorted[0..done]);
    if (wanted == 0 or done == words.len) return;
    const ignored = border.ignored_bits;
    try testing.expect((reference[done] >> ignored) - (reference[wanted - 1] >> ignored) >= border.apart);
}

/// A permutation: odd multiples of any number modulo 2^32 are as different as the numbers are.
fn distinct(number: usize) u32 {
    return @as(u32, @truncate(number)) *% 0x9E37_79B1;
}

test "all lengths around the edges of the networks, and every count of them" {
    if (lanes == 0) return error.SkipZigTest;
    var words: [700]u32 = undefined;
    for (&words, 0..) |*word, number| word.* = distinct(number + 1);
    for (0..words.len) |length| try expectSorted(words[0..length], length, .{});
    for (&words, 0..) |*word, number| word.* = @intCast(words.len - number);
    for (0..words.len) |length| try expectSorted(words[0..length], length, .{});
}

test "networks sort every pattern of zeros and ones that a column can have" {
    if (lanes == 0) return error.SkipZigTest;
    @setEvalBranchQuota(10_000);
    inline for (2..leaf_rows_max + 1) |rows| {
        for (0..1 << rows) |pattern| {
            var vectors: [rows]Lanes = undefined;
            for (&vectors, 0..) |*vector, row| vector.* = @splat(@intCast(pattern >> @intCast(row) & 1));
            sortColumns(rows, &vectors);
            for (vectors[0 .. rows - 1], vectors[1..]) |vector, next| try testing.expect(vector[0] <= next[0]);
        }
    }
}

test "long ones, the first few alone, and ties in the lower bits" {
    if (lanes == 0) return error.SkipZigTest;
    const words = try testing.allocator.alloc(u32, 9000);
    defer testing.allocator.free(words);
    for ([_]u6{ 0, 12, 31 }) |shift| {
        // crowded in the upper bits, or spread
        for (words, 0..) |*word, number| word.* = @intCast((@as(u64, distinct(number)) >> shift << 14) + number & 0xffff_ffff);
        for (words, 0..) |*word, number| word.* = word.* & ~@as(u32, 0x3fff) | @as(u32, @intCast(number));
        for ([_]usize{ 1, 255, 256, 257, 2048, 9000 }) |wanted| {
            for ([_]u5{ 0, 14, 20 }) |ignored| for (0..3) |apart| {
                try expectSorted(words, wanted, .{ .ignored_bits = ignored, .apart = @intCast(apart) });
            };
        }
    }
}

test "words that defeat every sample are sorted all the same" {
    if (lanes == 0) return error.SkipZigTest;
    const words = try testing.allocator.alloc(u32, 1 << 14);
    defer testing.allocator.free(words);
    // the sampled places hold the smallest words
    const step = words.len / sample_words;
    for (words, 0..) |*word, number| {
        const rank: u32 = @intCast(number);
        word.* = if (number % step == 0) rank else rank + 1_000_000;
    }
    try expectSorted(words, words.len, .{});
    try expectSorted(words, 100, .{});
}
