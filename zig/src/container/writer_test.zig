//! What is written is what is read, calls in the wrong order change nothing, and nothing leaks. What may not be written
//! at all is tested in writer_rules.zig, what becomes of the target in temporary.zig.

const std = @import("std");
const errors = @import("../errors.zig");
const layout = @import("layout.zig");
const testing_files = @import("testing_files.zig");
const writer_module = @import("writer.zig");

const testing = std.testing;
const Allocator = std.mem.Allocator;
const File = @import("file.zig").File;
const Modality = writer_module.Modality;
const Report = errors.Report;
const Writer = writer_module.Writer;

fn writeInFolder(allocator: Allocator, folder: *testing_files.Folder) !void {
    var report: Report = .{};
    try testing_files.writeSmall(allocator, folder.path("a.scx"), .multimodal, &report);
}

test "writing fails cleanly at every allocation" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    try testing.checkAllAllocationFailures(testing.allocator, writeInFolder, .{&folder});
    try testing.expectEqual(@as(usize, 1), try folder.entryCount());
}

test "after a call that ran out of memory the writer goes on" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    var failing = testing.FailingAllocator.init(testing.allocator, .{});
    const writer: *Writer = try .create(failing.allocator(), folder.path("a.scx"), .{ .n_obs = 1, .n_vars = 1 }, &report);
    defer writer.close();
    failing.fail_index = failing.alloc_index;
    for (0..2) |_| {
        try testing.expectError(error.OutOfMemory, writer.addSection(.{ .name = "a", .section_type = .uns }, "lost", &report));
    }
    failing.fail_index = std.math.maxInt(usize);
    try writer.addSection(.{ .name = "a", .section_type = .uns }, "kept", &report);
    try writer.finish(&report);
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer file.close();
    try testing.expectEqualStrings("kept", file.sectionBytes(0));
}

test "the same input gives the same bytes" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .multimodal, &report);
    try testing_files.writeSmall(testing.allocator, folder.path("b.scx"), .multimodal, &report);
    const a = try folder.read("a.scx");
    defer testing.allocator.free(a);
    const b = try folder.read("b.scx");
    defer testing.allocator.free(b);
    try testing.expectEqualSlices(u8, a, b);
}

test "a section is written out of order, read back, cut and padded" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const writer: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 1, .n_vars = 1 }, &report);
    defer writer.close();
    const offset = try writer.beginSection(&report);
    try testing.expectEqual(@as(u64, layout.sections_offset), offset);
    try writer.writeAt(offset + 8, "behind, and cut off here: scratch that is longer than the section", &report);
    try writer.writeAt(offset, "front", &report);
    var back: [3]u8 = undefined;
    try writer.readAt(offset + 1, &back, &report);
    try testing.expectEqualStrings("ron", &back);
    try writer.endSection(.{ .name = "one", .section_type = .uns }, 14, &report);
    const second = try writer.beginSection(&report);
    try testing.expectEqual(offset + 16, second);
    // Longer than what was written: zeros.
    try writer.endSection(.{ .name = "two", .section_type = .uns }, 5, &report);
    try writer.finish(&report);

    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer file.close();
    try testing.expectEqualSlices(u8, "front\x00\x00\x00behind", file.sectionBytes(0));
    try testing.expectEqualSlices(u8, "\x00\x00\x00\x00\x00", file.sectionBytes(1));
    try testing.expectEqualSlices(u8, "\x00\x00", file.bytes[offset + 14 ..][0..2]);
    for (0..2) |index| try file.verifySection(@intCast(index), &report);
    try file.verifyChecksum(&report);
}

test "an abandoned section leaves no trace" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    for ([_][]const u8{ "plain.scx", "abandoned.scx" }, 0..) |name, abandons| {
        const writer: *Writer = try .create(testing.allocator, folder.path(name), .{ .n_obs = 1, .n_vars = 1 }, &report);
        defer writer.close();
        if (abandons == 1) {
            const offset = try writer.beginSection(&report);
            try writer.writeAt(offset, "what will be forgotten", &report);
            writer.abandonSection();
        }
        try writer.addSection(.{ .name = "uns", .section_type = .uns }, "{}", &report);
        writer.abandonSection(); // none is open: nothing happens
        try writer.finish(&report);
    }
    const plain = try folder.read("plain.scx");
    defer testing.allocator.free(plain);
    const abandoned = try folder.read("abandoned.scx");
    defer testing.allocator.free(abandoned);
    try testing.expectEqualSlices(u8, plain, abandoned);
}

test "calls in the wrong order are refused and change nothing" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const writer: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 1, .n_vars = 2 }, &report);
    defer writer.close();
    const modality: Modality = .{ .name = "rna", .modality_type = 0, .codec_id = 0, .value_encoding = 0, .n_vars = 2 };
    try testing.expectEqual(@as(u8, 1), try writer.addModality(modality, &report));

    try testing.expectError(error.BadArgument, writer.writeAt(layout.sections_offset, "x", &report));
    try testing.expectError(error.BadArgument, writer.endSection(.{ .name = "a", .section_type = .uns }, 0, &report));
    _ = try writer.beginSection(&report);
    try testing.expectError(error.BadArgument, writer.beginSection(&report));
    try testing.expectError(error.BadArgument, writer.addSection(.{ .name = "a", .section_type = .uns }, "", &report));
    try testing.expectError(error.BadArgument, writer.finish(&report));
    writer.abandonSection();

    try writer.addSection(.{ .name = "a", .section_type = .uns }, "", &report);
    const late: Modality = .{ .name = "late", .modality_type = 0, .codec_id = 0, .value_encoding = 0, .n_vars = 1 };
    try testing.expectError(error.BadArgument, writer.addModality(late, &report));
    try writer.finish(&report);
    try testing.expectError(error.Closed, writer.finish(&report));
    try testing.expectError(error.Closed, writer.beginSection(&report));
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer file.close();
    try testing.expectEqual(@as(usize, 2), file.sections.len); // that of the modalities too
}

test "a writer whose target came to be meanwhile cannot go on" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const writer: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 1, .n_vars = 1 }, &report);
    defer writer.close();
    try folder.put("a.scx", "faster");
    try testing.expectError(error.Exists, writer.finish(&report));
    try testing.expectError(error.Closed, writer.finish(&report));
}

test "a framed shard raises the format version" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    for ([_][]const u8{ "SCXS\x01\x00\x40\x02", "SCXS\x02\x00\x40\x02" }, [_]u16{ 3, 4 }) |shard, version| {
        const writer: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 1, .n_vars = 1, .overwrite = true }, &report);
        defer writer.close();
        try writer.addSection(.{ .name = "X_shard_0", .section_type = .csr_shard }, shard, &report);
        try writer.finish(&report);
        const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
        defer file.close();
        try testing.expectEqual(version, file.header.format_version);
    }
}
