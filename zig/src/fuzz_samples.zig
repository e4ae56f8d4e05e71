//! The good files that the fuzzer damages: one of each codec, with rows of every kind.

const std = @import("std");
const canonical = @import("codec/canonical.zig");
const container_writer = @import("container/writer.zig");
const deletion_vectors = @import("container/deletion_vectors.zig");
const errors = @import("errors.zig");
const layout = @import("container/layout.zig");
const matrix_module = @import("codec/matrix.zig");
const platform = @import("container/platform.zig");
const shard = @import("codec/shard.zig");
const ShardWriter = @import("codec/shard_writer.zig").ShardWriter;
const ValueType = @import("codec/value_type.zig").ValueType;
const Rows = @import("codec/encode_rows.zig").Rows;

const Allocator = std.mem.Allocator;
const Report = errors.Report;
const Writer = container_writer.Writer;

pub const Sample = struct {
    bytes: []align(platform.page_bytes_min) u8,
    selectors: []const matrix_module.Selector,
};

const n_rows = 12;
const n_cols = 90;
const shard_rows = 7;

/// What the values of a matrix are like, so that each way of packing them occurs.
const Kind = enum { counts, logged, rounded, normal, large };

const Made = struct {
    value_type: ValueType,
    kind: Kind,
    selector: matrix_module.Selector,
    n_cols: u32 = n_cols,
    /// What its shards are called, but for their numbers; null as those of a file with one modality.
    shard_names: ?[]const u8 = null,

    fn layer(value_type: ValueType, kind: Kind, name: []const u8) Made {
        return .{
            .value_type = value_type,
            .kind = kind,
            .selector = .{ .section_type = .layer_csr_shard, .modality_id = 0, .name = name },
        };
    }
};

const matrices = [_]Made{
    .{
        .value_type = .f32,
        .kind = .counts,
        .selector = .{ .section_type = .csr_shard, .modality_id = 0, .name = "X" },
    },
    .layer(.f32, .logged, "palette"),
    .layer(.f32, .rounded, "decimals"),
    .layer(.f16, .rounded, "half_decimals"),
    .layer(.f64, .normal, "raw_values"),
    .layer(.i64, .large, "wide"),
    .layer(.u8, .counts, "bytes"),
    .layer(.u16, .large, "words"),
    .layer(.i32, .normal, "signed"),
    // so many columns that the low bits of a row's columns are read one by one
    .{
        .value_type = .u32,
        .kind = .large,
        .selector = .{ .section_type = .raw_csr_shard, .modality_id = 0, .name = "raw/X" },
        .n_cols = 4000,
    },
};

const selectors = selectors: {
    var all: [matrices.len]matrix_module.Selector = undefined;
    for (&all, &matrices) |*selector, *matrix| selector.* = matrix.selector;
    break :selectors all;
};

pub fn clockSeconds() u64 {
    var now: std.c.timespec = undefined;
    if (std.c.clock_gettime(.MONOTONIC, &now) != 0) return 0;
    return @intCast(now.sec);
}

pub fn make(allocator: Allocator) ![]const Sample {
    const made = try allocator.alloc(Sample, 4);
    for (made[0..2], [_]shard.Codec{ .rowpack, .none }) |*sample, codec| {
        sample.* = .{ .bytes = try makeFile(allocator, codec), .selectors = &selectors };
    }
    made[2] = .{ .bytes = try makeWithoutMatrix(allocator), .selectors = &.{} };
    made[3] = .{ .bytes = try makeMultimodal(allocator), .selectors = &modality_selectors };
    return made;
}

pub fn free(allocator: Allocator, made: []const Sample) void {
    for (made) |sample| allocator.free(sample.bytes);
    allocator.free(made);
}

pub fn alignedCopy(allocator: Allocator, bytes: []const u8) ![]align(platform.page_bytes_min) u8 {
    const copy = try allocator.alignedAlloc(u8, .fromByteUnits(platform.page_bytes_min), bytes.len);
    @memcpy(copy, bytes);
    return copy;
}

