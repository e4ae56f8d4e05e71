//! Output memory that is used again: a pool of buffers that outlives the pipeline which fills them.
//!
//! A batch's array sees the memory of a buffer without a copy. The buffer comes back to the pool when its last
//! reader lets go of it, never before, so no batch is overwritten while somebody holds it; a consumer that keeps
//! its batches makes the pool allocate more. The pool itself goes when it is closed and the last buffer is back.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;

const errors = @import("../errors.zig");
const platform = @import("platform.zig");
const Failure = errors.Failure;
const Mutex = @import("sync.zig").Mutex;

/// A cache line, and more than any vector register.
pub const alignment: std.mem.Alignment = .@"64";
/// From this size on a buffer is a whole number of huge pages. Below it the rounding would cost too large a part.
pub const huge_bytes_min = 2 * platform.huge_page_bytes;
const huge_alignment: std.mem.Alignment = .fromByteUnits(platform.huge_page_bytes);

pub const Buffer = struct {
    pool: *Pool,
    /// All of it; a batch may use less.
    memory: []align(alignment.toByteUnits()) u8,

    /// Gives the buffer back, from any thread. In another process nothing happens: the lock and the list are the
    /// parent's, and the memory is a copy that ends with the process.
    pub fn release(buffer: *Buffer) void {
        const pool = buffer.pool;
        if (pool.process != platform.processId()) return;
        pool.take(buffer);
    }
};

/// Where buffers come from, and go to when nobody wants them.
pub const Memory = struct {
    /// Of the buffers' own records, and of small buffers.
    allocator: Allocator,
    /// Of big buffers: memory that goes back to the system when it is freed.
    page_allocator: Allocator,

    fn create(memory: Memory, pool: *Pool, bytes: usize) Failure!*Buffer {
        const buffer = try memory.allocator.create(Buffer);
        errdefer memory.allocator.destroy(buffer);

        buffer.* = .{ .pool = pool, .memory = try memory.allocate(bytes) };
        return buffer;
    }

    fn allocate(memory: Memory, bytes: usize) Failure![]align(alignment.toByteUnits()) u8 {
        if (bytes < huge_bytes_min) return memory.allocator.alignedAlloc(u8, alignment, @max(bytes, 1));
        const whole = std.math.add(usize, bytes, platform.huge_page_bytes - 1) catch return error.OutOfMemory;
        const rounded = whole / platform.huge_page_bytes * platform.huge_page_bytes;
        const pages = try memory.page_allocator.alignedAlloc(u8, huge_alignment, rounded);
        platform.hintHugePages(pages);
        return pages;
    }

    fn destroy(memory: Memory, buffer: *Buffer) void {
        if (buffer.memory.len < huge_bytes_min) {
            memory.allocator.free(buffer.memory);
        } else {
            const pages: []align(huge_alignment.toByteUnits()) u8 = @alignCast(buffer.memory);
            memory.page_allocator.free(pages);
        }
        memory.allocator.destroy(buffer);
    }
};

