//! Changes a file by appending to it: new sections and a new catalog behind the old one, then the root catalog, and
//! last the header, which is the commit.
//!
//!   Appender.open(allocator, file, report) Failure!*Appender     locks it; error.Busy: open the file anew and try again
//!   appender.setDeleted(vectors, report) Failure!void            replaces the deletion vectors
//!   appender.commit(report) Failure!void                         afterwards only `close` is allowed
//!   appender.close() void                                        ends the lock
//!
//! Each step is on the medium before the next one begins. Whoever opens the file, or has it open, finds the old
//! content or the new one, whenever the process or the machine stops: what lies behind the catalog that the header
//! names is nothing, and the root catalog, which is written before the header, follows from the full one.
//! A commit that fails puts the root catalog and the length back.

const std = @import("std");
const builtin = @import("builtin");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const errors = @import("../errors.zig");
const quoted = @import("quoted.zig");
const layout = @import("layout.zig");
const catalog_write = @import("catalog_write.zig");
const deletion_vectors = @import("deletion_vectors.zig");
const facts = @import("facts.zig");
const hashing = @import("hashing.zig");
const platform = @import("platform.zig");
const File = @import("file.zig").File;
const Section = @import("catalog.zig").Section;
const Failure = errors.Failure;
const Report = errors.Report;
const Root = [layout.root_catalog_bytes_max]u8;

/// In tests: how many more writes and syncs are made before the process "dies": all later calls fail, those that
/// would clean up as well. Null outside of them.
pub var steps_before_death: ?u32 = null;

