//! Linux and macOS. Calls that a signal interrupts are repeated.

const std = @import("std");
const builtin = @import("builtin");
const assert = std.debug.assert;
const c = std.c;
const Allocator = std.mem.Allocator;
const platform = @import("platform.zig");
const read_ahead = @import("read_ahead.zig");
const Error = platform.Error;
const EntryKind = platform.EntryKind;
const Map = platform.Map;
const Stamp = platform.Stamp;

const linux = std.os.linux;
const is_linux = builtin.os.tag == .linux;

pub const File = struct { descriptor: c_int };

/// Larger single transfers are cut off by the kernel anyway (2^31 - 4096 on Linux, 2^31 - 1 on macOS).
const transfer_bytes_max = 1 << 30;

fn fetchErrno(errno: *i32) Error {
    errno.* = c._errno().*;
    return error.System;
}

fn refuse(errno: *i32, number: c.E) Error {
    errno.* = @backingInt(number);
    return error.System;
}

fn interrupted() bool {
    return c._errno().* == @backingInt(c.E.INTR);
}

pub fn openForReading(path: [:0]const u8, errno: *i32) Error!File {
    // NONBLOCK: a pipe must be refused, not waited for.
    return openAt(c.AT.FDCWD, path, .{ .ACCMODE = .RDONLY, .CLOEXEC = true, .NONBLOCK = true }, errno);
}

/// Opens a file to be written to, locked for whoever else would. `null` when somebody else holds the lock, or when
/// the file lost its name in between.
pub fn openToChange(path: [:0]const u8, errno: *i32) Error!?File {
    const file = try openAt(c.AT.FDCWD, path, .{ .ACCMODE = .RDWR, .CLOEXEC = true, .NONBLOCK = true }, errno);
    errdefer closeFile(file);

    const locked = lockNow(file);
    const status = try statusOf(file.descriptor, "", .follow, errno);
    if (status.kind != .regular) return refuse(errno, .INVAL);
    // Where the file system has no locks there is no way to tell; `unavailable` goes on.
    if (locked != .held_elsewhere and status.links > 0) return file;
    closeFile(file);
    return null;
}

fn openAt(folder: c_int, path: [:0]const u8, flags: c.O, errno: *i32) Error!File {
    const mode: c_uint = 0o666; // the umask takes away
    while (true) {
        const descriptor = c.openat(folder, path.ptr, withLargeFile(flags), mode);
        if (descriptor >= 0) return .{ .descriptor = descriptor };
        if (!interrupted()) return fetchErrno(errno);
    }
}

fn withLargeFile(flags: c.O) c.O {
    var result = flags;
    if (@hasField(c.O, "LARGEFILE")) result.LARGEFILE = true;
    return result;
}

pub fn closeFile(file: File) void {
    _ = c.close(file.descriptor); // also gone when it says EINTR
}

const FileStatus = struct { kind: EntryKind, size: u64, links: u64, device: u64, inode: u64, modified: i64 };

const Follow = enum { follow, stay };

/// The status of an open file (`name` empty) or of an entry of a folder.
fn statusOf(descriptor: c_int, name: [:0]const u8, follow: Follow, errno: *i32) Error!FileStatus {
    return if (is_linux) statusLinux(descriptor, name, follow, errno) else statusOther(descriptor, name, follow, errno);
}

fn statusLinux(descriptor: c_int, name: [:0]const u8, follow: Follow, errno: *i32) Error!FileStatus {
    var flags: u32 = if (name.len == 0) linux.AT.EMPTY_PATH else 0;
    if (follow == .stay) flags |= linux.AT.SYMLINK_NOFOLLOW;
    var status: linux.Statx = undefined;
    const result = linux.statx(descriptor, name.ptr, flags, .{
        .TYPE = true,
        .SIZE = true,
        .NLINK = true,
        .INO = true,
        .MTIME = true,
    }, &status);
    switch (linux.errno(result)) {
        .SUCCESS => return .{
            .kind = kindOfMode(status.mode),
            .size = status.size,
            .links = status.nlink,
            .device = @as(u64, status.dev_major) << 32 | status.dev_minor,
            .inode = status.ino,
            .modified = nanoseconds(status.mtime.sec, status.mtime.nsec),
        },
        else => |number| return refuse(errno, number),
    }
}

