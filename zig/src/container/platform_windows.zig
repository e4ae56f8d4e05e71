//! Windows. Paths are made absolute and given the prefix that lifts the limit of 260 characters.
//!
//! What the writer locks elsewhere needs no lock here: its temporary file is opened without sharing deletion, so
//! nobody can remove it while the process lives.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const windows = std.os.windows;
const platform = @import("platform.zig");
const Error = platform.Error;
const EntryKind = platform.EntryKind;
const Map = platform.Map;
const Stamp = platform.Stamp;
const E = std.c.E;

pub const File = struct { handle: windows.HANDLE };

/// The longest path that the system takes, in UTF-16 units and with its terminator.
const path_units_max = 32_768;
const PathBuffer = [path_units_max]u16;
/// A single transfer counts its bytes in 32 bits.
const transfer_bytes_max = 1 << 30;

const generic_read = 0x8000_0000;
const generic_write = 0x4000_0000;
const access_delete = 0x0001_0000;
const share_read = 1;
const share_write = 2;
const share_delete = 4;
const create_new = 1;
const open_existing = 3;
const attribute_normal = 0x80;
const attribute_folder = 0x10;
const attribute_device = 0x40;
const attributes_invalid = 0xFFFF_FFFF;
/// Without it a folder cannot be opened at all, and the error would not say why.
const flag_backup_semantics = 0x0200_0000;
const file_type_disk = 1;
const page_readonly = 2;
const file_map_read = 4;

const Overlapped = extern struct {
    internal: usize = 0,
    internal_high: usize = 0,
    offset_low: u32,
    offset_high: u32,
    event: ?windows.HANDLE = null,

    fn at(offset: u64) Overlapped {
        return .{ .offset_low = @truncate(offset), .offset_high = @truncate(offset >> 32) };
    }
};

const FileInformation = extern struct {
    attributes: u32,
    times: [6]u32,
    volume: u32,
    size_high: u32,
    size_low: u32,
    links: u32,
    index_high: u32,
    index_low: u32,
};

const FindData = extern struct {
    attributes: u32,
    times: [6]u32,
    size_high: u32,
    size_low: u32,
    reserved: [2]u32,
    name: [260]u16,
    short_name: [14]u16,
};

const InformationClass = enum(c_int) { rename = 3, disposition = 4, end_of_file = 6, rename_extended = 22 };

const RenameInformation = extern struct {
    flags: u32,
    root: ?windows.HANDLE,
    name_bytes: u32,
    name: PathBuffer,

    const replace_existing = 1;
    /// The target may be open elsewhere; Windows 10 and later.
    const posix_semantics = 2;
};

const RangeEntry = extern struct { address: *const anyopaque, bytes: usize };

extern "kernel32" fn CreateFileW(path: [*:0]const u16, access: u32, share: u32, security: ?*anyopaque, disposition: u32, flags: u32, template: ?windows.HANDLE) callconv(.winapi) windows.HANDLE;
extern "kernel32" fn Sleep(milliseconds: u32) callconv(.winapi) void;
extern "kernel32" fn CloseHandle(handle: windows.HANDLE) callconv(.winapi) c_int;
extern "kernel32" fn GetFullPathNameW(path: [*:0]const u16, units: u32, buffer: [*]u16, file_part: ?*?[*:0]u16) callconv(.winapi) u32;
extern "kernel32" fn GetFileType(handle: windows.HANDLE) callconv(.winapi) u32;
extern "kernel32" fn GetFileInformationByHandle(handle: windows.HANDLE, information: *FileInformation) callconv(.winapi) c_int;
extern "kernel32" fn SetFileInformationByHandle(handle: windows.HANDLE, class: InformationClass, information: *const anyopaque, bytes: u32) callconv(.winapi) c_int;
extern "kernel32" fn GetFileAttributesW(path: [*:0]const u16) callconv(.winapi) u32;
extern "kernel32" fn DeleteFileW(path: [*:0]const u16) callconv(.winapi) c_int;
extern "kernel32" fn ReadFile(handle: windows.HANDLE, target: [*]u8, bytes: u32, done: *u32, overlapped: *Overlapped) callconv(.winapi) c_int;
extern "kernel32" fn WriteFile(handle: windows.HANDLE, bytes: [*]const u8, count: u32, done: *u32, overlapped: *Overlapped) callconv(.winapi) c_int;
extern "kernel32" fn FlushFileBuffers(handle: windows.HANDLE) callconv(.winapi) c_int;
extern "kernel32" fn CreateFileMappingW(handle: windows.HANDLE, security: ?*anyopaque, protection: u32, size_high: u32, size_low: u32, name: ?[*:0]const u16) callconv(.winapi) ?windows.HANDLE;
extern "kernel32" fn MapViewOfFile(mapping: windows.HANDLE, access: u32, offset_high: u32, offset_low: u32, bytes: usize) callconv(.winapi) ?*anyopaque;
extern "kernel32" fn UnmapViewOfFile(address: *const anyopaque) callconv(.winapi) c_int;
extern "kernel32" fn PrefetchVirtualMemory(process: windows.HANDLE, count: usize, ranges: [*]const RangeEntry, flags: u32) callconv(.winapi) c_int;
extern "kernel32" fn FindFirstFileW(pattern: [*:0]const u16, data: *FindData) callconv(.winapi) windows.HANDLE;
extern "kernel32" fn FindNextFileW(search: windows.HANDLE, data: *FindData) callconv(.winapi) c_int;
extern "kernel32" fn FindClose(search: windows.HANDLE) callconv(.winapi) c_int;
extern "kernel32" fn QueryPerformanceCounter(counter: *i64) callconv(.winapi) c_int;

