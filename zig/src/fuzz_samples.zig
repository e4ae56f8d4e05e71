//! The good files that the fuzzer damages: one of each codec, with rows of every kind.

const std = @import("std");
const canonical = @import("codec/canonical.zig");
const container_writer = @import("container/writer.zig");
const errors = @import("errors.zig");
const layout = @import("container/layout.zig");
const matrix_module = @import("codec/matrix.zig");
const platform = @import("container/platform.zig");
const shard = @import("codec/shard.zig");
const ShardWriter = @import("codec/shard_writer.zig").ShardWriter;
const ValueType = @import("codec/value_type.zig").ValueType;
const Rows = @import("codec/shard_writer.zig").Rows;

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

const selectors = [_]matrix_module.Selector{
    .{ .section_type = .csr_shard, .modality_id = 0, .name = "X" },
    .{ .section_type = .layer_csr_shard, .modality_id = 0, .name = "palette" },
    .{ .section_type = .layer_csr_shard, .modality_id = 0, .name = "raw_values" },
    .{ .section_type = .layer_csr_shard, .modality_id = 0, .name = "wide" },
};

pub fn clockSeconds() u64 {
    var now: std.c.timespec = undefined;
    if (std.c.clock_gettime(.MONOTONIC, &now) != 0) return 0;
    return @intCast(now.sec);
}

pub fn make(allocator: Allocator) ![]const Sample {
    const made = try allocator.alloc(Sample, 2);
    for (made, [_]shard.Codec{ .rowpack, .none }) |*sample, codec| {
        sample.* = .{ .bytes = try makeFile(allocator, codec), .selectors = &selectors };
    }
    return made;
}

pub fn alignedCopy(allocator: Allocator, bytes: []const u8) ![]align(platform.page_bytes_min) u8 {
    const copy = try allocator.alignedAlloc(u8, .fromByteUnits(platform.page_bytes_min), bytes.len);
    @memcpy(copy, bytes);
    return copy;
}

/// Makes the catalog's hash fit again, so that damage inside it gets past the first check.
pub fn repairHashes(bytes: []u8) void {
    if (bytes.len < layout.sections_offset) return;
    const header: *const layout.Header = @ptrCast(bytes[0..layout.header_bytes]);
    const range: layout.Range = .{ .offset = header.full_catalog_offset, .length = header.full_catalog_length };
    if (!range.isInside(0, bytes.len) or range.length < 32) return;
    const catalog = bytes[@intCast(range.offset)..][0..@intCast(range.length)];
    std.crypto.hash.Blake3.hash(catalog[0 .. catalog.len - 32], catalog[catalog.len - 32 ..][0..32], .{});
}

fn makeFile(allocator: Allocator, codec: shard.Codec) ![]align(platform.page_bytes_min) u8 {
    const path = "scx-fuzz-sample.scx";
    var report: Report = .{};
    const writer = try Writer.create(allocator, path, .{ .n_obs = n_rows, .n_vars = n_cols, .overwrite = true }, &report);
    defer writer.close();
    var random = std.Random.DefaultPrng.init(1);
    try addMatrix(f32, allocator, writer, codec, .csr_shard, "X", random.random());
    try addMatrix(f32, allocator, writer, codec, .layer_csr_shard, "palette", random.random());
    try addMatrix(f64, allocator, writer, codec, .layer_csr_shard, "raw_values", random.random());
    try addMatrix(i64, allocator, writer, codec, .layer_csr_shard, "wide", random.random());
    try writer.finish(&report);
    return readFile(allocator, path);
}

fn addMatrix(
    comptime T: type,
    allocator: Allocator,
    writer: *Writer,
    codec: shard.Codec,
    section_type: @import("container/section_types.zig").SectionType,
    name: []const u8,
    random: std.Random,
) !void {
    var report: Report = .{};
    var row_start: usize = 0;
    while (row_start < n_rows) : (row_start += shard_rows) {
        const count = @min(shard_rows, n_rows - row_start);
        var shard_name: [64]u8 = undefined;
        const text = try std.fmt.bufPrint(&shard_name, "{s}_shard_{d}", .{ name, row_start / shard_rows });
        const open = try ShardWriter.begin(allocator, writer, .{
            .name = text,
            .section_type = section_type,
            .modality_id = 0,
            .codec = codec,
            .value_type = switch (T) {
                f32 => .f32,
                f64 => .f64,
                i64 => .i64,
                else => comptime unreachable,
            },
            .row_start = row_start,
            .n_rows = @intCast(count),
            .n_cols = n_cols,
            .threads = 1,
            .keep_zeros = false,
        }, &report);
        defer open.deinit();
        var values: [shard_rows * n_cols]T = undefined;
        for (&values, 0..) |*value, index| value.* = sampleValue(T, name, random, row_start + index / n_cols);
        var mended: canonical.Mended = .{};
        try open.append(.{ .dense = .{ .n_rows = count, .values = @ptrCast(&values) } }, &mended, &report);
        try open.finish(&report);
    }
}

/// Sparse rows, full rows (runs and bitmaps) and an empty one.
fn sampleValue(comptime T: type, name: []const u8, random: std.Random, row: usize) T {
    if (row == 5 or (row % 4 != 1 and random.uintLessThan(u8, 4) != 0)) return 0;
    const count = 1 + random.uintLessThan(u32, if (random.uintLessThan(u8, 5) == 0) 900 else 3);
    if (T == i64) return @as(i64, count) << @intCast(random.uintLessThan(u8, 40));
    if (std.mem.eql(u8, name, "raw_values")) return random.floatNorm(T);
    const number: T = @floatFromInt(count);
    return if (std.mem.eql(u8, name, "palette")) @log(1 + number * 1.7) else number;
}

fn readFile(allocator: Allocator, path: [:0]const u8) ![]align(platform.page_bytes_min) u8 {
    var report: Report = .{};
    const file = try @import("container/file.zig").File.open(allocator, path, .{}, &report);
    defer file.close();
    defer _ = std.c.unlink(path);
    return alignedCopy(allocator, file.bytes);
}
