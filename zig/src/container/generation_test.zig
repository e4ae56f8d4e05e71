//! Files that are changed in place: what stands afterwards, and what stands when the change does not come to its end.

const std = @import("std");
const testing = std.testing;
const Allocator = std.mem.Allocator;
const errors = @import("../errors.zig");
const deletion_vectors = @import("deletion_vectors.zig");
const generation = @import("generation.zig");
const testing_files = @import("testing_files.zig");
const File = @import("file.zig").File;
const SectionType = @import("section_types.zig").SectionType;
const Writer = @import("writer.zig").Writer;
const Failure = errors.Failure;
const Report = errors.Report;

/// Row 1 of the first shard.
const row_1 = "\x3a\x30\x00\x00\x01\x00\x00\x00" ++ "\x00\x00\x00\x00" ++ "\x10\x00\x00\x00" ++ "\x01\x00";
const first_shard: []const deletion_vectors.Vector = &.{.{ .shard_id = 0, .bitmap = row_1 }};
const both_shards: []const deletion_vectors.Vector = &.{
    .{ .shard_id = 0, .bitmap = row_1 }, .{ .shard_id = 1, .bitmap = row_1 },
};

fn begin(allocator: Allocator, path: []const u8, report: *Report) Failure!*Writer {
    const own = try allocator.dupeSentinel(u8, path, 0);
    defer allocator.free(own);
    return .change(allocator, own, "note", report);
}

fn deleteRows(path: []const u8, vectors: []const deletion_vectors.Vector, report: *Report) Failure!void {
    const writer = try begin(testing.allocator, path, report);
    defer writer.close();
    try writer.setDeleted(vectors, report);
    try writer.finish(report);
}

/// Checks the generation in full and gives the number of its deleted rows.
fn checkFile(path: []const u8, generations_back: u16) !u64 {
    var report: Report = .{};
    const file: *File = try .open(testing.allocator, path, .{ .generations_back = generations_back }, &report);
    defer file.close();
    for (0..file.sections.len) |index| try file.verifySection(@intCast(index), &report);
    try file.verifyChecksum(&report);
    const found = try deletion_vectors.find(file.sections, &report) orelse return 0;
    const shards = try deletion_vectors.ranges(testing.allocator, file.sections, file.header.n_obs, &report);
    defer testing.allocator.free(shards);
    return deletion_vectors.count(file.sectionBytes(found), shards, &report);
}

test "rows are deleted, and more rows; the generations before can still be read" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .single, &report);
    const before: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer before.close();
    const n_sections = before.sections.len;
    try deleteRows(folder.path("a.scx"), first_shard, &report);
    try deleteRows(folder.path("a.scx"), both_shards, &report);
    for ([_]u64{ 2, 1, 0 }, 0..) |n_deleted, back| {
        try testing.expectEqual(n_deleted, try checkFile(folder.path("a.scx"), @intCast(back)));
    }
    try testing.expectError(error.NotFound, checkFile(folder.path("a.scx"), 3));
    // Who had it open still sees what was there, and nothing wrong.
    try testing.expectEqual(n_sections, before.sections.len);
    for (0..n_sections) |index| try before.verifySection(@intCast(index), &report);
    try before.verifyChecksum(&report);
}

test "shards of modalities that are cut differently have no numbers" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .multimodal, &report);
    try testing.expectError(error.Unsupported, deleteRows(folder.path("a.scx"), first_shard, &report));
    try testing.expectEqual(@as(u64, 0), try checkFile(folder.path("a.scx"), 0));
}

