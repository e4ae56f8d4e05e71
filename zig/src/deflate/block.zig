//! One block of a DEFLATE stream, in the shortest of the three ways to write it.

const std = @import("std");
const assert = std.debug.assert;
const rfc = @import("symbols.zig");
const huffman = @import("huffman.zig");
const BitWriter = @import("bit_writer.zig").BitWriter;
const Token = @import("matches.zig").Token;

const code_order = [19]u8{ 16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15 };
const stored_max = 65535;

/// The bytes of each symbol, where one stands for several.
pub const Palette = [256][8]u8;

/// What a block says: tokens over symbols of `scale` bytes each.
pub fn Content(comptime scale: u8) type {
    return struct {
        symbols: []const u8,
        tokens: []const Token,
        palette: *const Palette,

        const Self = @This();
        const Counts = struct { literals: [rfc.n_literals]u32, distances: [rfc.n_distances]u32, extra_bits: u64 };

        fn counted(self: Self) Counts {
            var counts: Counts = .{ .literals = @splat(0), .distances = @splat(0), .extra_bits = 0 };
            var of_symbol: [4][256]u32 = @splat(@splat(0));
            var at: usize = 0;
            for (self.tokens) |token| {
                var left: usize = token.literals;
                if (token.covered > 0) {
                    const stop = if (left == 1) scale - token.borrowed else scale;
                    for (self.palette[self.symbols[at]][token.covered..stop]) |byte| counts.literals[byte] += 1;
                    at += 1;
                    left -= 1;
                }
                const is_cut = token.borrowed > 0 and left > 0;
                if (is_cut) left -= 1;
                // in four tables: an increment need not wait for one of the same symbol
                while (left >= 4) : (left -= 4) {
                    inline for (&of_symbol, 0..) |*table, which| table[self.symbols[at + which]] += 1;
                    at += 4;
                }
                while (left > 0) : (left -= 1) {
                    of_symbol[0][self.symbols[at]] += 1;
                    at += 1;
                }
                if (is_cut) {
                    for (self.palette[self.symbols[at]][0 .. scale - token.borrowed]) |byte| counts.literals[byte] += 1;
                    at += 1;
                }
                if (token.length == 0) continue;
                const length = rfc.code_of_length[token.length];
                const distance = rfc.codeOfDistance(token.distance);
                counts.literals[257 + @as(usize, length)] += 1;
                counts.distances[distance] += 1;
                counts.extra_bits += rfc.lengths[length].bits + rfc.distances[distance].bits;
                at += (token.length - token.borrowed) / scale;
            }
            assert(at == self.symbols.len);
            for (0..256) |symbol| {
                const n = of_symbol[0][symbol] + of_symbol[1][symbol] + of_symbol[2][symbol] + of_symbol[3][symbol];
                if (n > 0) for (self.palette[symbol][0..scale]) |byte| {
                    counts.literals[byte] += n;
                };
            }
            counts.literals[rfc.end_of_block] = 1;
            return counts;
        }

        pub fn write(self: Self, is_last: bool, writer: *BitWriter) void {
            const counts = self.counted();
            var own: Codes = undefined;
            own.fit(&counts.literals, &counts.distances);
            const own_bits = own.header.bits + own.bitsOf(&counts.literals, &counts.distances);
            const fixed_bits = fixed.bitsOf(&counts.literals, &counts.distances);
            const n_bytes = self.symbols.len * scale;
            const stored_bits = 8 * n_bytes + 40 * (n_bytes / (stored_max - 7) + 1);
            if (stored_bits <= @min(own_bits, fixed_bits) + counts.extra_bits + 3)
                return self.writeStored(is_last, writer);
            writer.put(@intFromBool(is_last), 1);
            if (fixed_bits <= own_bits) {
                writer.putFlush(1, 2);
                self.writeTokens(&fixed, writer);
            } else {
                writer.putFlush(2, 2);
                own.header.write(writer);
                self.writeTokens(&own, writer);
            }
        }

        fn writeStored(self: Self, is_last: bool, writer: *BitWriter) void {
            const step = stored_max / @as(usize, scale);
            var first: usize = 0;
            while (true) {
                const stop = @min(first + step, self.symbols.len);
                const ends = stop == self.symbols.len;
                writer.put(@intFromBool(is_last and ends), 3);
                writer.alignToByte();
                const n_bytes: u64 = (stop - first) * scale;
                writer.putFlush(n_bytes | (n_bytes ^ 0xffff) << 16, 32);
                for (self.symbols[first..stop]) |symbol| writer.putBytes(self.palette[symbol][0..scale]);
                if (ends) return;
                first = stop;
            }
        }

        fn writeTokens(self: Self, codes: *const Codes, writer_out: *BitWriter) void {
            const literals: Literals = .init(codes, self.palette);
            var matches: MatchCodes = undefined;
            matches.init(codes);
            var writer = writer_out.*;
            var at: usize = 0;
            for (self.tokens) |token| {
                const stop = at + token.literals;
                if (token.covered > 0) {
                    const last = if (token.literals == 1) scale - token.borrowed else scale;
                    for (self.palette[self.symbols[at]][token.covered..last]) |byte|
                        writer.putFlush(codes.literal_codes[byte], codes.literal_lengths[byte]);
                    at += 1;
                }
                const is_cut = token.borrowed > 0 and at < stop;
                literals.write(self.symbols[at .. stop - @intFromBool(is_cut)], &writer);
                if (is_cut) for (self.palette[self.symbols[stop - 1]][0 .. scale - token.borrowed]) |byte|
                    writer.putFlush(codes.literal_codes[byte], codes.literal_lengths[byte]);
                at = stop;
                if (token.length == 0) continue;
                matches.write(token.length, token.distance, codes, &writer);
                at += (token.length - token.borrowed) / scale;
            }
            writer.putFlush(codes.literal_codes[rfc.end_of_block], codes.literal_lengths[rfc.end_of_block]);
            writer_out.* = writer;
        }

        /// The bits of each symbol, in parts of up to four bytes.
        const Literals = struct {
            const part_bytes = 4;
            const parts = scale / part_bytes;
            const Part = struct { code: u64, n_bits: u8 };

            of_symbol: [256][parts]Part,

            fn init(codes: *const Codes, palette: *const Palette) Literals {
                var self: Literals = undefined;
                for (&self.of_symbol, 0..) |*entry, symbol| {
                    for (entry, 0..) |*part, which| {
                        part.* = .{ .code = 0, .n_bits = 0 };
                        for (0..part_bytes) |byte| {
                            const literal = palette[symbol][which * part_bytes + byte];
                            part.code |= @as(u64, codes.literal_codes[literal]) << @intCast(part.n_bits);
                            part.n_bits += codes.literal_lengths[literal];
                        }
                    }
                }
                return self;
            }

            inline fn write(self: *const Literals, symbols: []const u8, writer: *BitWriter) void {
                for (symbols) |symbol| for (&self.of_symbol[symbol]) |part| {
                    const half = part.n_bits / 2;
                    const low = (@as(u64, 1) << @intCast(half)) - 1;
                    writer.putFlush(part.code & low, half);
                    writer.putFlush(part.code >> @intCast(half), part.n_bits - half);
                };
            }
        };

        /// Lengths with their extra bits.
        const MatchCodes = struct {
            const Entry = struct { code: u32, n_bits: u8 };
            of_length: [rfc.length_max + 1]Entry,

            fn init(self: *MatchCodes, codes: *const Codes) void {
                for (rfc.length_min..rfc.length_max + 1) |length| {
                    const code = rfc.code_of_length[length];
                    const symbol = 257 + @as(usize, code);
                    const n_bits = codes.literal_lengths[symbol];
                    const extra: u32 = @intCast(length - rfc.lengths[code].base);
                    self.of_length[length] = .{
                        .code = codes.literal_codes[symbol] | extra << @as(u5, @intCast(n_bits)),
                        .n_bits = n_bits + rfc.lengths[code].bits,
                    };
                }
            }

            inline fn write(self: *const MatchCodes, length: u32, distance: u32, codes: *const Codes, writer: *BitWriter) void {
                const entry = self.of_length[length];
                writer.put(entry.code, entry.n_bits);
                const code = rfc.codeOfDistance(distance);
                const extra = rfc.distances[code];
                writer.put(codes.distance_codes[code], codes.distance_lengths[code]);
                writer.put(distance - extra.base, extra.bits);
                writer.flush();
            }
        };
    };
}

