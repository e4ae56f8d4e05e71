//! Random numbers that anyone can compute again: seeds mixed by SplitMix64, a ChaCha generator behind each seed,
//! and the shuffle built on it.
//!
//! Everything random in the library starts from a 64-bit *stream*, which is mixed from what the user may vary:
//!
//!   epoch stream   m(m(m(seed) ^ tag) ^ epoch)                         order of an epoch
//!   row stream     m(m(m(m(seed) ^ tag) ^ file_identity) ^ row)        what is random about one cell
//!
//! with m = `splitmix64`. The values are chained and never added, so that two different tuples do not meet in one
//! stream. A tag is eight ASCII bytes read as a big-endian number, or a small number.
//!
//! The generator behind a stream is ChaCha with 8 rounds, a 64-bit block counter from 0 and nonce 0; its key is
//! eight words of PCG32 started from the stream. Its output is a sequence of little-endian 32-bit words, and a
//! place in it is a number of words, so that a shuffle can be taken up again in the middle of an epoch.

const std = @import("std");
const assert = std.debug.assert;

const ChaCha8 = std.crypto.stream.chacha.ChaCha8With64BitNonce;

/// Order of the shards in an epoch.
pub const tag_shard_order = tagOf("SCXSHRD1");
/// Order of the rows in the shard groups of an epoch.
pub const tag_row_order = tagOf("SCXROW_2");

pub fn tagOf(comptime text: *const [8]u8) u64 {
    return std.mem.readInt(u64, text, .big);
}

pub fn splitmix64(x: u64) u64 {
    var z = x +% 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) *% 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) *% 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

pub const EpochKey = struct { seed: u64, tag: u64, epoch: u64 };

pub fn epochStream(key: EpochKey) u64 {
    return splitmix64(splitmix64(splitmix64(key.seed) ^ key.tag) ^ key.epoch);
}

pub const RowKey = struct { seed: u64, tag: u64, file_identity: u64, row: u64 };

pub fn rowStream(key: RowKey) u64 {
    var mixed = splitmix64(key.seed);
    mixed = splitmix64(mixed ^ key.tag);
    mixed = splitmix64(mixed ^ key.file_identity);
    return splitmix64(mixed ^ key.row);
}

