//! A shard section: header, streams, block index.
//!
//! | at | type | field |
//! |---|---|---|
//! | 0 | 4 bytes | "SCXS" |
//! | 4 | u8 | shard_format_version: 1, or 2 for shards framed into row groups |
//! | 5 | u8 | shard_type: 0 CSR, 1 CSC |
//! | 6 | u8 | codec_id |
//! | 7 | u8 | value_encoding |
//! | 8 | u8 | index_dtype: 0 u16, 1 u32 |
//! | 9 | 3 bytes | zero |
//! | 12 | u32 | n_major: rows |
//! | 16 | u32 | n_minor: columns |
//! | 20 | u64 | nnz |
//! | 28 | u64 | global_offset: the first row in the file |
//! | 36 | 4 x (u32 offset, u32 length) | indptr, indices, values, block index; offsets inside the section |
//! | 68 | 8 bytes | BLAKE3, cut to 64 bits, of everything after the header |
//!
//! Our shards have version 1 and one block for each 65,535 rows, whose stream offsets are 0. Streams start at
//! multiples of 8, so that they can be used in place from the map.

const std = @import("std");
const errors = @import("../errors.zig");
const rowpack = @import("rowpack.zig");
const ValueType = @import("value_type.zig").ValueType;

const assert = std.debug.assert;

pub const magic = "SCXS";
pub const header_bytes = 76;
/// Where our first stream starts.
pub const streams_at = 80;
pub const block_rows_max = std.math.maxInt(u16);

pub const Codec = enum(u8) {
    none = 0,
    rowpack = 64,
};

pub const codec_names = [_]struct { u8, []const u8 }{
    .{ 1, "scx1" },
    .{ 2, "zstd" },
    .{ 3, "lz4 + byte shuffle" },
    .{ 4, "pcodec" },
    .{ 5, "byte shuffle + byte delta + zstd" },
};

/// What an offset of 32 bits cannot reach is no shard.
pub fn tooLarge(name: []const u8, report: *errors.Report) errors.Failure {
    return report.fail(error.Limit, "shard '{f}' grows beyond 4 GB: use a smaller shard_size", .{errors.escaped(name)});
}

/// The name of a codec that this version does not decode.
pub fn foreignCodecName(codec_id: u8) []const u8 {
    for (codec_names) |known| if (known[0] == codec_id) return known[1];
    return "unknown";
}

pub const Stream = struct { offset: u32 = 0, length: u32 = 0 };

pub const Header = struct {
    shard_format_version: u8 = 1,
    shard_type: u8 = 0,
    codec_id: u8,
    value_encoding: u8,
    index_dtype: u8,
    n_major: u32,
    n_minor: u32,
    nnz: u64,
    global_offset: u64,
    indptr: Stream = .{},
    indices: Stream = .{},
    values: Stream = .{},
    block_index: Stream = .{},
    body_hash: [8]u8 = @splat(0),

    pub fn write(self: *const Header, target: *[header_bytes]u8) void {
        var at: usize = 0;
        put(target, &at, magic);
        put(target, &at, &.{ self.shard_format_version, self.shard_type, self.codec_id, self.value_encoding });
        put(target, &at, &.{ self.index_dtype, 0, 0, 0 });
        putInt(target, &at, u32, self.n_major);
        putInt(target, &at, u32, self.n_minor);
        putInt(target, &at, u64, self.nnz);
        putInt(target, &at, u64, self.global_offset);
        for ([_]Stream{ self.indptr, self.indices, self.values, self.block_index }) |part| {
            putInt(target, &at, u32, part.offset);
            putInt(target, &at, u32, part.length);
        }
        put(target, &at, &self.body_hash);
        assert(at == header_bytes);
    }

    /// null where the magic is missing; every other field is taken as it is, for the caller to compare.
    pub fn parse(source: *const [header_bytes]u8) ?Header {
        if (!std.mem.eql(u8, source[0..4], magic)) return null;
        return .{
            .shard_format_version = source[4],
            .shard_type = source[5],
            .codec_id = source[6],
            .value_encoding = source[7],
            .index_dtype = source[8],
            .n_major = int(u32, source[12..16]),
            .n_minor = int(u32, source[16..20]),
            .nnz = int(u64, source[20..28]),
            .global_offset = int(u64, source[28..36]),
            .indptr = stream(source[36..44]),
            .indices = stream(source[44..52]),
            .values = stream(source[52..60]),
            .block_index = stream(source[60..68]),
            .body_hash = source[68..76].*,
        };
    }

    fn int(comptime T: type, source: *const [@sizeOf(T)]u8) T {
        return std.mem.readInt(T, source, .little);
    }

    fn stream(source: *const [8]u8) Stream {
        return .{ .offset = int(u32, source[0..4]), .length = int(u32, source[4..8]) };
    }
};

