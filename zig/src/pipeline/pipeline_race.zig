//! Start, wake and stop from several threads at once: many short lives with random steps.

const std = @import("std");
const testing = std.testing;

const fakes = @import("fake_source.zig");
const pipelines = @import("pipeline.zig");
const Buffer = @import("buffers.zig").Buffer;
const FakeSource = fakes.FakeSource;
const Probe = fakes.Probe;
const Report = @import("../errors.zig").Report;
const TestPipeline = pipelines.Pipeline(FakeSource);

const width = 3;

/// One consumer with a pipeline of its own. Buffers are let go by another thread, as a garbage collector would.
const Life = struct {
    random: std.Random,
    pipeline: *TestPipeline,
    releaser: *Releaser,
    report: Report = .{},
    /// First rows of the batches under way, oldest first.
    expected: std.ArrayList(i64) = .empty,
    next_row: i64 = 1,

    fn run(life: *Life, steps: usize) !void {
        defer life.expected.deinit(testing.allocator);
        for (0..steps) |_| switch (life.random.uintLessThan(u8, 10)) {
            0...3 => try life.submit(),
            4...7 => try life.receive(),
            8 => try life.readAhead(),
            else => if (life.random.boolean()) {
                try life.pipeline.cancel(&life.report);
                life.expected.clearRetainingCapacity();
            } else try std.Thread.yield(),
        };
        try life.pipeline.close(60_000);
    }

    /// Rows that come into batches soon, if the epoch goes on.
    fn readAhead(life: *Life) !void {
        const start = life.next_row;
        const end = start + 40;
        _ = try life.pipeline.willNeed(.{ .row_start = @intCast(start), .row_end = @intCast(end) }, true, &life.report);
    }

    fn submit(life: *Life) !void {
        var rows: [20]i64 = undefined;
        const count = life.random.intRangeAtMost(usize, 1, rows.len);
        for (rows[0..count], 0..) |*row, index| row.* = life.next_row + @as(i64, @intCast(index));
        life.pipeline.submit(rows[0..count], &life.report) catch |err| switch (err) {
            error.Limit => return,
            else => return err,
        };
        try life.expected.append(testing.allocator, life.next_row);
        life.next_row += @intCast(count);
    }

    fn receive(life: *Life) !void {
        const timeout_ms: u32 = if (life.random.boolean()) 0 else 60_000;
        const batch = life.pipeline.wait(timeout_ms, &life.report) catch |err| switch (err) {
            error.Timeout => return testing.expectEqual(@as(u32, 0), timeout_ms),
            error.NotFound => return testing.expectEqual(@as(usize, 0), life.expected.items.len),
            error.Corrupt => {
                const first = life.expected.orderedRemove(0);
                // Row 64 k is bad, and a batch has fewer than 64 rows.
                return testing.expect(life.report.row % 64 == 0 and life.report.row >= first);
            },
            else => return err,
        };
        var row = life.expected.orderedRemove(0);
        const values = std.mem.bytesAsSlice(i64, batch.buffer.memory[0..batch.bytes]);
        for (0..batch.n_rows) |index| {
            for (values[index * width ..][0..width]) |value| try testing.expectEqual(row, value);
            row += 1;
        }
        if (!life.releaser.give(batch.buffer)) batch.buffer.release();
    }
};

const Releaser = struct {
    slots: [16]std.atomic.Value(?*Buffer) = @splat(.init(null)),
    stopping: std.atomic.Value(bool) = .init(false),

    fn give(releaser: *Releaser, buffer: *Buffer) bool {
        for (&releaser.slots) |*slot| {
            if (slot.cmpxchgStrong(null, buffer, .release, .monotonic) == null) return true;
        }
        return false;
    }

    fn run(releaser: *Releaser) void {
        while (!releaser.stopping.load(.acquire)) releaser.releaseAll();
        releaser.releaseAll();
    }

    fn releaseAll(releaser: *Releaser) void {
        for (&releaser.slots) |*slot| {
            if (slot.swap(null, .acq_rel)) |buffer| buffer.release();
        }
        std.Thread.yield() catch {};
    }
};

fn consume(seed: u64, lives: usize, releaser: *Releaser, failure: *?anyerror) void {
    var prng: std.Random.DefaultPrng = .init(seed);
    const random = prng.random();
    for (0..lives) |_| {
        var probe: Probe = .{};
        liveOnce(random, &probe, releaser) catch |err| {
            failure.* = err;
            return;
        };
        if (probe.scratches + probe.sources != 0) failure.* = error.Leaked;
    }
}

fn liveOnce(random: std.Random, probe: *Probe, releaser: *Releaser) !void {
    const source: FakeSource = .{ .probe = probe, .width = width, .bad_multiple = 64 };
    const pipeline: *TestPipeline = try .open(.create(source), .{
        .allocator = testing.allocator,
        .page_allocator = testing.allocator,
        .threads = random.intRangeAtMost(u32, 1, 5),
        .batches = random.intRangeAtMost(u32, 1, 4),
        .range_rows = random.intRangeAtMost(u32, 1, 8),
    });
    var life: Life = .{ .random = random, .pipeline = pipeline, .releaser = releaser };
    try life.run(random.uintLessThan(usize, 60));
}

test "many pipelines live and end at the same time" {
    const seed = testing.random_seed;
    errdefer std.debug.print("seed {d}\n", .{seed});
    var releaser: Releaser = .{};
    const release_thread = try std.Thread.spawn(.{}, Releaser.run, .{&releaser});
    var failures: [3]?anyerror = @splat(null);
    var consumers: [3]std.Thread = undefined;
    for (&consumers, &failures, 0..) |*consumer, *failure, index| {
        consumer.* = try std.Thread.spawn(.{}, consume, .{ seed +% index, 200, &releaser, failure });
    }
    for (consumers) |consumer| consumer.join();
    releaser.stopping.store(true, .release);
    release_thread.join();
    for (failures) |failure| if (failure) |err| return err;
}
