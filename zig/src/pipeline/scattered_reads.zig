//! Batches of rows from anywhere: a thread asks for the bytes of each before its rows are decoded.
//!
//! Batches are asked for in their order, each as soon as it was submitted, so that the disk has the requests of as many
//! as are under way. A batch that may be in memory is not held up: see codec/row_reads.zig, which does the asking.

const std = @import("std");
const Allocator = std.mem.Allocator;

const row_reads = @import("../codec/row_reads.zig");
const sync = @import("sync.zig");

pub const ScatteredReads = struct {
    /// Set by the thread that submits.
    enabled: bool = false,
    watch: row_reads.Watch = .{},
    /// Of the thread that submits, for the counts of CSR batches.
    tables: row_reads.Wishes,
    /// Of the thread that reads.
    rows: row_reads.Wishes,
    /// A batch is to be asked for, or the pipeline stops.
    arrived: sync.Condition = .{},
    thread: ?std.Thread = null,

    pub fn init(allocator: Allocator) ScatteredReads {
        return .{ .tables = .{ .allocator = allocator }, .rows = .{ .allocator = allocator } };
    }

    pub fn deinit(reads: *ScatteredReads) void {
        reads.tables.deinit();
        reads.rows.deinit();
    }

    /// Whether the next batch is asked for.
    pub fn asks(reads: *const ScatteredReads) bool {
        return reads.enabled and reads.watch.asks();
    }

    /// In the thread that submits, for a source that looks at the counts of rows when their batch is submitted.
    pub fn askForTables(reads: *ScatteredReads, source: anytype, rows: []const i64) void {
        _ = row_reads.askForTables(listOf(source, rows), rows.len, &reads.watch, &reads.tables);
    }

    /// In the thread that reads.
    pub fn askForRows(reads: *ScatteredReads, source: anytype, rows: []const i64) void {
        row_reads.askForRows(listOf(source, rows), rows.len, &reads.watch, &reads.rows);
    }
};

fn listOf(source: anytype, rows: []const i64) List(@TypeOf(source)) {
    return .{ .source = source, .rows = rows };
}

fn List(comptime Source: type) type {
    return struct {
        source: Source,
        rows: []const i64,

        pub fn at(list: @This(), index: usize) ?row_reads.Place {
            return list.source.placeOf(list.rows[index]);
        }
    };
}

const testing = std.testing;
const fakes = @import("fake_source.zig");
const pipelines = @import("pipeline.zig");
const Probe = fakes.Probe;
const Report = @import("../errors.zig").Report;
const TestPipeline = pipelines.Pipeline(fakes.FakeSource);

const wait_ms = 60_000;

fn openWith(source: fakes.FakeSource, threads: u32) !*TestPipeline {
    return TestPipeline.open(fakes.FakeSource.create(source), .{
        .allocator = testing.allocator,
        .page_allocator = testing.allocator,
        .threads = threads,
        .batches = 4,
        .range_rows = 2,
    });
}

fn receive(pipeline: *TestPipeline) !void {
    var report: Report = .{};
    const batch = try pipeline.wait(wait_ms, &report);
    batch.buffer.release();
}

test "nothing is decoded before its bytes were asked for" {
    var probe: Probe = .{ .placing = true };
    const pipeline = try openWith(.{ .probe = &probe, .width = 1 }, 2);
    var report: Report = .{};
    try pipeline.expectScattered(true, &report);
    try testing.expect(probe.scattered);
    pipeline.scattered.watch.surprise();
    for (0..3) |_| try pipeline.submit(&.{ 4, 5, 6 }, &report);
    probe.awaitPlaces(1);
    try testing.expectError(error.Timeout, pipeline.wait(20, &report));
    try testing.expectEqual(0, probe.ranges);
    probe.holdPlaces(false);
    for (0..3) |_| try receive(pipeline);
    try testing.expectEqual(18, probe.places); // table entries and payloads
    try pipeline.close(wait_ms);
    try testing.expect(!probe.scattered);
}

test "what is in memory is asked for once" {
    var probe: Probe = .{};
    const pipeline = try openWith(.{ .probe = &probe, .width = 1, .looks_at_counts = true }, 2);
    defer pipeline.close(wait_ms) catch unreachable;
    var report: Report = .{};
    for ([_]bool{ false, true, false }, [_]u32{ 0, 6, 6 }) |scattered, places| {
        try pipeline.expectScattered(scattered, &report);
        for (0..3) |_| {
            try pipeline.submit(&.{ 4, 5 }, &report);
            try receive(pipeline);
        }
        try testing.expectEqual(places, probe.places);
    }
}

test "a pipeline is cancelled and closed while bytes are asked for" {
    var probe: Probe = .{ .placing = true };
    const pipeline = try openWith(.{ .probe = &probe, .width = 1 }, 1);
    var report: Report = .{};
    try pipeline.expectScattered(true, &report);
    pipeline.scattered.watch.surprise();
    try pipeline.submit(&.{}, &report);
    for (0..3) |_| try pipeline.submit(&.{ 4, 5 }, &report);
    try receive(pipeline);
    probe.awaitPlaces(1);
    try pipeline.cancel(&report);
    probe.holdPlaces(false);
    try pipeline.submit(&.{7}, &report);
    try receive(pipeline);
    probe.holdPlaces(true);
    try pipeline.submit(&.{ 8, 9 }, &report);
    probe.holdPlaces(false);
    try pipeline.close(wait_ms);
    try testing.expectEqual(0, probe.scratches + probe.sources);
}

test "bytes that are read from front to back come before those of single rows" {
    var probe: Probe = .{ .reading = true };
    const pipeline = try openWith(.{ .probe = &probe, .width = 1 }, 1);
    defer pipeline.close(wait_ms) catch unreachable;
    var report: Report = .{};
    try pipeline.expectScattered(true, &report);
    _ = try pipeline.willNeed(.{ .row_start = 0, .row_end = 10 }, true, &report);
    probe.awaitHintedRows(10);
    try pipeline.submit(&.{ 4, 5 }, &report);
    try testing.expectError(error.Timeout, pipeline.wait(20, &report));
    try testing.expectEqual(0, probe.places);
    probe.holdReading(false);
    try receive(pipeline);
    try testing.expectEqual(4, probe.places);
}
