//! The DEFLATE stream of values of which there are few different ones.

const std = @import("std");
const assert = std.debug.assert;
const bits = @import("../codec/bits.zig");
const block = @import("block.zig");
const long_matches = @import("long_matches.zig");
const matches = @import("matches.zig");
const bit_writer = @import("bit_writer.zig");
const BitWriter = bit_writer.BitWriter;
const Token = matches.Token;

/// What encoding needs; allocated once for many chunks.
pub const Scratch = struct {
    /// Of the search at hand.
    tables: union {
        all: matches.Tables,
        long: long_matches.Tables,
    },
    tokens: [matches.segment_max + 1]Token,
    palette: block.Palette,
    slots: [slot_count]Slot,
};

/// Bytes that the stream of a chunk may take at most, with what is written past its end: every block is stored.
pub fn boundOf(n_bytes: usize) usize {
    const n_blocks = n_bytes / matches.segment_max + 1;
    return n_bytes + 8 * (n_blocks + 1) + bit_writer.over_write_bytes;
}

fn writeSegment(comptime scale: u8, symbols: []const u8, tokens: []const Token, is_last: bool, writer: *BitWriter, scratch: *Scratch) void {
    const content: block.Content(scale) = .{ .symbols = symbols, .tokens = tokens, .palette = &scratch.palette };
    content.write(is_last, writer);
}

const value_costs: matches.Costs = .{ .literal = 76, .lengths = .{ 20, 11, 26, 8, 26, 26, 8, 20 }, .long_length = 36, .distance = 24, .near_distance = 22, .nice = 64 };
/// Of values that are mostly the same, and of those that are somewhat less so.
const same_keys: long_matches.Keys = .{ .long = 12, .short = 5, .length_min = 4, .depth = 8, .nice = 40 };
const similar_keys: long_matches.Keys = .{ .long = 8, .short = 4, .length_min = 3, .depth = 6, .nice = 40 };

/// Values of `scale` bytes, `symbols` of as many bytes as they and `matches.over_read_bytes` more; false where more than 256 of them are different, and nothing is written.
pub fn writeValues(comptime scale: u8, values: []const u8, symbols: []u8, writer: *BitWriter, scratch: *Scratch) bool {
    const n = values.len / scale;
    // what the search reads behind them must not depend on what was there
    @memset(symbols[n..][0..matches.over_read_bytes], 0);
    if (!asSymbols(scale, values, symbols[0..n], scratch)) return false;
    var at: usize = 0;
    while (at < n) : (at += matches.segment_max) {
        const segment = symbols[at..@min(at + matches.segment_max, n)];
        const tokens = findValues(scale, segment, scratch);
        writeSegment(scale, segment, tokens, at + matches.segment_max >= n, writer, scratch);
    }
    return true;
}

fn findValues(comptime scale: u8, segment: []const u8, scratch: *Scratch) []Token {
    // how often two neighbours differ says how long matches will be
    const n_changes = changes(segment);
    if (n_changes >= segment.len * 41 / 100) {
        scratch.tables = .{ .all = undefined };
        return matches.Finder(scale).parse(segment, &scratch.palette, &value_costs, &scratch.tables.all, &scratch.tokens);
    }
    const keys = if (n_changes < segment.len * 31 / 100) same_keys else similar_keys;
    scratch.tables = .{ .long = undefined };
    return long_matches.Finder(scale).parse(segment, &scratch.palette, keys, &scratch.tables.long, &scratch.tokens);
}

/// How often a symbol differs from the one before it.
fn changes(symbols: []const u8) usize {
    var total: usize = 0;
    for (symbols[1..], symbols[0 .. symbols.len - 1]) |here, before| total += @intFromBool(here != before);
    return total;
}

const slot_bits = 10;
const slot_count = 1 << slot_bits;
const Slot = struct { value: u64, symbol: u16 };
const no_symbol = std.math.maxInt(u16);

/// The place of each value among the different ones, by where each comes first.
fn asSymbols(comptime scale: u8, values: []const u8, symbols: []u8, scratch: *Scratch) bool {
    const Word = @Int(.unsigned, 8 * @as(u16, scale));
    for (&scratch.slots) |*slot| slot.symbol = no_symbol;
    var n_values: u16 = 0;
    for (symbols, 0..) |*symbol, at| {
        const value: u64 = bits.load(Word, values.ptr + at * scale);
        var slot: usize = @intCast((value *% 0x9e37_79b9_7f4a_7c15) >> (64 - slot_bits));
        while (scratch.slots[slot].symbol != no_symbol and scratch.slots[slot].value != value) slot = (slot + 1) % slot_count;
        if (scratch.slots[slot].symbol == no_symbol) {
            if (n_values == 256) return false;
            scratch.slots[slot] = .{ .value = value, .symbol = n_values };
            std.mem.writeInt(u64, &scratch.palette[n_values], value, .little);
            n_values += 1;
        }
        symbol.* = @intCast(scratch.slots[slot].symbol);
    }
    return true;
}