const Codes = struct {
    literal_lengths: [288]u8,
    literal_codes: [288]u16,
    distance_lengths: [32]u8,
    distance_codes: [32]u16,
    header: Header,

    fn fit(self: *Codes, literals: []const u32, distances: []const u32) void {
        self.literal_lengths = @splat(0);
        self.distance_lengths = @splat(0);
        huffman.codeLengths(literals, 15, self.literal_lengths[0..literals.len]);
        huffman.codeLengths(distances, 15, self.distance_lengths[0..distances.len]);
        huffman.codesOf(&self.literal_lengths, &self.literal_codes);
        huffman.codesOf(&self.distance_lengths, &self.distance_codes);
        self.header.fit(self.literal_lengths[0..rfc.n_literals], self.distance_lengths[0..rfc.n_distances]);
    }

    /// Without the bits that follow codes, which are the same for all codes.
    fn bitsOf(self: *const Codes, literals: []const u32, distances: []const u32) u64 {
        var n: u64 = 0;
        for (literals, self.literal_lengths[0..literals.len]) |count, length| n += @as(u64, count) * length;
        for (distances, self.distance_lengths[0..distances.len]) |count, length| n += @as(u64, count) * length;
        return n;
    }
};

const fixed: Codes = blk: {
    @setEvalBranchQuota(20_000);
    var codes: Codes = undefined;
    codes.literal_lengths = @splat(8);
    for (codes.literal_lengths[144..256]) |*length| length.* = 9;
    for (codes.literal_lengths[256..280]) |*length| length.* = 7;
    codes.distance_lengths = @splat(5);
    huffman.codesOf(&codes.literal_lengths, &codes.literal_codes);
    huffman.codesOf(&codes.distance_lengths, &codes.distance_codes);
    break :blk codes;
};

