//! rowpack (codec 64): every row of a shard is packed on its own.
//!
//! A shard's indptr stream is the row table, its indices stream is empty, and its values stream holds the payloads,
//! followed by `tail_bytes` zero bytes so that vector loads stay inside.
//!
//! Row table entry, 24 bytes, in row order:
//!
//! | at | type | field |
//! |---|---|---|
//! | 0 | u32 | payload_offset, in the values stream |
//! | 4 | u32 | n_values, stored values of the row |
//! | 8 | u32 | payload_bytes |
//! | 12 | u32 | CRC-32C of: shard identity (28 bytes), row in the shard (u64), entry bytes 4-11 and 16-23, payload |
//! | 16 | f64 | total of the row's values; negatives and NaN count as 0 |
//!
//! A row without values has no payload. Otherwise the payload is, without gaps:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | row header |
//! | | palette: palette_length values of the shard's type, or decimals (u16 or u32) |
//! | | columns: Elias-Fano (upper bits, then low bits), or a bitmap, or the first column of a run |
//! | | values: tier 0, tier 1, tier 2 of the codes, or the raw values |
//!
//! Row header:
//!
//! | at | field |
//! |---|---|
//! | 0 | bits 0-4 low_bits, bits 5-6 column mode, bit 7 zero |
//! | 1 | value mode |
//! | 2, 3, 4 | width of tier 0, 1, 2 |
//! | 5 | bit 0: the row has a negative value or a NaN; bits 1-3: decimal exponent; bit 4: decimals of a palette take two bytes instead of four; others zero |
//! | 6 | u16 palette_length |
//!
//! Columns, Elias-Fano: bit `(column >> low_bits) + i` of the upper bitmap is set for the i-th column, the bitmap has
//! `n_values + ((n_cols - 1) >> low_bits) + 1` bits; the low bits follow as a stream of `low_bits`-wide codes. It costs
//! about `2 + log2(n_cols / n_values)` bits a column whatever the gaps look like, and finding the set bits of a word is
//! the only sequential work. Bitmap: `n_cols` bits. Run: u32 first column, the others follow without a gap.
//!
//! Values are codes: `value - 1` for positive integers, `value` for integers from 0, or the place in the palette.
//! Tier 0 holds a code for every value. Where width 1 is not zero, its largest code is an escape: the excess over that
//! code continues in tier 1, and where width 2 is not zero, likewise in tier 2. With width 0 = 1 tier 0 is a bitmap of
//! the values that are not 1 (60-70 % of UMI counts are).
//!
//! Decimals: floats that were rounded to a few digits (TPM tables, scaled matrices) are whole numbers d over a power of
//! ten. With a decimal exponent e > 0 the value is d / 10^e, divided in f64 and rounded to the shard's type, and d is
//! stored as 2d or -2d - 1 ("zigzag"): as the codes of value mode 4, or as the entries of a palette. The idea is that
//! of ALP (A. Afroozeh, L. Kuffo, P. Boncz, SIGMOD 2023), a row at a time and without its exceptions.
//!
//! Elias-Fano: P. Elias, JACM 21 (1974); R. Fano, MIT memo 61 (1971). Escapes to wider tiers are variable-byte ideas at
//! the width of bits; S. Vigna, "Quasi-succinct indices" (WSDM 2013) discusses both.

const std = @import("std");
const bits = @import("bits.zig");
const crc32c = @import("crc32c.zig");

const assert = std.debug.assert;

/// Zero bytes behind the last payload.
pub const tail_bytes = 64;
/// Columns are int32 in every output.
pub const columns_max = std.math.maxInt(i32);
/// Widest tier that can end in an escape.
pub const escape_width_max = 8;
pub const palette_length_max = 4096;
pub const low_bits_max = 31;
/// Widest tier of the rows that take the fast way.
pub const narrow_width_max = 30;
/// Bytes 0-19 and 28-35 of the shard header: all that a row's meaning depends on, known before its rows are.
pub const identity_bytes = 28;