fn statusOther(descriptor: c_int, name: [:0]const u8, follow: Follow, errno: *i32) Error!FileStatus {
    var status: c.Stat = undefined;
    const result = if (name.len == 0)
        c.fstat(descriptor, &status)
    else
        c.fstatat(descriptor, name.ptr, &status, if (follow == .stay) c.AT.SYMLINK_NOFOLLOW else 0);
    if (result != 0) return fetchErrno(errno);
    const modified = status.mtime();
    return .{
        .kind = kindOfMode(status.mode),
        .size = @intCast(status.size),
        .links = @intCast(status.nlink),
        .device = @bitCast(@as(i64, status.dev)),
        .inode = @intCast(status.ino),
        .modified = nanoseconds(modified.sec, modified.nsec),
    };
}

/// Wraps after some centuries: times are compared, and nothing more.
fn nanoseconds(seconds: anytype, rest: anytype) i64 {
    return @as(i64, @intCast(seconds)) *% std.time.ns_per_s +% @as(i64, @intCast(rest));
}

fn kindOfMode(mode: anytype) EntryKind {
    const kind = mode & c.S.IFMT;
    if (kind == c.S.IFREG) return .regular;
    if (kind == c.S.IFDIR) return .folder;
    return .other;
}

pub fn sizeOfRegularFile(file: File, errno: *i32) Error!u64 {
    return (try stampOf(file, errno)).size;
}

pub fn stampOf(file: File, errno: *i32) Error!Stamp {
    const status = try statusOf(file.descriptor, "", .follow, errno);
    return switch (status.kind) {
        .regular => .of(status),
        .folder => refuse(errno, .ISDIR),
        .missing, .other => refuse(errno, .INVAL),
    };
}

pub fn stampAt(path: [:0]const u8) ?Stamp {
    var errno: i32 = 0;
    const status = statusOf(c.AT.FDCWD, path, .follow, &errno) catch return null;
    return .of(status);
}

pub fn readAll(file: File, target: []u8, offset: u64, errno: *i32) Error!void {
    var done: usize = 0;
    while (done < target.len) {
        const piece = target[done..][0..@min(target.len - done, transfer_bytes_max)];
        const position: i64 = @intCast(offset + done);
        const result = if (is_linux)
            c.pread64(file.descriptor, piece.ptr, piece.len, position)
        else
            c.pread(file.descriptor, piece.ptr, piece.len, position);
        if (result > 0) {
            done += @intCast(result);
        } else if (result == 0) {
            return refuse(errno, .IO); // the file is shorter than what was written to it
        } else if (!interrupted()) return fetchErrno(errno);
    }
}

pub fn writeAll(file: File, bytes: []const u8, offset: u64, errno: *i32) Error!void {
    var done: usize = 0;
    while (done < bytes.len) {
        const piece = bytes[done..][0..@min(bytes.len - done, transfer_bytes_max)];
        const position = std.math.cast(i64, offset + done) orelse return refuse(errno, .FBIG);
        const result = if (is_linux)
            c.pwrite64(file.descriptor, piece.ptr, piece.len, position)
        else
            c.pwrite(file.descriptor, piece.ptr, piece.len, position);
        if (result > 0) {
            done += @intCast(result);
        } else if (result == 0) {
            return refuse(errno, .IO);
        } else if (!interrupted()) return fetchErrno(errno);
    }
}

pub fn setSize(file: File, size: u64, errno: *i32) Error!void {
    const length = std.math.cast(i64, size) orelse return refuse(errno, .FBIG);
    while (true) {
        const result = if (is_linux) c.ftruncate64(file.descriptor, length) else c.ftruncate(file.descriptor, length);
        if (result == 0) return;
        if (!interrupted()) return fetchErrno(errno);
    }
}

/// Everything that was written is on the medium when this returns.
pub fn syncFile(file: File, errno: *i32) Error!void {
    if (builtin.os.tag.isDarwin()) {
        // fsync leaves the data in the drive's cache there; not every file system knows the stronger call.
        if (c.fcntl(file.descriptor, c.F.FULLFSYNC, @as(c_int, 1)) != -1) return platform.note(.sync_file);
    }
    while (c.fsync(file.descriptor) != 0) {
        if (!interrupted()) return fetchErrno(errno);
    }
    platform.note(.sync_file);
}

