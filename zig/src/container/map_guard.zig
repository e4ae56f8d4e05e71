//! What happens when bytes of a map cannot be read: somebody has cut or overwritten the file in place, or the disk failed.
//!
//!   watch(map) ?*Guard        from now on such a touch gives zeros, and marks the guard; null: too many maps
//!   anyCut() bool              whether that has happened to any
//!   guard.isCut() bool        whether that has happened; who has read from the map asks before the values are used
//!   guard.release()           before the map ends
//!   arm()                     puts the handler back in front, where another one was installed since
//!
//! The system sends SIGBUS to the thread that touches such a page. The handler looks for the address among the guarded
//! maps, marks the one that has it, and lays zeros over the map from that page on, so that the thread goes on. It is
//! safe in a signal: it takes no lock, allocates nothing and calls nothing but the system. Any other SIGBUS goes to
//! the handlers that were there before. Windows sends none, and does not let a mapped file be cut.

const std = @import("std");
const assert = std.debug.assert;
const builtin = @import("builtin");
const c = std.c;
const linux = std.os.linux;
const platform = @import("platform.zig");
const testing = std.testing;

const has_signals = builtin.os.tag != .windows;
const is_linux = builtin.os.tag == .linux;

/// As many maps as Linux lets a process have unless it is told otherwise.
pub const guards_max = 1 << 16;

/// Whether any map was ever cut: who reads from thousands of them asks each only then.
pub fn anyCut() bool {
    return was_cut.load(.acquire);
}

var was_cut: std.atomic.Value(bool) = .init(false);

pub const Guard = struct {
    /// Address of the first byte; 0 where the guard is free, `taken` while it is being filled.
    start: std.atomic.Value(usize) = .init(0),
    /// End of the last page.
    end: std.atomic.Value(usize) = .init(0),
    is_cut: std.atomic.Value(bool) = .init(false),

    const taken = 1;

    pub fn isCut(guard: *const Guard) bool {
        return guard.is_cut.load(.acquire);
    }

    pub fn release(guard: *Guard) void {
        if (guard == &unwatched) return;
        guard.start.store(0, .release);
    }

    /// The end of the map when it has the address. Others may fill or release guards meanwhile, but not that of a map
    /// that is being read.
    fn endAround(guard: *const Guard, address: usize) ?usize {
        const start = guard.start.load(.acquire);
        if (start <= taken or address < start) return null;
        const end = guard.end.load(.acquire);
        return if (address < end and guard.start.load(.acquire) == start) end else null;
    }
};

/// Of bytes that are no map.
pub var unwatched: Guard = .{};

/// Pages of it that were never written take no memory.
var guards: [guards_max]Guard = @splat(.{});
/// Guards from here on were never taken.
var guards_used: std.atomic.Value(usize) = .init(0);
/// A signal handler must not ask for it.
var page_bytes: std.atomic.Value(usize) = .init(0);

pub fn watch(mapped: platform.Map) ?*Guard {
    if (!has_signals) return &unwatched;
    page_bytes.store(std.heap.pageSize(), .release);
    arm();
    const start = @intFromPtr(mapped.ptr);
    for (&guards, 1..) |*guard, count| {
        if (guard.start.cmpxchgStrong(0, Guard.taken, .acquire, .monotonic) != null) continue;
        guard.end.store(std.mem.alignForward(usize, start + mapped.len, std.heap.pageSize()), .monotonic);
        guard.is_cut.store(false, .monotonic);
        _ = guards_used.fetchMax(count, .release);
        guard.start.store(start, .release);
        return guard;
    }
    return null;
}

// ---- the handler ----

const Action = if (has_signals) std.posix.Sigaction else void;

/// Handlers that others install after ours are put behind it when the next reading begins; that many are kept apart.
const handlers_max = 8;
/// What SIGBUS did before ours, the oldest first.
var before: [handlers_max]Action = undefined;
var n_before: std.atomic.Value(usize) = .init(0);
var arming: std.atomic.Value(bool) = .init(false);

pub fn arm() void {
    if (!has_signals) return;
    var current: Action = undefined;
    std.posix.sigaction(.BUS, null, &current);
    if (isSame(&current, &.{ .handler = .{ .sigaction = onBusError }, .mask = undefined, .flags = 0 })) return;
    if (arming.swap(true, .acquire)) return; // another thread is at it
    defer arming.store(false, .release);
    const known = n_before.load(.acquire);
    const place = for (before[0..known], 0..) |*earlier, index| {
        if (isSame(&current, earlier)) break index;
    } else known;
    if (place == handlers_max) return;
    before[place] = current;
    n_before.store(place + 1, .release);
    std.posix.sigaction(.BUS, &.{
        .handler = .{ .sigaction = onBusError },
        .mask = std.posix.sigemptyset(),
        // a handler before ours may raise the signal again, and has to get it at once
        .flags = std.posix.SA.SIGINFO | std.posix.SA.RESTART | std.posix.SA.ONSTACK | std.posix.SA.NODEFER,
    }, null);
}

fn isSame(one: *const Action, other: *const Action) bool {
    return one.handler.sigaction == other.handler.sigaction;
}

fn onBusError(signal: std.posix.SIG, info: *const std.posix.siginfo_t, context: ?*anyopaque) callconv(.c) void {
    const is_fault = !is_linux or info.code > 0; // others come from kill and raise
    if (is_fault and layZeros(faultAddress(info))) return;
    passOn(signal, info, context, is_fault);
}

