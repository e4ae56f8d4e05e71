//! What is behind the opaque pointers of the C ABI, and the rules that all of them share.
//!
//! A handle remembers the process that made it. A forked child has the memory but not the threads of its parent,
//! and must not remove the parent's temporary file: there every call is refused and `close` does nothing.

const std = @import("std");
const errors = @import("../errors.zig");
const container_file = @import("../container/file.zig");
const container_writer = @import("../container/writer.zig");
const platform = @import("../container/platform.zig");
const Failure = errors.Failure;
const Report = errors.Report;
const Status = errors.Status;

pub const AbiError = errors.AbiError;
/// Of all that lives behind the ABI.
pub const allocator = std.heap.c_allocator;
pub const ok: i32 = @backingInt(Status.ok);

/// `scx_file`
pub const FileHandle = struct {
    process_id: u32,
    file: *container_file.File,
};

/// `scx_writer`
pub const WriterHandle = struct {
    process_id: u32,
    writer: *container_writer.Writer,
    /// The shard that is being written, of the functions in shard.zig.
    open_shard: ?OpenShard = null,

    pub const OpenShard = struct {
        state: *anyopaque,
        /// Frees the state when the writer is closed with a shard open.
        discard: *const fn (state: *anyopaque) void,
    };
};

/// `null` is an argument error; another process is refused.
pub fn checked(comptime Handle: type, handle: ?*Handle, report: *Report) Failure!*Handle {
    const own = handle orelse return report.fail(error.BadArgument, "the handle is NULL", .{});
    if (!isOwn(own.process_id)) {
        return report.fail(error.WrongProcess, "the handle was opened in process {d}, this is process {d}: " ++
            "open the file again in this one", .{ own.process_id, platform.processId() });
    }
    return own;
}

pub fn isOwn(process_id: u32) bool {
    return process_id == platform.processId();
}

/// The end of every exported function that can fail.
pub fn answer(result: Failure!void, report: *const Report, error_out: ?*AbiError) i32 {
    if (result) {
        return ok;
    } else |failure| {
        report.exportTo(failure, error_out);
        return @backingInt(Status.of(failure));
    }
}

/// What came of a function that read from the map of the file behind a handle, which `checked` may have refused.
pub fn afterReading(own: anytype, result: Failure!void, report: *Report) Failure!void {
    const used = own orelse return result;
    if (!isOwn(used.process_id)) return result;
    const file: *container_file.File = if (@hasField(@TypeOf(used.*), "file")) used.file else used.matrix.file;
    return file.afterReading(result, report);
}

/// A text argument.
pub fn text(pointer: ?[*:0]const u8, comptime what: []const u8, report: *Report) Failure![:0]const u8 {
    const start = pointer orelse return report.fail(error.BadArgument, what ++ " is NULL", .{});
    return std.mem.sliceTo(start, 0);
}

/// An output or options argument.
pub fn required(comptime T: type, pointer: ?T, comptime what: []const u8, report: *Report) Failure!T {
    return pointer orelse report.fail(error.BadArgument, what ++ " is NULL", .{});
}

/// `indptr` and its like: one entry more than there are things that begin at them.
pub fn offsets(pointer: ?[*]const i64, count: u64, comptime what: []const u8, report: *Report) Failure![]const i64 {
    const length = std.math.add(u64, count, 1) catch
        return report.fail(error.BadArgument, what ++ " cannot have an entry more than {d}", .{count});
    return (try required([*]const i64, pointer, what, report))[0..@intCast(length)];
}

/// A caller that was built with another scx.h has structs of another size.
pub fn checkSize(comptime T: type, struct_bytes: u32, comptime what: []const u8, report: *Report) Failure!void {
    if (struct_bytes != @sizeOf(T)) {
        return report.fail(error.BadArgument, what ++ ".struct_bytes is {d}, expected {d}: set it to sizeof, and use the " ++
            "scx.h that belongs to this library", .{ struct_bytes, @sizeOf(T) });
    }
}

/// Fills a struct whose first field is `struct_bytes`, which stays.
pub fn clearStruct(comptime T: type, target: *T) void {
    const struct_bytes = target.struct_bytes;
    @memset(std.mem.asBytes(target), 0);
    target.struct_bytes = struct_bytes;
}

test "offsets are one more than what they count, which has a limit" {
    var report: Report = .{};
    const entries = [_]i64{ 0, 4 };
    try std.testing.expectEqualSlices(i64, &entries, try offsets(&entries, 1, "indptr", &report));
    try std.testing.expectError(error.BadArgument, offsets(&entries, std.math.maxInt(u64), "indptr", &report));
    try std.testing.expectError(error.BadArgument, offsets(null, 0, "indptr", &report));
}

test "a NULL handle and a foreign process are refused" {
    var report: Report = .{};
    try std.testing.expectError(error.BadArgument, checked(FileHandle, null, &report));
    var handle: FileHandle = .{ .process_id = platform.processId() + 1, .file = undefined };
    try std.testing.expectError(error.WrongProcess, checked(FileHandle, &handle, &report));
    handle.process_id = platform.processId();
    try std.testing.expectEqual(&handle, try checked(FileHandle, &handle, &report));
}
