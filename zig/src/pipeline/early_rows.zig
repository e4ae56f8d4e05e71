//! Rows that are decoded before their batches are due: while the bytes of a shuffled group arrive from the disk.
//!
//! The first batch of such a group takes rows from everywhere in it, so it waits for all bytes. Until they are there
//! threads decode rows in the order in which these arrive, and keep what a batch takes of each: output columns and
//! values. A batch only has to put those in their places. What does not fit the memory, or has not been decoded when the
//! last byte is there, is decoded with its batch like any other row.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;

const dense = @import("../kernels/dense.zig");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const kept_row = @import("../kernels/kept_row.zig");
const platform = @import("platform.zig");
const Failure = errors.Failure;
const Matrix = @import("../codec/matrix.zig").Matrix;
const Report = errors.Report;
const Scratch = @import("../codec/scratch.zig").Scratch;
const Task = @import("pipeline.zig").Task;
const Table = @import("../levels/table.zig").Table;
const level_table = @import("../levels/dispatch.zig").table;

/// Rows between the lowest and the highest, for which there is a mask each. Larger files have no early rows.
const span_rows_max = 1 << 32;
const word_rows = 64;
const page_alignment: std.mem.Alignment = .fromByteUnits(platform.huge_page_bytes);

pub const Options = struct {
    allocator: Allocator,
    page_allocator: Allocator,
    /// Ascending and distinct.
    rows: []const i64,
    /// Columns of a batch.
    n_output: u32,
    /// Of all that is allocated.
    bytes_max: usize,
};