/// Makes the checksums of the modality table and of the catalog fit again, so that damage inside them gets past the first
/// check.
pub fn repairHashes(bytes: []u8) void {
    if (bytes.len < layout.sections_offset) return;
    const header: *const layout.Header = @ptrCast(bytes[0..layout.header_bytes]);
    repairHash(bytes, .{ .offset = header.modality_table_offset, .length = header.modality_table_length }, 4);
    repairHash(bytes, .{ .offset = header.full_catalog_offset, .length = header.full_catalog_length }, 32);
}

/// The last bytes of the range are the hash of the others.
fn repairHash(bytes: []u8, range: layout.Range, comptime hash_bytes: usize) void {
    if (!range.isInside(0, bytes.len) or range.length < hash_bytes) return;
    const all = bytes[@intCast(range.offset)..][0..@intCast(range.length)];
    const hashed = all[0 .. all.len - hash_bytes];
    var hash: [32]u8 = undefined;
    std.crypto.hash.Blake3.hash(hashed, &hash, .{});
    all[hashed.len..][0..hash_bytes].* = hash[0..hash_bytes].*;
}

fn makeFile(allocator: Allocator, codec: shard.Codec) ![]align(platform.page_bytes_min) u8 {
    const path = "scx-fuzz-sample.scx";
    var report: Report = .{};
    const writer = try Writer.create(allocator, path, .{ .n_obs = n_rows, .n_vars = n_cols, .overwrite = true }, &report);
    defer writer.close();
    var random = std.Random.DefaultPrng.init(1);
    for (&matrices) |*matrix| switch (matrix.value_type) {
        inline else => |value_type| try addMatrix(value_type, allocator, writer, codec, matrix, random.random()),
    };
    // the rows 0, 2 and 3
    const bitmap = "\x3a\x30\x00\x00\x01\x00\x00\x00" ++ "\x00\x00\x02\x00" ++ "\x10\x00\x00\x00" ++ "\x00\x00\x02\x00\x03\x00";
    try addDeleted(allocator, writer, &.{ .{ .shard_id = 0, .bitmap = bitmap }, .{ .shard_id = 1, .bitmap = bitmap } });
    try writer.finish(&report);
    return readFile(allocator, path);
}

const modality_matrices = [_]Made{
    .{
        .value_type = .u16,
        .kind = .counts,
        .selector = .{ .section_type = .csr_shard, .modality_id = 1, .name = "X" },
        .shard_names = "X/rna/shard_",
    },
    .{
        .value_type = .f32,
        .kind = .logged,
        .selector = .{ .section_type = .csr_shard, .modality_id = 2, .name = "X" },
        .n_cols = 30,
        .shard_names = "X/protein/shard_",
    },
};
const modality_selectors = [_]matrix_module.Selector{ modality_matrices[0].selector, modality_matrices[1].selector };

fn makeMultimodal(allocator: Allocator) ![]align(platform.page_bytes_min) u8 {
    const path = "scx-fuzz-sample.scx";
    var report: Report = .{};
    const writer = try Writer.create(allocator, path, .{ .n_obs = n_rows, .n_vars = n_cols, .overwrite = true }, &report);
    defer writer.close();
    for (modality_matrices, [_][]const u8{ "rna", "protein" }) |matrix, name| {
        _ = try writer.addModality(.{
            .name = name,
            .modality_type = 0,
            .codec_id = 0,
            .value_encoding = @intCast(@backingInt(matrix.value_type)),
            .n_vars = matrix.n_cols,
        }, &report);
    }
    var random = std.Random.DefaultPrng.init(2);
    for (&modality_matrices) |*matrix| switch (matrix.value_type) {
        inline else => |value_type| try addMatrix(value_type, allocator, writer, .rowpack, matrix, random.random()),
    };
    try writer.finish(&report);
    return readFile(allocator, path);
}

