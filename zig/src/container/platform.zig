//! What differs between operating systems: files, folders, maps, locks, process ids.
//!
//! A call that the system refuses gives `error.System` and leaves the errno (on Windows the nearest one) in
//! `errno`; who called knows the path and writes the message.
//!
//!   openForReading(path, errno) File          sizeOfRegularFile(file, errno) u64
//!   openToChange(path, errno) ?File           locked against others; null when somebody else has it
//!   stampOf(file, errno) Stamp                stampAt(path) ?Stamp    tells whether a file is changed in place
//!   map(file, length, errno) Map              unmap(map)              readAhead(bytes)
//!   startReading(bytes)                       forgetHead(bytes, length)         seemsResident(bytes) bool
//!   expectScattered(bytes, scattered)         ownReads() Reads
//!   readAll / writeAll / setSize / syncFile / closeFile
//!   Folder.open / close / createExclusive / kindOf / discard / remove / place / sync / eachName

const std = @import("std");
const builtin = @import("builtin");
const Allocator = std.mem.Allocator;
const errors = @import("../errors.zig");

const implementation = switch (builtin.os.tag) {
    .windows => @import("platform_windows.zig"),
    else => @import("platform_posix.zig"),
};

pub const Error = error{System};
pub const File = implementation.File;
pub const Folder = implementation.Folder;
pub const page_bytes_min = std.heap.page_size_min;
pub const Map = []align(page_bytes_min) const u8;

/// What changes when a file is written to, and which file it is.
pub const Stamp = struct {
    device: u64,
    inode: u64,
    size: u64,
    /// In nanoseconds.
    modified: i64,

    pub fn of(status: anytype) Stamp {
        return .{ .device = status.device, .inode = status.inode, .size = status.size, .modified = status.modified };
    }
};

/// What is noted in tests: the order of what makes a file survive a power cut.
pub const Step = enum { sync_file, place, sync_folder };
pub const Noted = struct {
    list: [8]Step = undefined,
    count: usize = 0,

    pub fn steps(own: *const Noted) []const Step {
        return own.list[0..own.count];
    }
};
pub threadlocal var noted: Noted = .{};

/// Called where the system has done it.
pub fn note(step: Step) void {
    if (!builtin.is_test or noted.count == noted.list.len) return;
    noted.list[noted.count] = step;
    noted.count += 1;
}

pub const EntryKind = enum { missing, regular, folder, other };

pub const openForReading = implementation.openForReading;
pub const openToChange = implementation.openToChange;
pub const sizeOfRegularFile = implementation.sizeOfRegularFile;
pub const stampOf = implementation.stampOf;
pub const stampAt = implementation.stampAt;
pub const closeFile = implementation.closeFile;
pub const readAll = implementation.readAll;
pub const writeAll = implementation.writeAll;
pub const setSize = implementation.setSize;
pub const syncFile = implementation.syncFile;
pub const map = implementation.map;
pub const unmap = implementation.unmap;
pub const readAhead = implementation.readAhead;
pub const startReading = implementation.startReading;
pub const forgetHead = implementation.forgetHead;
pub const seemsResident = implementation.seemsResident;
pub const expectScattered = implementation.expectScattered;
pub const Reads = implementation.Reads;
pub const ownReads = implementation.ownReads;
pub const processId = implementation.processId;
pub const sleepMilliseconds = implementation.sleepMilliseconds;
pub const resolveLink = implementation.resolveLink;
pub const randomNumber = implementation.randomNumber;

/// errno numbers differ between systems; these are the ones that are told apart here.
pub const Errno = enum(i32) {
    not_permitted = @backingInt(std.c.E.PERM),
    no_entry = @backingInt(std.c.E.NOENT),
    again = @backingInt(std.c.E.AGAIN),
    no_memory = @backingInt(std.c.E.NOMEM),
    access = @backingInt(std.c.E.ACCES),
    exists = @backingInt(std.c.E.EXIST),
    not_folder = @backingInt(std.c.E.NOTDIR),
    is_folder = @backingInt(std.c.E.ISDIR),
    invalid = @backingInt(std.c.E.INVAL),
    too_many_files = @backingInt(std.c.E.MFILE),
    too_big = @backingInt(std.c.E.FBIG),
    no_space = @backingInt(std.c.E.NOSPC),
    read_only = @backingInt(std.c.E.ROFS),
    name_too_long = @backingInt(std.c.E.NAMETOOLONG),
    quota = @backingInt(std.c.E.DQUOT),
    input_output = @backingInt(std.c.E.IO),
    _,

    pub fn text(number: Errno) []const u8 {
        return switch (number) {
            .not_permitted => "the operation is not permitted",
            .no_entry => "no such file or folder",
            .again => "the resource is busy",
            .no_memory => "not enough memory",
            .access => "permission denied",
            .exists => "it exists already",
            .not_folder => "a part of the path is not a folder",
            .is_folder => "it is a folder, not a file",
            .invalid => "not a regular file",
            .too_many_files => "too many open files",
            .too_big => "the file would become too large",
            .no_space => "no space left on the device",
            .read_only => "the file system is read-only",
            .name_too_long => "the name is too long",
            .quota => "the disk quota is used up",
            .input_output => "the device failed",
            _ => "the system refused",
        };
    }
};

/// Turns what the system said into a failure whose message starts with `what`.
pub fn fail(report: *errors.Report, comptime what: []const u8, args: anytype) errors.Failure {
    const number: Errno = @fromBackingInt(report.os_error);
    return switch (number) {
        .no_memory => error.OutOfMemory,
        .exists => report.fail(error.Exists, what ++ ": {s}", args ++ .{number.text()}),
        else => report.fail(error.InputOutput, what ++ ": {s} (errno {d})", args ++ .{ number.text(), report.os_error }),
    };
}

test {
    _ = implementation;
}
