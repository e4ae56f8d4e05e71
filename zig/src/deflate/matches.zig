//! Finds what a run of symbols repeats. A symbol stands for a value of 4 or 8 bytes that is one of at
//! most 256: matches are sought between whole values, over a quarter or an eighth of the bytes.
//!
//! The shortest way through the symbols is kept while they are read once: for the place at hand and the next eight the
//! lowest cost at which they are reached, in one vector; for places further away in an array. Every place offers a
//! literal and up to four matches, of all lengths up to eight and of their whole length. Costs are estimates in
//! quarters of a bit: the codes are made only when all matches are known.

const std = @import("std");
const assert = std.debug.assert;
const bits = @import("../codec/bits.zig");
const rfc = @import("symbols.zig");

/// Symbols that are looked at together.
pub const segment_max = 1 << 15;
/// Bytes that must be readable behind the symbols.
pub const over_read_bytes = 16;

/// `literals` symbols as they are, of the first of them without its first `covered` bytes, of the last without its last
/// `borrowed` bytes, then `length` bytes from `distance` bytes before, those and the next token's `covered` ones with
/// them. The last token of a segment has no match.
pub const Token = struct { literals: u16, length: u16, distance: u16, covered: u8, borrowed: u8 = 0 };

const near = 8;
const Near = @Vector(near, u32);
const n_candidates = 3;

const table_bits = 14;
const Table = [1 << table_bits]u16;

/// What the search needs.
pub const Tables = struct {
    hashed: [n_candidates]Table,
    /// How each place is reached at the lowest cost.
    choices: [segment_max + 1]Choice,
    distances: [segment_max + 1][n_candidates]u16,
    /// The costs of places that long matches reach, with the choice in the lowest bits.
    far: [segment_max + near + 2]u32,
    far_lengths: [segment_max + near + 2]u16,
};

const Choice = packed struct(u8) {
    /// 0 for a literal, above `near` for a match whose length is noted apart.
    length: u4,
    candidate: u2,
    unused: u2 = 0,
};
const choice_bits = 8;
const far_length = near + 1;
const literal_choice: Choice = .{ .length = 0, .candidate = 0 };
const unreached = std.math.maxInt(u32);
/// More than any way costs; twice as much still fits.
const never = 1 << 30;

pub const Costs = struct {
    literal: u32,
    /// For each length up to eight. Costs that differ more than the codes would make few lengths common, and their
    /// codes short.
    lengths: [near]u32,
    long_length: u32,
    /// Besides the bits that say which distance of its code it is.
    distance: u32,
    near_distance: u32,
    /// A match that long is taken at once.
    nice: u32,
};