pub fn map(file: File, length: u64, errno: *i32) Error!Map {
    assert(length > 0); // an empty map does not exist
    const bytes = std.math.cast(usize, length) orelse return refuse(errno, .FBIG);
    const address = if (is_linux)
        c.mmap64(null, bytes, .{ .READ = true }, .{ .TYPE = .SHARED }, file.descriptor, 0)
    else
        c.mmap(null, bytes, .{ .READ = true }, .{ .TYPE = .SHARED }, file.descriptor, 0);
    if (address == c.MAP_FAILED) return fetchErrno(errno);
    return @as([*]align(platform.page_bytes_min) const u8, @ptrCast(@alignCast(address)))[0..bytes];
}

pub fn unmap(mapped: Map) void {
    const result = c.munmap(mapped.ptr, mapped.len);
    assert(result == 0);
}

pub const readAhead = read_ahead.readAhead;
pub const startReading = read_ahead.startReading;
pub const forgetHead = read_ahead.forgetHead;
pub const seemsResident = read_ahead.seemsResident;
pub const expectScattered = read_ahead.expectScattered;
pub const ownReads = read_ahead.ownReads;
pub const Reads = read_ahead.Reads;

pub fn processId() u32 {
    return @intCast(c.getpid());
}

pub fn sleepMilliseconds(milliseconds: u32) void {
    const time: c.timespec = .{ .sec = 0, .nsec = @intCast(@as(u64, milliseconds) * std.time.ns_per_ms) };
    assert(milliseconds < 1000);
    _ = c.nanosleep(&time, null); // a signal may end it early
}

/// Where a chain of symbolic links ends; `null` when `path` is no link or leads nowhere.
pub fn resolveLink(allocator: Allocator, path: [:0]const u8) error{OutOfMemory}!?[:0]u8 {
    var link: [1]u8 = undefined;
    if (c.readlinkat(c.AT.FDCWD, path.ptr, &link, link.len) < 0) return null;
    var buffer: [c.PATH_MAX]u8 = undefined;
    const resolved = c.realpath(path.ptr, &buffer) orelse return null;
    return try allocator.dupeSentinel(u8, std.mem.sliceTo(resolved, 0), 0);
}

/// Tells temporary files of one process apart; an exclusive create is what keeps them apart in the end.
pub fn randomNumber() u64 {
    var bytes: [8]u8 = undefined;
    if (is_linux) {
        if (linux.errno(linux.getrandom(&bytes, bytes.len, 0)) == .SUCCESS) return @bitCast(bytes);
    } else {
        c.arc4random_buf(&bytes, bytes.len);
        return @bitCast(bytes);
    }
    var now: c.timespec = undefined;
    _ = c.clock_gettime(.MONOTONIC, &now);
    return @as(u64, @bitCast(@as(i64, now.sec))) << 32 ^ @as(u64, @intCast(now.nsec));
}