pub const EarlyRows = struct {
    allocator: Allocator,
    page_allocator: Allocator,
    rows: []i64,
    /// Where the record of each row lies in `memory`, plus one; 0 where there is none.
    places: []std.atomic.Value(usize),
    /// Which rows are there, a bit each, and how many are before each word.
    masks: []u64,
    counts: []u32,
    memory: []align(platform.huge_page_bytes) u8,
    width: kept_row.Width,
    level: *const Table,
    /// Bytes that records have asked for; more than there are when it is full.
    taken: std.atomic.Value(usize) = .init(0),
    kept: std.atomic.Value(usize) = .init(0),
    used: std.atomic.Value(usize) = .init(0),

    // The pipeline holds its mutex around the rest.

    /// The first row that no thread has taken.
    next: usize = 0,
    /// Threads that decode early rows right now.
    running: u32 = 0,
    /// The pipeline itself, and threads that read or write records.
    users: u32 = 1,

    /// Null where the memory has no room for rows worth the effort.
    pub fn create(options: Options) Failure!?*EarlyRows {
        const rows = options.rows;
        if (rows.len == 0) return null;
        const span = @as(u64, @intCast(rows[rows.len - 1])) / word_rows - @as(u64, @intCast(rows[0])) / word_rows + 1;
        if (span > span_rows_max / word_rows) return null;
        const n_words: usize = @intCast(span);
        const overhead = rows.len * (@sizeOf(i64) + @sizeOf(usize)) + n_words * (@sizeOf(u64) + @sizeOf(u32));
        // most of the memory is for records, and none of it a part of a huge page
        if (overhead > options.bytes_max / 4) return null;
        const record_bytes = (options.bytes_max - overhead) / platform.huge_page_bytes * platform.huge_page_bytes;
        if (record_bytes == 0) return null;

        const allocator = options.allocator;
        const self = try allocator.create(EarlyRows);
        errdefer allocator.destroy(self);
        const own_rows = try allocator.dupe(i64, rows);
        errdefer allocator.free(own_rows);
        const places = try allocator.alloc(std.atomic.Value(usize), rows.len);
        errdefer allocator.free(places);
        const masks = try allocator.alloc(u64, n_words);
        errdefer allocator.free(masks);
        const counts = try allocator.alloc(u32, n_words);
        errdefer allocator.free(counts);
        const memory = try options.page_allocator.alignedAlloc(u8, page_alignment, record_bytes);

        platform.hintHugePages(memory);
        @memset(places, .init(0));
        self.* = .{
            .allocator = allocator,
            .page_allocator = options.page_allocator,
            .rows = own_rows,
            .places = places,
            .masks = masks,
            .counts = counts,
            .memory = memory,
            .width = .of(options.n_output),
            .level = level_table(),
        };
        self.markRows();
        return self;
    }

    pub fn destroy(self: *EarlyRows) void {
        assert(self.users == 0 and self.running == 0);
        const allocator = self.allocator;
        self.page_allocator.free(self.memory);
        allocator.free(self.counts);
        allocator.free(self.masks);
        allocator.free(self.places);
        allocator.free(self.rows);
        allocator.destroy(self);
    }

    fn markRows(self: *EarlyRows) void {
        @memset(self.masks, 0);
        const first = self.firstWord();
        for (self.rows) |row| {
            const own: u64 = @intCast(row);
            self.masks[@intCast(own / word_rows - first)] |= @as(u64, 1) << @intCast(own % word_rows);
        }
        var count: u32 = 0;
        for (self.masks, self.counts) |mask, *before| {
            before.* = count;
            count += @popCount(mask);
        }
        assert(count == self.rows.len);
    }

    fn firstWord(self: *const EarlyRows) u64 {
        return @as(u64, @intCast(self.rows[0])) / word_rows;
    }

    /// The next rows to decode of those before `row_stop`, at most `count_max`, as their places in `rows`.
    pub fn claim(self: *EarlyRows, row_stop: u64, count_max: usize) ?Claim {
        if (self.taken.load(.monotonic) > self.memory.len) return null;
        var end = self.next;
        while (end < @min(self.rows.len, self.next + count_max) and self.rows[end] < row_stop) end += 1;
        if (end == self.next) return null;
        defer self.next = end;
        self.users += 1;
        self.running += 1;
        return .{ .early = self, .begin = self.next, .end = end };
    }

    /// One user less; true when it was the last one, who destroys it.
    pub fn lose(self: *EarlyRows) bool {
        assert(self.users > 0);
        self.users -= 1;
        return self.users == 0;
    }

    /// Whether every record has gone into its batch, and no more are made.
    pub fn isSpent(self: *const EarlyRows) bool {
        return self.running == 0 and self.used.load(.monotonic) >= self.kept.load(.monotonic);
    }

    /// Keeps what a batch takes of the row at a place of `rows`; not where the memory is full.
    pub fn keep(self: *EarlyRows, place: usize, selected: *const dense.Selected) void {
        const size = kept_row.recordBytes(selected, self.width);
        const start = self.taken.fetchAdd(size, .monotonic);
        if (start > self.memory.len or size > self.memory.len - start) return;
        self.level.writeKept(selected, self.width, @alignCast(self.memory.ptr + start));
        _ = self.kept.fetchAdd(1, .monotonic);
        self.places[place].store(start + 1, .release);
    }

    /// What was kept of a row, if anything.
    pub fn find(self: *const EarlyRows, row: i64) ?kept_row.Record {
        const word = (std.math.cast(usize, row) orelse return null) / word_rows -% self.firstWord();
        if (word >= self.masks.len) return null;
        const mask = self.masks[word];
        const bit: u6 = @intCast(@mod(row, word_rows));
        if (mask >> bit & 1 == 0) return null;
        const place = self.counts[word] + @popCount(mask & ((@as(u64, 1) << bit) - 1));
        const start = self.places[place].load(.acquire);
        if (start == 0) return null;
        return @alignCast(self.memory.ptr + start - 1);
    }

    /// That many records went into a batch.
    pub fn countUsed(self: *EarlyRows, count: usize) void {
        _ = self.used.fetchAdd(count, .monotonic);
    }

    /// Starts fetching what rows after this one are made of.
    inline fn prefetchAhead(self: *const EarlyRows, source: anytype, rows: []const i64, index: usize) void {
        if (index + Matrix.entry_rows_ahead < rows.len) {
            const row = rows[index + Matrix.entry_rows_ahead];
            if (self.find(row) == null) source.prefetchEntry(row);
        }
        if (index + Matrix.payload_rows_ahead < rows.len) {
            const row = rows[index + Matrix.payload_rows_ahead];
            const record = self.find(row) orelse return source.prefetchPayload(row);
            for (0..lines_ahead) |line| @prefetch(record + line * std.atomic.cache_line, .{});
        }
    }

    /// Beyond it the hardware sees a stream by itself.
    const lines_ahead = 10;
};

/// Rows `begin` to `end` of `rows`, for one thread.
pub const Claim = struct {
    early: *EarlyRows,
    begin: usize,
    end: usize,

    pub fn rows(self: Claim) []const i64 {
        return self.early.rows[self.begin..self.end];
    }
};

/// Rows of a task of a dense source: those that were decoded early put in their places, the others decoded.
///
///   source.rowBytes() usize
///   source.emission() *const DenseRowPlan                   how a row is put together; of any of its matrices
///   source.denseRow(row, *scratch, way, out, report)
///   source.prefetchEntry(row), source.prefetchPayload(row)  what it will be decoded from; entries come first
pub fn decodeBeside(early: *EarlyRows, source: anytype, task: Task, scratch: *Scratch, report: *Report) Failure!void {
    const width = source.rowBytes();
    assert(task.memory.len == task.rows.len * width);
    const way: emit.Way = .ofBatch(task.memory.len);
    defer emit.finishStreaming();
    var used: usize = 0;
    defer early.countUsed(used);
    const rows = task.rows[0..task.end];
    for (rows[task.begin..], task.begin..) |row, index| {
        early.prefetchAhead(source, rows, index);
        const out = task.memory.ptr + index * width;
        if (early.find(row)) |record| {
            used += 1;
            early.level.emitKept(source.emission(), record, early.width, &scratch.arrays, way, out);
        } else {
            try source.denseRow(row, scratch, way, out, report);
        }
    }
}

