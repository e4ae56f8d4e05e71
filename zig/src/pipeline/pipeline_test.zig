//! The pipeline over a fake source: order, failures, timeouts, cancelling, held buffers, the end.

const std = @import("std");
const testing = std.testing;

const errors = @import("../errors.zig");
const fakes = @import("fake_source.zig");
const pipelines = @import("pipeline.zig");
const threads = @import("threads.zig");
const Failure = errors.Failure;
const FakeSource = fakes.FakeSource;
const Probe = fakes.Probe;
const Report = errors.Report;
const TestPipeline = pipelines.Pipeline(FakeSource);

const wait_ms = 60_000; // far more than any machine needs; tests end long before

fn openWith(allocator: std.mem.Allocator, source: FakeSource, thread_count: u32, batches: u32) Failure!*TestPipeline {
    return TestPipeline.open(.create(source), .{
        .allocator = allocator,
        .page_allocator = allocator,
        .threads = thread_count,
        .batches = batches,
        .range_rows = 3,
    }) catch |err| {
        source.probe.sources -= 1;
        return err;
    };
}

fn expectRows(batch: pipelines.Batch, width: usize, rows: []const i64) !void {
    try testing.expectEqual(rows.len, batch.n_rows);
    try testing.expectEqual(rows.len * width * 8, batch.bytes);
    const values = std.mem.bytesAsSlice(i64, batch.buffer.memory[0..batch.bytes]);
    for (rows, 0..) |row, index| {
        for (values[index * width ..][0..width]) |value| try testing.expectEqual(row, value);
    }
}

test "batches come in order with the right rows, for any number of threads" {
    for ([_]u32{ 1, 2, 7 }) |thread_count| {
        var probe: Probe = .{};
        const pipeline = try openWith(testing.allocator, .{ .probe = &probe, .width = 5 }, thread_count, 4);
        var report: Report = .{};
        var rows: [23]i64 = undefined;
        for (0..200) |number| {
            for (&rows, 0..) |*row, index| row.* = @intCast(number * 100 + index);
            try pipeline.submit(rows[0 .. number % rows.len], &report);
            if (number < 3) continue;
            const received = number - 3;
            for (&rows, 0..) |*row, index| row.* = @intCast(received * 100 + index);
            const batch = try pipeline.wait(wait_ms, &report);
            try expectRows(batch, 5, rows[0 .. received % rows.len]);
            batch.buffer.release();
        }
        try pipeline.close(wait_ms);
        try testing.expectEqual(@as(u32, 197), probe.finished);
        try testing.expectEqual(@as(u32, 0), probe.scratches);
        try testing.expectEqual(@as(u32, 0), probe.sources);
    }
}

test "held batches are not overwritten, and outlive the pipeline" {
    var probe: Probe = .{};
    const pipeline = try openWith(testing.allocator, .{ .probe = &probe, .width = 2 }, 2, 1);
    var report: Report = .{};
    var held: [20]pipelines.Batch = undefined;
    for (&held, 0..) |*batch, number| {
        try pipeline.submit(&.{ @intCast(number), 77 }, &report);
        batch.* = try pipeline.wait(wait_ms, &report);
    }
    try pipeline.close(wait_ms);
    for (held, 0..) |batch, number| {
        try expectRows(batch, 2, &.{ @intCast(number), 77 });
        batch.buffer.release();
    }
}

test "a failing batch names its first bad row, and the next batch is good" {
    for ([_]u32{ 1, 4 }) |thread_count| {
        var probe: Probe = .{};
        const source: FakeSource = .{ .probe = &probe, .width = 1, .bad_multiple = 10, .n_rows = 1000 };
        const pipeline = try openWith(testing.allocator, source, thread_count, 3);
        defer pipeline.close(wait_ms) catch unreachable;
        var report: Report = .{};
        var rows: [60]i64 = undefined;
        for (&rows, 1..) |*row, number| row.* = @intCast(number);
        try pipeline.submit(&rows, &report);
        try pipeline.submit(&.{ 1, 2, 3 }, &report);
        try testing.expectError(error.Corrupt, pipeline.wait(wait_ms, &report));
        try testing.expectEqual(@as(u64, 10), report.row);
        try testing.expectEqual(@as(u64, 3), report.shard);
        try testing.expectEqualStrings("row 10 is bad", report.messageText());
        const batch = try pipeline.wait(wait_ms, &report);
        try expectRows(batch, 1, &.{ 1, 2, 3 });
        batch.buffer.release();

        try testing.expectError(error.OutOfRange, pipeline.submit(&.{ 1, 1000 }, &report));
        try testing.expectError(error.NotFound, pipeline.wait(wait_ms, &report));
    }
}

