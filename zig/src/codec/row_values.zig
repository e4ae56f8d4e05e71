//! From a row's codes to values of the wanted type.

const std = @import("std");
const bits = @import("bits.zig");
const decode = @import("rowpack_decode.zig");
const rowpack = @import("rowpack.zig");
const value_type = @import("value_type.zig");

const assert = std.debug.assert;
const OpenRow = decode.OpenRow;
const Row = decode.Row;
const RowFault = decode.RowFault;
const RowScratch = decode.RowScratch;

/// Decodes the values of an opened row of stored type `Stored` into `values`, cast to `Target`.
/// `Target` is `Stored`, f32 or f64.
pub fn decodeValues(
    comptime Stored: type,
    comptime Target: type,
    row: *const Row,
    open: *const OpenRow,
    scratch: *const RowScratch,
    values: []Target,
) RowFault {
    assert(values.len == row.n_values);
    assert(row.value_bytes == @sizeOf(Stored));
    if (open.header.value_mode == .raw) return copyRaw(Stored, Target, open, values);
    if (!open.header.isNarrow()) return decodeWide(Stored, Target, row, open, scratch, values);
    const fault = decode.decodeCodes(row, open, scratch);
    if (fault != .none) return fault;
    const codes = scratch.codes;
    return switch (open.header.value_mode) {
        .positive_integers => fromNarrowCodes(Target, codes, 1, values),
        .integers => fromNarrowCodes(Target, codes, 0, values),
        .palette => fromPalette(Stored, Target, open, codes, values),
        .decimals => fromDecimals(Stored, Target, open, codes, values),
        .raw => unreachable, // taken above
    };
}

fn copyRaw(comptime Stored: type, comptime Target: type, open: *const OpenRow, values: []Target) RowFault {
    if (open.values_bytes != values.len * @sizeOf(Stored)) return .length;
    if (Stored == Target) {
        @memcpy(std.mem.sliceAsBytes(values), open.values[0..open.values_bytes]);
        return .none;
    }
    for (values, 0..) |*value, index| value.* = value_type.convert(Target, storedAt(Stored, open.values, index));
    return .none;
}

inline fn storedAt(comptime Stored: type, source: [*]const u8, index: usize) Stored {
    return @bitCast(bits.load(value_type.BitsOf(Stored), source + index * @sizeOf(Stored)));
}

/// Codes plus base 0 or 1, all below 2^31: converted as signed, for which AVX2 has an instruction.
fn fromNarrowCodes(comptime Target: type, codes: [*]const u32, comptime base: u32, values: []Target) RowFault {
    if (@typeInfo(Target) == .int and @bitSizeOf(Target) < 32) {
        const limit = std.math.maxInt(Target) - base;
        for (values, codes) |*value, code| {
            if (code > limit) return .codes;
            value.* = @intCast(code + base);
        }
        return .none;
    }
    const Lanes = @Vector(vector_lanes, u32);
    var at: usize = 0;
    // written as vectors, because the compiler cannot know that codes and values lie apart
    while (at + vector_lanes <= values.len) : (at += vector_lanes) {
        const loaded: Lanes = codes[at..][0..vector_lanes].*;
        const numbers: @Vector(vector_lanes, i32) = @bitCast(loaded +% @as(Lanes, @splat(base)));
        values[at..][0..vector_lanes].* = numbersTo(Target, numbers);
    }
    for (values[at..], codes[at..]) |*value, code| {
        const number: i32 = @bitCast(code +% base);
        value.* = if (@typeInfo(Target) == .float) @floatFromInt(number) else @intCast(number);
    }
    return .none;
}

const vector_lanes = 16;

inline fn numbersTo(comptime Target: type, numbers: @Vector(vector_lanes, i32)) @Vector(vector_lanes, Target) {
    if (@typeInfo(Target) == .float) return @floatFromInt(numbers);
    return @intCast(numbers);
}

fn fromPalette(
    comptime Stored: type,
    comptime Target: type,
    open: *const OpenRow,
    codes: [*]const u32,
    values: []Target,
) RowFault {
    const length = open.header.palette_length;
    if (largestCode(codes, values.len) >= length) return .codes;
    if (@typeInfo(Stored) == .int and open.header.decimal_exponent > 0) return .header;
    for (values, codes) |*value, code| value.* = paletteAt(Stored, Target, open, code);
    return .none;
}

fn fromDecimals(
    comptime Stored: type,
    comptime Target: type,
    open: *const OpenRow,
    codes: [*]const u32,
    values: []Target,
) RowFault {
    if (@typeInfo(Stored) == .int) return .header;
    for (values, codes) |*value, code| {
        value.* = value_type.convert(Target, rowpack.decimalValue(Stored, code, open.header.decimal_exponent));
    }
    return .none;
}

/// One palette entry; `index` is below the header's palette_length.
pub inline fn paletteAt(comptime Stored: type, comptime Target: type, open: *const OpenRow, index: usize) Target {
    if (@typeInfo(Stored) == .float and open.header.decimal_exponent > 0) {
        const code = if (open.header.short_palette) bits.load(u16, open.palette + index * 2) else bits.load(u32, open.palette + index * 4);
        return value_type.convert(Target, rowpack.decimalValue(Stored, code, open.header.decimal_exponent));
    }
    return value_type.convert(Target, storedAt(Stored, open.palette, index));
}

pub fn largestCode(codes: [*]const u32, count: usize) u32 {
    var largest: u32 = 0;
    for (codes[0..count]) |code| largest = @max(largest, code);
    return largest;
}

/// Codes beyond 30 bits, which fill the scratch for codes as 64-bit numbers.
fn decodeWide(
    comptime Stored: type,
    comptime Target: type,
    row: *const Row,
    open: *const OpenRow,
    scratch: *const RowScratch,
    values: []Target,
) RowFault {
    if (open.header.value_mode == .palette) return .codes; // a palette's codes are never this wide
    const base: u64 = if (open.header.value_mode == .positive_integers) 1 else 0;
    const codes: [*]u64 = @ptrCast(@alignCast(scratch.codes));
    const fault = decode.decodeCodesWide(row, open, codes);
    if (fault != .none) return fault;
    for (values, codes) |*value, code| value.* = castWide(Stored, Target, code, base) orelse return .codes;
    return .none;
}

fn castWide(comptime Stored: type, comptime Target: type, code: u64, base: u64) ?Target {
    const number = std.math.add(u64, code, base) catch return null;
    if (@typeInfo(Stored) == .float) return value_type.convert(Target, @as(Stored, @floatFromInt(number)));
    const stored = std.math.cast(Stored, number) orelse return null;
    return value_type.convert(Target, stored);
}