const testing = std.testing;

fn testOptions(rows: []const i64, bytes_max: usize) Options {
    return .{
        .allocator = testing.allocator,
        .page_allocator = testing.allocator,
        .rows = rows,
        .n_output = 10,
        .bytes_max = bytes_max,
    };
}

fn letGo(early: *EarlyRows) void {
    std.debug.assert(early.lose());
    early.destroy();
}

test "rows are claimed in order as far as their bytes are there, and found again" {
    var random = std.Random.DefaultPrng.init(31);
    for (0..40) |round| {
        var rows: [500]i64 = undefined;
        var row: i64 = random.random().intRangeAtMost(i64, 0, 1000);
        for (&rows) |*own| {
            own.* = row;
            row += random.random().intRangeAtMost(i64, 1, if (round % 2 == 0) 3 else 400);
        }
        const early = (try EarlyRows.create(testOptions(&rows, 4 << 20))).?;
        defer letGo(early);
        const row_stop: u64 = @intCast(rows[333]);
        var taken: usize = 0;
        while (early.claim(row_stop, 7)) |claim| {
            try testing.expectEqualSlices(i64, rows[taken..claim.end], claim.rows());
            for (claim.begin..claim.end) |place| {
                const values = [_]f32{@floatFromInt(place)};
                if (place % 5 != 0) early.keep(place, &.{ .columns = &.{3}, .values = &values, .count = 1, .background = 0 });
            }
            taken = claim.end;
            early.running -= 1;
            _ = early.lose();
        }
        try testing.expectEqual(@as(usize, 333), taken);
        for (rows, 0..) |own, place| {
            try testing.expectEqual(place < 333 and place % 5 != 0, early.find(own) != null);
            const next = if (place + 1 < rows.len) rows[place + 1] else own + 100;
            if (own + 1 < next) try testing.expectEqual(null, early.find(own + 1));
        }
        for ([_]i64{ -1, rows[0] - 1, std.math.maxInt(i64) }) |absent| try testing.expectEqual(null, early.find(absent));
        try testing.expect(!early.isSpent());
        early.countUsed(early.kept.load(.monotonic));
        try testing.expect(early.isSpent());
    }
}

test "no more is kept than there is room for" {
    const rows = [_]i64{ 0, 1, 2, 3 };
    const early = (try EarlyRows.create(testOptions(&rows, 2 * platform.huge_page_bytes - 1))).?;
    defer letGo(early);
    try testing.expectEqual(@as(usize, platform.huge_page_bytes), early.memory.len);
    const count = platform.huge_page_bytes / 6 / 2;
    const values = try testing.allocator.alloc(f32, count);
    defer testing.allocator.free(values);
    @memset(values, 1);
    const columns = try testing.allocator.alloc(u32, count);
    defer testing.allocator.free(columns);
    @memset(columns, 5);
    const half: dense.Selected = .{ .columns = columns.ptr, .values = values.ptr, .count = count, .background = 0 };
    for (0..3) |place| early.keep(place, &half);
    try testing.expect(early.find(0) != null);
    try testing.expectEqual(null, early.find(1)); // its head has no room beside the first
    try testing.expectEqual(null, early.claim(100, 4));
    try testing.expectEqual(@as(usize, 1), early.kept.load(.monotonic));
}

test "too little memory, or rows too far apart, are not worth it" {
    try testing.expectEqual(null, try EarlyRows.create(testOptions(&.{}, 4 << 20)));
    try testing.expectEqual(null, try EarlyRows.create(testOptions(&.{1}, platform.huge_page_bytes)));
    try testing.expectEqual(null, try EarlyRows.create(testOptions(&.{ 1, 1 << 40 }, 4 << 20)));
    try testing.expectEqual(null, try EarlyRows.create(testOptions(&.{ 1, 1 << 27 }, 4 << 20)));
}

test "nothing leaks when memory for early rows runs out" {
    try testing.checkAllAllocationFailures(testing.allocator, struct {
        fn run(allocator: Allocator) !void {
            var options = testOptions(&.{ 1, 5, 9 }, 4 << 20);
            options.allocator = allocator;
            options.page_allocator = allocator;
            letGo((try EarlyRows.create(options)).?);
        }
    }.run, .{});
}