test "too many batches are refused, and a wait times out while the batch stays" {
    var probe: Probe = .{};
    const pipeline = try openWith(testing.allocator, .{ .probe = &probe, .width = 1 }, 1, 2);
    defer pipeline.close(wait_ms) catch unreachable;
    var report: Report = .{};
    probe.hold(true);
    try pipeline.submit(&.{1}, &report);
    try pipeline.submit(&.{2}, &report);
    try testing.expectError(error.Limit, pipeline.submit(&.{3}, &report));
    try testing.expectError(error.Timeout, pipeline.wait(1, &report));
    try testing.expectError(error.Timeout, pipeline.wait(0, &report));
    probe.hold(false);
    for ([_]i64{ 1, 2 }) |row| {
        const batch = try pipeline.wait(wait_ms, &report);
        try expectRows(batch, 1, &.{row});
        batch.buffer.release();
    }
}

test "cancelling forgets batches that are being decoded, and new ones come at once" {
    var probe: Probe = .{};
    const pipeline = try openWith(testing.allocator, .{ .probe = &probe, .width = 1 }, 2, 2);
    defer pipeline.close(wait_ms) catch unreachable;
    var report: Report = .{};
    probe.hold(true);
    try pipeline.submit(&.{ 1, 2, 3, 4, 5, 6, 7, 8 }, &report);
    try pipeline.submit(&.{9}, &report);
    probe.awaitRanges(2);
    try pipeline.cancel(&report);
    try testing.expectError(error.NotFound, pipeline.wait(0, &report));
    try pipeline.submit(&.{20}, &report);
    try pipeline.submit(&.{21}, &report);
    probe.hold(false);
    for ([_]i64{ 20, 21 }) |row| {
        const batch = try pipeline.wait(wait_ms, &report);
        try expectRows(batch, 1, &.{row});
        batch.buffer.release();
    }
}

test "a pipeline is closed before, while and after it decodes" {
    for (0..3) |batches| {
        var probe: Probe = .{};
        const pipeline = try openWith(testing.allocator, .{ .probe = &probe, .width = 1 }, 3, 3);
        var report: Report = .{};
        for (0..batches) |_| try pipeline.submit(&.{ 1, 2, 3, 4, 5, 6, 7 }, &report);
        if (batches == 2) probe.awaitRanges(1);
        try pipeline.close(wait_ms);
        try testing.expectEqual(@as(u32, 0), probe.scratches + probe.sources);
    }
}

test "a close that runs out of time leaves everything to the thread that is stuck" {
    // What is left behind on purpose goes with the arena.
    var arena: std.heap.ArenaAllocator = .init(std.heap.page_allocator);
    defer arena.deinit();
    var probe: Probe = .{};
    const pipeline = try openWith(arena.allocator(), .{ .probe = &probe, .width = 1 }, 1, 1);
    var report: Report = .{};
    probe.hold(true);
    try pipeline.submit(&.{1}, &report);
    probe.awaitRanges(1);
    try testing.expectError(error.Timeout, pipeline.close(1));
    try testing.expectEqual(@as(u32, 1), probe.sources);
    probe.hold(false);
    pipeline.mutex.lock();
    while (pipeline.live_count > 0) pipeline.ended.wait(&pipeline.mutex);
    pipeline.mutex.unlock();
    // The thread is past its last word, but may still be inside its unlock.
    pipeline.mutex.lock();
    pipeline.mutex.unlock();
}

test "hints reach the source from a thread of their own" {
    var probe: Probe = .{};
    const pipeline = try openWith(testing.allocator, .{ .probe = &probe, .width = 1 }, 1, 1);
    defer pipeline.close(wait_ms) catch unreachable;
    var report: Report = .{};
    try testing.expect(try pipeline.willNeed(.{ .row_start = 0, .row_end = 10 }, true, &report));
    try testing.expect(!try pipeline.willNeed(.{ .row_start = 10, .row_end = 15 }, false, &report));
    probe.awaitHintedRows(15);
    try pipeline.submit(&.{4}, &report);
    const batch = try pipeline.wait(wait_ms, &report);
    batch.buffer.release();
}

