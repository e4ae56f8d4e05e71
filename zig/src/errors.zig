//! How a failure travels: a small error set inside, a status number and a message at the C ABI.
//!
//! A function that can fail for a reason the user should read takes a `*Report`, writes what is wrong, where and
//! what to do into it with `fail`, and returns the matching member of `Failure`. The exported function that was
//! called turns both into an `scx_error`.

const std = @import("std");
const assert = std.debug.assert;

pub const Failure = error{
    /// A value that no file could make right.
    BadArgument,
    /// A row, column or index beyond what there is.
    OutOfRange,
    /// A well-formed file that needs something this build lacks.
    Unsupported,
    /// The file ends before what it promises.
    Truncated,
    /// The file contradicts itself or a checksum.
    Corrupt,
    /// The system refused a call.
    InputOutput,
    OutOfMemory,
    /// A documented bound of the library or of a handle.
    Limit,
    Closed,
    WrongProcess,
    NotFound,
    Timeout,
    Exists,
    /// Another process changes the file, or has changed it since it was opened.
    Busy,
};

/// Whether the bytes of a file are to blame.
pub fn isDamage(failure: Failure) bool {
    return failure == error.Corrupt or failure == error.Truncated;
}

/// The numbers of `scx.h`; never reused.
pub const Status = enum(i32) {
    ok = 0,
    bad_argument = 1,
    out_of_range = 2,
    unsupported = 3,
    truncated = 4,
    corrupt = 5,
    input_output = 6,
    no_memory = 7,
    limit = 8,
    closed = 9,
    wrong_process = 10,
    not_found = 11,
    timeout = 12,
    exists = 13,
    busy = 14,

    pub fn of(failure: Failure) Status {
        return switch (failure) {
            error.BadArgument => .bad_argument,
            error.OutOfRange => .out_of_range,
            error.Unsupported => .unsupported,
            error.Truncated => .truncated,
            error.Corrupt => .corrupt,
            error.InputOutput => .input_output,
            error.OutOfMemory => .no_memory,
            error.Limit => .limit,
            error.Closed => .closed,
            error.WrongProcess => .wrong_process,
            error.NotFound => .not_found,
            error.Timeout => .timeout,
            error.Exists => .exists,
            error.Busy => .busy,
        };
    }
};

pub const no_index: u64 = std.math.maxInt(u64);
pub const section_bytes_max = 128;
pub const message_bytes_max = 1024;

/// `scx_error`, field by field.
pub const AbiError = extern struct {
    status: i32,
    os_error: i32,
    shard: u64,
    row: u64,
    section: [section_bytes_max]u8,
    message: [message_bytes_max]u8,
};

comptime {
    assert(@sizeOf(AbiError) == 24 + section_bytes_max + message_bytes_max);
    assert(@offsetOf(AbiError, "section") == 24);
}

/// Where a failing function writes what happened. Cheap to start: nothing is cleared but the lengths.
pub const Report = struct {
    os_error: i32 = 0,
    shard: u64 = no_index,
    row: u64 = no_index,
    section_length: usize = 0,
    message_length: usize = 0,
    section: [section_bytes_max]u8 = undefined,
    message: [message_bytes_max]u8 = undefined,

    /// Writes the message (cut where it is too long) and hands `failure` back, so that a caller can
    /// `return report.fail(error.Corrupt, "...", .{})`. Bytes of a file go in through `escaped`.
    pub fn fail(report: *Report, failure: Failure, comptime format: []const u8, args: anytype) Failure {
        var writer: std.Io.Writer = .fixed(report.message[0 .. message_bytes_max - 1]);
        writer.print(format, args) catch {}; // a full buffer keeps what fitted
        report.message_length = writer.end;
        return failure;
    }

    pub fn at(report: *Report, section: []const u8, shard: u64, row: u64) void {
        report.setSection(section);
        report.shard = shard;
        report.row = row;
    }

    /// The name comes from a file: anything but printable ASCII is shown as `\xNN`.
    pub fn setSection(report: *Report, name: []const u8) void {
        var writer: std.Io.Writer = .fixed(report.section[0 .. section_bytes_max - 1]);
        writer.print("{f}", .{escaped(name)}) catch {};
        report.section_length = writer.end;
    }

    pub fn messageText(report: *const Report) []const u8 {
        return report.message[0..report.message_length];
    }

    /// Fills the caller's struct; `null` means that the caller does not want one.
    pub fn exportTo(report: *const Report, failure: Failure, target: ?*AbiError) void {
        const out = target orelse return;
        out.status = @backingInt(Status.of(failure));
        out.os_error = report.os_error;
        out.shard = report.shard;
        out.row = report.row;
        copyTerminated(&out.section, report.section[0..report.section_length]);
        const message = if (report.message_length > 0) report.messageText() else plainMessage(failure);
        copyTerminated(&out.message, message);
    }
};

fn copyTerminated(target: []u8, text: []const u8) void {
    const length = @min(text.len, target.len - 1);
    @memcpy(target[0..length], text[0..length]);
    target[length] = 0;
}

/// What is said when the failing function wrote nothing (running out of memory, mostly).
fn plainMessage(failure: Failure) []const u8 {
    return switch (failure) {
        error.BadArgument => "an argument is not valid",
        error.OutOfRange => "an index is out of range",
        error.Unsupported => "the file needs something that this version cannot do",
        error.Truncated => "the file is cut off",
        error.Corrupt => "the file is damaged",
        error.InputOutput => "the system refused to read or write",
        error.OutOfMemory => "not enough memory",
        error.Limit => "a limit of the library was reached",
        error.Closed => "the handle is closed",
        error.WrongProcess => "the handle belongs to another process: open the file again in this one",
        error.NotFound => "not found",
        error.Timeout => "nothing happened within the given time",
        error.Exists => "the target exists already",
        error.Busy => "the file is being changed: open it again",
    };
}

const Escaped = struct {
    bytes: []const u8,

    pub fn format(self: Escaped, writer: *std.Io.Writer) std.Io.Writer.Error!void {
        for (self.bytes) |byte| {
            if (byte >= 0x20 and byte < 0x7f and byte != '\\') {
                try writer.writeByte(byte);
            } else {
                try writer.print("\\x{x:0>2}", .{byte});
            }
        }
    }
};

/// Untrusted bytes for a message, to be printed with `{f}`.
pub fn escaped(bytes: []const u8) Escaped {
    return .{ .bytes = bytes };
}

test "a report is cut, terminated and escaped" {
    var report: Report = .{};
    const long: [2000]u8 = @splat('x');
    try std.testing.expectEqual(error.Corrupt, report.fail(error.Corrupt, "{s}", .{&long}));
    report.at("a\x00\xffb", 3, 4);
    var out: AbiError = undefined;
    report.exportTo(error.Corrupt, &out);
    try std.testing.expectEqual(@as(usize, message_bytes_max - 1), std.mem.indexOfScalar(u8, &out.message, 0).?);
    try std.testing.expectEqualStrings("a\\x00\\xffb", std.mem.sliceTo(&out.section, 0));
    try std.testing.expectEqual(@as(i32, 5), out.status);
    try std.testing.expectEqual(@as(u64, 4), out.row);
}

test "every failure has its own status and a message" {
    var seen: [15]bool = @splat(false);
    inline for (@typeInfo(Failure).error_set.error_names.?) |name| {
        const failure: Failure = @field(Failure, name);
        const status: usize = @intCast(@backingInt(Status.of(failure)));
        try std.testing.expect(!seen[status]);
        seen[status] = true;
        try std.testing.expect(plainMessage(failure).len > 0);
    }
}