pub fn Finder(comptime scale: u8) type {
    return struct {
        const length_max: u32 = rfc.length_max / @as(u32, scale);
        const distance_max: u32 = rfc.distance_max / @as(u32, scale);
        /// Symbols that each of the tables looks up.
        const looked_up = [_]u8{ 2, 4, 7 };

        inline fn hash(comptime n_symbols: u8, word: u64) usize {
            return @intCast(((word << (64 - 8 * n_symbols)) *% 0x9e37_79b9_7f4a_7c15) >> (64 - table_bits));
        }

        /// Tokens for all symbols; `tokens` has room for one more than there are symbols.
        pub fn parse(symbols: []const u8, palette: *const [256][8]u8, costs: *const Costs, tables: *Tables, tokens: []Token) []Token {
            assert(symbols.len <= segment_max and tokens.len > symbols.len);
            reach(symbols, costs, tables);
            return chosen(symbols, palette, tables, tokens);
        }

        fn reach(symbols: []const u8, costs: *const Costs, tables: *Tables) void {
            const n = symbols.len;
            // a place that was never noted looks like place 0, which is as good as any: what is there is compared
            for (&tables.hashed) |*table| @memset(table, 0);
            @memset(tables.far[0 .. n + near + 2], unreached);
            tables.choices[0] = literal_choice;
            if (n == 0) return;
            const lengths: Near = comptime std.simd.iota(u32, near) + @as(Near, @splat(1));
            const offers = lengths + (@as(Near, costs.lengths) << @splat(choice_bits));
            var literal: Near = @splat(never);
            literal[0] = costs.literal << choice_bits;
            var ahead: Near = @splat(unreached);
            ahead[0] = literal[0]; // the first symbol repeats nothing
            var at: usize = 1;
            while (at < n) {
                tables.choices[at] = @bitCast(@as(u8, @truncate(ahead[0])));
                const base: Near = @as(Near, @splat(ahead[0])) & @as(Near, @splat(~@as(u32, 0xff)));
                ahead = @shuffle(u32, ahead, @as(Near, @splat(tables.far[at + near])), [near]i32{ 1, 2, 3, 4, 5, 6, 7, -1 });

                const word = bits.load(u64, symbols.ptr + at);
                var found: [n_candidates]Found = undefined;
                var all_lengths: u32 = 0;
                var offered = literal;
                inline for (&found, looked_up, &tables.hashed, 0..) |*match, n_symbols, *table, which| {
                    const entry = &table[hash(n_symbols, word)];
                    const distance: u32 = @intCast(at - entry.*);
                    const common: u32 = @ctz(word ^ bits.load(u64, symbols.ptr + entry.*)) / 8;
                    entry.* = @intCast(at);
                    match.distance = distance;
                    match.length = if (distance <= distance_max) common else 0;
                    match.cost = distanceCost(distance, costs) << choice_bits | @as(u32, which << 4);
                    all_lengths |= match.length;
                    tables.distances[at][which] = @truncate(distance);
                    const allowed = lengths <= @as(Near, @splat(match.length));
                    const its = @as(Near, @splat(match.cost)) + offers;
                    offered = @select(u32, allowed, @min(offered, its), offered);
                }
                ahead = @min(ahead, base + offered);
                at += 1;
                if (all_lengths >= near) {
                    const longest = reachFar(symbols, at - 1, base[0], &found, costs, tables);
                    if (longest >= costs.nice) {
                        at += longest - 1;
                        ahead = tables.far[at..][0..near].*;
                    }
                }
            }
            const here = ahead[0];
            tables.choices[n] = @bitCast(@as(u8, @truncate(here)));
        }

        const Found = struct { length: u32, distance: u32, cost: u32 };

        /// Offers the whole length of matches that go on behind the near places.
        fn reachFar(symbols: []const u8, at: usize, base: u32, found: *const [n_candidates]Found, costs: *const Costs, tables: *Tables) u32 {
            var longest: u32 = 0;
            for (found) |match| {
                if (match.length < near) continue;
                const limit: u32 = @intCast(@min(length_max, symbols.len - at));
                const whole = commonLength(symbols.ptr + at, symbols.ptr + at - match.distance, limit);
                if (whole <= near) continue;
                const total = base + match.cost + (costs.long_length << choice_bits | far_length);
                if (total < tables.far[at + whole]) {
                    tables.far[at + whole] = total;
                    tables.far_lengths[at + whole] = @intCast(whole);
                }
                longest = @max(longest, whole);
            }
            return longest;
        }

        inline fn distanceCost(distance: u32, costs: *const Costs) u32 {
            const bytes = distance * scale;
            return if (bytes <= 4) costs.near_distance else costs.distance + 4 * (30 - @as(u32, @clz(bytes - 1)));
        }

        fn commonLength(a: [*]const u8, b: [*]const u8, limit: u32) u32 {
            var length: u32 = near;
            while (length < limit) : (length += 8) {
                const different = bits.load(u64, a + length) ^ bits.load(u64, b + length);
                if (different != 0) return @min(limit, length + @ctz(different) / 8);
            }
            return limit;
        }

        /// The choices on the way, from the end back to the start, turned round.
        fn chosen(symbols: []const u8, palette: *const [256][8]u8, tables: *Tables, tokens: []Token) []Token {
            var at = symbols.len;
            var first = tokens.len - 1;
            tokens[first] = .{ .literals = 0, .length = 0, .distance = 0, .covered = 0 };
            while (at > 0) {
                const choice = tables.choices[at];
                if (choice.length == 0) {
                    tokens[first].literals += 1;
                    at -= 1;
                    continue;
                }
                const length: u32 = if (choice.length == far_length) tables.far_lengths[at] else choice.length;
                const distance = tables.distances[at - length][choice.candidate];
                var length_bytes = length * scale;
                // literals behind it may go on repeating: matches of middling length were not all looked at
                var stop = at;
                while (tokens[first].literals > 0 and length_bytes + scale <= rfc.length_max and symbols[stop] == symbols[stop - distance]) {
                    tokens[first].literals -= 1;
                    length_bytes += scale;
                    stop += 1;
                }
                if (tokens[first].literals > 0) {
                    const different = bits.load(u64, &palette[symbols[stop]]) ^ bits.load(u64, &palette[symbols[stop - distance]]);
                    const covered: u8 = @intCast(@min(@ctz(different) / 8, scale - 1, rfc.length_max - length_bytes));
                    tokens[first].covered = covered;
                    length_bytes += covered;
                }
                first -= 1;
                tokens[first] = .{ .literals = 0, .length = @intCast(length_bytes), .distance = @intCast(@as(u32, distance) * scale), .covered = 0 };
                at -= length;
            }
            return tokens[first..];
        }
    };
}
