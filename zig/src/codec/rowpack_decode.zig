//! Decoding one rowpack row. Compiled once per CPU level; nothing here allocates.
//!
//! The payload may hold anything: each length is checked against the payload before it is used, and what is written
//! stays inside the scratch arrays, which have room for `n_cols` elements and `scratch_slack` more. The payload must
//! be readable for `rowpack.tail_bytes` behind its end.

const std = @import("std");
const bits = @import("bits.zig");
const compress = @import("compress.zig");
const rowpack = @import("rowpack.zig");

const assert = std.debug.assert;
const RowHeader = rowpack.RowHeader;

pub const scratch_slack = 128;

comptime {
    assert(scratch_slack >= compress.over_write + bits.over_write_codes);
}

/// Why a row was refused; turned into a message by the caller, who knows file, shard and row.
pub const RowFault = enum(u32) {
    none = 0,
    header,
    length,
    columns,
    codes,
};

/// One row as the row table describes it.
pub const Row = extern struct {
    payload: [*]const u8,
    payload_bytes: u32,
    n_values: u32,
    n_cols: u32,
    value_bytes: u32,
};

/// Where a thread decodes to; each array has n_cols + scratch_slack elements, `codes` twice as many, so that it can
/// take 64-bit codes too.
pub const RowScratch = extern struct {
    columns: [*]u32,
    codes: [*]align(8) u32,
    positions: [*]u32,
    tier: [*]u32,
};

/// A row whose columns and place of values are known.
pub const OpenRow = extern struct {
    header: RowHeader,
    palette: [*]const u8,
    values: [*]const u8,
    values_bytes: usize,
};

/// Reads the header and decodes the columns into `scratch.columns`; all are below n_cols.
pub fn openRow(row: *const Row, scratch: *const RowScratch, open: *OpenRow) RowFault {
    if (row.n_values > row.n_cols) return .length;
    if (row.payload_bytes < RowHeader.byte_count) return .length;
    const header = RowHeader.parse(row.payload[0..RowHeader.byte_count]) orelse return .header;
    const palette_bytes = @as(usize, header.palette_length) * header.paletteEntryBytes(row.value_bytes);
    const column_bytes = rowpack.columnBytes(header.column_mode, row.n_values, row.n_cols, header.low_bits);
    const values_at = RowHeader.byte_count + palette_bytes + column_bytes;
    if (values_at > row.payload_bytes) return .length;
    const palette = row.payload + RowHeader.byte_count;
    open.* = .{
        .header = header,
        .palette = palette,
        .values = row.payload + values_at,
        .values_bytes = row.payload_bytes - values_at,
    };
    return decodeColumns(row, header, palette + palette_bytes, scratch.columns);
}

fn decodeColumns(row: *const Row, header: RowHeader, source: [*]const u8, columns: [*]u32) RowFault {
    switch (header.column_mode) {
        .elias_fano => return decodeEliasFano(row, header.low_bits, source, columns),
        .bitmap => {
            const found = compress.positionsOfSetBits(source, row.n_cols, columns, row.n_values);
            return if (found == row.n_values) .none else .columns;
        },
        .run => {
            const first = bits.load(u32, source);
            if (first > row.n_cols or row.n_values > row.n_cols - first) return .columns;
            for (columns[0..row.n_values], first..) |*column, number| column.* = @intCast(number);
            return .none;
        },
    }
}

fn decodeEliasFano(row: *const Row, low_bits: u8, source: [*]const u8, columns: [*]u32) RowFault {
    const upper_bits = rowpack.upperBits(row.n_values, row.n_cols, low_bits);
    const found = compress.positionsOfSetBits(source, @intCast(upper_bits), columns, row.n_values);
    if (found != row.n_values) return .columns;
    const low = source + @as(usize, @intCast((upper_bits + 7) / 8));
    const largest = switch (low_bits) {
        inline 0...8 => |width| joinLowBits(width, low, row.n_values, columns),
        else => joinLowBitsScalar(@intCast(low_bits), low, row.n_values, columns),
    };
    return if (row.n_values == 0 or largest < row.n_cols) .none else .columns;
}

/// From the position of bit i to the column: (position - i) << width | low code i. Gives the largest column;
/// the lanes behind the last value hold rubbish and do not count.
fn joinLowBits(comptime width: u5, low: [*]const u8, count: u32, columns: [*]u32) u32 {
    const Lanes = @Vector(8, u32);
    var largest: Lanes = @splat(0);
    var index: Lanes = std.simd.iota(u32, 8);
    var at: usize = 0;
    while (at < count) : (at += 8) {
        const positions: Lanes = columns[at..][0..8].*;
        var column = (positions -% index) << @splat(width);
        if (width > 0) column |= bits.unpackEight(width, low + at / 8 * width);
        columns[at..][0..8].* = column;
        largest = @max(largest, if (at + 8 <= count) column else maskTail(column, count - at));
        index +%= @splat(8);
    }
    return @reduce(.Max, largest);
}

inline fn maskTail(column: @Vector(8, u32), live: usize) @Vector(8, u32) {
    const lane = std.simd.iota(u32, 8);
    const zero: @Vector(8, u32) = @splat(0);
    return @select(u32, lane < @as(@Vector(8, u32), @splat(@intCast(live))), column, zero);
}

