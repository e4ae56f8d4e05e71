//! The order of work of one pipeline: which batches are under way, and which rows a thread takes next.
//!
//! Batches are received in the order in which they were submitted. Their rows are handed out in small ranges, those
//! of the oldest batch first, so that every core works on the batch that is waited for. Nothing here locks or waits:
//! the pipeline holds its mutex around each call, which leaves the rules to be tested without threads.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;

const errors = @import("../errors.zig");
const Buffer = @import("buffers.zig").Buffer;
const Failure = errors.Failure;
const Report = errors.Report;

/// One submitted batch.
pub const Request = struct {
    rows: std.ArrayList(i64) = .empty,
    buffer: ?*Buffer = null,
    /// Bytes of the buffer that the batch fills.
    bytes: usize = 0,
    /// The first row that no thread has taken.
    next_row: usize = 0,
    /// Ranges that threads decode right now.
    running: u32 = 0,
    /// Its bytes are to be asked for before its rows are handed out.
    unread: bool = false,
    /// Nobody waits for it any more; it ends with its last running range.
    cancelled: bool = false,
    failure: ?Failure = null,
    /// Where the failing range began. Ranges are taken in order, so the first failing one has always been taken
    /// when a later one fails: keeping the lowest reports the same row for any number of threads.
    failed_row: usize = 0,
    report: Report = .{},

    fn finished(request: *const Request) bool {
        return request.running == 0 and request.next_row == request.rows.items.len;
    }
};

/// Rows of one request, for one thread.
pub const Range = struct {
    request: *Request,
    begin: usize,
    end: usize,
};

pub const Outcome = struct {
    /// The oldest batch is ready to be received.
    oldest_finished: bool = false,
    /// The buffer of a cancelled batch, to be released by the caller.
    orphan: ?*Buffer = null,
};

pub const Queue = struct {
    storage: []Request,
    spare: std.ArrayList(*Request),
    /// Submitted and not received, as a ring: the oldest is at `head`.
    pending: []*Request,
    head: usize = 0,
    count: usize = 0,
    /// Of the pending batches, how many from the oldest on have no rows left to hand out.
    drained: usize = 0,
    range_rows: usize,

    pub const Options = struct {
        batches_max: usize,
        threads: usize,
        range_rows: usize,
    };

    pub fn init(allocator: Allocator, options: Options) Failure!Queue {
        assert(options.batches_max > 0 and options.threads > 0 and options.range_rows > 0);
        // A cancelled request lives on while a range of it runs, so there are at most as many as threads, of which one
        // more asks for bytes.
        const storage = try allocator.alloc(Request, options.batches_max + options.threads + 1);
        errdefer allocator.free(storage);
        const pending = try allocator.alloc(*Request, options.batches_max);
        errdefer allocator.free(pending);
        var spare: std.ArrayList(*Request) = try .initCapacity(allocator, storage.len);

        for (storage) |*request| {
            request.* = .{};
            spare.appendAssumeCapacity(request);
        }
        return .{ .storage = storage, .spare = spare, .pending = pending, .range_rows = options.range_rows };
    }

    /// The caller has released the buffers.
    pub fn deinit(queue: *Queue, allocator: Allocator) void {
        for (queue.storage) |*request| {
            assert(request.buffer == null);
            request.rows.deinit(allocator);
        }
        queue.spare.deinit(allocator);
        allocator.free(queue.pending);
        allocator.free(queue.storage);
    }

    /// An empty request to fill in; null when as many batches as allowed are under way.
    pub fn takeSpare(queue: *Queue) ?*Request {
        if (queue.count == queue.pending.len) return null;
        const request = queue.spare.pop().?;
        assert(request.buffer == null and request.running == 0);
        return request;
    }

    pub fn giveBack(queue: *Queue, request: *Request) void {
        assert(request.buffer == null and request.running == 0);
        request.rows.clearRetainingCapacity();
        request.next_row = 0;
        request.unread = false;
        request.cancelled = false;
        request.failure = null;
        queue.spare.appendAssumeCapacity(request);
    }

    pub fn push(queue: *Queue, request: *Request) void {
        assert(queue.count < queue.pending.len);
        queue.pending[(queue.head + queue.count) % queue.pending.len] = request;
        queue.count += 1;
    }

    /// The next rows to decode; null when all are handed out.
    pub fn claim(queue: *Queue) ?Range {
        while (queue.drained < queue.count) : (queue.drained += 1) {
            const request = queue.pending[(queue.head + queue.drained) % queue.pending.len];
            const begin = request.next_row;
            const rows_left = request.rows.items.len - begin;
            if (rows_left == 0) continue;
            if (request.unread) return null;
            const end = begin + @min(queue.range_rows, rows_left);
            request.next_row = end;
            request.running += 1;
            return .{ .request = request, .begin = begin, .end = end };
        }
        return null;
    }

    /// The oldest batch whose bytes are to be asked for: a range of no rows, which `completeReading` ends.
    pub fn claimReading(queue: *Queue) ?Range {
        for (queue.drained..queue.count) |offset| {
            const request = queue.pending[(queue.head + offset) % queue.pending.len];
            if (!request.unread) continue;
            request.running += 1;
            return .{ .request = request, .begin = request.next_row, .end = request.next_row };
        }
        return null;
    }

    /// From now on the rows of the batch are handed out.
    pub fn completeReading(queue: *Queue, range: Range) Outcome {
        range.request.unread = false;
        return queue.complete(range, null, &.{});
    }

    pub fn complete(queue: *Queue, range: Range, failure: ?Failure, report: *const Report) Outcome {
        const request = range.request;
        assert(request.running > 0);
        request.running -= 1;
        if (failure) |reason| {
            if (request.failure == null or range.begin < request.failed_row) {
                request.failure = reason;
                request.failed_row = range.begin;
                request.report = report.*;
            }
            request.next_row = request.rows.items.len;
        }
        if (!request.finished()) return .{};
        if (!request.cancelled) return .{ .oldest_finished = request == queue.pending[queue.head] };
        const orphan = request.buffer;
        request.buffer = null;
        queue.giveBack(request);
        return .{ .orphan = orphan };
    }

    pub fn oldestFinished(queue: *const Queue) bool {
        return queue.count > 0 and queue.pending[queue.head].finished();
    }

    /// The oldest batch leaves the queue; the caller takes its buffer and gives the request back.
    pub fn popFinished(queue: *Queue) *Request {
        assert(queue.oldestFinished());
        return queue.pop();
    }

    /// Forgets the oldest batch, finished or not. Answers its buffer when nothing writes to it any more; otherwise
    /// it comes out of `complete` with the last running range.
    pub fn cancelOldest(queue: *Queue) ?*Buffer {
        const request = queue.pop();
        request.next_row = request.rows.items.len;
        if (request.running > 0) {
            request.cancelled = true;
            return null;
        }
        const orphan = request.buffer;
        request.buffer = null;
        queue.giveBack(request);
        return orphan;
    }

    fn pop(queue: *Queue) *Request {
        assert(queue.count > 0);
        const request = queue.pending[queue.head];
        queue.head = (queue.head + 1) % queue.pending.len;
        queue.count -= 1;
        queue.drained -|= 1;
        return request;
    }
};