fn refuse(errno: *i32, number: E) Error {
    errno.* = @backingInt(number);
    return error.System;
}

/// The errno that comes nearest to what the last call said.
fn fetchErrno(errno: *i32) Error {
    return refuse(errno, switch (windows.GetLastError()) {
        .FILE_NOT_FOUND, .PATH_NOT_FOUND, .INVALID_NAME, .BAD_PATHNAME, .BAD_NETPATH, .INVALID_DRIVE => .NOENT,
        .TOO_MANY_OPEN_FILES => .MFILE,
        .ACCESS_DENIED, .SHARING_VIOLATION, .LOCK_VIOLATION, .USER_MAPPED_FILE => .ACCES,
        .NOT_ENOUGH_MEMORY, .OUTOFMEMORY, .COMMITMENT_LIMIT => .NOMEM,
        .FILE_EXISTS, .ALREADY_EXISTS => .EXIST,
        .DIRECTORY => .NOTDIR,
        .DISK_FULL, .HANDLE_DISK_FULL => .NOSPC,
        .WRITE_PROTECT => .ROFS,
        .FILENAME_EXCED_RANGE => .NAMETOOLONG,
        .FILE_TOO_LARGE => .FBIG,
        else => .IO,
    });
}

/// The absolute form of a path, with the prefix for long ones.
fn widePath(path: []const u8, buffer: *PathBuffer, errno: *i32) Error![:0]u16 {
    var given: PathBuffer = undefined;
    const given_units = std.unicode.calcWtf16LeLen(path) catch return refuse(errno, .NOENT);
    if (given_units >= path_units_max) return refuse(errno, .NAMETOOLONG);
    _ = std.unicode.wtf8ToWtf16Le(&given, path) catch return refuse(errno, .NOENT);
    given[given_units] = 0;
    if (std.mem.startsWith(u8, path, "\\\\?\\")) {
        @memcpy(buffer[0 .. given_units + 1], given[0 .. given_units + 1]);
        return buffer[0..given_units :0];
    }
    const drive_prefix = std.unicode.utf8ToUtf16LeStringLiteral("\\\\?\\");
    const share_prefix = std.unicode.utf8ToUtf16LeStringLiteral("\\\\?\\UNC\\");
    var full: PathBuffer = undefined;
    const units = GetFullPathNameW(given[0..given_units :0].ptr, full.len, &full, null);
    if (units == 0) return fetchErrno(errno);
    if (units + share_prefix.len >= path_units_max) return refuse(errno, .NAMETOOLONG);
    // "\\server\share" keeps what follows its two backslashes; "\\.\device" is left as it is
    const is_share = units > 2 and full[0] == '\\' and full[1] == '\\' and full[2] != '.';
    const is_device = units > 2 and full[0] == '\\' and full[1] == '\\' and full[2] == '.';
    const prefix: []const u16 = if (is_device) &.{} else if (is_share) share_prefix else drive_prefix;
    const rest = full[if (is_share) 2 else 0..units];
    @memcpy(buffer[0..prefix.len], prefix);
    @memcpy(buffer[prefix.len..][0..rest.len], rest);
    buffer[prefix.len + rest.len] = 0;
    return buffer[0 .. prefix.len + rest.len :0];
}