pub const Appender = struct {
    allocator: Allocator,
    /// As it was when the lock was taken; must stay open.
    file: *const File,
    output: platform.File,
    process_id: u32,
    /// The new section's bytes; `null` as long as there is nothing to commit.
    deleted: ?[]u8 = null,
    is_finished: bool = false,

    pub fn open(allocator: Allocator, file: *const File, report: *Report) Failure!*Appender {
        const appender = try allocator.create(Appender);
        errdefer allocator.destroy(appender);
        const opened = platform.openToChange(file.path, &report.os_error) catch {
            return platform.fail(report, "cannot open {f} to change it", .{quoted.path(file.path)});
        };
        const output = opened orelse return report.fail(error.Busy, "another process changes {f} at the moment", .{
            quoted.path(file.path),
        });
        errdefer platform.closeFile(output);

        var header: [layout.header_bytes]u8 = undefined;
        platform.readAll(output, &header, 0, &report.os_error) catch {
            return platform.fail(report, "cannot read {f}", .{quoted.path(file.path)});
        };
        if (!std.mem.eql(u8, &header, file.header.asBytes())) {
            return report.fail(error.Busy, "{f} has been changed since it was opened", .{quoted.path(file.path)});
        }
        appender.* = .{
            .allocator = allocator,
            .file = file,
            .output = output,
            .process_id = platform.processId(),
        };
        return appender;
    }

    pub fn close(appender: *Appender) void {
        const allocator = appender.allocator;
        platform.closeFile(appender.output);
        if (appender.deleted) |bytes| allocator.free(bytes);
        allocator.destroy(appender);
    }

    /// The bitmaps are checked as a reader would.
    pub fn setDeleted(appender: *Appender, vectors: []const deletion_vectors.Vector, report: *Report) Failure!void {
        try appender.expectUnfinished(report);
        _ = try deletion_vectors.find(appender.file.sections, report);
        const shards = try deletion_vectors.ranges(appender.allocator, appender.file.sections, appender.file.header.n_obs, report);
        defer appender.allocator.free(shards);
        const bytes = try deletion_vectors.serialize(appender.allocator, vectors);
        errdefer appender.allocator.free(bytes);
        _ = deletion_vectors.count(bytes, shards, report) catch |failure| switch (failure) {
            error.Corrupt => return error.BadArgument, // the message says what is wrong with them
            else => |other| return other,
        };
        if (appender.deleted) |earlier| appender.allocator.free(earlier);
        appender.deleted = bytes;
    }

    fn expectUnfinished(appender: *const Appender, report: *Report) Failure!void {
        if (appender.is_finished) return report.fail(error.Closed, "the change is finished already", .{});
    }

    pub fn commit(appender: *Appender, report: *Report) Failure!void {
        try appender.expectUnfinished(report);
        const deleted = appender.deleted orelse return report.fail(error.BadArgument, "there is nothing to commit", .{});
        const old_size = platform.sizeOfRegularFile(appender.output, &report.os_error) catch {
            return appender.failSystem("cannot look at", report);
        };
        const old_end = appender.file.contentEnd();
        if (old_size < old_end) return report.fail(error.Busy, "the file has become shorter since it was opened", .{});
        var plan = try appender.planTail(old_end, deleted, report);
        defer appender.allocator.free(plan.tail);

        var old_root: Root = undefined;
        platform.readAll(appender.output, &old_root, layout.root_catalog_offset, &report.os_error) catch {
            return appender.failSystem("cannot read", report);
        };
        errdefer appender.restore(old_size, &old_root);
        const rest = [_][]const u8{ appender.file.bytes[layout.sections_offset..@intCast(old_end)], plan.tail };
        plan.header.file_checksum = File.checksum(plan.header, &plan.root, &rest);
        try appender.file.changes.afterReading(report);
        try appender.store(old_end, plan.tail, report);
        appender.cutBehind(old_end + plan.tail.len, old_size);
        try appender.sync(report);
        try appender.store(layout.root_catalog_offset, &plan.root, report);
        try appender.sync(report);
        try appender.store(0, plan.header.asBytes(), report);
        appender.is_finished = true; // from here on the new content is what readers find
        platform.syncFile(appender.output, &report.os_error) catch {
            return appender.failSystem("the change is made, but may not survive a power cut: cannot sync", report);
        };
    }

    const Plan = struct { tail: []u8, root: Root, header: layout.Header };

    /// What goes behind `old_end`, and what is written in front of it when that is done.
    fn planTail(appender: *const Appender, old_end: u64, deleted: []const u8, report: *Report) Failure!Plan {
        const allocator = appender.allocator;
        const file = appender.file;
        const section_start = layout.alignSection(old_end) catch return tooLong(report);
        const catalog_start = layout.alignSection(section_start + deleted.len) catch return tooLong(report);
        const sections = try appender.nextSections(.{
            .name = deletion_vectors.section_name,
            .offset = section_start,
            .length = deleted.len,
            .section_type = .deletion_vectors,
            .modality_id = 0,
            .blake3 = hashing.hash(deleted),
            .stats = null,
        });
        defer allocator.free(sections);
        var header = file.header;
        header.manifest_sequence = std.math.add(u64, header.manifest_sequence, 1) catch {
            return report.fail(error.Limit, "the file counts as many changes as it can", .{});
        };
        header.prev_catalog_offset = header.full_catalog_offset;
        const catalog = try catalog_write.serializeNext(allocator, &file.catalog, sections, .{
            .n_obs = file.catalog.n_obs,
            .manifest_sequence = header.manifest_sequence,
            .prev_catalog_offset = header.prev_catalog_offset,
        });
        defer allocator.free(catalog);

        const tail = try allocator.alloc(u8, @intCast(catalog_start + catalog.len - old_end));
        @memset(tail, 0);
        @memcpy(tail[@intCast(section_start - old_end)..][0..deleted.len], deleted);
        @memcpy(tail[@intCast(catalog_start - old_end)..], catalog);
        var plan: Plan = .{ .tail = tail, .root = undefined, .header = header };
        var flags = header.flagSet();
        flags.deletion_vectors = true;
        flags.front_catalog = false; // a copy of the old catalog
        plan.header.flags = @bitCast(flags);
        plan.header.front_catalog_offset = 0;
        plan.header.front_catalog_length = 0;
        plan.header.full_catalog_offset = catalog_start;
        plan.header.full_catalog_length = catalog.len;
        plan.header.root_catalog_length = facts.rootCatalog(sections, &plan.root);
        return plan;
    }

    /// The file's sections with the deletion vectors exchanged; the caller's to free.
    fn nextSections(appender: *const Appender, vectors: Section) Allocator.Error![]Section {
        var next: std.ArrayList(Section) = .empty;
        defer next.deinit(appender.allocator);
        for (appender.file.sections) |section| {
            if (section.section_type != .deletion_vectors) try next.append(appender.allocator, section);
        }
        try next.append(appender.allocator, vectors);
        return next.toOwnedSlice(appender.allocator);
    }

    fn tooLong(report: *Report) Failure {
        return report.fail(error.Limit, "the file would grow beyond what offsets can express", .{});
    }

    fn store(appender: *Appender, offset: u64, bytes: []const u8, report: *Report) Failure!void {
        if (isDead()) return error.InputOutput;
        platform.writeAll(appender.output, bytes, offset, &report.os_error) catch {
            return appender.failSystem("cannot write to", report);
        };
    }

    fn sync(appender: *Appender, report: *Report) Failure!void {
        if (isDead()) return error.InputOutput;
        platform.syncFile(appender.output, &report.os_error) catch return appender.failSystem("cannot sync", report);
    }

    /// What an unfinished change left there would only take space. Where a map keeps the system from cutting, it stays.
    fn cutBehind(appender: *Appender, end: u64, size: u64) void {
        var errno: i32 = 0;
        if (size > end) platform.setSize(appender.output, end, &errno) catch {};
    }

    fn restore(appender: *Appender, size: u64, root: *const Root) void {
        if (appender.is_finished or diedAlready()) return;
        var errno: i32 = 0;
        platform.writeAll(appender.output, root, layout.root_catalog_offset, &errno) catch {};
        platform.setSize(appender.output, size, &errno) catch {};
    }

    fn failSystem(appender: *const Appender, comptime what: []const u8, report: *Report) Failure {
        return platform.fail(report, what ++ " {f}", .{quoted.path(appender.file.path)});
    }
};