/// Plain version, and the one for sparse rows of wide matrices.
fn joinLowBitsScalar(width: u5, low: [*]const u8, count: u32, columns: [*]u32) u32 {
    var largest: u32 = 0;
    for (columns[0..count], 0..) |*column, index| {
        const upper = (@as(u64, column.*) - index) << width;
        const value = upper | bits.codeAt(low, index, width);
        column.* = @truncate(@min(value, std.math.maxInt(u32)));
        largest = @max(largest, column.*);
    }
    return largest;
}

/// Decodes the codes of a row whose tiers are at most 30 bits wide into `scratch.codes`.
/// The values must end exactly where the payload does.
pub fn decodeCodes(row: *const Row, open: *const OpenRow, scratch: *const RowScratch) RowFault {
    assert(open.header.isNarrow());
    const count: usize = row.n_values;
    const width_0, const width_1, const width_2 = open.header.widths;
    const bytes_0: usize = @intCast(bits.packedBytes(count, width_0));
    if (bytes_0 > open.values_bytes) return .length;
    if (width_1 == 0) {
        if (bytes_0 != open.values_bytes) return .length;
        bits.unpack(open.values, count, width_0, scratch.codes);
        return .none;
    }
    const source_1 = open.values + bytes_0;
    const rest = open.values_bytes - bytes_0;
    if (width_0 == 1) {
        const escaped = compress.countSetBits(open.values, count);
        const fault = decodeUpperTiers(source_1, rest, escaped, width_1, width_2, scratch);
        if (fault != .none) return fault;
        compress.spread(open.values, count, scratch.tier, 1, scratch.codes);
        return .none;
    }
    bits.unpack(open.values, count, width_0, scratch.codes);
    const escape: u32 = @intCast(bits.lowMask(width_0));
    // the positions of tier 1 and of tier 2 are needed one after the other: tier 1 is patched first
    const escaped = countEqual(scratch.codes, count, escape);
    const fault = decodeUpperTiers(source_1, rest, escaped, width_1, width_2, scratch);
    if (fault != .none) return fault;
    _ = compress.positionsEqual(scratch.codes, count, escape, scratch.positions);
    for (scratch.positions[0..escaped], scratch.tier[0..escaped]) |position, code| {
        scratch.codes[position] = code +% escape;
    }
    return .none;
}

/// Tier 1 with tier 2 added, into `scratch.tier`.
fn decodeUpperTiers(
    source: [*]const u8,
    source_bytes: usize,
    count: usize,
    width_1: u8,
    width_2: u8,
    scratch: *const RowScratch,
) RowFault {
    const bytes_1: usize = @intCast(bits.packedBytes(count, width_1));
    if (bytes_1 > source_bytes) return .length;
    bits.unpack(source, count, width_1, scratch.tier);
    if (width_2 == 0) return if (bytes_1 == source_bytes) .none else .length;
    const escape: u32 = @intCast(bits.lowMask(width_1));
    const escaped = compress.positionsEqual(scratch.tier, count, escape, scratch.positions);
    if (bytes_1 + bits.packedBytes(escaped, width_2) != source_bytes) return .length;
    const source_2 = source + bytes_1;
    for (scratch.positions[0..escaped], 0..) |position, index| {
        scratch.tier[position] = escape +% @as(u32, @intCast(bits.codeAt(source_2, index, width_2)));
    }
    return .none;
}

fn countEqual(codes: [*]const u32, count: usize, wanted: u32) usize {
    var found: usize = 0;
    for (codes[0..count]) |code| found += @intFromBool(code == wanted);
    return found;
}

/// Codes of any width, one by one: for rows with integers beyond 30 bits, which counts never have. `codes` takes
/// n_values elements.
pub fn decodeCodesWide(row: *const Row, open: *const OpenRow, codes: [*]u64) RowFault {
    const count: usize = row.n_values;
    const width_0, const width_1, const width_2 = open.header.widths;
    var ends: [3]u64 = undefined;
    ends[0] = bits.packedBytes(count, width_0);
    if (ends[0] > open.values_bytes) return .length;
    var escaped_1: usize = 0;
    var escaped_2: usize = 0;
    for (0..count) |index| {
        var code = if (width_0 == 0) 0 else bits.codeAt(open.values, index, width_0);
        if (width_1 > 0 and code == bits.lowMask(width_0)) {
            const source_1 = open.values + @as(usize, @intCast(ends[0]));
            if (ends[0] + bits.packedBytes(escaped_1 + 1, width_1) > open.values_bytes) return .length;
            const code_1 = bits.codeAt(source_1, escaped_1, width_1);
            escaped_1 += 1;
            code +%= code_1;
        }
        codes[index] = code;
    }
    ends[1] = ends[0] + bits.packedBytes(escaped_1, width_1);
    if (width_2 > 0) {
        const escape = bits.lowMask(width_0) + bits.lowMask(width_1);
        const source_2 = open.values + @as(usize, @intCast(ends[1]));
        for (codes[0..count]) |*code| {
            if (code.* != escape) continue;
            if (ends[1] + bits.packedBytes(escaped_2 + 1, width_2) > open.values_bytes) return .length;
            code.* +%= bits.codeAt(source_2, escaped_2, width_2);
            escaped_2 += 1;
        }
    }
    ends[2] = ends[1] + bits.packedBytes(escaped_2, width_2);
    return if (ends[2] == open.values_bytes) .none else .length;
}