pub const RowEntry = extern struct {
    payload_offset: u32,
    n_values: u32,
    payload_bytes: u32,
    crc: u32,
    total: f64,
};

comptime {
    assert(@sizeOf(RowEntry) == 24);
    assert(@offsetOf(RowEntry, "crc") == 12);
    assert(@offsetOf(RowEntry, "total") == 16);
    assert(tail_bytes >= bits.over_read_bytes);
}

pub const ColumnMode = enum(u8) { elias_fano = 0, bitmap = 1, run = 2 };

pub const ValueMode = enum(u8) {
    /// code = value - 1
    positive_integers = 0,
    /// code = place in the row's palette
    palette = 1,
    /// the values themselves
    raw = 2,
    /// code = value
    integers = 3,
    /// code = zigzag of value * 10^exponent
    decimals = 4,
};

/// Unpacked; extern because it crosses from the objects of the CPU levels to the library.
pub const RowHeader = extern struct {
    palette_length: u16,
    column_mode: ColumnMode,
    /// 0 to 31
    low_bits: u8,
    value_mode: ValueMode,
    widths: [3]u8,
    /// The row has a negative value or a NaN, so that its total is not its plain sum.
    irregular: bool,
    /// 0: no decimals.
    decimal_exponent: u8 = 0,
    /// A palette of decimals has two bytes an entry, not four.
    short_palette: bool = false,

    pub const byte_count = 8;

    pub fn write(self: RowHeader, target: *[byte_count]u8) void {
        target[0] = self.low_bits | @backingInt(self.column_mode) << 5;
        target[1] = @backingInt(self.value_mode);
        target[2..5].* = self.widths;
        target[5] = @as(u8, @intFromBool(self.irregular)) | self.decimal_exponent << 1 | @as(u8, @intFromBool(self.short_palette)) << 4;
        std.mem.writeInt(u16, target[6..8], self.palette_length, .little);
    }

    /// null for a header that no writer makes; every limit that the decoder counts on is checked here.
    pub fn parse(source: *const [byte_count]u8) ?RowHeader {
        if (source[0] & 0x80 != 0 or source[5] > 0x1f) return null;
        const header: RowHeader = .{
            .column_mode = std.enums.fromInt(ColumnMode, source[0] >> 5) orelse return null,
            .low_bits = source[0] & 0x1f,
            .value_mode = std.enums.fromInt(ValueMode, source[1]) orelse return null,
            .widths = source[2..5].*,
            .irregular = source[5] & 1 == 1,
            .decimal_exponent = source[5] >> 1 & decimal_exponent_max,
            .short_palette = source[5] & 0x10 != 0,
            .palette_length = std.mem.readInt(u16, source[6..8], .little),
        };
        return if (header.isValid()) header else null;
    }

    fn isValid(self: RowHeader) bool {
        const width_0, const width_1, const width_2 = self.widths;
        if (self.column_mode != .elias_fano and self.low_bits != 0) return false;
        if (width_0 > bits.width_max or width_1 > bits.width_max or width_2 > bits.width_max) return false;
        if (width_1 > 0 and (width_0 < 1 or width_0 > escape_width_max)) return false;
        if (width_2 > 0 and (width_1 < 1 or width_1 > escape_width_max)) return false;
        if ((self.value_mode == .palette) != (self.palette_length > 0)) return false;
        if (self.palette_length > palette_length_max) return false;
        const has_small_codes = self.value_mode == .palette or self.value_mode == .decimals;
        if (has_small_codes and @max(width_0, width_1, width_2) > narrow_width_max) return false;
        if (self.decimal_exponent > 0 and !has_small_codes) return false;
        if (self.decimal_exponent == 0 and (self.value_mode == .decimals or self.short_palette)) return false;
        if (self.short_palette and self.value_mode != .palette) return false;
        if (self.value_mode == .raw and (width_0 != 0 or width_1 != 0 or width_2 != 0)) return false;
        return true;
    }

    pub fn paletteEntryBytes(self: RowHeader, value_bytes: u32) u32 {
        if (self.decimal_exponent == 0) return value_bytes;
        return if (self.short_palette) 2 else 4;
    }

    /// Whether every code plus one fits a signed 32-bit integer, which is what the fast way works with: the excess
    /// of two 8-bit escapes and 30 bits stay below 2^31.
    pub fn isNarrow(self: RowHeader) bool {
        return @max(self.widths[0], self.widths[1], self.widths[2]) <= narrow_width_max;
    }
};