fn isDead() bool {
    if (!builtin.is_test) return false;
    const left = steps_before_death orelse return false;
    if (left == 0) return true;
    steps_before_death = left - 1;
    return false;
}

fn diedAlready() bool {
    return builtin.is_test and steps_before_death == 0;
}

// ---- tests ----

const testing = std.testing;
const testing_files = @import("testing_files.zig");

/// Row 1 of the first shard.
const row_1 = "\x3a\x30\x00\x00\x01\x00\x00\x00" ++ "\x00\x00\x00\x00" ++ "\x10\x00\x00\x00" ++ "\x01\x00";
const first_shard: []const deletion_vectors.Vector = &.{.{ .shard_id = 0, .bitmap = row_1 }};
const both_shards: []const deletion_vectors.Vector = &.{
    .{ .shard_id = 0, .bitmap = row_1 }, .{ .shard_id = 1, .bitmap = row_1 },
};

fn deleteRows(path: []const u8, vectors: []const deletion_vectors.Vector, report: *Report) Failure!void {
    const file: *File = try .open(testing.allocator, path, .{}, report);
    defer file.close();
    const appender: *Appender = try .open(testing.allocator, file, report);
    defer appender.close();
    try appender.setDeleted(vectors, report);
    try appender.commit(report);
}

/// Checks the file in full and gives the number of its deleted rows.
fn checkFile(path: []const u8) !u64 {
    var report: Report = .{};
    const file: *File = try .open(testing.allocator, path, .{}, &report);
    defer file.close();
    for (0..file.sections.len) |index| try file.verifySection(@intCast(index), &report);
    try file.verifyChecksum(&report);
    const found = try deletion_vectors.find(file.sections, &report) orelse return 0;
    const shards = try deletion_vectors.ranges(testing.allocator, file.sections, file.header.n_obs, &report);
    defer testing.allocator.free(shards);
    return deletion_vectors.count(file.sectionBytes(found), shards, &report);
}