fn put(target: *[header_bytes]u8, at: *usize, bytes: []const u8) void {
    @memcpy(target[at.*..][0..bytes.len], bytes);
    at.* += bytes.len;
}

fn putInt(target: *[header_bytes]u8, at: *usize, comptime T: type, number: T) void {
    std.mem.writeInt(T, target[at.*..][0..@sizeOf(T)], number, .little);
    at.* += @sizeOf(T);
}

/// What a row's CRC starts from: header bytes 0-19 and 28-35.
pub fn identity(header: *const [header_bytes]u8) [rowpack.identity_bytes]u8 {
    return header[0..20].* ++ header[28..36].*;
}

pub const block_entry_bytes = 22;

pub fn blockCount(n_rows: u64) u32 {
    return @intCast(@max(1, (n_rows + block_rows_max - 1) / block_rows_max));
}

pub fn blockIndexBytes(n_rows: u64) u32 {
    return 4 + blockCount(n_rows) * block_entry_bytes;
}

/// `first_values[r]` = how many values lie before row r, n_rows + 1 entries.
pub fn writeBlockIndex(target: []u8, first_values: []const u64) void {
    const n_rows = first_values.len - 1;
    assert(target.len == blockIndexBytes(n_rows));
    std.mem.writeInt(u32, target[0..4], blockCount(n_rows), .little);
    for (0..blockCount(n_rows)) |block| {
        const start = block * block_rows_max;
        const stop = @min(n_rows, start + block_rows_max);
        const entry = target[4 + block * block_entry_bytes ..][0..block_entry_bytes];
        @memset(entry, 0); // the three stream offsets of unframed shards are 0
        std.mem.writeInt(u32, entry[0..4], @intCast(start), .little);
        std.mem.writeInt(u16, entry[4..6], @intCast(stop - start), .little);
        std.mem.writeInt(u32, entry[18..22], @intCast(first_values[stop] - first_values[start]), .little);
    }
}

pub fn indexBytes(n_cols: u64) u8 {
    return if (n_cols <= 1 << 16) 2 else 4;
}

test "a header comes back" {
    const header: Header = .{
        .codec_id = 64,
        .value_encoding = 3,
        .index_dtype = 1,
        .n_major = 7,
        .n_minor = 70_000,
        .nnz = 1 << 33,
        .global_offset = 1 << 34,
        .values = .{ .offset = 80, .length = 999 },
        .body_hash = "12345678".*,
    };
    var bytes: [header_bytes]u8 = undefined;
    header.write(&bytes);
    try std.testing.expectEqualDeep(header, Header.parse(&bytes).?);
    bytes[0] = 'x';
    try std.testing.expectEqual(null, Header.parse(&bytes));
}

test "block index of one and of two blocks" {
    var bytes: [4 + 2 * block_entry_bytes]u8 = undefined;
    writeBlockIndex(bytes[0..26], &.{ 0, 2, 2, 5 });
    try std.testing.expectEqualSlices(u8, &([_]u8{ 1, 0, 0, 0, 0, 0, 0, 0, 3, 0 } ++ @as([12]u8, @splat(0)) ++ [_]u8{ 5, 0, 0, 0 }), bytes[0..26]);
    const many = try std.testing.allocator.alloc(u64, block_rows_max + 2);
    defer std.testing.allocator.free(many);
    for (many, 0..) |*first, index| first.* = index;
    writeBlockIndex(&bytes, many);
    try std.testing.expectEqual(2, std.mem.readInt(u32, bytes[0..4], .little));
    try std.testing.expectEqual(1, std.mem.readInt(u16, bytes[30..32], .little));
}
