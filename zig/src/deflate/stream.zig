//! The DEFLATE stream of a chunk: whole numbers in byte planes, or values of which there are few different ones.

const std = @import("std");
const assert = std.debug.assert;
const bits = @import("../codec/bits.zig");
const block = @import("block.zig");
const long_matches = @import("long_matches.zig");
const matches = @import("matches.zig");
const planes = @import("planes.zig");
const rfc = @import("symbols.zig");
const runs = @import("runs.zig");
const bit_writer = @import("bit_writer.zig");
const BitWriter = bit_writer.BitWriter;
const Token = matches.Token;

/// What encoding needs; allocated once for many chunks.
pub const Scratch = struct {
    /// Of the search at hand.
    tables: union {
        all: matches.Tables,
        long: long_matches.Tables,
        runs: runs.Tables,
    },
    tokens: [matches.segment_max + 1]Token,
    palette: block.Palette,
    slots: [slot_count]Slot,
};

/// Bytes that the stream of a chunk may take at most, with what is written past its end: every block is stored.
pub fn boundOf(n_bytes: usize, element_bytes: usize) usize {
    const n_blocks = element_bytes * (n_bytes / element_bytes / matches.segment_max + 1) + n_bytes / matches.segment_max;
    return n_bytes + 8 * (n_blocks + 1) + bit_writer.over_write_bytes;
}

const plane_costs: matches.Costs = .{ .literal = 32, .lengths = @splat(10), .long_length = 16, .distance = 8, .near_distance = 20, .nice = 64 };

/// Byte planes of `n_elements` each, with `matches.over_read_bytes` more readable behind them.
pub fn writePlanes(bytes: []const u8, n_elements: usize, writer: *BitWriter, scratch: *Scratch) void {
    if (bytes.len == 0) return writeSegment(1, bytes, oneRun(bytes, scratch), true, writer, scratch);
    var at: usize = 0;
    while (at < bytes.len) {
        var stop = at + n_elements;
        const n_changes = planes.changes(bytes[at..stop]);
        // planes that go on with one and the same byte need one block
        while (n_changes == 0 and stop < bytes.len and planes.changes(bytes[stop - 1 .. stop + n_elements]) == 0) {
            stop += n_elements;
        }
        writePlane(bytes[at..stop], n_changes, stop == bytes.len, writer, scratch);
        at = stop;
    }
}

/// Bytes of one kind in a block: half as many as the tokens that there is room for can say.
const same_max: usize = matches.segment_max / 2 * rfc.length_max;

fn writePlane(plane: []const u8, n_changes: usize, is_last: bool, writer: *BitWriter, scratch: *Scratch) void {
    const step = if (n_changes == 0) same_max else matches.segment_max;
    var at: usize = 0;
    while (at < plane.len) : (at += step) {
        const segment = plane[at..@min(at + step, plane.len)];
        const tokens = if (n_changes == 0) oneRun(segment, scratch) else findBytes(segment, n_changes < plane.len / 8, scratch);
        writeSegment(1, segment, tokens, is_last and at + step >= plane.len, writer, scratch);
    }
}

fn findBytes(segment: []const u8, mostly_same: bool, scratch: *Scratch) []Token {
    if (mostly_same) {
        scratch.tables = .{ .runs = undefined };
        return runs.parse(segment, &scratch.tables.runs, &scratch.tokens);
    }
    scratch.tables = .{ .all = undefined };
    return matches.Finder(1).parse(segment, &scratch.palette, &plane_costs, &scratch.tables.all, &scratch.tokens);
}

fn writeSegment(comptime scale: u8, symbols: []const u8, tokens: []const Token, is_last: bool, writer: *BitWriter, scratch: *Scratch) void {
    const content: block.Content(scale) = .{ .symbols = symbols, .tokens = tokens, .palette = &scratch.palette };
    content.write(is_last, writer);
}

/// One byte again and again, as often as there is room for; or none at all.
fn oneRun(bytes: []const u8, scratch: *Scratch) []Token {
    var writing: runs.Writing = .{ .tokens = &scratch.tokens };
    if (bytes.len > 0) {
        writing.literal(1);
        writing.repeats(bytes.len - 1);
    }
    return writing.done();
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
    const n_changes = planes.changes(segment);
    if (n_changes >= segment.len * 41 / 100) {
        scratch.tables = .{ .all = undefined };
        return matches.Finder(scale).parse(segment, &scratch.palette, &value_costs, &scratch.tables.all, &scratch.tokens);
    }
    const keys = if (n_changes < segment.len * 31 / 100) same_keys else similar_keys;
    scratch.tables = .{ .long = undefined };
    return long_matches.Finder(scale).parse(segment, &scratch.palette, keys, &scratch.tables.long, &scratch.tokens);
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
