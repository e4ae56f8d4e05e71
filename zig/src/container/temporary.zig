//! The hidden file that becomes the target: made beside it, and given its name in one step.
//!
//! Its name is `.{target}.{8 hex digits}.tmp`; of a very long target only the start is used. A writer that is killed
//! leaves it, and the next writer of the same target removes it. Of two writers at the same time the one that began
//! last wins, and the other one gets an error.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const errors = @import("../errors.zig");
const quoted = @import("quoted.zig");
const platform = @import("platform.zig");
const Failure = errors.Failure;
const Report = errors.Report;

/// Names of 255 bytes are allowed nearly everywhere: this leaves room for the rest.
const target_name_bytes_max = 160;
const suffix = ".tmp";
const random_digits = 8;
/// Each attempt draws a new number, so a second one is already rare.
const attempts_max = 16;

pub const Output = struct {
    folder: platform.Folder,
    file: platform.File,
    temporary_name: [:0]const u8,
    target_name: [:0]const u8,
    overwrite: bool,
    published: bool,

    pub fn create(allocator: Allocator, path: []const u8, overwrite: bool, report: *Report) Failure!Output {
        const target = try resolveTarget(allocator, path, report);
        defer allocator.free(target);
        const folder_path = try allocator.dupeSentinel(u8, folderOf(target), 0);
        defer allocator.free(folder_path);
        const target_name = try allocator.dupeSentinel(u8, std.fs.path.basename(target), 0);
        errdefer allocator.free(target_name);
        const folder = platform.Folder.open(allocator, folder_path, &report.os_error) catch |failure| switch (failure) {
            error.OutOfMemory => return error.OutOfMemory,
            error.System => return platform.fail(report, "cannot write into the folder {f}", .{
                quoted.path(folder_path),
            }),
        };
        errdefer folder.close(allocator);

        try checkTarget(folder, target_name, path, overwrite, report);
        removeOrphans(folder, target_name);
        const created = try createTemporary(allocator, folder, target_name, report);
        return .{
            .folder = folder,
            .file = created.file,
            .temporary_name = created.name,
            .target_name = target_name,
            .overwrite = overwrite,
            .published = false,
        };
    }

    /// To the medium, then under the target's name.
    pub fn publish(output: *Output, report: *Report) Failure!void {
        assert(!output.published);
        const errno = &report.os_error;
        const name = quoted.name(output.target_name);
        platform.syncFile(output.file, errno) catch return platform.fail(report, "cannot write {f} to the medium", .{
            name,
        });
        output.folder.place(
            output.file,
            output.temporary_name,
            output.target_name,
            if (output.overwrite) .allowed else .never,
            errno,
        ) catch {
            if (errno.* != @backingInt(platform.Errno.no_entry)) return platform.fail(report, "cannot put {f} in place", .{name});
            return platform.fail(report, "another writer of {f} has begun meanwhile, and takes its place", .{name});
        };
        output.published = true;
        output.folder.sync(errno) catch return platform.fail(report, "{f} is in place, but its folder cannot be synced", .{name});
    }

    pub fn close(output: *Output, allocator: Allocator) void {
        if (!output.published) output.folder.discard(output.file, output.temporary_name);
        platform.closeFile(output.file);
        output.folder.close(allocator);
        allocator.free(output.temporary_name);
        allocator.free(output.target_name);
    }
};

/// A target that is a symbolic link stays one: what it points to is replaced.
fn resolveTarget(allocator: Allocator, path: []const u8, report: *Report) Failure![:0]u8 {
    if (path.len == 0 or std.mem.indexOfScalar(u8, path, 0) != null) {
        return report.fail(error.BadArgument, "the path is empty or contains a zero byte", .{});
    }
    const last = path[path.len - 1];
    if (std.fs.path.isSep(last) or std.fs.path.basename(path).len == 0) {
        return report.fail(error.BadArgument, "{f} names a folder, not a file", .{quoted.path(path)});
    }
    const own = try allocator.dupeSentinel(u8, path, 0);
    errdefer allocator.free(own);
    const resolved = try platform.resolveLink(allocator, own) orelse return own;
    allocator.free(own);
    return resolved;
}