/// The folder of a file that is being written, held open: what happens to the working directory or to the
/// folder's name meanwhile does not matter.
pub const Folder = struct {
    descriptor: c_int,

    pub const Overwrite = enum { never, allowed };

    pub fn open(allocator: Allocator, path: [:0]const u8, errno: *i32) (Error || Allocator.Error)!Folder {
        _ = allocator;
        const file = try openAt(c.AT.FDCWD, path, .{ .ACCMODE = .RDONLY, .CLOEXEC = true, .DIRECTORY = true }, errno);
        return .{ .descriptor = file.descriptor };
    }

    pub fn close(folder: Folder, allocator: Allocator) void {
        _ = allocator;
        _ = c.close(folder.descriptor);
    }

    /// Creates a file that must not exist.
    pub fn createExclusive(folder: Folder, name: [:0]const u8, errno: *i32) Error!File {
        const flags: c.O = .{ .ACCMODE = .RDWR, .CLOEXEC = true, .CREAT = true, .EXCL = true };
        return openAt(folder.descriptor, name, flags, errno);
    }

    pub fn kindOf(folder: Folder, name: [:0]const u8, errno: *i32) Error!EntryKind {
        var number: i32 = 0;
        const status = statusOf(folder.descriptor, name, .stay, &number) catch {
            if (number == @backingInt(c.E.NOENT)) return .missing;
            errno.* = number;
            return error.System;
        };
        return status.kind;
    }

    /// Removes a file that `createExclusive` made.
    pub fn discard(folder: Folder, file: File, name: [:0]const u8) void {
        _ = file;
        folder.remove(name);
    }

    pub fn remove(folder: Folder, name: [:0]const u8) void {
        _ = c.unlinkat(folder.descriptor, name.ptr, 0);
    }

    /// Gives the finished file its name in one step. With `.never` a file of that name that has appeared since
    /// is left alone, and errno is EEXIST.
    pub fn place(
        folder: Folder,
        file: File,
        from: [:0]const u8,
        to: [:0]const u8,
        overwrite: Overwrite,
        errno: *i32,
    ) Error!void {
        _ = file;
        switch (overwrite) {
            .allowed => {
                if (c.renameat(folder.descriptor, from.ptr, folder.descriptor, to.ptr) != 0) return fetchErrno(errno);
            },
            .never => try folder.placeWithoutReplacing(from, to, errno),
        }
        platform.note(.place);
    }

    fn placeWithoutReplacing(folder: Folder, from: [:0]const u8, to: [:0]const u8, errno: *i32) Error!void {
        const refused = renameExclusive(folder.descriptor, from, to) orelse return;
        if (refused == .EXIST) return refuse(errno, .EXIST);
        // The file system may lack that call; a hard link refuses an existing name as well.
        if (c.linkat(folder.descriptor, from.ptr, folder.descriptor, to.ptr, 0) == 0) return folder.remove(from);
        if (c._errno().* == @backingInt(c.E.EXIST)) return refuse(errno, .EXIST);
        // Neither (FAT and some network file systems): all that is left is to look first.
        if (try folder.kindOf(to, errno) != .missing) return refuse(errno, .EXIST);
        if (c.renameat(folder.descriptor, from.ptr, folder.descriptor, to.ptr) != 0) return fetchErrno(errno);
    }

    /// Makes the new name survive a power cut. Some file systems cannot sync a folder: then there is nothing to do.
    pub fn sync(folder: Folder, errno: *i32) Error!void {
        while (c.fsync(folder.descriptor) != 0) {
            if (interrupted()) continue;
            const number = c._errno().*;
            if (number == @backingInt(c.E.INVAL) or number == @backingInt(c.E.BADF)) return;
            return fetchErrno(errno);
        }
        platform.note(.sync_folder);
    }

    /// Calls `visit(context, name)` for each entry; a folder that cannot be listed has none.
    pub fn eachName(folder: Folder, context: anytype, comptime visit: fn (@TypeOf(context), [:0]const u8) void) void {
        var errno: i32 = 0;
        const flags: c.O = .{ .ACCMODE = .RDONLY, .CLOEXEC = true, .DIRECTORY = true };
        const again = openAt(folder.descriptor, ".", flags, &errno) catch return;
        const stream = c.fdopendir(again.descriptor) orelse return closeFile(again);
        defer _ = c.closedir(stream); // closes the descriptor too

        while (c.readdir(stream)) |entry| {
            const name: [*:0]const u8 = @ptrCast(&entry.name);
            visit(context, std.mem.sliceTo(name, 0));
        }
    }
};

/// `null` when the rename happened, else why not.
fn renameExclusive(folder: c_int, from: [:0]const u8, to: [:0]const u8) ?c.E {
    if (is_linux) {
        const number = linux.errno(linux.renameat2(folder, from.ptr, folder, to.ptr, .{ .NOREPLACE = true }));
        return if (number == .SUCCESS) null else number;
    }
    if (builtin.os.tag.isDarwin()) {
        if (c.renameatx_np(folder, from.ptr, folder, to.ptr, .{ .EXCL = true }) == 0) return null;
        return @fromBackingInt(@intCast(c._errno().*));
    }
    return .OPNOTSUPP;
}

const LockResult = enum { taken, held_elsewhere, unavailable };

/// Locks belong to the open file, so two writers in one process are told apart as well.
fn lockNow(file: File) LockResult {
    while (true) {
        if (c.flock(file.descriptor, c.LOCK.EX | c.LOCK.NB) == 0) return .taken;
        if (interrupted()) continue;
        return if (c._errno().* == @backingInt(c.E.AGAIN)) .held_elsewhere else .unavailable;
    }
}

test {
    _ = read_ahead;
}