pub fn openForReading(path: [:0]const u8, errno: *i32) Error!File {
    var buffer: PathBuffer = undefined;
    const wide = try widePath(path, &buffer, errno);
    const share = share_read | share_write | share_delete;
    const handle = CreateFileW(wide.ptr, generic_read, share, null, open_existing, attribute_normal | flag_backup_semantics, null);
    if (handle == windows.INVALID_HANDLE_VALUE) return fetchErrno(errno);
    return .{ .handle = handle };
}

/// Opens a file to be written to. `null` when somebody else has it open for writing.
pub fn openToChange(path: [:0]const u8, errno: *i32) Error!?File {
    var buffer: PathBuffer = undefined;
    const wide = try widePath(path, &buffer, errno);
    const access = generic_read | generic_write;
    const handle = CreateFileW(wide.ptr, access, share_read, null, open_existing, attribute_normal, null);
    if (handle != windows.INVALID_HANDLE_VALUE) return .{ .handle = handle };
    if (windows.GetLastError() == .SHARING_VIOLATION) return null;
    return fetchErrno(errno);
}

pub fn closeFile(file: File) void {
    _ = CloseHandle(file.handle);
}

pub fn sizeOfRegularFile(file: File, errno: *i32) Error!u64 {
    return (try stampOf(file, errno)).size;
}

pub fn stampAt(path: [:0]const u8) ?Stamp {
    var errno: i32 = 0;
    const file = openForReading(path, &errno) catch return null;
    defer closeFile(file);
    return stampOf(file, &errno) catch null;
}

pub fn stampOf(file: File, errno: *i32) Error!Stamp {
    if (GetFileType(file.handle) != file_type_disk) return refuse(errno, .INVAL);
    var information: FileInformation = undefined;
    if (GetFileInformationByHandle(file.handle, &information) == 0) return fetchErrno(errno);
    if (information.attributes & attribute_folder != 0) return refuse(errno, .ISDIR);
    return .{
        .device = information.volume,
        .inode = @as(u64, information.index_high) << 32 | information.index_low,
        .size = @as(u64, information.size_high) << 32 | information.size_low,
        // the last two are those of the last write
        .modified = @bitCast(@as(u64, information.times[5]) << 32 | information.times[4]),
    };
}

pub fn readAll(file: File, target: []u8, offset: u64, errno: *i32) Error!void {
    var done: usize = 0;
    while (done < target.len) {
        const piece = target[done..][0..@min(target.len - done, transfer_bytes_max)];
        var overlapped: Overlapped = .at(offset + done);
        var count: u32 = 0;
        if (ReadFile(file.handle, piece.ptr, @intCast(piece.len), &count, &overlapped) == 0) return fetchErrno(errno);
        if (count == 0) return refuse(errno, .IO); // the file is shorter than what was written to it
        done += count;
    }
}

pub fn writeAll(file: File, bytes: []const u8, offset: u64, errno: *i32) Error!void {
    var done: usize = 0;
    while (done < bytes.len) {
        const piece = bytes[done..][0..@min(bytes.len - done, transfer_bytes_max)];
        var overlapped: Overlapped = .at(offset + done);
        var count: u32 = 0;
        if (WriteFile(file.handle, piece.ptr, @intCast(piece.len), &count, &overlapped) == 0) return fetchErrno(errno);
        if (count == 0) return refuse(errno, .IO);
        done += count;
    }
}

pub fn setSize(file: File, size: u64, errno: *i32) Error!void {
    const length = std.math.cast(i64, size) orelse return refuse(errno, .FBIG);
    if (SetFileInformationByHandle(file.handle, .end_of_file, &length, @sizeOf(i64)) == 0) return fetchErrno(errno);
}

