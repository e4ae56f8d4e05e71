//! A file that is changed by appending to it: new sections and a new catalog behind the old one, then the root
//! catalog, and last the header, which is the commit. Each such change is a generation.
//!
//!   Change.begin(allocator, path, report) Failure!Change         locks the file, then opens it
//!   change.file                                                  as it is before the change
//!   change.store(offset, bytes, report), .resize(size, report)   for the writer, behind the old content alone
//!   change.commit(next, report) Failure!void                     afterwards only `end` is allowed
//!   change.end(allocator) void                                   ends the lock; what was never committed is cut off
//!   previousHeader(file, report) Failure!?Header                 that of the generation before
//!
//! Each step is on the medium before the next one begins. Whoever opens the file, or has it open, finds the old
//! content or the new one, whenever the process or the machine stops: what lies behind the catalog that the header
//! names is nothing, and the root catalog, which is written before the header, follows from the full one.
//!
//! Nothing of the old generation is written over but the root catalog and the header. The new one keeps the old
//! header in a section of its own, so that the old generation can be read until the file is written anew:
//!
//!   256 bytes: the header; then text of whoever made the change, to the end of the section

const std = @import("std");
const builtin = @import("builtin");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const errors = @import("../errors.zig");
const quoted = @import("quoted.zig");
const layout = @import("layout.zig");
const platform = @import("platform.zig");
const File = @import("file.zig").File;
const Failure = errors.Failure;
const Report = errors.Report;
const Root = [layout.root_catalog_bytes_max]u8;

pub const section_name = "generation";

/// In tests: how many more writes and syncs are made before the process "dies": all later calls fail, those that
/// would clean up as well. Null outside of them.
pub var steps_before_death: ?u32 = null;

pub const Next = struct {
    header: layout.Header,
    root: *const Root,
    /// Where the new content ends.
    end: u64,
};

pub const Change = struct {
    file: *File,
    output: platform.File,
    old_size: u64,
    is_finished: bool = false,

    pub fn begin(allocator: Allocator, path: [:0]const u8, report: *Report) Failure!Change {
        const opened = platform.openToChange(path, &report.os_error) catch {
            return platform.fail(report, "cannot open {f} to change it", .{quoted.path(path)});
        };
        const output = opened orelse return busy(path, report);
        errdefer platform.closeFile(output);
        // Under the lock: what is built on cannot become another generation.
        const file: *File = try .open(allocator, path, .{}, report);
        errdefer file.close();
        const locked = platform.stampOf(output, &report.os_error) catch {
            return platform.fail(report, "cannot look at {f}", .{quoted.path(path)});
        };
        // Another file may have been put in its place between the two.
        if (locked.device != file.changes.opened.?.device or locked.inode != file.changes.opened.?.inode) return busy(path, report);
        return .{ .file = file, .output = output, .old_size = locked.size };
    }

    fn busy(path: [:0]const u8, report: *Report) Failure {
        return report.fail(error.Busy, "another process changes {f} at the moment", .{quoted.path(path)});
    }

    pub fn end(change: *Change) void {
        if (!change.is_finished and !diedAlready()) {
            var errno: i32 = 0;
            platform.setSize(change.output, change.old_size, &errno) catch {};
        }
        platform.closeFile(change.output);
        change.file.close();
    }

    pub fn store(change: *const Change, offset: u64, bytes: []const u8, report: *Report) Failure!void {
        assert(offset >= change.file.contentEnd());
        try change.put(offset, bytes, report);
    }

    fn put(change: *const Change, offset: u64, bytes: []const u8, report: *Report) Failure!void {
        if (isDead()) return error.InputOutput;
        platform.writeAll(change.output, bytes, offset, &report.os_error) catch return change.fail("cannot write to", report);
    }

    fn sync(change: *const Change, report: *Report) Failure!void {
        if (isDead()) return error.InputOutput;
        platform.syncFile(change.output, &report.os_error) catch return change.fail("cannot sync", report);
    }

    /// All behind the old content must be stored already.
    pub fn commit(change: *Change, next: Next, report: *Report) Failure!void {
        var old_root: Root = undefined;
        platform.readAll(change.output, &old_root, layout.root_catalog_offset, &report.os_error) catch {
            return change.fail("cannot read", report);
        };
        try change.file.changes.afterReading(report);
        change.cutBehind(next.end);
        try change.sync(report);
        errdefer change.restoreRoot(&old_root);
        try change.put(layout.root_catalog_offset, next.root, report);
        try change.sync(report);
        try change.put(0, next.header.asBytes(), report);
        change.is_finished = true; // from here on the new content is what readers find
        platform.syncFile(change.output, &report.os_error) catch {
            return change.fail("the change is made, but may not survive a power cut: cannot sync", report);
        };
    }

    /// What an unfinished change left there would only take space. Where a map keeps the system from cutting, it stays.
    fn cutBehind(change: *const Change, next_end: u64) void {
        var errno: i32 = 0;
        if (change.old_size > next_end) platform.setSize(change.output, next_end, &errno) catch {};
    }

    fn restoreRoot(change: *const Change, root: *const Root) void {
        if (change.is_finished or diedAlready()) return;
        var errno: i32 = 0;
        platform.writeAll(change.output, root, layout.root_catalog_offset, &errno) catch {};
    }

    fn fail(change: *const Change, comptime what: []const u8, report: *Report) Failure {
        return platform.fail(report, what ++ " {f}", .{quoted.path(change.file.path)});
    }
};

/// The header of the generation that this one followed, or null when the file does not hold it.
pub fn previousHeader(file: *const File) ?layout.Header {
    const index = file.find(.generation, 0, section_name) orelse return null;
    const bytes = file.sectionBytes(index);
    if (bytes.len < layout.header_bytes) return null;
    return @as(*align(1) const layout.Header, @ptrCast(bytes[0..layout.header_bytes])).*;
}

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
