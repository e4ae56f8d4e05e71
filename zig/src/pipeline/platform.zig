//! What the pipeline asks the system for: CPUs, big pages, threads without signals.

const std = @import("std");
const builtin = @import("builtin");

pub const processId = @import("../container/platform.zig").processId;

/// More decode threads than this meet each other at the ring more than they decode.
pub const threads_max = 64;

/// The CPUs that this process may run on (its affinity, not the machine's count), from 1 to `threads_max`.
pub fn usableCpus() u32 {
    const count = std.Thread.getCpuCount() catch 1;
    return @intCast(std.math.clamp(count, 1, threads_max));
}

/// A page that the memory hardware maps in one entry, on x86-64 and (with 4 KiB base pages) aarch64.
pub const huge_page_bytes = 2 * 1024 * 1024;

/// Asks for huge pages; a system that has none, or refuses, leaves the memory as it is.
pub fn hintHugePages(memory: []align(huge_page_bytes) u8) void {
    if (builtin.os.tag != .linux) return;
    _ = std.os.linux.madvise(memory.ptr, memory.len, std.os.linux.MADV.HUGEPAGE);
}

/// While threads are started signals are blocked, so that they inherit that: a signal such as Ctrl-C is for a thread
/// of the interpreter, whose system call it must interrupt. Those that a thread causes itself stay its own, so that
/// a crash is reported by whoever reports crashes.
pub const SignalShield = struct {
    before: if (has_signals) std.c.sigset_t else void,

    const has_signals = builtin.os.tag != .windows;
    const own_signals = [_]std.c.SIG{ .SEGV, .BUS, .FPE, .ILL, .TRAP, .ABRT };

    pub fn raise() SignalShield {
        if (!has_signals) return .{ .before = {} };
        var all: std.c.sigset_t = undefined;
        _ = std.c.sigfillset(&all);
        for (own_signals) |signal| _ = std.c.sigdelset(&all, signal);
        var shield: SignalShield = undefined;
        _ = std.c.pthread_sigmask(std.c.SIG.SETMASK, &all, &shield.before);
        return shield;
    }

    pub fn lower(shield: *const SignalShield) void {
        if (!has_signals) return;
        var shielded: std.c.sigset_t = undefined;
        _ = std.c.pthread_sigmask(std.c.SIG.SETMASK, &shield.before, &shielded);
    }
};

test "there is a CPU" {
    try std.testing.expect(usableCpus() >= 1 and usableCpus() <= threads_max);
}

test "the shield puts the mask back" {
    const shield: SignalShield = .raise();
    const again: SignalShield = .raise();
    again.lower();
    shield.lower();
    if (builtin.os.tag != .linux) return;
    const after: SignalShield = .raise();
    defer after.lower();
    try std.testing.expectEqual(shield.before, after.before);
}
