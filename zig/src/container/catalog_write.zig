//! Writing a catalog: that of a new file, and the one that follows another in the same file.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const Blake3 = std.crypto.hash.Blake3;
const catalog_format = @import("catalog.zig");
const layout = @import("layout.zig");
const errors = @import("../errors.zig");
const Catalog = catalog_format.Catalog;
const Failure = errors.Failure;
const Report = errors.Report;
const Section = catalog_format.Section;
const ShardStats = catalog_format.ShardStats;
const hash_bytes = catalog_format.hash_bytes;

pub const WriteOptions = struct {
    n_obs: u64,
    manifest_sequence: u64,
    prev_catalog_offset: u64,
};

/// The version that can express these sections.
pub fn versionFor(sections: []const Section) u16 {
    for (sections) |section| {
        if (section.section_type.isShardedMetadata()) return 3;
    }
    return 2;
}

/// The bytes of the catalog, the caller's to free.
pub fn serialize(allocator: Allocator, sections: []const Section, options: WriteOptions) Allocator.Error![]u8 {
    var allocating: std.Io.Writer.Allocating = .init(allocator);
    defer allocating.deinit();

    writeBody(&allocating.writer, sections, options) catch return error.OutOfMemory;
    return hashed(&allocating);
}

fn hashed(allocating: *std.Io.Writer.Allocating) Allocator.Error![]u8 {
    var hash: [hash_bytes]u8 = undefined;
    Blake3.hash(allocating.written(), &hash, .{});
    allocating.writer.writeAll(&hash) catch return error.OutOfMemory;
    return allocating.toOwnedSlice();
}

fn writeBody(writer: *std.Io.Writer, sections: []const Section, options: WriteOptions) std.Io.Writer.Error!void {
    try writeStart(writer, versionFor(sections), sections.len, options);
    for (sections) |*section| try writeEntry(writer, section);
}

fn writeStart(
    writer: *std.Io.Writer,
    catalog_version: u16,
    n_entries: usize,
    options: WriteOptions,
) std.Io.Writer.Error!void {
    try writer.writeInt(u16, catalog_version, .little);
    try writer.writeInt(u64, options.manifest_sequence, .little);
    try writer.writeInt(u64, options.prev_catalog_offset, .little);
    try writer.writeInt(u64, options.n_obs, .little);
    try writer.writeInt(u32, @intCast(n_entries), .little);
}

/// The catalog that follows `old` in the same file: its generations stay, and so does each entry that is still there,
/// byte for byte. The caller's to free.
pub fn serializeNext(
    allocator: Allocator,
    old: *const Catalog,
    sections: []const Section,
    options: WriteOptions,
    report: *Report,
) Failure![]u8 {
    const version = @max(old.version, versionFor(sections));
    // Entries of version 1 are shorter than those of all later ones.
    const can_keep = old.version >= 2 or for (sections) |*section| {
        if (section.entry.len == 0 and (section.stats != null or section.modality_id > 0)) break false;
    } else true;
    if (!can_keep) return report.fail(error.Unsupported, "a file with a catalog of version 1 takes no matrices and no " ++
        "modalities in addition; write it anew first (compact)", .{});
    var allocating: std.Io.Writer.Allocating = .init(allocator);
    defer allocating.deinit();

    writeNext(&allocating.writer, if (old.version == 1) 1 else version, old, sections, options) catch return error.OutOfMemory;
    return hashed(&allocating);
}

fn writeNext(
    writer: *std.Io.Writer,
    version: u16,
    old: *const Catalog,
    sections: []const Section,
    options: WriteOptions,
) std.Io.Writer.Error!void {
    try writeStart(writer, version, sections.len, options);
    for (sections) |*section| {
        if (section.entry.len > 0) {
            try writer.writeAll(section.entry);
        } else if (version >= 2) {
            try writeEntry(writer, section);
        } else {
            try writePlace(writer, section);
            try writer.writeInt(u16, 0, .little);
        }
    }
    if (version >= 4 and (old.data_generation != 0 or old.csc_build_generation != 0)) {
        try writer.writeInt(u64, old.data_generation, .little);
        try writer.writeInt(u64, old.csc_build_generation, .little);
    }
}

/// Of an entry, what every version has in front of the modality id.
fn writePlace(writer: *std.Io.Writer, section: *const Section) std.Io.Writer.Error!void {
    assert(section.name.len <= layout.section_name_bytes_max);
    try writer.writeInt(u16, @intCast(section.name.len), .little);
    try writer.writeAll(section.name);
    try writer.writeInt(u64, section.offset, .little);
    try writer.writeInt(u64, section.length, .little);
    try writer.writeByte(@backingInt(section.section_type));
    try writer.writeAll(&section.blake3);
}