/// Deletion vectors have bitmaps of this form where many rows lie in one range, as they do without a matrix.
fn makeWithoutMatrix(allocator: Allocator) ![]align(platform.page_bytes_min) u8 {
    const path = "scx-fuzz-sample.scx";
    var report: Report = .{};
    const writer = try Writer.create(allocator, path, .{ .n_obs = 1 << 18, .n_vars = 0, .overwrite = true }, &report);
    defer writer.close();
    const bits: [8192]u8 = @splat(0x55);
    const bitmap = "\x3b\x30\x02\x00\x02" ++ // three containers, the second one of runs
        "\x00\x00\x01\x00" ++ "\x01\x00\x04\x00" ++ "\x02\x00\xff\x7f" ++
        "\x05\x00\x09\x00" ++ "\x02\x00" ++ "\x07\x00\x02\x00" ++ "\x20\x00\x01\x00" ++ bits;
    try addDeleted(allocator, writer, &.{.{ .shard_id = 0, .bitmap = bitmap }});
    try writer.finish(&report);
    return readFile(allocator, path);
}

fn addDeleted(allocator: Allocator, writer: *Writer, vectors: []const deletion_vectors.Vector) !void {
    var report: Report = .{};
    const bytes = try deletion_vectors.serialize(allocator, vectors);
    defer allocator.free(bytes);
    try writer.addSection(.{ .name = deletion_vectors.section_name, .section_type = .deletion_vectors }, bytes, &report);
}

fn addMatrix(
    comptime value_type: ValueType,
    allocator: Allocator,
    writer: *Writer,
    codec: shard.Codec,
    matrix: *const Made,
    random: std.Random,
) !void {
    const T = value_type.Of();
    var report: Report = .{};
    const values = try allocator.alloc(T, shard_rows * matrix.n_cols);
    defer allocator.free(values);
    var row_start: usize = 0;
    while (row_start < n_rows) : (row_start += shard_rows) {
        const count = @min(shard_rows, n_rows - row_start);
        var shard_name: [64]u8 = undefined;
        const number = row_start / shard_rows;
        const text = if (matrix.shard_names) |start|
            try std.fmt.bufPrint(&shard_name, "{s}{d}", .{ start, number })
        else
            try std.fmt.bufPrint(&shard_name, "{s}_shard_{d}", .{ matrix.selector.name, number });
        const open = try ShardWriter.begin(allocator, writer, .{
            .name = text,
            .section_type = matrix.selector.section_type,
            .modality_id = matrix.selector.modality_id,
            .codec = codec,
            .value_type = value_type,
            .row_start = row_start,
            .n_rows = @intCast(count),
            .n_cols = matrix.n_cols,
            .threads = 1,
            .keep_zeros = false,
        }, &report);
        defer open.deinit();
        for (values, 0..) |*value, index| {
            const is_stored = isStored(random, row_start + index / matrix.n_cols, matrix.n_cols);
            value.* = if (is_stored) sampleValue(T, matrix.kind, random) else 0;
        }
        var mended: canonical.Mended = .{};
        try open.append(.{ .dense = .{ .n_rows = count, .values = @ptrCast(values.ptr) } }, &mended, &report);
        try open.finish(&report);
    }
}

/// Sparse rows, full rows (runs and bitmaps) and an empty one; of many columns sparse rows alone.
fn isStored(random: std.Random, row: usize, columns: u32) bool {
    if (row == 5) return false;
    if (columns > n_cols) return random.uintLessThan(u32, 500) == 0;
    return row % 4 == 1 or random.uintLessThan(u8, 4) == 0;
}

fn sampleValue(comptime T: type, kind: Kind, random: std.Random) T {
    const small = 1 + random.uintLessThan(u32, if (random.uintLessThan(u8, 5) == 0) 900 else 3);
    const number: f64 = switch (kind) {
        .counts => @floatFromInt(@min(small, 255)),
        .logged => @log(1 + 1.7 * @as(f64, @floatFromInt(small))),
        .rounded => @round(100 * random.floatNorm(f64)) / 100,
        .normal => 50 * random.floatNorm(f64),
        .large => @floatFromInt(@as(u64, small) << @intCast(random.uintLessThan(u8, 40))),
    };
    return if (@typeInfo(T) == .float) @floatCast(number) else std.math.lossyCast(T, number);
}

fn readFile(allocator: Allocator, path: [:0]const u8) ![]align(platform.page_bytes_min) u8 {
    var report: Report = .{};
    const file = try @import("container/file.zig").File.open(allocator, path, .{}, &report);
    defer file.close();
    defer _ = std.c.unlink(path);
    return alignedCopy(allocator, file.bytes);
}