fn folderOf(path: []const u8) []const u8 {
    return std.fs.path.dirname(path) orelse ".";
}

fn checkTarget(
    folder: platform.Folder,
    name: [:0]const u8,
    path: []const u8,
    overwrite: bool,
    report: *Report,
) Failure!void {
    const kind = folder.kindOf(name, &report.os_error) catch {
        return platform.fail(report, "cannot look at {f}", .{quoted.path(path)});
    };
    switch (kind) {
        .missing => {},
        .regular => if (!overwrite) {
            report.os_error = @backingInt(platform.Errno.exists);
            return report.fail(error.Exists, "{f} exists already; allow overwriting or choose another name", .{
                quoted.path(path),
            });
        },
        .folder => return report.fail(error.BadArgument, "{f} is a folder, not a file", .{quoted.path(path)}),
        .other => return report.fail(error.BadArgument, "{f} exists and is not a regular file", .{quoted.path(path)}),
    }
}

const Created = struct { file: platform.File, name: [:0]const u8 };

fn createTemporary(
    allocator: Allocator,
    folder: platform.Folder,
    target_name: []const u8,
    report: *Report,
) Failure!Created {
    for (0..attempts_max) |_| {
        const name = try allocator.printSentinel(".{s}.{x:0>8}" ++ suffix, .{
            nameStart(target_name), @as(u32, @truncate(platform.randomNumber())),
        }, 0);
        if (folder.createExclusive(name, &report.os_error)) |file| {
            report.os_error = 0;
            return .{ .file = file, .name = name };
        } else |_| {
            allocator.free(name);
            if (report.os_error != @backingInt(platform.Errno.exists)) break;
        }
    }
    return platform.fail(report, "cannot create a temporary file beside {f}", .{quoted.name(target_name)});
}

/// At most `target_name_bytes_max`, cut between two characters.
fn nameStart(name: []const u8) []const u8 {
    if (name.len <= target_name_bytes_max) return name;
    var length: usize = target_name_bytes_max;
    while (length > 0 and name[length] & 0xC0 == 0x80) length -= 1;
    return name[0..length];
}

fn isTemporaryOf(target_name: []const u8, name: []const u8) bool {
    const start = nameStart(target_name);
    if (!std.mem.startsWith(u8, name, ".") or !std.mem.endsWith(u8, name, suffix)) return false;
    const inner = name[1 .. name.len - suffix.len];
    if (!std.mem.startsWith(u8, inner, start)) return false;
    const rest = inner[start.len..]; // ".{hex digits}"
    if (rest.len != 1 + random_digits or rest[0] != '.') return false;
    for (rest[1..]) |byte| if (!std.ascii.isHex(byte)) return false;
    return true;
}

const Sweep = struct { folder: platform.Folder, target_name: []const u8 };

/// Removes what other runs left of the same target.
fn removeOrphans(folder: platform.Folder, target_name: []const u8) void {
    folder.eachName(Sweep{ .folder = folder, .target_name = target_name }, struct {
        fn visit(sweep: Sweep, name: [:0]const u8) void {
            if (isTemporaryOf(sweep.target_name, name)) sweep.folder.remove(name);
        }
    }.visit);
}

// ---- tests ----

const testing = std.testing;
const testing_files = @import("testing_files.zig");

test "which names are temporary files of a target" {
    const yes = ".a.scx.01234567.tmp";
    try testing.expect(isTemporaryOf("a.scx", yes));
    for ([_][]const u8{
        "a.scx",
        ".a.scx.tmp",
        ".a.scx.0123456.tmp",
        ".a.scx..01234567.tmp",
        ".a.scx.0123456x.tmp",
        ".a.scx.1.01234567.tmp",
        ".b.scx.01234567.tmp",
        ".a.scx.01234567.tmp~",
    }) |name| try testing.expect(!isTemporaryOf("a.scx", name));
    try testing.expect(!isTemporaryOf("a", yes));
}