/// The words of one stream, in order.
pub const Generator = struct {
    key: [ChaCha8.key_length]u8,
    /// Block that `words` begins with.
    block: u64 = 0,
    /// Words of the buffer that are used up; `buffer_words` before the first draw.
    used: usize = buffer_words,
    words: [buffer_words]u32 = undefined,

    const block_words = ChaCha8.block_length / 4;
    /// Four blocks: enough for the cipher to run its lanes side by side, little enough for a generator per cell.
    const buffer_words = 4 * block_words;

    pub fn init(stream: u64) Generator {
        return .{ .key = keyOf(stream), .block = 0 -% @as(u64, buffer_words / block_words) };
    }

    /// A generator of which `position` words count as drawn.
    pub fn initAt(stream: u64, position: u64) Generator {
        var generator: Generator = .init(stream);
        generator.block = position / block_words;
        generator.fill();
        generator.used = @intCast(position % block_words);
        return generator;
    }

    /// Words drawn since the start of the stream.
    pub fn wordsDrawn(generator: *const Generator) u64 {
        return generator.block *% block_words +% generator.used;
    }

    pub fn next32(generator: *Generator) u32 {
        if (generator.used == buffer_words) {
            generator.block +%= buffer_words / block_words;
            generator.fill();
        }
        const word = generator.words[generator.used];
        generator.used += 1;
        return word;
    }

    /// Two words, the low half first.
    pub fn next64(generator: *Generator) u64 {
        const low: u64 = generator.next32();
        const high: u64 = generator.next32();
        return high << 32 | low;
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    pub fn uniform(generator: *Generator) f64 {
        const steps: f64 = @floatFromInt(generator.next64() >> 11);
        return steps * 0x1p-53;
    }

    /// Uniform in [0, bound). A word times the bound gives 64 bits; the high half is the draw, unless the low half
    /// lies above the last multiple of the bound's even share: then the word is thrown away and the next one tried,
    /// which makes every value exactly equally likely. That share is the bound shifted up to its highest bit, so
    /// it needs no division.
    pub fn below(generator: *Generator, bound: u32) u32 {
        assert(bound > 0);
        const low_max = (bound << @intCast(@clz(bound))) -% 1;
        while (true) {
            const product = @as(u64, generator.next32()) * bound;
            const low: u32 = @truncate(product);
            if (low <= low_max) return @intCast(product >> 32);
        }
    }

    fn fill(generator: *Generator) void {
        ChaCha8.stream(std.mem.sliceAsBytes(&generator.words), generator.block, generator.key, @splat(0));
        for (&generator.words) |*word| word.* = std.mem.littleToNative(u32, word.*);
        generator.used = 0;
    }

    /// Eight steps of PCG32, little-endian.
    pub fn keyOf(stream: u64) [ChaCha8.key_length]u8 {
        var key: [ChaCha8.key_length]u8 = undefined;
        var state = stream;
        for (0..8) |index| {
            state = state *% 6364136223846793005 +% 11634580027462260723;
            const shifted: u32 = @truncate(((state >> 18) ^ state) >> 27);
            const word = std.math.rotr(u32, shifted, @as(u32, @intCast(state >> 59)));
            std.mem.writeInt(u32, key[4 * index ..][0..4], word, .little);
        }
        return key;
    }
};

/// The most values that one shuffle takes: each draw is below a 32-bit bound.
pub const shuffle_values_max = std.math.maxInt(u32);

/// Fisher-Yates from the last place down to the second: place i swaps with a draw below i + 1.
pub fn shuffle(generator: *Generator, comptime T: type, values: []T) void {
    assert(values.len <= shuffle_values_max);
    var place = values.len;
    while (place > 1) {
        place -= 1;
        std.mem.swap(T, &values[place], &values[generator.below(@intCast(place + 1))]);
    }
}

const testing = std.testing;

test "splitmix64 gives the published sequence" {
    // The first outputs of the reference generator started at 1234567.
    const step = 0x9E3779B97F4A7C15;
    const expected = [_]u64{ 6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431 };
    for (expected, 0..) |value, index| {
        try testing.expectEqual(value, splitmix64(1234567 +% step *% @as(u64, index)));
    }
}

test "the draws of one cell are the published ones" {
    // seed 1, file identity 2, row 0: twelve draws of two genes with equal weight, 3 below a half and 8 above.
    var genes: Generator = .init(rowStream(.{ .seed = 1, .tag = tagOf("SCXTKSMP"), .file_identity = 2, .row = 0 }));
    for ([_]u8{ 3, 8, 8, 8, 3, 8, 3, 8, 3, 8, 3, 3 }) |expected| {
        const gene: u8 = if (genes.uniform() < 0.5) 3 else 8;
        try testing.expectEqual(expected, gene);
    }
    // Two equal values among nine bins may fall into any of the bins 0 to 8: bin = ceil(8 - 8u).
    var bins: Generator = .init(rowStream(.{ .seed = 1, .tag = tagOf("SCXTKBIN"), .file_identity = 2, .row = 0 }));
    for ([_]f64{ 8, 7 }) |expected| {
        try testing.expectEqual(expected, @ceil(bins.uniform() * (0.0 - 8.0) + 8.0));
    }
}

test "a generator resumes at any word" {
    var whole: Generator = .init(77);
    var words: [300]u32 = undefined;
    try testing.expectEqual(@as(u64, 0), whole.wordsDrawn());
    for (&words, 1..) |*word, drawn| {
        word.* = whole.next32();
        try testing.expectEqual(@as(u64, drawn), whole.wordsDrawn());
    }
    for (0..words.len) |position| {
        var resumed: Generator = .initAt(77, position);
        try testing.expectEqual(@as(u64, position), resumed.wordsDrawn());
        for (words[position..]) |word| try testing.expectEqual(word, resumed.next32());
    }
    var pair: Generator = .initAt(77, 63); // a 64-bit draw across the end of the buffer
    try testing.expectEqual(@as(u64, words[64]) << 32 | words[63], pair.next64());
}

test "bounded draws are even and stay below the bound" {
    var generator: Generator = .init(5);
    for ([_]u32{ 1, 2, 3, 7, 1 << 31, std.math.maxInt(u32) }) |bound| {
        for (0..1000) |_| try testing.expect(generator.below(bound) < bound);
    }
    const draws = 60_000;
    var counts: [6]u32 = @splat(0);
    for (0..draws) |_| counts[generator.below(6)] += 1;
    for (counts) |count| {
        // Six standard deviations of a binomial around a sixth.
        try testing.expect(@abs(@as(i64, count) - draws / 6) < 6 * 92);
    }
}

test "a shuffle keeps every value, is continued by position, and gives every order equally often" {
    var values: [1000]u32 = undefined;
    for (&values, 0..) |*value, index| value.* = @intCast(index);
    var generator: Generator = .init(9);
    shuffle(&generator, u32, &values);
    var seen: [1000]bool = @splat(false);
    for (values) |value| seen[value] = true;
    for (seen) |found| try testing.expect(found);

    var counts: [6]u32 = @splat(0);
    const rounds = 30_000;
    for (0..rounds) |_| {
        var order = [3]u8{ 0, 1, 2 };
        generator = .initAt(9, generator.wordsDrawn());
        shuffle(&generator, u8, &order);
        const first_smaller: usize = @intFromBool(order[1] < order[2]);
        counts[2 * @as(usize, order[0]) + first_smaller] += 1;
    }
    for (counts) |count| try testing.expect(@abs(@as(i64, count) - rounds / 6) < 6 * 65);

    const before = generator.wordsDrawn();
    var none: [0]u8 = .{};
    shuffle(&generator, u8, &none);
    var one = [1]u8{4};
    shuffle(&generator, u8, &one);
    try testing.expectEqual(before, generator.wordsDrawn());
}