/// The lengths of a block's own codes, themselves in a code.
const Header = struct {
    const Item = struct { symbol: u8, extra: u8 };

    n_literals: usize,
    n_distances: usize,
    n_codes: usize,
    items: [rfc.n_literals + rfc.n_distances]Item,
    n_items: usize,
    lengths: [19]u8,
    bits: u64,

    fn fit(self: *Header, literals: []const u8, distances: []const u8) void {
        self.n_literals = @max(257, usedOf(literals));
        self.n_distances = @max(1, usedOf(distances));
        var joined: [rfc.n_literals + rfc.n_distances]u8 = undefined;
        @memcpy(joined[0..self.n_literals], literals[0..self.n_literals]);
        @memcpy(joined[self.n_literals..][0..self.n_distances], distances[0..self.n_distances]);
        self.shorten(joined[0 .. self.n_literals + self.n_distances]);

        var counts: [19]u32 = @splat(0);
        for (self.items[0..self.n_items]) |item| counts[item.symbol] += 1;
        huffman.codeLengths(&counts, 7, &self.lengths);
        // readers want this code full, also where it has one symbol
        if (std.mem.count(u8, &self.lengths, &.{0}) == self.lengths.len - 1) {
            self.lengths[if (self.lengths[0] == 0) 0 else 1] = 1;
        }
        self.n_codes = 19;
        while (self.n_codes > 4 and self.lengths[code_order[self.n_codes - 1]] == 0) self.n_codes -= 1;
        self.bits = 14 + 3 * self.n_codes;
        for (counts, self.lengths, 0..) |count, length, symbol| {
            self.bits += @as(u64, count) * (length + extraBits(symbol));
        }
    }

    fn usedOf(lengths: []const u8) usize {
        var n = lengths.len;
        while (n > 0 and lengths[n - 1] == 0) n -= 1;
        return n;
    }

    fn extraBits(symbol: usize) u8 {
        return switch (symbol) {
            16 => 2,
            17 => 3,
            18 => 7,
            else => 0,
        };
    }

    /// Repeated lengths and zeros in few items.
    fn shorten(self: *Header, lengths: []const u8) void {
        self.n_items = 0;
        var at: usize = 0;
        while (at < lengths.len) {
            const length = lengths[at];
            var run: usize = 1;
            while (at + run < lengths.len and lengths[at + run] == length) run += 1;
            at += run;
            if (length == 0) {
                while (run >= 11) {
                    const taken = @min(run, 138);
                    self.add(18, taken - 11);
                    run -= taken;
                }
                if (run >= 3) {
                    self.add(17, run - 3);
                    run = 0;
                }
            } else {
                self.add(length, 0);
                run -= 1;
                while (run >= 3) {
                    const taken = @min(run, 6);
                    self.add(16, taken - 3);
                    run -= taken;
                }
            }
            for (0..run) |_| self.add(length, 0);
        }
    }

    fn add(self: *Header, symbol: u8, extra: usize) void {
        self.items[self.n_items] = .{ .symbol = symbol, .extra = @intCast(extra) };
        self.n_items += 1;
    }

    fn write(self: *const Header, writer: *BitWriter) void {
        writer.put(self.n_literals - 257, 5);
        writer.put(self.n_distances - 1, 5);
        writer.putFlush(self.n_codes - 4, 4);
        for (code_order[0..self.n_codes]) |symbol| writer.putFlush(self.lengths[symbol], 3);
        var codes: [19]u16 = undefined;
        huffman.codesOf(&self.lengths, &codes);
        for (self.items[0..self.n_items]) |item| {
            writer.put(codes[item.symbol], self.lengths[item.symbol]);
            writer.putFlush(item.extra, extraBits(item.symbol));
        }
    }
};