/// Everything that was written is on the medium when this returns.
pub fn syncFile(file: File, errno: *i32) Error!void {
    if (FlushFileBuffers(file.handle) == 0) return fetchErrno(errno);
}

pub fn map(file: File, length: u64, errno: *i32) Error!Map {
    assert(length > 0); // an empty map does not exist
    const bytes = std.math.cast(usize, length) orelse return refuse(errno, .FBIG);
    const mapping = CreateFileMappingW(file.handle, null, page_readonly, 0, 0, null) orelse return fetchErrno(errno);
    defer _ = CloseHandle(mapping); // the view stays
    const address = MapViewOfFile(mapping, file_map_read, 0, 0, bytes) orelse return fetchErrno(errno);
    return @as([*]align(platform.page_bytes_min) const u8, @ptrCast(@alignCast(address)))[0..bytes];
}

pub fn unmap(mapped: Map) void {
    const result = UnmapViewOfFile(mapped.ptr);
    assert(result != 0);
}

/// Bytes of a map that will be read soon, from front to back.
pub const readAhead = startReading;

/// Asks for pages of a map that will be read soon. A hint: nothing happens where the system does not take it.
pub fn startReading(bytes: []const u8) void {
    if (bytes.len == 0) return;
    const this_process: windows.HANDLE = @ptrFromInt(std.math.maxInt(usize));
    const ranges = [1]RangeEntry{.{ .address = bytes.ptr, .bytes = bytes.len }};
    _ = PrefetchVirtualMemory(this_process, ranges.len, &ranges, 0);
}

/// The system keeps no huge pages of files.
pub fn forgetHead(bytes: []const u8, length: usize) void {
    _ = bytes;
    _ = length;
}

/// The system does not tell.
pub fn seemsResident(bytes: []const u8) bool {
    _ = bytes;
    return true;
}

/// The system reads a few pages around one that is touched.
pub fn expectScattered(bytes: []const u8, scattered: bool) void {
    _ = bytes;
    _ = scattered;
}

pub const Reads = struct { faults: u64 = 0, blocks: u64 = 0 };

/// The system counts neither for a thread.
pub fn ownReads() Reads {
    return .{};
}

pub fn processId() u32 {
    return windows.GetCurrentProcessId();
}

pub fn sleepMilliseconds(milliseconds: u32) void {
    Sleep(milliseconds);
}

/// Links are not followed here: one that is written over is replaced itself.
pub fn resolveLink(allocator: Allocator, path: [:0]const u8) error{OutOfMemory}!?[:0]u8 {
    _ = allocator;
    _ = path;
    return null;
}

/// Tells temporary files of one process apart; an exclusive create is what keeps them apart in the end.
pub fn randomNumber() u64 {
    var counter: i64 = 0;
    _ = QueryPerformanceCounter(&counter);
    return @bitCast(counter);
}

