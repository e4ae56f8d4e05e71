//! Uniform draws of one stream, many at once, and what is chosen by them. Compiled once per CPU level.
//!
//! A gene is chosen by the first entry of the cumulative weights (over their total) that a draw lies below. Where to
//! begin looking is read off a guide: entry j counts the entries below j / size. Both the draw's place in the guide
//! and the guide's own places are exact, the size being a power of two, so the choice is that of a search from the
//! start.

const std = @import("std");
const rng = @import("../../rng.zig");

const ChaCha8 = std.crypto.stream.chacha.ChaCha8With64BitNonce;
const block_draws = ChaCha8.block_length / 8;

pub const chunk_draws = 512;
/// A running maximum goes over 32 at a time.
const guide_bits_min = 5;
const guide_bits_max = 12;

/// Draws `first` and on of the stream, as 64-bit words. `first` is a multiple of 8, a block of the generator.
pub fn words(key: [ChaCha8.key_length]u8, first: u64, out: []u64) void {
    std.debug.assert(first % block_draws == 0);
    ChaCha8.stream(std.mem.sliceAsBytes(out), first / block_draws, key, @splat(0));
    for (out) |*word| word.* = std.mem.littleToNative(u64, word.*);
}

pub inline fn uniformOf(word: u64) f64 {
    const steps: f64 = @floatFromInt(word >> 11);
    return steps * 0x1p-53;
}

/// `cumulative` ascends and its last entry is positive; it becomes what it is over that last entry. `ids` are the genes
/// of its entries.
pub fn choose(stream: u64, ids: []const i32, cumulative: []f64, out: []i32) void {
    const total = cumulative[cumulative.len - 1];
    if (!std.math.isFinite(total)) {
        // What is finite has no share beside what is not: every draw is the first that is not.
        var first: usize = 0;
        while (std.math.isFinite(cumulative[first])) first += 1;
        @memset(out, ids[first]);
        return;
    }
    // Half as wide, twice as many of them stay in the first-level cache.
    if (cumulative.len <= std.math.maxInt(u16)) {
        chooseGuided(u16, stream, ids, cumulative, out);
    } else {
        chooseGuided(u32, stream, ids, cumulative, out);
    }
}

fn chooseGuided(comptime Count: type, stream: u64, ids: []const i32, cumulative: []f64, out: []i32) void {
    // Behind the last place of the guide the shares of 1 have theirs.
    var guide_space: [(1 << guide_bits_max) + 2]Count align(64) = undefined;
    const bits: u6 = guideBits(cumulative.len);
    const guide = guide_space[0 .. (@as(usize, 1) << bits) + 2];
    fillGuide(Count, cumulative, guide);

    var buffer: [chunk_draws]u64 = undefined;
    const key = rng.Generator.keyOf(stream);
    var done: usize = 0;
    while (done < out.len) {
        const chunk = buffer[0..@min(chunk_draws, out.len - done)];
        words(key, done, chunk);
        for (chunk, out[done..][0..chunk.len]) |word, *id| {
            const uniform = uniformOf(word);
            var at: usize = guide[@intCast(word >> @intCast(@as(u7, 64) - bits))];
            // Two steps without a branch are mostly enough. The last entry is 1, above every draw.
            at += @intFromBool(cumulative[at] <= uniform);
            at += @intFromBool(cumulative[at] <= uniform);
            while (cumulative[at] <= uniform) at += 1;
            id.* = ids[at];
        }
        done += chunk.len;
    }
}

/// Some two places for each entry, within bounds.
fn guideBits(length: usize) u6 {
    const above = std.math.log2_int(usize, length) + 1;
    return @intCast(std.math.clamp(above, guide_bits_min, guide_bits_max));
}

/// Entries become shares of the last one. guide[j] = how many of them lie in places below j, the place of a share
/// being floor(share * size).
fn fillGuide(comptime Count: type, cumulative: []f64, guide: []Count) void {
    const lanes = 8;
    const size: f64 = @floatFromInt(guide.len - 2);
    const total = cumulative[cumulative.len - 1];
    @memset(guide, 0);
    // The counts ascend, so that the last one that is written for a place is its largest.
    var at: usize = 0;
    while (at + lanes <= cumulative.len) : (at += lanes) {
        const sums: @Vector(lanes, f64) = cumulative[at..][0..lanes].*;
        const shares = sums / @as(@Vector(lanes, f64), @splat(total));
        cumulative[at..][0..lanes].* = shares;
        const places: [lanes]i32 = @as(@Vector(lanes, i32), @intFromFloat(shares * @as(@Vector(lanes, f64), @splat(size))));
        inline for (places, 1..) |place, count| guide[@intCast(place + 1)] = @intCast(at + count);
    }
    for (cumulative[at..], at + 1..) |*entry, count| {
        entry.* /= total;
        const place: usize = @intFromFloat(entry.* * size);
        guide[place + 1] = @intCast(count);
    }
    runningMaximum(Count, guide[0 .. guide.len - 2]);
}

/// Each entry becomes the largest up to it. There are a multiple of 32 of them.
fn runningMaximum(comptime Count: type, entries: []Count) void {
    const lanes = 32;
    const V = @Vector(lanes, Count);
    std.debug.assert(entries.len % lanes == 0);
    var before: V = @splat(0);
    var at: usize = 0;
    while (at < entries.len) : (at += lanes) {
        var largest: V = entries[at..][0..lanes].*;
        inline for (.{ 1, 2, 4, 8, 16 }) |distance| {
            largest = @max(largest, std.simd.shiftElementsRight(largest, distance, 0));
        }
        largest = @max(largest, before);
        entries[at..][0..lanes].* = largest;
        before = @splat(largest[lanes - 1]);
    }
}

test "draws are those of the generator, in any chunks" {
    var generator: rng.Generator = .init(77);
    var all: [1300]u64 = undefined;
    const key = rng.Generator.keyOf(77);
    words(key, 0, &all);
    for (all) |word| try std.testing.expectEqual(generator.uniform(), uniformOf(word));
    var some: [40]u64 = undefined;
    words(key, 808, &some);
    try std.testing.expectEqualSlices(u64, all[808..848], &some);
}

test "a choice is that of a search from the start" {
    var generator: rng.Generator = .init(5);
    const longest = 66_000;
    const cumulative = try std.testing.allocator.alloc(f64, longest);
    defer std.testing.allocator.free(cumulative);
    const ids = try std.testing.allocator.alloc(i32, longest);
    defer std.testing.allocator.free(ids);
    var out: [600]i32 = undefined;
    for ([_]usize{ 1, 2, 7, 100, 3000, longest }) |length| {
        for ([_]bool{ false, true }) |is_skewed| {
            var sum: f64 = 0;
            for (cumulative[0..length], 0..) |*entry, at| {
                const weight: f64 = if (at % 3 == 1) 0 else generator.uniform();
                sum += if (is_skewed) std.math.pow(f64, weight, 20) * 1e-3 else weight;
                entry.* = sum;
                ids[at] = @intCast(7 * at);
            }
            choose(9, ids[0..length], cumulative[0..length], &out);
            var same: rng.Generator = .init(9);
            for (out) |id| {
                const uniform = same.uniform();
                var at: usize = 0;
                while (cumulative[at] <= uniform) at += 1;
                try std.testing.expectEqual(ids[at], id);
            }
        }
    }
}
