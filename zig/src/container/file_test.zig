//! Files that are whole, changed in any byte, cut anywhere, or none at all.

const std = @import("std");
const errors = @import("../errors.zig");
const layout = @import("layout.zig");
const platform = @import("platform.zig");
const testing_files = @import("testing_files.zig");

const testing = std.testing;
const Allocator = std.mem.Allocator;
const Failure = errors.Failure;
const File = @import("file.zig").File;
const Report = errors.Report;

/// Header fields that no reader depends on; everything else must be noticed when it changes.
fn isHarmless(offset: usize) bool {
    return switch (offset) {
        4, 5 => true, // format_version: each shard says itself how it is built
        44...51 => true, // hints
        60, 61 => true, // the root catalog's length, within its bounds
        100...107 => true, // file_checksum: compared by validation
        144...layout.sections_offset - 1 => true, // reserved, and the root catalog
        else => false,
    };
}

test "a flipped byte anywhere gives an error or the same list of sections" {
    inline for (.{ .single, .multimodal }) |kind| {
        var folder: testing_files.Folder = .create();
        defer folder.remove();
        var report: Report = .{};
        try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), kind, &report);
        const written = try folder.read("a.scx");
        defer testing.allocator.free(written);
        const bytes = try testing_files.aligned(testing.allocator, written);
        defer testing.allocator.free(bytes);
        const original: *File = try .fromBytes(testing.allocator, bytes, .{}, &report);
        defer original.closeBorrowed();
        const sections_end = original.header.full_catalog_offset;

        for (0..bytes.len) |offset| {
            for ([_]u8{ 0x01, 0x80, 0xFF }) |mask| {
                bytes[offset] ^= mask;
                defer bytes[offset] ^= mask;
                const changed = File.fromBytes(testing.allocator, bytes, .{}, &report) catch |failure| {
                    try testing.expect(failure == error.Corrupt or failure == error.Truncated or failure == error.Unsupported);
                    continue;
                };
                defer changed.closeBorrowed();
                const in_section = offset >= layout.sections_offset and offset < sections_end;
                try testing.expect(in_section or isHarmless(offset));
                try testing.expectEqual(original.header.n_obs, changed.header.n_obs);
                try testing.expectEqual(original.header.n_vars, changed.header.n_vars);
                try testing.expectEqualDeep(original.sections, changed.sections);
                try testing.expectEqualDeep(original.modalities, changed.modalities);
            }
        }
    }
}

test "a flipped byte in a section is found by its hash and by the checksum" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .single, &report);
    const bytes = try folder.read("a.scx");
    defer testing.allocator.free(bytes);
    {
        const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{ .verify = true }, &report);
        defer file.close();
        for (0..file.sections.len) |index| try file.verifyOnce(@intCast(index), &report);
        try file.verifyChecksum(&report);
    }
    bytes[layout.sections_offset + 2] ^= 0x10; // in obs
    try folder.put("b.scx", bytes);
    const file: *File = try .open(testing.allocator, folder.path("b.scx"), .{}, &report);
    defer file.close();
    const obs = file.find(.obs, 0, "obs").?;
    for (0..2) |_| try testing.expectError(error.Corrupt, file.verifyOnce(obs, &report));
    try testing.expectEqualStrings("obs", report.section[0..report.section_length]);
    try testing.expectError(error.Corrupt, file.verifyChecksum(&report));
    try file.verifyOnce(file.find(.csr_shard, 0, "X_shard_0").?, &report);
}

test "a file cut anywhere is refused" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .multimodal, &report);
    const written = try folder.read("a.scx");
    defer testing.allocator.free(written);
    const bytes = try testing_files.aligned(testing.allocator, written);
    defer testing.allocator.free(bytes);
    for (1..bytes.len) |length| {
        try testing.expectError(error.Truncated, File.fromBytes(testing.allocator, bytes[0..length], .{}, &report));
    }
    // What an interrupted append leaves behind the catalog does no harm.
    const longer = try testing.allocator.alignedAlloc(u8, .fromByteUnits(platform.page_bytes_min), bytes.len + 100);
    defer testing.allocator.free(longer);
    @memset(longer, 0x55);
    @memcpy(longer[0..bytes.len], bytes);
    const file: *File = try .fromBytes(testing.allocator, longer, .{}, &report);
    file.closeBorrowed();
}

fn openAndClose(allocator: Allocator, path: []const u8) !void {
    var report: Report = .{};
    const file: *File = try .open(allocator, path, .{}, &report);
    file.close();
}

test "opening fails cleanly at every allocation" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const path = folder.path("a.scx");
    try testing_files.writeSmall(testing.allocator, path, .multimodal, &report);
    try testing.checkAllAllocationFailures(testing.allocator, openAndClose, .{path});
}

test "what is listed of a multimodal file" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .multimodal, &report);
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer file.close();
    try testing.expectEqual(@as(usize, 2), file.modalities.len);
    try testing.expectEqualStrings("atac", file.modalities[1].name);
    try testing.expectEqual(@as(u64, 10), file.modalities[1].nnz);
    try testing.expectEqual(@as(u32, 2), file.modalities[0].n_csr_shards);
    try testing.expectEqual(@as(u64, 19), file.header.nnz);
    try testing.expectEqual(@as(u32, 1), file.unknownSectionCount());
    try testing.expectEqual(null, file.find(.csr_shard, 0, "X_shard_0"));
    const index = file.find(.csr_shard, 2, "X_shard_0").?;
    try testing.expect(std.mem.endsWith(u8, file.sectionBytes(index), "third"));
    try testing.expect(file.find(.modality_table, 0, "modality_table") != null);
}

test "what is no file is refused by its kind" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try folder.put("empty", "");
    try folder.put("text", "this is no such file");
    const Case = struct { []const u8, Failure, platform.Errno };
    for ([_]Case{
        .{ "missing", error.InputOutput, .no_entry },
        .{ "", error.InputOutput, .is_folder },
        .{ "empty", error.Truncated, @fromBackingInt(0) },
        .{ "text", error.Corrupt, @fromBackingInt(0) },
    }) |case| {
        const name, const failure, const errno = case;
        report = .{};
        try testing.expectError(failure, File.open(testing.allocator, folder.path(name), .{}, &report));
        try testing.expectEqual(@backingInt(errno), report.os_error);
        try testing.expect(report.message_length > 0);
    }
    try testing.expectError(error.BadArgument, File.open(testing.allocator, "", .{}, &report));
    try testing.expectError(error.BadArgument, File.open(testing.allocator, "a\x00b", .{}, &report));
    try testing.expectError(error.BadArgument, File.open(testing.allocator, "a", @bitCast(@as(u32, 2)), &report));
}

test "a reader keeps the content it opened when the file is replaced" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .single, &report);
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer file.close();
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .multimodal, &report);
    try file.verifyChecksum(&report);
    try testing.expectEqual(@as(usize, 0), file.modalities.len);
}