test "a long name is cut between characters" {
    const long: [300]u8 = @splat('n');
    try testing.expectEqual(@as(usize, target_name_bytes_max), nameStart(&long).len);
    var accented: [300]u8 = undefined;
    for (0..150) |index| accented[2 * index ..][0..2].* = "\xc3\xa9".*;
    const odd = accented[1..]; // starts inside a character, so the cut falls on one
    try testing.expectEqual(@as(usize, target_name_bytes_max - 1), nameStart(odd).len);
}

fn create(folder: *testing_files.Folder, name: []const u8, overwrite: bool, report: *Report) Failure!Output {
    return Output.create(testing.allocator, folder.path(name), overwrite, report);
}

fn write(output: *Output, bytes: []const u8, report: *Report) !void {
    try platform.writeAll(output.file, bytes, 0, &report.os_error);
}

fn expectContent(folder: *testing_files.Folder, name: []const u8, expected: []const u8) !void {
    const found = try folder.read(name);
    defer testing.allocator.free(found);
    try testing.expectEqualStrings(expected, found);
}

test "the target is untouched until it is published, and existing ones are kept unless overwriting is allowed" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try folder.put("a", "old");
    try testing.expectError(error.Exists, create(&folder, "a", false, &report));
    try testing.expectEqual(@as(usize, 1), try folder.entryCount());
    {
        var dropped = try create(&folder, "a", true, &report);
        defer dropped.close(testing.allocator);
        try write(&dropped, "new", &report);
        try testing.expectEqual(@as(usize, 2), try folder.entryCount());
        try expectContent(&folder, "a", "old");
    }
    try testing.expectEqual(@as(usize, 1), try folder.entryCount());
    try expectContent(&folder, "a", "old");
    {
        var late = try create(&folder, "b", false, &report);
        defer late.close(testing.allocator);
        try folder.put("b", "faster"); // appears while another is written
        try testing.expectError(error.Exists, late.publish(&report));
    }
    try expectContent(&folder, "b", "faster");
    try testing.expectEqual(@as(usize, 2), try folder.entryCount());
}

test "of two that are written for one target the last one wins, and the other one is told" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    var first = try create(&folder, "a", true, &report);
    defer first.close(testing.allocator);
    var second = try create(&folder, "a", true, &report);
    defer second.close(testing.allocator);
    try testing.expectEqual(@as(usize, 1), try folder.entryCount());
    try write(&first, "first", &report);
    try testing.expectError(error.InputOutput, first.publish(&report));
    try testing.expect(std.mem.find(u8, report.messageText(), "another writer") != null);
    try write(&second, "second", &report);
    try second.publish(&report);
    try expectContent(&folder, "a", "second");
    try testing.expectEqual(@as(usize, 1), try folder.entryCount());
}

test "what a killed run left is removed by the next one, and nothing else" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    for ([_][]const u8{
        ".a.scx.01234567.tmp", // the only one
        ".b.scx.01234567.tmp",
        ".a.scx.99999.tmp",
        "notes.tmp",
    }) |name| try folder.put(name, "left");
    var live = try create(&folder, "a.scx", false, &report);
    defer live.close(testing.allocator);
    try testing.expectEqual(@as(usize, 4), try folder.entryCount());
}

test "the file is on the medium before it gets its name, and the name after it" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    var output = try create(&folder, "a", true, &report);
    defer output.close(testing.allocator);
    try write(&output, "content", &report);
    platform.noted = .{};
    try output.publish(&report);
    try testing.expectEqualSlices(platform.Step, &.{ .sync_file, .place, .sync_folder }, platform.noted.steps());
}

test "targets that cannot be written to" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try folder.inner.dir.createDirPath(testing_files.io, "folder");
    try folder.put("file", "");
    const Case = struct { []const u8, Failure };
    for ([_]Case{
        .{ "folder", error.BadArgument },
        .{ "folder/", error.BadArgument },
        .{ "missing/a.scx", error.InputOutput },
        .{ "file/a.scx", error.InputOutput },
    }) |case| {
        const name, const failure = case;
        report = .{};
        try testing.expectError(failure, create(&folder, name, true, &report));
        try testing.expect(report.message_length > 0);
    }
    try testing.expectError(error.BadArgument, Output.create(testing.allocator, "", true, &report));
    try testing.expectEqual(@as(usize, 2), try folder.entryCount());
}
