//! A source for tests: each row becomes `width` copies of its number, and chosen rows fail.

const std = @import("std");
const Allocator = std.mem.Allocator;

const errors = @import("../errors.zig");
const hints = @import("hints.zig");
const pipelines = @import("pipeline.zig");
const row_reads = @import("../codec/row_reads.zig");
const sync = @import("sync.zig");
const Failure = errors.Failure;
const Report = errors.Report;

/// What the test sees of the source inside the pipeline.
pub const Probe = struct {
    mutex: sync.Mutex = .{},
    changed: sync.Condition = .{},
    scratches: u32 = 0,
    sources: u32 = 0,
    ranges: u32 = 0,
    hinted_rows: u64 = 0,
    /// What the source says of its rows.
    resident: bool = false,
    /// While set, reading ahead does not end.
    reading: bool = false,
    /// Batches that were received.
    finished: u32 = 0,
    /// How often the place of a row was asked for.
    places: u32 = 0,
    /// While set, no place is told.
    placing: bool = false,
    scattered: bool = false,
    /// While set, decoding does not end.
    held: bool = false,

    pub fn hold(probe: *Probe, held: bool) void {
        probe.mutex.lock();
        defer probe.mutex.unlock();
        probe.held = held;
        probe.changed.broadcast();
    }

    pub fn holdReading(probe: *Probe, held: bool) void {
        probe.mutex.lock();
        defer probe.mutex.unlock();
        probe.reading = held;
        probe.changed.broadcast();
    }

    pub fn awaitRanges(probe: *Probe, count: u32) void {
        probe.mutex.lock();
        defer probe.mutex.unlock();
        while (probe.ranges < count) probe.changed.wait(&probe.mutex);
    }

    pub fn holdPlaces(probe: *Probe, placing: bool) void {
        probe.mutex.lock();
        defer probe.mutex.unlock();
        probe.placing = placing;
        probe.changed.broadcast();
    }

    pub fn awaitPlaces(probe: *Probe, count: u32) void {
        probe.mutex.lock();
        defer probe.mutex.unlock();
        while (probe.places < count) probe.changed.wait(&probe.mutex);
    }

    pub fn awaitHintedRows(probe: *Probe, count: u64) void {
        probe.mutex.lock();
        defer probe.mutex.unlock();
        while (probe.hinted_rows < count) probe.changed.wait(&probe.mutex);
    }
};

pub const FakeSource = struct {
    probe: *Probe,
    width: usize,
    n_rows: i64 = 1 << 40,
    /// Rows that are a multiple of it fail to decode; 0: none.
    bad_multiple: i64 = 0,
    looks_at_counts: bool = false,

    pub const Scratch = struct {
        allocator: Allocator,
        probe: *Probe,
        memory: []u8,

        pub fn deinit(scratch: *Scratch) void {
            scratch.probe.scratches -= 1;
            scratch.allocator.free(scratch.memory);
        }
    };

    pub fn create(options: FakeSource) FakeSource {
        options.probe.sources += 1;
        return options;
    }

    pub fn deinit(source: *FakeSource) void {
        source.probe.sources -= 1;
    }

    pub fn expectUnchanged(_: *const FakeSource, _: *Report) Failure!void {}

    pub fn afterReading(_: *const FakeSource, result: Failure!void, _: *Report) Failure!void {
        return result;
    }

    pub fn initScratch(source: *const FakeSource, allocator: Allocator) Failure!Scratch {
        const memory = try allocator.alloc(u8, 10);
        source.probe.scratches += 1;
        return .{ .allocator = allocator, .probe = source.probe, .memory = memory };
    }

    pub fn batchBytes(source: *const FakeSource, rows: []const i64, report: *Report) Failure!usize {
        for (rows) |row| if (row < 0 or row >= source.n_rows) {
            return report.fail(error.OutOfRange, "row {d}", .{row});
        };
        return rows.len * source.width * @sizeOf(i64);
    }

    pub fn readsTables(source: *const FakeSource) bool {
        return source.looks_at_counts;
    }

    /// Rows are nowhere; that they are asked for is seen.
    pub fn placeOf(source: *const FakeSource, _: i64) ?row_reads.Place {
        source.probe.mutex.lock();
        defer source.probe.mutex.unlock();
        source.probe.places += 1;
        source.probe.changed.broadcast();
        while (source.probe.placing) source.probe.changed.wait(&source.probe.mutex);
        return null;
    }

    pub fn expectScattered(source: *const FakeSource, scattered: bool) void {
        source.probe.scattered = scattered;
    }

    pub fn prepare(_: *const FakeSource, rows: []const i64, memory: []u8) void {
        @memset(memory[0..@min(memory.len, rows.len)], 0xee);
    }

    pub fn finish(source: *const FakeSource, n_rows: usize, memory: []u8) void {
        std.debug.assert(memory.len == n_rows * source.width * @sizeOf(i64));
        source.probe.finished += 1;
    }

    pub fn decode(source: *const FakeSource, task: pipelines.Task, scratch: *Scratch, report: *Report) Failure!void {
        source.enter();
        @memset(scratch.memory, 1);
        const out = std.mem.bytesAsSlice(i64, task.memory);
        for (task.rows[task.begin..task.end], task.begin..) |row, index| {
            @memset(out[index * source.width ..][0..source.width], row);
            if (source.bad_multiple > 0 and @mod(row, source.bad_multiple) == 0) {
                report.at("fake", 3, @intCast(row));
                return report.fail(error.Corrupt, "row {d} is bad", .{row});
            }
        }
    }

    pub fn willNeed(source: *const FakeSource, range: hints.RowRange) void {
        source.probe.mutex.lock();
        defer source.probe.mutex.unlock();
        source.probe.hinted_rows += range.row_end - range.row_start;
        source.probe.changed.broadcast();
        while (source.probe.reading) source.probe.changed.wait(&source.probe.mutex);
    }

    pub fn seemsResident(source: *const FakeSource, _: hints.RowRange) bool {
        return source.probe.resident;
    }

    fn enter(source: *const FakeSource) void {
        source.probe.mutex.lock();
        defer source.probe.mutex.unlock();
        source.probe.ranges += 1;
        source.probe.changed.broadcast();
        while (source.probe.held) source.probe.changed.wait(&source.probe.mutex);
    }
};
