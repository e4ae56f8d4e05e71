//! Finds what values of little variety repeat: most of them are one and the same, and whole stretches have come before.
//!
//! Where matches are long, few places need a look. Each place is noted under a long key, places of one key in a chain,
//! and under a short one. At a place that no match covers the chain is followed for the longest match; it is taken if
//! the next place has none that is longer. (Where values vary more, `matches.zig` weighs all ways against each other.)

const std = @import("std");
const assert = std.debug.assert;
const bits = @import("../codec/bits.zig");
const matches = @import("matches.zig");
const rfc = @import("symbols.zig");
const Token = matches.Token;

const segment_max = matches.segment_max;
const table_bits = 14;

/// In symbols.
pub const Keys = struct {
    /// More than 8 and at most 16, or 8.
    long: u8,
    short: u8,
    length_min: u8,
    /// Places of one key that are looked at.
    depth: u8,
    /// A match that long is taken at once.
    nice: u8,
};

pub const Tables = struct {
    long: [1 << table_bits]u16,
    short: [1 << table_bits]u16,
    /// For each place the one before it with the same long key.
    previous: [segment_max]u16,
};

pub fn Finder(comptime scale: u8) type {
    return struct {
        const Self = @This();
        const length_max: u32 = rfc.length_max / @as(u32, scale);
        const distance_max: u32 = rfc.distance_max / @as(u32, scale);

        const Slots = struct { long: usize, short: usize };
        const Match = struct { length: u32, distance: u32 };

        symbols: []const u8,
        palette: *const [256][8]u8,
        keys: Keys,
        tables: *Tables,

        /// Tokens for all symbols, with `matches.over_read_bytes` readable behind them.
        pub fn parse(symbols: []const u8, palette: *const [256][8]u8, keys: Keys, tables: *Tables, tokens: []Token) []Token {
            assert(symbols.len > 0 and symbols.len <= segment_max and tokens.len > symbols.len);
            assert(keys.long >= 8 and keys.long <= 16 and keys.short <= 8 and keys.length_min > 1);
            const self: Self = .{ .symbols = symbols, .palette = palette, .keys = keys, .tables = tables };
            // a place that was never noted looks like place 0, which is as good as any: what is there is compared
            @memset(&tables.long, 0);
            @memset(&tables.short, 0);
            tables.previous[0] = 0;
            return self.tokensOf(tokens);
        }

        fn tokensOf(self: *const Self, tokens: []Token) []Token {
            const n = self.symbols.len;
            var count: usize = 0;
            var open: Token = .{ .literals = 1, .length = 0, .distance = 0, .covered = 0 };
            var at: usize = 1; // the first symbol repeats nothing
            while (at < n) {
                const slots = self.slotsOf(at);
                var match = self.longest(at, slots, self.keys.length_min - 1);
                self.note(at, slots);
                if (match.distance == 0) {
                    open.literals += 1;
                    at += 1;
                    continue;
                }
                while (match.length < self.keys.nice and at + 1 < n) {
                    const next_slots = self.slotsOf(at + 1);
                    const next = self.longest(at + 1, next_slots, match.length);
                    if (next.distance == 0) break;
                    self.note(at + 1, next_slots);
                    open.literals += 1;
                    at += 1;
                    match = next;
                }
                const stop = at + match.length;
                const covered = self.close(&open, tokens[0..count], at, match);
                tokens[count] = open;
                count += 1;
                open = .{ .literals = 0, .length = 0, .distance = 0, .covered = covered };
                for (at + 1..stop) |inside| self.note(inside, self.slotsOf(inside));
                at = stop;
            }
            cover(&open, tokens[0..count]);
            tokens[count] = open;
            return tokens[0 .. count + 1];
        }

        /// Gives `token` its match, with bytes of the symbols on both sides; says how many of the one behind it are the
        /// same, which are the match's if that symbol turns out to be a literal.
        fn close(self: *const Self, token: *Token, before: []Token, at: usize, match: Match) u8 {
            cover(token, before);
            var length: u32 = match.length * scale;
            if (token.literals > 0 and at > match.distance) {
                const room = if (token.literals == 1) scale - token.covered else scale;
                const same = @clz(self.differing(at - 1, match.distance) << (64 - 8 * @as(u32, scale))) / 8;
                token.borrowed = @intCast(@min(same, room, rfc.length_max - length));
                length += token.borrowed;
            }
            token.length = @intCast(length);
            token.distance = @intCast(match.distance * scale);
            const stop = at + match.length;
            if (stop == self.symbols.len) return 0;
            return @intCast(@min(@ctz(self.differing(stop, match.distance)) / 8, scale - 1, rfc.length_max - length));
        }

        /// The covered bytes count for the match before.
        fn cover(token: *Token, before: []Token) void {
            if (token.literals == 0) token.covered = 0;
            if (token.covered > 0) before[before.len - 1].length += token.covered;
        }

        inline fn differing(self: *const Self, at: usize, distance: u32) u64 {
            return bits.load(u64, &self.palette[self.symbols[at]]) ^ bits.load(u64, &self.palette[self.symbols[at - distance]]);
        }

        inline fn slotsOf(self: *const Self, at: usize) Slots {
            const low = bits.load(u64, self.symbols.ptr + at);
            const high = bits.load(u64, self.symbols.ptr + at + 8);
            const kept_high = if (self.keys.long == 8) 0 else high << @intCast(8 * (16 - self.keys.long));
            const long = (low +% kept_high *% 0xc2b2_ae3d_27d4_eb4f) *% 0x9e37_79b9_7f4a_7c15;
            const short = (low << @intCast(8 * (8 - self.keys.short))) *% 0x9e37_79b9_7f4a_7c15;
            // the highest bits of a product do not know the highest ones of its factor well
            return .{ .long = @intCast((long ^ long << 29) >> (64 - table_bits)), .short = @intCast(short >> (64 - table_bits)) };
        }

        inline fn note(self: *const Self, at: usize, slots: Slots) void {
            self.tables.previous[at] = self.tables.long[slots.long];
            self.tables.long[slots.long] = @intCast(at);
            self.tables.short[slots.short] = @intCast(at);
        }

        /// The longest match of more than `above` symbols, or one of distance 0.
        inline fn longest(self: *const Self, at: usize, slots: Slots, above: u32) Match {
            const limit: u32 = @intCast(@min(length_max, self.symbols.len - at));
            var best: Match = .{ .length = above, .distance = 0 };
            var from: usize = self.tables.long[slots.long];
            for (0..self.keys.depth) |_| {
                if (at - from > distance_max) break;
                self.compare(at, from, limit, &best);
                if (best.length >= self.keys.nice or from == 0) break;
                from = self.tables.previous[from];
            }
            from = self.tables.short[slots.short];
            if (best.length < self.keys.long and at - from <= distance_max) self.compare(at, from, limit, &best);
            return best;
        }

        inline fn compare(self: *const Self, at: usize, from: usize, limit: u32, best: *Match) void {
            const a = self.symbols.ptr + at;
            const b = self.symbols.ptr + from;
            if (best.length >= limit or a[best.length] != b[best.length]) return;
            const length = commonLength(a, b, limit);
            if (length > best.length) best.* = .{ .length = length, .distance = @intCast(at - from) };
        }

        inline fn commonLength(a: [*]const u8, b: [*]const u8, limit: u32) u32 {
            var length: u32 = 0;
            while (length < limit) : (length += 8) {
                const different = bits.load(u64, a + length) ^ bits.load(u64, b + length);
                if (different != 0) return @min(limit, length + @ctz(different) / 8);
            }
            return limit;
        }
    };
}