test "sections are added, replaced and dropped" {
    inline for (.{ .single, .multimodal }) |kind| {
        var folder: testing_files.Folder = .create();
        defer folder.remove();
        var report: Report = .{};
        try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), kind, &report);
        const before: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
        defer before.close();

        const writer = try begin(testing.allocator, folder.path("a.scx"), &report);
        try writer.addSection(.{ .name = "obsm/new", .section_type = .obsm }, "embedding", &report);
        try writer.dropSection(.{ .section_type = .obs, .modality_id = 0, .name = "obs" }, &report);
        try writer.addSection(.{ .name = "obs", .section_type = .obs }, "other columns", &report);
        const shard = for (before.sections) |*section| {
            if (section.section_type == .csr_shard) break section;
        } else unreachable;
        try writer.dropSection(.of(shard), &report);
        try testing.expectError(error.NotFound, writer.dropSection(.of(shard), &report));
        try writer.addSection(.{
            .name = shard.name,
            .section_type = .csr_shard,
            .modality_id = shard.modality_id,
            .stats = .{ .row_start = shard.stats.?.row_start, .row_end = shard.stats.?.row_end, .col_start = 0, .col_end = shard.stats.?.col_end, .nnz = 1 },
        }, "rows", &report);
        try writer.finish(&report);
        try testing.expectError(error.Closed, writer.finish(&report));
        writer.close();

        try testing.expectEqual(@as(u64, 0), try checkFile(folder.path("a.scx"), 0));
        try testing.expectEqual(@as(u64, 0), try checkFile(folder.path("a.scx"), 1));
        const after: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
        defer after.close();
        const index = after.find(.obs, 0, "obs").?;
        try testing.expectEqualStrings("other columns", after.sectionBytes(index));
        try testing.expect(after.header.flagSet().obsm);
        try testing.expectEqual(before.header.nnz - shard.stats.?.nnz + 1, after.header.nnz);
        const noted = after.sectionBytes(after.find(.generation, 0, generation.section_name).?);
        try testing.expectEqualStrings("note", noted[256..]);
        // What was not touched lies where it was.
        for (before.sections) |*section| {
            if (section.section_type != .uns) continue;
            try testing.expectEqual(section.offset, after.sections[after.find(.uns, section.modality_id, section.name).?].offset);
        }
    }
}

test "whenever the process dies, the old file or the new one is there" {
    var n_old: usize = 0;
    var n_new: usize = 0;
    const n_steps_max = 10;
    for (0..n_steps_max) |n_steps| {
        var folder: testing_files.Folder = .create();
        defer folder.remove();
        var report: Report = .{};
        try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .single, &report);
        generation.steps_before_death = @intCast(n_steps);
        const died = if (deleteRows(folder.path("a.scx"), first_shard, &report)) false else |_| true;
        generation.steps_before_death = null;
        switch (try checkFile(folder.path("a.scx"), 0)) {
            0 => n_old += 1,
            1 => n_new += 1,
            else => unreachable,
        }
        try testing.expect(died or n_new > 0);
        // What is left lying behind the catalog is no obstacle.
        try deleteRows(folder.path("a.scx"), both_shards, &report);
        try testing.expectEqual(@as(u64, 2), try checkFile(folder.path("a.scx"), 0));
    }
    // Three sections and catalogs, a sync, the root catalog, a sync, the header.
    try testing.expectEqual(@as(usize, 7), n_old);
    try testing.expectEqual(@as(usize, n_steps_max - 7), n_new);
}

test "one changes a file at a time; what was not committed is gone" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .single, &report);
    const bytes = try folder.read("a.scx");
    defer testing.allocator.free(bytes);
    const first = try begin(testing.allocator, folder.path("a.scx"), &report);
    try testing.expectError(error.Busy, begin(testing.allocator, folder.path("a.scx"), &report));
    try testing.expectError(error.BadArgument, first.finish(&report)); // nothing to commit
    try testing.expectError(error.BadArgument, first.setDeleted(&.{.{ .shard_id = 2, .bitmap = row_1 }}, &report));
    try first.setDeleted(first_shard, &report);
    try first.setDeleted(both_shards, &report);
    first.close();
    const unchanged = try folder.read("a.scx");
    defer testing.allocator.free(unchanged);
    try testing.expectEqualSlices(u8, bytes, unchanged);
    try deleteRows(folder.path("a.scx"), both_shards, &report);
    try testing.expectEqual(@as(u64, 2), try checkFile(folder.path("a.scx"), 0));
}

test "a change fails cleanly at every allocation" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .multimodal, &report);
    const Try = struct {
        fn change(allocator: Allocator, path: []const u8) !void {
            var inner: Report = .{};
            const writer = try begin(allocator, path, &inner);
            defer writer.close();
            try writer.addSection(.{ .name = "uns/x", .section_type = .uns }, "{}", &inner);
            try writer.dropSection(.{ .section_type = .uns, .modality_id = 0, .name = "uns/x" }, &inner);
            try writer.addSection(.{ .name = "uns/x", .section_type = .uns }, "[]", &inner);
            generation.steps_before_death = 0; // the next run needs the same file
            defer generation.steps_before_death = null;
            writer.finish(&inner) catch |failure| if (failure != error.InputOutput) return failure;
        }
    };
    try testing.checkAllAllocationFailures(testing.allocator, Try.change, .{folder.path("a.scx")});
    try testing.expectEqual(@as(u64, 0), try checkFile(folder.path("a.scx"), 0));
}
