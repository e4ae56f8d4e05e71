//! For tests: a folder that vanishes afterwards, and small files in it.

const std = @import("std");
const Allocator = std.mem.Allocator;
const errors = @import("../errors.zig");
const platform = @import("platform.zig");
const writer_module = @import("writer.zig");
const Writer = writer_module.Writer;
const Report = errors.Report;
const Failure = errors.Failure;

pub const io = std.testing.io;

pub const Folder = struct {
    inner: std.testing.TmpDir,
    buffer: [256]u8 = undefined,

    pub fn create() Folder {
        return .{ .inner = std.testing.tmpDir(.{ .iterate = true }) };
    }

    pub fn remove(folder: *Folder) void {
        folder.inner.cleanup();
    }

    /// Valid until the next call.
    pub fn path(folder: *Folder, name: []const u8) []const u8 {
        return std.fmt.bufPrint(&folder.buffer, "{s}/{s}/{s}", .{
            std.testing.TmpDir.parent_dir_path, &folder.inner.sub_path, name,
        }) catch unreachable;
    }

    pub fn put(folder: *Folder, name: []const u8, bytes: []const u8) !void {
        try folder.inner.dir.writeFile(io, .{ .sub_path = name, .data = bytes });
    }

    /// The caller's to free.
    pub fn read(folder: *Folder, name: []const u8) ![]u8 {
        return folder.inner.dir.readFileAlloc(io, name, std.testing.allocator, .limited(1 << 20));
    }

    pub fn entryCount(folder: *Folder) !usize {
        var iterator = folder.inner.dir.iterate();
        var count: usize = 0;
        while (try iterator.next(io)) |_| count += 1;
        return count;
    }
};

/// A copy that starts on a page, as a map does.
pub fn aligned(allocator: Allocator, bytes: []const u8) ![]align(platform.page_bytes_min) u8 {
    const copy = try allocator.alignedAlloc(u8, .fromByteUnits(platform.page_bytes_min), bytes.len);
    @memcpy(copy, bytes);
    return copy;
}

/// Writes a file with what most files have: metadata, two shards of X, one of a layer and, when asked for, two
/// modalities and a section of a type that nobody knows.
pub fn writeSmall(
    allocator: Allocator,
    path: []const u8,
    kind: enum { single, multimodal },
    report: *Report,
) Failure!void {
    const writer: *Writer = try .create(allocator, path, .{ .n_obs = 5, .n_vars = 4, .overwrite = true, .shard_target_rows = 3 }, report);
    defer writer.close();
    if (kind == .multimodal) {
        _ = try writer.addModality(.{ .name = "rna", .modality_type = 0, .codec_id = 0, .value_encoding = 2, .n_vars = 4 }, report);
        _ = try writer.addModality(.{ .name = "atac", .modality_type = 2, .codec_id = 0, .value_encoding = 0, .n_vars = 2 }, report);
    }
    const id: u8 = if (kind == .multimodal) 1 else 0;
    try writer.addSection(.{ .name = "obs", .section_type = .obs }, "cells", report);
    try writer.addSection(.{ .name = "X_shard_0", .section_type = .csr_shard, .modality_id = id, .stats = shard(0, 3, 4, 7) }, "SCXS\x01\x00\x40\x02" ++ "first", report);
    try writer.addSection(.{ .name = "X_shard_1", .section_type = .csr_shard, .modality_id = id, .stats = shard(3, 5, 4, 2) }, "SCXS\x01\x00\x40\x02" ++ "second", report);
    if (kind == .multimodal) {
        try writer.addSection(.{ .name = "X_shard_0", .section_type = .csr_shard, .modality_id = 2, .stats = shard(0, 5, 2, 10) }, "SCXS\x01\x00\x40\x00" ++ "third", report);
        try writer.addSection(.{ .name = "later", .section_type = @fromBackingInt(250) }, "12345678", report);
    } else {
        try writer.addSection(.{ .name = "counts_shard_0", .section_type = .layer_csr_shard, .stats = shard(0, 5, 4, 9) }, "SCXS\x02\x00\x40\x02", report);
    }
    try writer.addSection(.{ .name = "uns", .section_type = .uns }, "", report);
    try writer.finish(report);
}

fn shard(row_start: u64, row_end: u64, n_cols: u64, nnz: u64) writer_module.ShardStats {
    return .{ .row_start = row_start, .row_end = row_end, .col_start = 0, .col_end = n_cols, .nnz = nnz, .value_min = 1, .value_max = 9, .value_sum = 20 };
}