const testing = std.testing;

fn pushRows(queue: *Queue, rows: []const i64) !*Request {
    const request = queue.takeSpare() orelse return error.Full;
    try request.rows.appendSlice(testing.allocator, rows);
    queue.push(request);
    return request;
}

fn expectClaim(queue: *Queue, request: *Request, begin: usize, end: usize) !Range {
    const range = queue.claim() orelse return error.NothingToClaim;
    try testing.expectEqual(Range{ .request = request, .begin = begin, .end = end }, range);
    return range;
}

test "rows are handed out from the oldest batch on, and batches come back in order" {
    var queue: Queue = try .init(testing.allocator, .{ .batches_max = 2, .threads = 1, .range_rows = 2 });
    defer queue.deinit(testing.allocator);
    const first = try pushRows(&queue, &.{ 10, 11, 12 });
    const second = try pushRows(&queue, &.{20});
    try testing.expectEqual(null, queue.takeSpare());

    const a = try expectClaim(&queue, first, 0, 2);
    const b = try expectClaim(&queue, first, 2, 3);
    const c = try expectClaim(&queue, second, 0, 1);
    try testing.expectEqual(null, queue.claim());
    const report: Report = .{};
    try testing.expectEqual(Outcome{}, queue.complete(c, null, &report));
    try testing.expect(!queue.oldestFinished());
    try testing.expectEqual(Outcome{}, queue.complete(a, null, &report));
    try testing.expect(queue.complete(b, null, &report).oldest_finished);
    for ([_]*Request{ first, second }) |expected| {
        try testing.expectEqual(expected, queue.popFinished());
        queue.giveBack(expected);
    }
    const third = try pushRows(&queue, &.{});
    try testing.expect(queue.oldestFinished()); // a batch without rows
    try testing.expectEqual(third, queue.popFinished());
    queue.giveBack(third);
}

test "the first failing range is reported, whichever ends first, and the rest is not decoded" {
    for ([_]bool{ false, true }) |later_first| {
        var queue: Queue = try .init(testing.allocator, .{ .batches_max = 1, .threads = 2, .range_rows = 1 });
        defer queue.deinit(testing.allocator);
        const request = try pushRows(&queue, &.{ 5, 6, 7 });
        const a = queue.claim().?;
        const b = queue.claim().?;
        const at_a: Report = .{ .row = 5 };
        const at_b: Report = .{ .row = 6 };
        if (later_first) _ = queue.complete(b, error.Truncated, &at_b);
        _ = queue.complete(a, error.Corrupt, &at_a);
        if (!later_first) _ = queue.complete(b, error.Truncated, &at_b);
        try testing.expectEqual(null, queue.claim());
        try testing.expectEqual(request, queue.popFinished());
        try testing.expectEqual(error.Corrupt, request.failure.?);
        try testing.expectEqual(@as(u64, 5), request.report.row);
        queue.giveBack(request);
    }
}

