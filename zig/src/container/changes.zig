//! Whether a file that is mapped is still what it was when it was opened, and whether all of it could be read.
//!
//!   Changes.begin(map, path, stamp, report) Failure!Changes      and end()
//!   changes.found() bool                                         by size and time: somebody has written into the file
//!   changes.accept(stamp)                                        what was written has changed nothing that is read
//!   changes.afterReading(report) Failure!void                    an error where bytes could not be read
//!   changes.fail(report) Failure                                 the error of a file that was overwritten

const std = @import("std");
const errors = @import("../errors.zig");
const map_guard = @import("map_guard.zig");
const platform = @import("platform.zig");
const quoted = @import("quoted.zig");
const Failure = errors.Failure;
const Report = errors.Report;
const Stamp = platform.Stamp;

pub const Changes = struct {
    path: [:0]const u8 = "",
    guard: *map_guard.Guard = &map_guard.unwatched,
    /// Null for bytes that are no file.
    opened: ?Stamp = null,
    /// Those of the stamp that was accepted last. Threads may accept at once: a mixture is one more change to look at.
    size: std.atomic.Value(u64) = .init(0),
    modified: std.atomic.Value(i64) = .init(0),

    pub fn begin(mapped: platform.Map, path: [:0]const u8, stamp: Stamp, report: *Report) Failure!Changes {
        const guard = map_guard.watch(mapped) orelse return report.fail(
            error.Limit,
            "{d} files are open in this process, as many as can be: close some",
            .{@as(u32, map_guard.guards_max)},
        );
        return .{
            .path = path,
            .guard = guard,
            .opened = stamp,
            .size = .init(stamp.size),
            .modified = .init(stamp.modified),
        };
    }

    pub fn end(changes: *Changes) void {
        changes.guard.release();
    }

    /// The stamp of the file when it is another one. A rename over the file, or its removal, leaves the map as it is.
    pub fn found(changes: *const Changes) ?Stamp {
        const opened = changes.opened orelse return null;
        map_guard.arm();
        const now = platform.stampAt(changes.path) orelse return null;
        if (now.device != opened.device or now.inode != opened.inode) return null;
        if (now.size == changes.size.load(.monotonic) and now.modified == changes.modified.load(.monotonic)) return null;
        return now;
    }

    pub fn accept(changes: *Changes, stamp: Stamp) void {
        changes.size.store(stamp.size, .monotonic);
        changes.modified.store(stamp.modified, .monotonic);
    }

    pub fn afterReading(changes: *const Changes, report: *Report) Failure!void {
        if (!changes.guard.isCut()) return;
        const now = platform.stampAt(changes.path);
        const is_same = now != null and std.meta.eql(now, changes.opened);
        if (!is_same) return changes.fail(report);
        report.at("", errors.no_index, errors.no_index);
        report.os_error = @backingInt(platform.Errno.input_output);
        return platform.fail(report, "cannot read {f}", .{quoted.path(changes.path)});
    }

    pub fn fail(changes: *const Changes, report: *Report) Failure {
        report.at("", errors.no_index, errors.no_index);
        return report.fail(error.Busy, "{f} was cut or overwritten while it was read: open it again; " ++
            "to put another file in its place, rename that one", .{quoted.path(changes.path)});
    }
};
