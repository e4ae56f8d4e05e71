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
pub const guide_bits_max = 12;

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

pub fn uniforms(stream: u64, first: u64, out: []f64) void {
    var buffer: [chunk_draws]u64 = undefined;
    const key = rng.Generator.keyOf(stream);
    var done: usize = 0;
    while (done < out.len) {
        const chunk = buffer[0..@min(chunk_draws, out.len - done)];
        words(key, first + done, chunk);
        for (chunk, out[done..][0..chunk.len]) |word, *uniform| uniform.* = uniformOf(word);
        done += chunk.len;
    }
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
    var guide_space: [1 << guide_bits_max]u32 = undefined;
    const bits: u6 = guideBits(cumulative.len);
    const guide = guide_space[0 .. @as(usize, 1) << bits];
    divide(cumulative, total);
    fillGuide(cumulative, guide);

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
    return @intCast(std.math.clamp(above, 4, guide_bits_max));
}

fn divide(cumulative: []f64, total: f64) void {
    const lanes = 8;
    var at: usize = 0;
    while (at + lanes <= cumulative.len) : (at += lanes) {
        const part: @Vector(lanes, f64) = cumulative[at..][0..lanes].*;
        cumulative[at..][0..lanes].* = part / @as(@Vector(lanes, f64), @splat(total));
    }
    for (cumulative[at..]) |*entry| entry.* /= total;
}

/// guide[j] = how many entries lie in places below j, the place of an entry being floor(entry * size).
fn fillGuide(shares: []const f64, guide: []u32) void {
    @memset(guide, 0);
    const size: f64 = @floatFromInt(guide.len);
    for (shares, 1..) |share, count| {
        const place: usize = @intFromFloat(share * size);
        // The counts ascend, so that the last one that is written for a place is its largest.
        if (place + 1 < guide.len) guide[place + 1] = @intCast(count);
    }
    var largest: u32 = 0;
    for (guide) |*entry| {
        largest = @max(largest, entry.*);
        entry.* = largest;
    }
}

test "draws are those of the generator, in any chunks" {
    var generator: rng.Generator = .init(77);
    var all: [1300]f64 = undefined;
    uniforms(77, 0, &all);
    for (all) |uniform| try std.testing.expectEqual(generator.uniform(), uniform);
    var some: [40]f64 = undefined;
    uniforms(77, 808, &some);
    try std.testing.expectEqualSlices(f64, all[808..848], &some);
}

test "a choice is that of a search from the start" {
    var generator: rng.Generator = .init(5);
    var cumulative: [3000]f64 = undefined;
    var ids: [3000]i32 = undefined;
    var out: [600]i32 = undefined;
    for ([_]usize{ 1, 2, 7, 100, 3000 }) |length| {
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
