//! The threads of one pipeline: started together, ended together, with a deadline.

const std = @import("std");
const builtin = @import("builtin");
const assert = std.debug.assert;

const errors = @import("../errors.zig");
const platform = @import("platform.zig");
const Failure = errors.Failure;
const Report = errors.Report;

/// The life of a pipeline's threads; it only moves downwards.
pub const Life = enum(u8) {
    /// No thread exists: none is started before there is work, so that a handle that was only opened is harmless.
    fresh,
    /// Threads decode, or wait for work.
    running,
    /// Threads end as soon as they look. Also when not all of them could be started.
    stopping,
};

/// Address space, not memory: decoding touches a few kilobytes of it. But the thread-local variables of the whole
/// process lie in it too, and a stack that is too small for those is not refused but undefined in std.Thread.
const stack_bytes = 4 * 1024 * 1024;

/// In tests: how many more threads may start before one fails. Null outside of them.
pub var spawn_fault_after: ?u32 = null;

pub fn spawn(comptime function: anytype, args: anytype, report: *Report) Failure!std.Thread {
    if (builtin.is_test) if (spawn_fault_after) |*left| {
        if (left.* == 0) return failSpawn(report, "SystemResources");
        left.* -= 1;
    };
    const shield: platform.SignalShield = .raise();
    defer shield.lower();
    return std.Thread.spawn(.{ .stack_size = stack_bytes }, function, args) catch |err| switch (err) {
        error.OutOfMemory => error.OutOfMemory,
        error.ThreadQuotaExceeded,
        error.SystemResources,
        error.LockedMemoryLimitExceeded,
        error.Unexpected,
        => failSpawn(report, @errorName(err)),
    };
}

fn failSpawn(report: *Report, reason: []const u8) Failure {
    return report.fail(
        error.Limit,
        "the system refused to start a thread ({s}): ask for fewer threads, or raise the limit on processes " ++
            "(ulimit -u, or the container's)",
        .{reason},
    );
}

/// Names the calling thread, as far as the system shows names.
pub fn nameSelf(comptime name: [:0]const u8) void {
    comptime assert(name.len <= 15);
    switch (builtin.os.tag) {
        .linux => _ = std.os.linux.prctl(@backingInt(std.os.linux.PR.SET_NAME), @intFromPtr(name.ptr), 0, 0, 0),
        .macos => _ = std.c.pthread_setname_np(name),
        else => {},
    }
}

test "a thread starts, or says why it does not" {
    const Nothing = struct {
        fn run() void {
            nameSelf("scx-test");
        }
    };
    var report: Report = .{};
    const thread = try spawn(Nothing.run, .{}, &report);
    thread.join();
    spawn_fault_after = 0;
    defer spawn_fault_after = null;
    try std.testing.expectError(error.Limit, spawn(Nothing.run, .{}, &report));
    try std.testing.expect(std.mem.find(u8, report.messageText(), "fewer threads") != null);
}