/// The folder of a file that is being written: its absolute path, so that a change of the working directory
/// does not matter.
pub const Folder = struct {
    /// Ends without a separator, unless it is a root.
    path: [:0]u16,

    pub const Overwrite = enum { never, allowed };

    pub fn open(allocator: Allocator, path: [:0]const u8, errno: *i32) (Error || Allocator.Error)!Folder {
        var buffer: PathBuffer = undefined;
        const wide = try widePath(path, &buffer, errno);
        const attributes = GetFileAttributesW(wide.ptr);
        if (attributes == attributes_invalid) return fetchErrno(errno);
        if (attributes & attribute_folder == 0) return refuse(errno, .NOTDIR);
        return .{ .path = try allocator.dupeSentinel(u16, wide, 0) };
    }

    pub fn close(folder: Folder, allocator: Allocator) void {
        allocator.free(folder.path);
    }

    fn entryPath(folder: Folder, name: []const u8, buffer: *PathBuffer, errno: *i32) Error![:0]u16 {
        const name_units = std.unicode.calcWtf16LeLen(name) catch return refuse(errno, .NOENT);
        const start = folder.path.len + 1;
        if (start + name_units >= path_units_max) return refuse(errno, .NAMETOOLONG);
        @memcpy(buffer[0..folder.path.len], folder.path);
        buffer[folder.path.len] = '\\'; // doubled behind a root, which is harmless
        _ = std.unicode.wtf8ToWtf16Le(buffer[start..], name) catch return refuse(errno, .NOENT);
        buffer[start + name_units] = 0;
        return buffer[0 .. start + name_units :0];
    }

    /// Creates a file that must not exist. Nobody else can write or remove it while it is open.
    pub fn createExclusive(folder: Folder, name: [:0]const u8, errno: *i32) Error!File {
        var buffer: PathBuffer = undefined;
        const wide = try folder.entryPath(name, &buffer, errno);
        const access = generic_read | generic_write | access_delete;
        const handle = CreateFileW(wide.ptr, access, share_read, null, create_new, attribute_normal, null);
        if (handle == windows.INVALID_HANDLE_VALUE) return fetchErrno(errno);
        return .{ .handle = handle };
    }

    pub fn kindOf(folder: Folder, name: [:0]const u8, errno: *i32) Error!EntryKind {
        var buffer: PathBuffer = undefined;
        const wide = try folder.entryPath(name, &buffer, errno);
        const attributes = GetFileAttributesW(wide.ptr);
        if (attributes == attributes_invalid) {
            if (windows.GetLastError() == .FILE_NOT_FOUND) return .missing;
            return fetchErrno(errno);
        }
        if (attributes & attribute_folder != 0) return .folder;
        return if (attributes & attribute_device != 0) .other else .regular;
    }

    /// Removes a file that `createExclusive` made, as soon as it is closed.
    pub fn discard(folder: Folder, file: File, name: [:0]const u8) void {
        _ = folder;
        _ = name;
        const delete: c_int = 1;
        _ = SetFileInformationByHandle(file.handle, .disposition, &delete, 1);
    }

    /// Removes a file that nobody has open.
    pub fn remove(folder: Folder, name: [:0]const u8) void {
        var buffer: PathBuffer = undefined;
        var errno: i32 = 0;
        const wide = folder.entryPath(name, &buffer, &errno) catch return;
        _ = DeleteFileW(wide.ptr);
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
        _ = from;
        var information: RenameInformation = .{ .flags = 0, .root = null, .name_bytes = 0, .name = undefined };
        const wide = try folder.entryPath(to, &information.name, errno);
        information.name_bytes = @intCast(wide.len * @sizeOf(u16));
        if (overwrite == .allowed) {
            information.flags = RenameInformation.replace_existing | RenameInformation.posix_semantics;
            if (SetFileInformationByHandle(file.handle, .rename_extended, &information, @sizeOf(RenameInformation)) != 0) return;
            information.flags = RenameInformation.replace_existing;
        }
        if (SetFileInformationByHandle(file.handle, .rename, &information, @sizeOf(RenameInformation)) == 0) {
            return fetchErrno(errno);
        }
    }

    /// The rename is written through by the system's own log.
    pub fn sync(folder: Folder, errno: *i32) Error!void {
        _ = folder;
        _ = errno;
    }

    /// Calls `visit(context, name)` for each entry; a folder that cannot be listed has none.
    pub fn eachName(folder: Folder, context: anytype, comptime visit: fn (@TypeOf(context), [:0]const u8) void) void {
        var buffer: PathBuffer = undefined;
        var errno: i32 = 0;
        const pattern = folder.entryPath("*", &buffer, &errno) catch return;
        var data: FindData = undefined;
        const search = FindFirstFileW(pattern.ptr, &data);
        if (search == windows.INVALID_HANDLE_VALUE) return;
        defer _ = FindClose(search);

        while (true) {
            const units = std.mem.indexOfScalar(u16, &data.name, 0) orelse data.name.len;
            var name: [3 * data.name.len + 1]u8 = undefined; // a unit takes at most three bytes
            const length = std.unicode.wtf16LeToWtf8(&name, data.name[0..units]);
            name[length] = 0;
            visit(context, name[0..length :0]);
            if (FindNextFileW(search, &data) == 0) return;
        }
    }
};

comptime {
    assert(@sizeOf(FileInformation) == 52);
    assert(@sizeOf(FindData) == 592);
    assert(@offsetOf(RenameInformation, "name") == 20);
    assert(@sizeOf(Overlapped) == 32);
}