test "a cancelled batch ends with its last running range" {
    var queue: Queue = try .init(testing.allocator, .{ .batches_max = 2, .threads = 1, .range_rows = 1 });
    defer queue.deinit(testing.allocator);
    var buffers: [2]Buffer = undefined;
    const running = try pushRows(&queue, &.{ 1, 2 });
    const waiting = try pushRows(&queue, &.{3});
    running.buffer = &buffers[0];
    waiting.buffer = &buffers[1];
    const range = queue.claim().?;
    try testing.expectEqual(null, queue.cancelOldest());
    try testing.expectEqual(&buffers[1], queue.cancelOldest().?);
    // Both places are free at once, although a range still runs.
    const first = try pushRows(&queue, &.{4});
    const second = try pushRows(&queue, &.{5});
    const report: Report = .{};
    const outcome = queue.complete(range, error.Corrupt, &report);
    try testing.expectEqual(&buffers[0], outcome.orphan.?);
    for ([_]*Request{ first, second }) |request| {
        const next = queue.claim().?;
        try testing.expectEqual(request, next.request);
        try testing.expect(queue.complete(next, null, &report).oldest_finished);
        try testing.expectEqual(request, queue.popFinished());
        try testing.expectEqual(null, request.failure);
        queue.giveBack(request);
    }
}

test "a batch is handed out when its bytes have been asked for, and no later one before it" {
    var queue: Queue = try .init(testing.allocator, .{ .batches_max = 3, .threads = 1, .range_rows = 8 });
    defer queue.deinit(testing.allocator);
    const read = try pushRows(&queue, &.{1});
    const first = try pushRows(&queue, &.{ 2, 3 });
    const second = try pushRows(&queue, &.{4});
    first.unread = true;
    second.unread = true;
    const before = try expectClaim(&queue, read, 0, 1);
    try testing.expectEqual(null, queue.claim());
    const reading = queue.claimReading().?;
    try testing.expectEqual(Range{ .request = first, .begin = 0, .end = 0 }, reading);
    try testing.expectEqual(null, queue.claim());
    try testing.expectEqual(Outcome{}, queue.completeReading(reading));
    const range = try expectClaim(&queue, first, 0, 2);
    try testing.expectEqual(null, queue.claim());
    // cancelled while it is asked for
    const last = queue.claimReading().?;
    const report: Report = .{};
    _ = queue.complete(before, null, &report);
    _ = queue.complete(range, null, &report);
    queue.giveBack(queue.popFinished());
    queue.giveBack(queue.popFinished());
    try testing.expectEqual(null, queue.cancelOldest());
    try testing.expect(second.cancelled);
    try testing.expectEqual(Outcome{}, queue.completeReading(last));
    try testing.expectEqual(null, queue.claimReading());
    for (0..3) |_| try testing.expect((try pushRows(&queue, &.{9})).unread == false);
    while (queue.count > 0) _ = queue.cancelOldest();
}

test "any mix of calls hands each row out once and keeps the order" {
    var prng: std.Random.DefaultPrng = .init(3);
    const random = prng.random();
    var queue: Queue = try .init(testing.allocator, .{ .batches_max = 3, .threads = 4, .range_rows = 3 });
    defer queue.deinit(testing.allocator);
    var running: std.ArrayList(Range) = .empty;
    defer running.deinit(testing.allocator);
    const report: Report = .{};
    var submitted: i64 = 0;
    var received: i64 = 0;
    var handed_out: [4096]u8 = @splat(0);

    for (0..20_000) |_| switch (random.uintLessThan(u8, 8)) {
        0, 1 => if (queue.takeSpare()) |request| {
            const size = random.uintLessThan(usize, 8);
            // The batch's number, so that the order can be seen, then one entry for each row.
            for (0..size) |_| try request.rows.append(testing.allocator, submitted);
            request.bytes = @intCast(submitted);
            submitted += 1;
            queue.push(request);
        },
        2, 3 => if (running.items.len < 4) if (queue.claim()) |range| {
            for (range.begin..range.end) |row| {
                const slot: usize = @intCast(@mod(range.request.rows.items[row] * 8 + @as(i64, @intCast(row)), 4096));
                handed_out[slot] += 1;
            }
            try running.append(testing.allocator, range);
        },
        4, 5 => if (running.items.len > 0) {
            const range = running.swapRemove(random.uintLessThan(usize, running.items.len));
            _ = queue.complete(range, null, &report);
        },
        6 => if (queue.oldestFinished()) {
            const request = queue.popFinished();
            try testing.expectEqual(received, @as(i64, @intCast(request.bytes)));
            received += 1;
            for (0..request.rows.items.len) |row| {
                const slot: usize = @intCast(@mod(@as(i64, @intCast(request.bytes * 8 + row)), 4096));
                try testing.expectEqual(@as(u8, 1), handed_out[slot]);
                handed_out[slot] = 0;
            }
            queue.giveBack(request);
        },
        else => if (random.uintLessThan(u8, 50) == 0) {
            while (queue.count > 0) try testing.expectEqual(null, queue.cancelOldest());
            received = submitted;
            @memset(&handed_out, 0);
        },
    };
    try testing.expect(received > 1000);
    while (queue.count > 0) _ = queue.cancelOldest();
}