fn writeEntry(writer: *std.Io.Writer, section: *const Section) std.Io.Writer.Error!void {
    try writePlace(writer, section);
    try writer.writeByte(section.modality_id);
    if (section.stats) |stats| {
        try writer.writeInt(u16, catalog_format.stats_bytes_v2, .little);
        try writeStats(writer, &stats);
    } else {
        try writer.writeInt(u16, 0, .little);
    }
}

fn writeStats(writer: *std.Io.Writer, stats: *const ShardStats) std.Io.Writer.Error!void {
    try writer.writeInt(u64, stats.row_start, .little);
    try writer.writeInt(u64, stats.row_end, .little);
    try writer.writeInt(u64, stats.col_start, .little);
    try writer.writeInt(u64, stats.col_end, .little);
    try writer.writeInt(u64, stats.nnz, .little);
    try writer.writeInt(u32, stats.value_min, .little);
    try writer.writeInt(u32, stats.value_max, .little);
    try writer.writeInt(u64, stats.value_sum, .little);
    try writer.writeByte(0); // no indexed columns are written
}

// ---- tests ----

const testing = std.testing;
const catalog_parse = @import("catalog_parse.zig");

const test_context: catalog_parse.Context = .{ .file_bytes = 10_000, .catalog_range = .{ .offset = 9000, .length = 1000 }, .n_vars = 50 };

test "what is written is read back" {
    const stats: ShardStats = .{ .row_start = 1, .row_end = 20, .col_start = 0, .col_end = 50, .nnz = 99, .value_min = 2, .value_max = 7, .value_sum = 1 << 40 };
    const sections = [_]Section{
        .{ .name = "obs", .offset = 4352, .length = 3, .section_type = .obs_row_shard, .modality_id = 0, .blake3 = @splat(1), .stats = null },
        .{ .name = "layer/\xc3\xa9", .offset = 4360, .length = 30, .section_type = .layer_csr_shard, .modality_id = 3, .blake3 = @splat(2), .stats = stats },
    };
    try testing.expectEqual(@as(u16, 3), versionFor(&sections));
    try testing.expectEqual(@as(u16, 2), versionFor(sections[1..]));
    const bytes = try serialize(testing.allocator, &sections, .{
        .n_obs = 20,
        .manifest_sequence = 0,
        .prev_catalog_offset = 0,
    });
    defer testing.allocator.free(bytes);
    var report: Report = .{};
    var catalog = try catalog_parse.parse(testing.allocator, bytes, test_context, &report);
    defer catalog.deinit(testing.allocator);
    try testing.expectEqual(30 + catalog.sections[0].entry.len + catalog.sections[1].entry.len + hash_bytes, bytes.len);
    for (catalog.sections) |*section| section.entry = &.{};
    try testing.expectEqualDeep(@as([]const Section, &sections), catalog.sections);
    try testing.checkAllAllocationFailures(testing.allocator, serializeAndParse, .{&sections});
}

fn serializeAndParse(allocator: Allocator, sections: []const Section) !void {
    const bytes = try serialize(allocator, sections, .{
        .n_obs = 20,
        .manifest_sequence = 0,
        .prev_catalog_offset = 0,
    });
    defer allocator.free(bytes);
    var report: Report = .{};
    var catalog = try catalog_parse.parse(allocator, bytes, test_context, &report);
    catalog.deinit(allocator);
}

test "any byte may be changed under a fitting hash: no crash, no leak" {
    const stats: ShardStats = .{ .row_start = 0, .row_end = 20, .col_start = 0, .col_end = 50, .nnz = 99 };
    const sections = [_]Section{
        .{ .name = "obs", .offset = 4352, .length = 3, .section_type = .obs, .modality_id = 0, .blake3 = @splat(1), .stats = null },
        .{ .name = "X", .offset = 4360, .length = 30, .section_type = .csr_shard, .modality_id = 0, .blake3 = @splat(2), .stats = stats },
    };
    const bytes = try serialize(testing.allocator, &sections, .{
        .n_obs = 20,
        .manifest_sequence = 0,
        .prev_catalog_offset = 0,
    });
    defer testing.allocator.free(bytes);
    const body = bytes[0 .. bytes.len - hash_bytes];
    for (body) |*byte| {
        const original = byte.*;
        defer byte.* = original;
        for ([_]u8{ 0x01, 0x80, 0xFF }) |mask| {
            byte.* = original ^ mask;
            Blake3.hash(body, bytes[body.len..], .{});
            var report: Report = .{};
            var catalog = catalog_parse.parse(testing.allocator, bytes, test_context, &report) catch continue;
            for (catalog.sections) |*section| try testing.expect(section.range().isInside(layout.sections_offset, test_context.file_bytes));
            catalog.deinit(testing.allocator);
        }
    }
}