test "rows are deleted, and more rows" {
    inline for (.{ .single, .multimodal }) |kind| {
        var folder: testing_files.Folder = .create();
        defer folder.remove();
        var report: Report = .{};
        try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), kind, &report);
        const before: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
        defer before.close();
        const n_sections = before.sections.len;
        if (kind == .single) {
            try deleteRows(folder.path("a.scx"), first_shard, &report);
            try testing.expectEqual(@as(u64, 1), try checkFile(folder.path("a.scx")));
            try deleteRows(folder.path("a.scx"), both_shards, &report);
            try testing.expectEqual(@as(u64, 2), try checkFile(folder.path("a.scx")));
        } else {
            // Its modalities are cut differently, so that no shard has a number.
            try testing.expectError(error.Unsupported, deleteRows(folder.path("a.scx"), first_shard, &report));
            try testing.expectEqual(@as(u64, 0), try checkFile(folder.path("a.scx")));
        }
        // Who had it open still sees what was there, and nothing wrong.
        try testing.expectEqual(n_sections, before.sections.len);
        for (0..n_sections) |index| try before.verifySection(@intCast(index), &report);
        try before.verifyChecksum(&report);
    }
}

test "whenever the process dies, the old file or the new one is there" {
    var n_old: usize = 0;
    var n_new: usize = 0;
    for (0..8) |n_steps| {
        var folder: testing_files.Folder = .create();
        defer folder.remove();
        var report: Report = .{};
        try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .single, &report);
        steps_before_death = @intCast(n_steps);
        const died = if (deleteRows(folder.path("a.scx"), first_shard, &report)) false else |_| true;
        steps_before_death = null;
        switch (try checkFile(folder.path("a.scx"))) {
            0 => n_old += 1,
            1 => n_new += 1,
            else => unreachable,
        }
        try testing.expect(died or n_new > 0);
        // What is left lying behind the catalog is no obstacle.
        try deleteRows(folder.path("a.scx"), both_shards, &report);
        try testing.expectEqual(@as(u64, 2), try checkFile(folder.path("a.scx")));
    }
    try testing.expectEqual(@as(usize, 5), n_old);
    try testing.expectEqual(@as(usize, 3), n_new);
}

test "one changes a file at a time, and only what it has seen" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .single, &report);
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer file.close();
    const first: *Appender = try .open(testing.allocator, file, &report);
    try testing.expectError(error.Busy, Appender.open(testing.allocator, file, &report));
    try testing.expectError(error.BadArgument, first.commit(&report)); // nothing to commit
    try testing.expectError(error.BadArgument, first.setDeleted(&.{.{ .shard_id = 2, .bitmap = row_1 }}, &report));
    try first.setDeleted(first_shard, &report);
    try first.setDeleted(both_shards, &report);
    try first.commit(&report);
    try testing.expectError(error.Closed, first.commit(&report));
    first.close();
    try testing.expectError(error.Busy, Appender.open(testing.allocator, file, &report)); // the header is another one
    try testing.expectEqual(@as(u64, 2), try checkFile(folder.path("a.scx")));
}

test "deleting fails cleanly at every allocation" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .single, &report);
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer file.close();
    const Try = struct {
        fn change(allocator: Allocator, opened: *const File) !void {
            var inner: Report = .{};
            const appender: *Appender = try .open(allocator, opened, &inner);
            defer appender.close();
            try appender.setDeleted(first_shard, &inner);
            appender.is_finished = true; // planned, not written: the next run needs the same file
            allocator.free((try appender.planTail(appender.file.contentEnd(), appender.deleted.?, &inner)).tail);
        }
    };
    try testing.checkAllAllocationFailures(testing.allocator, Try.change, .{file});
    try testing.expectEqual(@as(u64, 0), try checkFile(folder.path("a.scx")));
}