/// Three bits; powers of ten up to it are exact in every float type's f64.
pub const decimal_exponent_max = 7;
pub const powers_of_ten = [decimal_exponent_max + 1]f64{ 1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7 };
/// Numbers below it have a zigzag of at most 30 bits.
pub const decimal_limit = 1 << (narrow_width_max - 1);

pub inline fn zigzag(number: i32) u32 {
    return @bitCast((number << 1) ^ (number >> 31));
}

pub inline fn unzigzag(code: u32) i32 {
    return @as(i32, @bitCast(code >> 1)) ^ -@as(i32, @bitCast(code & 1));
}

/// The value that a decimal stands for.
pub inline fn decimalValue(comptime T: type, code: u32, exponent: u8) T {
    return @floatCast(@as(f64, @floatFromInt(unzigzag(code))) / powers_of_ten[exponent]);
}

pub inline fn upperBits(n_values: u64, n_cols: u64, low_bits: u8) u64 {
    assert(n_cols > 0);
    return n_values + ((n_cols - 1) >> @intCast(low_bits)) + 1;
}

pub fn columnBytes(mode: ColumnMode, n_values: u64, n_cols: u64, low_bits: u8) u64 {
    return switch (mode) {
        .elias_fano => (upperBits(n_values, n_cols, low_bits) + 7) / 8 + bits.packedBytes(n_values, low_bits),
        .bitmap => (n_cols + 7) / 8,
        .run => 4,
    };
}

/// The CRC that the rows of a shard start from.
pub fn shardSeed(identity: *const [identity_bytes]u8) u32 {
    return crc32c.update(0, identity);
}

pub fn rowCrc(shard_seed: u32, row_in_shard: u32, entry: *const RowEntry, payload: []const u8) u32 {
    var crc = crc32c.updateWord(shard_seed, row_in_shard);
    crc = crc32c.updateWord(crc, @as(u64, entry.n_values) | @as(u64, entry.payload_bytes) << 32);
    crc = crc32c.updateWord(crc, @bitCast(entry.total));
    return crc32c.update(crc, payload);
}

test "zigzag" {
    for ([_]i32{ 0, -1, 1, -2, decimal_limit - 1, 1 - decimal_limit }, [_]u32{ 0, 1, 2, 3, (1 << 30) - 2, (1 << 30) - 3 }) |number, code| {
        try std.testing.expectEqual(code, zigzag(number));
        try std.testing.expectEqual(number, unzigzag(code));
    }
    try std.testing.expectEqual(@as(f32, -0.326), decimalValue(f32, zigzag(-326), 3));
}

test "row headers come back, and every other header is refused" {
    var random = std.Random.DefaultPrng.init(3);
    var accepted: usize = 0;
    for (0..200_000) |_| {
        var source: [RowHeader.byte_count]u8 = undefined;
        random.random().bytes(&source);
        for (source[1..5]) |*byte| byte.* &= 7; // random bytes alone would hardly ever be valid
        source[5] &= random.random().int(u8);
        source[7] &= 1;
        if (random.random().boolean()) source[6..8].* = .{ 0, 0 };
        const header = RowHeader.parse(&source) orelse continue;
        accepted += 1;
        var again: [RowHeader.byte_count]u8 = undefined;
        header.write(&again);
        try std.testing.expectEqualSlices(u8, &source, &again);
    }
    try std.testing.expect(accepted > 100);
}