test "decoding waits for bytes that are read first, unless they are in memory" {
    for ([_]bool{ false, true }) |resident| {
        var probe: Probe = .{ .resident = resident, .reading = true };
        const pipeline = try openWith(testing.allocator, .{ .probe = &probe, .width = 1 }, 2, 1);
        var report: Report = .{};
        try testing.expectEqual(!resident, try pipeline.willNeed(.{ .row_start = 0, .row_end = 10 }, true, &report));
        probe.awaitHintedRows(10);
        try pipeline.submit(&.{4}, &report);
        if (!resident) {
            try testing.expectError(error.Timeout, pipeline.wait(20, &report));
            try testing.expectEqual(@as(u32, 0), probe.ranges);
            probe.holdReading(false);
        }
        const batch = try pipeline.wait(wait_ms, &report);
        batch.buffer.release();
        probe.holdReading(false);
        try pipeline.close(wait_ms);
    }
}

test "a pipeline ends while it waits for bytes, and goes on after a cancel" {
    var probe: Probe = .{ .reading = true };
    const pipeline = try openWith(testing.allocator, .{ .probe = &probe, .width = 1 }, 1, 1);
    var report: Report = .{};
    for (0..3) |_| _ = try pipeline.willNeed(.{ .row_start = 0, .row_end = 10 }, true, &report);
    probe.awaitHintedRows(10);
    try pipeline.submit(&.{4}, &report);
    try pipeline.cancel(&report);
    try testing.expectEqual(@as(usize, 1), pipeline.hints.holding);
    probe.holdReading(false);
    try pipeline.submit(&.{5}, &report);
    const batch = try pipeline.wait(wait_ms, &report);
    try expectRows(batch, 1, &.{5});
    batch.buffer.release();
    probe.holdReading(true);
    _ = try pipeline.willNeed(.{ .row_start = 0, .row_end = 10 }, true, &report);
    probe.awaitHintedRows(20);
    try pipeline.submit(&.{6}, &report);
    probe.holdReading(false);
    try pipeline.close(wait_ms);
}

test "another process is refused, and its close does nothing" {
    var probe: Probe = .{};
    const pipeline = try openWith(testing.allocator, .{ .probe = &probe, .width = 1 }, 1, 1);
    var report: Report = .{};
    try pipeline.submit(&.{4}, &report);
    const batch = try pipeline.wait(wait_ms, &report);
    const own = pipeline.process;
    pipeline.process += 1;
    pipeline.pool.process += 1;
    try testing.expectError(error.WrongProcess, pipeline.submit(&.{4}, &report));
    try testing.expectError(error.WrongProcess, pipeline.wait(0, &report));
    try testing.expectError(error.WrongProcess, pipeline.cancel(&report));
    try testing.expectError(error.WrongProcess, pipeline.willNeed(.{ .row_start = 0, .row_end = 1 }, true, &report));
    try testing.expect(std.mem.find(u8, report.messageText(), "open a new one") != null);
    batch.buffer.release();
    try pipeline.close(0);
    pipeline.process = own;
    pipeline.pool.process = own;
    try testing.expectEqual(@as(usize, 1), pipeline.pool.lent_count);
    batch.buffer.release();
    try pipeline.close(wait_ms);
}

fn openAndUse(allocator: std.mem.Allocator) !void {
    var probe: Probe = .{};
    defer std.debug.assert(probe.scratches == 0 and probe.sources == 0);
    const pipeline = try openWith(allocator, .{ .probe = &probe, .width = 2 }, 2, 2);
    defer pipeline.close(wait_ms) catch unreachable;
    var report: Report = .{};
    try pipeline.submit(&.{ 1, 2, 3, 4 }, &report);
    _ = try pipeline.willNeed(.{ .row_start = 0, .row_end = 10 }, true, &report);
    const batch = try pipeline.wait(wait_ms, &report);
    defer batch.buffer.release();
    try expectRows(batch, 2, &.{ 1, 2, 3, 4 });
    try pipeline.submit(&.{5}, &report);
}

test "nothing leaks when memory runs out" {
    try testing.checkAllAllocationFailures(testing.allocator, openAndUse, .{});
}

test "nothing leaks when a thread does not start" {
    defer threads.spawn_fault_after = null;
    for (0..3) |count| {
        threads.spawn_fault_after = @intCast(count);
        try testing.expectError(error.Limit, openAndUse(testing.allocator));
    }
    threads.spawn_fault_after = 3;
    try openAndUse(testing.allocator);
}

test "a pipeline of which a thread did not start stays closed" {
    defer threads.spawn_fault_after = null;
    var probe: Probe = .{};
    const pipeline = try openWith(testing.allocator, .{ .probe = &probe, .width = 1 }, 2, 1);
    defer pipeline.close(wait_ms) catch unreachable;
    var report: Report = .{};
    threads.spawn_fault_after = 1;
    try testing.expectError(error.Limit, pipeline.submit(&.{1}, &report));
    threads.spawn_fault_after = null;
    try testing.expectError(error.Closed, pipeline.submit(&.{1}, &report));
}
