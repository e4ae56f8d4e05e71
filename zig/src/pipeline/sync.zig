//! Mutex and condition for threads of our own, on the futexes of std.Io.
//!
//! They are plain integers: nothing to set up or tear down, and in a forked child they are only as broken as the
//! moment of the fork left them, which is why a handle asks for its process before it touches a lock.

const std = @import("std");

/// Waits and wakes only; nothing runs on this instance.
fn waiter() std.Io {
    return std.Io.Threaded.global_single_threaded.io();
}

pub const Mutex = struct {
    inner: std.Io.Mutex = .init,

    pub fn lock(mutex: *Mutex) void {
        mutex.inner.lockUncancelable(waiter());
    }

    pub fn unlock(mutex: *Mutex) void {
        mutex.inner.unlock(waiter());
    }
};

/// Waits may end early for no reason: callers look at what they wait for in a loop.
pub const Condition = struct {
    inner: std.Io.Condition = .init,

    pub fn wait(condition: *Condition, mutex: *Mutex) void {
        condition.inner.waitUncancelable(waiter(), &mutex.inner);
    }

    /// False when the deadline has passed.
    pub fn waitUntil(condition: *Condition, mutex: *Mutex, deadline: Deadline) bool {
        condition.inner.waitTimeout(waiter(), &mutex.inner, .{ .deadline = deadline.at }) catch return false;
        return true;
    }

    pub fn signal(condition: *Condition) void {
        condition.inner.signal(waiter());
    }

    pub fn broadcast(condition: *Condition) void {
        condition.inner.broadcast(waiter());
    }
};

/// A moment on the clock that never jumps.
pub const Deadline = struct {
    at: std.Io.Clock.Timestamp,

    pub fn after(milliseconds: u32) Deadline {
        return .{ .at = .fromNow(waiter(), .{ .raw = .fromMilliseconds(milliseconds), .clock = .awake }) };
    }

    pub fn isOver(deadline: Deadline) bool {
        return deadline.at.durationFromNow(waiter()).raw.toNanoseconds() <= 0;
    }
};

test "a wait ends with the deadline when nobody signals" {
    var mutex: Mutex = .{};
    var condition: Condition = .{};
    mutex.lock();
    defer mutex.unlock();
    const deadline: Deadline = .after(5);
    while (condition.waitUntil(&mutex, deadline)) {}
}

test "a signal reaches the thread that waits" {
    const Shared = struct {
        mutex: Mutex = .{},
        condition: Condition = .{},
        ready: bool = false,

        fn run(shared: *@This()) void {
            shared.mutex.lock();
            defer shared.mutex.unlock();
            shared.ready = true;
            shared.condition.broadcast();
        }
    };
    var shared: Shared = .{};
    const thread = try std.Thread.spawn(.{}, Shared.run, .{&shared});
    shared.mutex.lock();
    while (!shared.ready) shared.condition.wait(&shared.mutex);
    shared.mutex.unlock();
    thread.join();
}