pub const Pool = struct {
    memory: Memory,
    process: u32,
    mutex: Mutex = .{},
    /// Buffers that nobody reads; room for `idle_max` is reserved from the start.
    idle: std.ArrayList(*Buffer),
    idle_max: usize,
    /// Buffers that somebody holds.
    lent_count: usize = 0,
    closed: bool = false,

    pub const Options = struct {
        memory: Memory,
        /// The most buffers that are kept for later; those above it are freed when they come back.
        idle_max: usize,
    };

    pub fn create(options: Options) Failure!*Pool {
        assert(options.idle_max > 0);
        const allocator = options.memory.allocator;
        const pool = try allocator.create(Pool);
        errdefer allocator.destroy(pool);

        pool.* = .{
            .memory = options.memory,
            .process = platform.processId(),
            .idle = try .initCapacity(allocator, options.idle_max),
            .idle_max = options.idle_max,
        };
        return pool;
    }

    /// A buffer of at least that many bytes, whose content is left from an earlier batch or undefined.
    pub fn acquire(pool: *Pool, bytes: usize) Failure!*Buffer {
        if (pool.reuse(bytes)) |buffer| return buffer;

        const buffer = try pool.memory.create(pool, bytes);
        pool.mutex.lock();
        defer pool.mutex.unlock();
        assert(!pool.closed);
        pool.lent_count += 1;
        return buffer;
    }

    /// Frees what nobody holds; the rest follows as it comes back. The caller must not use the pool afterwards.
    pub fn close(pool: *Pool) void {
        assert(pool.process == platform.processId());
        pool.mutex.lock();
        assert(!pool.closed);
        pool.closed = true;
        for (pool.idle.items) |buffer| pool.memory.destroy(buffer);
        pool.idle.clearRetainingCapacity();
        const last = pool.lent_count == 0;
        pool.mutex.unlock();
        if (last) pool.destroy();
    }

    /// The smallest idle buffer that is large enough.
    fn reuse(pool: *Pool, bytes: usize) ?*Buffer {
        pool.mutex.lock();
        defer pool.mutex.unlock();
        assert(!pool.closed);
        var best: ?usize = null;
        for (pool.idle.items, 0..) |buffer, index| {
            if (buffer.memory.len < bytes) continue;
            if (best == null or buffer.memory.len < pool.idle.items[best.?].memory.len) best = index;
        }
        const index = best orelse return null;
        pool.lent_count += 1;
        return pool.idle.swapRemove(index);
    }

    fn take(pool: *Pool, buffer: *Buffer) void {
        // Once the lock is given up, another thread may bring the last buffer back and end the pool.
        const memory = pool.memory;
        pool.mutex.lock();
        assert(pool.lent_count > 0);
        pool.lent_count -= 1;
        const surplus: ?*Buffer = if (pool.closed) buffer else pool.keep(buffer);
        const last = pool.closed and pool.lent_count == 0;
        pool.mutex.unlock();
        if (last) pool.destroy();
        if (surplus) |unwanted| memory.destroy(unwanted);
    }

    /// Keeps the buffer and answers the one that has to go for it, the smallest of all: batches that grow must not
    /// leave the pool full of buffers that are too small for them.
    fn keep(pool: *Pool, buffer: *Buffer) ?*Buffer {
        if (pool.idle.items.len < pool.idle_max) {
            pool.idle.appendAssumeCapacity(buffer);
            return null;
        }
        var unwanted = buffer;
        for (pool.idle.items) |*kept| {
            if (kept.*.memory.len < unwanted.memory.len) std.mem.swap(*Buffer, kept, &unwanted);
        }
        return unwanted;
    }

    fn destroy(pool: *Pool) void {
        assert(pool.closed and pool.lent_count == 0 and pool.idle.items.len == 0);
        const allocator = pool.memory.allocator;
        pool.idle.deinit(allocator);
        allocator.destroy(pool);
    }
};

const testing = std.testing;

fn testPool(idle_max: usize) Failure!*Pool {
    return Pool.create(.{
        .memory = .{ .allocator = testing.allocator, .page_allocator = testing.allocator },
        .idle_max = idle_max,
    });
}

test "a buffer is lent again after its release, and not before" {
    const pool = try testPool(2);
    defer pool.close();
    const first = try pool.acquire(1000);
    const second = try pool.acquire(1000);
    try testing.expect(first != second);
    try testing.expect(alignment.check(@intFromPtr(first.memory.ptr)));
    first.release();
    const third = try pool.acquire(900);
    try testing.expectEqual(first, third);
    third.release();
    second.release();
}

test "big buffers are whole huge pages" {
    const pool = try testPool(1);
    defer pool.close();
    const buffer = try pool.acquire(huge_bytes_min + 1);
    defer buffer.release();
    try testing.expectEqual(@as(usize, 3 * platform.huge_page_bytes), buffer.memory.len);
    try testing.expect(huge_alignment.check(@intFromPtr(buffer.memory.ptr)));
    try testing.expectError(error.OutOfMemory, pool.acquire(std.math.maxInt(usize)));
}

test "no more than idle_max are kept, and those the largest" {
    const pool = try testPool(2);
    defer pool.close();
    var buffers: [4]*Buffer = undefined;
    for (&buffers, [_]usize{ 10, 400, 30, 200 }) |*buffer, bytes| buffer.* = try pool.acquire(bytes);
    for (buffers) |buffer| buffer.release();
    try testing.expectEqual(@as(usize, 2), pool.idle.items.len);
    const largest = try pool.acquire(201);
    try testing.expectEqual(@as(usize, 400), largest.memory.len);
    const next = try pool.acquire(1);
    try testing.expectEqual(@as(usize, 200), next.memory.len);
    next.release();
    largest.release();
}

test "the pool outlives its close until the last buffer is back" {
    const pool = try testPool(4);
    const first = try pool.acquire(64);
    const second = try pool.acquire(0);
    pool.close();
    @memset(first.memory, 7);
    first.release();
    second.release();
}

test "nothing leaks when memory runs out" {
    try testing.checkAllAllocationFailures(testing.allocator, struct {
        fn run(allocator: Allocator) !void {
            const pool = try Pool.create(.{
                .memory = .{ .allocator = allocator, .page_allocator = allocator },
                .idle_max = 2,
            });
            defer pool.close();
            const small = try pool.acquire(100);
            defer small.release();
            const big = try pool.acquire(huge_bytes_min);
            defer big.release();
        }
    }.run, .{});
}