fn faultAddress(info: *const std.posix.siginfo_t) usize {
    return @intFromPtr(if (is_linux) info.fields.sigfault.addr else info.addr);
}

/// Whether the address is that of a guarded map, which then has zeros from its page on: one piece, however many pages
/// are touched, since the system limits how many pieces there are.
fn layZeros(address: usize) bool {
    for (guards[0..guards_used.load(.acquire)]) |*guard| {
        const end = guard.endAround(address) orelse continue;
        was_cut.store(true, .seq_cst);
        guard.is_cut.store(true, .seq_cst); // first: another thread may read the zeros
        const page = std.mem.alignBackward(usize, address, page_bytes.load(.acquire));
        return mapZeros(page, end - page);
    }
    return false;
}

fn mapZeros(page: usize, length: usize) bool {
    const pages: [*]align(std.heap.page_size_min) u8 = @ptrFromInt(page);
    if (is_linux) {
        const result = linux.mmap(pages, length, .{ .READ = true }, .{ .TYPE = .PRIVATE, .FIXED = true, .ANONYMOUS = true }, -1, 0);
        return linux.errno(result) == .SUCCESS;
    }
    const errno = c._errno().*;
    defer c._errno().* = errno;
    return c.mmap(pages, length, .{ .READ = true }, .{ .TYPE = .PRIVATE, .FIXED = true, .ANONYMOUS = true }, -1, 0) != c.MAP_FAILED;
}

/// Does what the system would have done without our handler. A handler before it that restores ours and raises the
/// signal again finds the one before itself, and in the end the system's own.
fn passOn(signal: std.posix.SIG, info: *const std.posix.siginfo_t, context: ?*anyopaque, is_fault: bool) void {
    const count = n_before.load(.acquire);
    const action: Action = if (count > 0) before[count - 1] else .{
        .handler = .{ .handler = std.posix.SIG.DFL },
        .mask = std.posix.sigemptyset(),
        .flags = 0,
    };
    const is_ignored = action.handler.handler == std.posix.SIG.IGN;
    if (is_ignored and !is_fault) return;
    if (is_ignored or action.handler.handler == std.posix.SIG.DFL) {
        std.posix.sigaction(signal, &.{
            .handler = .{ .handler = std.posix.SIG.DFL },
            .mask = std.posix.sigemptyset(),
            .flags = 0,
        }, null);
        // what faulted is done again
        if (!is_fault) _ = c.raise(signal);
        return;
    }
    n_before.store(count - 1, .release);
    defer n_before.store(count, .release);
    if (action.flags & std.posix.SA.SIGINFO != 0) {
        action.handler.sigaction.?(signal, info, context);
    } else {
        action.handler.handler.?(signal);
    }
}

// ---- tests ----

const testing_files = @import("testing_files.zig");

test "pages that are gone read as zeros, and only their own map is marked" {
    if (!has_signals) return error.SkipZigTest;
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    const content: [3 * (1 << 16) + 5]u8 = @splat(7);
    var maps: [2]platform.Map = undefined;
    var marks: [2]*Guard = undefined;
    for (&maps, &marks, [_][]const u8{ "one", "two" }) |*mapped, *guard, name| {
        try folder.put(name, &content);
        mapped.* = try mapOf(folder.path(name));
        guard.* = watch(mapped.*).?;
    }
    defer for (maps, marks) |mapped, guard| {
        guard.release();
        platform.unmap(mapped);
    };
    try folder.put("one", content[0 .. 1 << 16]); // cuts in place, and writes anew
    try testing.expectEqual(7, maps[0][5]);
    try testing.expect(!marks[0].isCut());

    const Reader = struct {
        fn sum(mapped: platform.Map, result: *u64) void {
            for (mapped[1 << 16 ..]) |byte| result.* += byte;
        }
    };
    var sums: [4]u64 = @splat(0);
    var threads: [4]std.Thread = undefined;
    for (&threads, &sums) |*thread, *result| thread.* = try .spawn(.{}, Reader.sum, .{ maps[0], result });
    for (&threads) |*thread| thread.join();
    try testing.expectEqual(@as([4]u64, @splat(0)), sums);
    try testing.expect(marks[0].isCut());
    try testing.expectEqual(7, maps[0][5]);
    try testing.expectEqual(7, maps[1][content.len - 1]);
    try testing.expect(!marks[1].isCut());
}

test "a guard is used again, and not marked" {
    if (!has_signals) return error.SkipZigTest;
    const page: [std.heap.page_size_max]u8 align(std.heap.page_size_max) = @splat(0);
    const first = watch(&page).?;
    first.is_cut.store(true, .release);
    first.release();
    const again = watch(&page).?;
    defer again.release();
    try testing.expectEqual(first, again);
    try testing.expect(!again.isCut());
}

fn mapOf(path: []const u8) !platform.Map {
    var errno: i32 = 0;
    const text = try testing.allocator.dupeSentinel(u8, path, 0);
    defer testing.allocator.free(text);
    const file = try platform.openForReading(text, &errno);
    defer platform.closeFile(file);
    return platform.map(file, try platform.sizeOfRegularFile(file, &errno), &errno);
}
