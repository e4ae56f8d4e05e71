//! Rows from anywhere in a file that is not in memory: their pages are asked for before the first is touched.
//!
//! Who touches them one after the other waits for each alone, and the system may read megabytes around it. So the pages
//! of a batch are asked for all at once, in the order of the file: first those of the table entries, then, as these say
//! where, those of the payloads. Pages close to one another are one request, with what lies between them.
//!
//! What is in memory need not be asked for, and asking costs a microsecond for a page. Whether it is, shows by what
//! asking and decoding have caused: blocks that were read, and faults. That needs no look at the pages, which the
//! system allows only to a file's owner. Hints alone: nothing fails here, and nothing is trusted.

const std = @import("std");
const platform = @import("../container/platform.zig");
const ShardView = @import("shard_view.zig").ShardView;

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;

/// A disk reads as much in the time of a request of its own, roughly: 40 KB at 2 GB/s and 50,000 requests a second, and
/// at 125 MB/s and 3,000.
const gap_bytes_max = 32 << 10;
/// Where all may be in memory, so many rows of a batch are tried first; within these bounds one in 32.
const samples_min = 32;
const samples_max = 128;

/// A row of a matrix, by its shard.
pub const Place = struct {
    view: *const ShardView,
    local_row: u64,
};

/// Whether the rows of the next batch are asked for. Threads may share it: what they miss costs time alone.
pub const Watch = struct {
    /// Batches of which a few rows are tried before it is taken for granted that all is in memory.
    left: std.atomic.Value(u32) = .init(1),
    /// As `left`, of table entries that are read without their rows.
    counts_left: std.atomic.Value(u32) = .init(1),
    /// Batches of which all rows are asked for.
    thorough_left: std.atomic.Value(u32) = .init(0),
    /// As many are after the next fault that nobody expected.
    thorough_next: std.atomic.Value(u32) = .init(4),

    const left_after_reading = 64;
    const thorough_max = 256;

    pub fn asks(watch: *const Watch) bool {
        return watch.left.load(.monotonic) > 0;
    }

    fn isThorough(watch: *const Watch) bool {
        return watch.thorough_left.load(.monotonic) > 0;
    }

    fn asked(watch: *Watch, has_read: bool) void {
        count(&watch.left, has_read);
        count(&watch.thorough_left, false);
    }

    fn count(left: *std.atomic.Value(u32), has_read: bool) void {
        const before = left.load(.monotonic);
        const now = if (has_read) @max(before, left_after_reading) else before -| 1;
        if (now != before) left.store(now, .monotonic);
    }

    /// A row was decoded that was not in memory.
    pub fn surprise(watch: *Watch) void {
        const next = watch.thorough_next.load(.monotonic);
        const left = @max(next, left_after_reading);
        watch.left.store(left, .monotonic);
        watch.counts_left.store(left, .monotonic);
        watch.thorough_left.store(next, .monotonic);
        watch.thorough_next.store(@min(2 * next, thorough_max), .monotonic);
    }
};

/// Faults of the calling thread, which tell the watch.
pub const Faults = struct {
    count: u64,
    unasked: u32 = 0,

    /// Asking the system takes most of a microsecond.
    const calls_between = 8;

    pub fn begin() Faults {
        return .{ .count = platform.ownReads().faults };
    }

    /// For who calls it often: tells every now and then.
    pub fn tellSometimes(self: *Faults, watch: *Watch) void {
        self.unasked += 1;
        if (self.unasked < calls_between) return;
        self.unasked = 0;
        self.tell(watch);
    }

    pub fn tell(self: *Faults, watch: *Watch) void {
        const count = platform.ownReads().faults;
        if (count != self.count) watch.surprise();
        self.count = count;
    }
};

/// Bytes that are asked for together; one thread at a time.
pub const Wishes = struct {
    allocator: Allocator,
    spans: std.ArrayList(Span) = .empty,

    const Span = struct {
        start: usize,
        stop: usize,

        fn ascends(_: void, a: Span, b: Span) bool {
            return a.start < b.start;
        }

        fn ask(span: Span) void {
            platform.startReading(@as([*]const u8, @ptrFromInt(span.start))[0 .. span.stop - span.start]);
        }
    };

    pub fn deinit(wishes: *Wishes) void {
        wishes.spans.deinit(wishes.allocator);
    }

    fn add(wishes: *Wishes, bytes: []const u8) void {
        if (bytes.len == 0) return;
        const start = @intFromPtr(bytes.ptr);
        wishes.spans.append(wishes.allocator, .{ .start = start, .stop = start + bytes.len }) catch {};
    }

    /// In the order of addresses, which is that of a file, with spans that are close made one.
    fn settle(wishes: *Wishes) []const Span {
        const spans = wishes.spans.items;
        if (spans.len == 0) return spans;
        std.mem.sortUnstable(Span, spans, {}, Span.ascends);
        var last: usize = 0;
        for (spans[1..]) |span| {
            if (span.start <= spans[last].stop + gap_bytes_max) {
                spans[last].stop = @max(spans[last].stop, span.stop);
            } else {
                last += 1;
                spans[last] = span;
            }
        }
        return spans[0 .. last + 1];
    }

    /// Asks for what was added, and forgets it. Whether any of it had to be read.
    fn ask(wishes: *Wishes) bool {
        const before = platform.ownReads().blocks;
        for (wishes.settle()) |span| span.ask();
        wishes.spans.clearRetainingCapacity();
        return platform.ownReads().blocks != before;
    }
};

const Part = enum { table, payload };

/// Of a batch of which all may be in memory one row in so many is tried first; 1: none is.
fn sampleStep(count: usize, watch: *const Watch) usize {
    if (watch.isThorough()) return 1;
    return @max(1, count / std.math.clamp(count / 32, samples_min, samples_max));
}

fn askForEvery(step: usize, part: Part, list: anytype, count: usize, wishes: *Wishes) bool {
    var index: usize = 0;
    while (index < count) : (index += step) {
        const place: Place = list.at(index) orelse continue;
        switch (part) {
            .table => wishes.add(place.view.tableOf(place.local_row, 1)),
            .payload => for (place.view.piecesOf(place.local_row)) |piece| wishes.add(piece),
        }
    }
    return wishes.ask();
}

/// Asks for the table entries of rows, which hold their counts. `list.at(index)` is the place of a row, or null.
pub fn askForTables(list: anytype, count: usize, watch: *const Watch, wishes: *Wishes) bool {
    const step = sampleStep(count, watch);
    const sample_read = step > 1 and askForEvery(step, .table, list, count, wishes);
    if (step > 1 and !sample_read) return false;
    return askForEvery(1, .table, list, count, wishes) or sample_read;
}

/// The same for who looks at counts alone, of rows from anywhere.
pub fn askForCounts(allocator: Allocator, list: anytype, rows: []const i64, watch: *Watch) void {
    if (watch.counts_left.load(.monotonic) == 0 or !isScattered(rows)) return;
    var wishes: Wishes = .{ .allocator = allocator };
    defer wishes.deinit();
    Watch.count(&watch.counts_left, askForTables(list, rows.len, watch, &wishes));
}

/// Asks for all that rows are decoded from; waits for their table entries, not for the rest.
pub fn askForRows(list: anytype, count: usize, watch: *Watch, wishes: *Wishes) void {
    const step = sampleStep(count, watch);
    // both parts: another thread may just have asked for the entries of the sample, but not for all others
    const sample_read = step > 1 and askForBoth(step, list, count, wishes);
    const all_read = (step == 1 or sample_read) and askForBoth(1, list, count, wishes);
    watch.asked(sample_read or all_read);
}

fn askForBoth(step: usize, list: anytype, count: usize, wishes: *Wishes) bool {
    const tables_read = askForEvery(step, .table, list, count, wishes);
    return askForEvery(step, .payload, list, count, wishes) or tables_read;
}

/// Whether the rows mostly do not follow one another: others are read well as they are touched.
pub fn isScattered(rows: []const i64) bool {
    if (rows.len < 2) return false;
    var jumps: usize = 0;
    for (rows[0 .. rows.len - 1], rows[1..]) |row, next| jumps += @intFromBool(next -% row != 1);
    return jumps * 8 >= rows.len;
}

/// For who decodes rows one after the other: asks for them a block ahead.
pub const Ahead = struct {
    watch: *Watch,
    wishes: Wishes,
    faults: Faults,
    /// The row before which something may be asked for.
    due: usize,
    /// Of the block that is decoded.
    block_end: usize,
    /// Rows before it have been.
    reached: usize,

    pub const block_rows = 1024;
    /// Rows between two looks at the faults.
    pub const look_rows = 64;

    /// From row `start` of the list on. Not at all where rows follow one another.
    pub fn init(allocator: Allocator, watch: *Watch, scattered: bool, start: usize) Ahead {
        return .{
            .watch = watch,
            .wishes = .{ .allocator = allocator },
            .faults = if (scattered) .begin() else .{ .count = 0 },
            .due = if (scattered) start else std.math.maxInt(usize),
            .block_end = start,
            .reached = start,
        };
    }

    pub fn deinit(ahead: *Ahead) void {
        if (ahead.due != std.math.maxInt(usize)) ahead.faults.tell(ahead.watch);
        ahead.wishes.deinit();
    }

    /// Before row `index` of `list` is decoded, of which `stop` is the end.
    pub inline fn reach(ahead: *Ahead, list: anytype, index: usize, stop: usize) void {
        if (index >= ahead.due) ahead.look(list, index, stop);
    }

    fn look(ahead: *Ahead, list: anytype, index: usize, stop: usize) void {
        ahead.due = index + look_rows;
        ahead.faults.tell(ahead.watch);
        // at the end of a block, or where a fault has just shown that the rest of it is not in memory
        if (index < ahead.block_end and !(ahead.watch.asks() and ahead.reached < ahead.block_end)) return;
        if (index >= ahead.block_end) ahead.block_end = index + block_rows;
        ahead.askUpTo(list, index, @min(ahead.block_end, stop));
        ahead.askUpTo(list, index, @min(ahead.block_end + block_rows, stop));
        ahead.faults = .begin(); // waits for table entries are not the rows'
    }

    fn askUpTo(ahead: *Ahead, list: anytype, index: usize, end: usize) void {
        const start = @max(index, ahead.reached);
        if (start >= end or !ahead.watch.asks()) return;
        ahead.reached = end;
        const From = struct {
            list: @TypeOf(list),
            start: usize,

            fn at(from: @This(), offset: usize) ?Place {
                return from.list.at(from.start + offset);
            }
        };
        askForRows(From{ .list = list, .start = start }, end - start, ahead.watch, &ahead.wishes);
    }
};

const testing = std.testing;

test "spans that are close become one, in the order of their addresses" {
    var wishes: Wishes = .{ .allocator = testing.allocator };
    defer wishes.deinit();
    try testing.expectEqual(0, wishes.settle().len);
    const base: usize = 1 << 30;
    const given = [_][2]usize{ .{ 900_000, 10 }, .{ 5, 10 }, .{ 200_000, 50_000 }, .{ 16, 4 }, .{ 210_000, 7 }, .{ 250_000 + gap_bytes_max, 1 }, .{ 3, 0 } };
    for (given) |part| wishes.add(@as([*]const u8, @ptrFromInt(base + part[0]))[0..part[1]]);
    const expected = [_][2]usize{ .{ 5, 20 }, .{ 200_000, 250_001 + gap_bytes_max }, .{ 900_000, 900_010 } };
    const spans = wishes.settle();
    try testing.expectEqual(expected.len, spans.len);
    for (expected, spans) |ends, span| {
        try testing.expectEqual(Wishes.Span{ .start = base + ends[0], .stop = base + ends[1] }, span);
    }
}

test "rows that follow one another are not scattered" {
    for ([_][]const i64{ &.{}, &.{5}, &.{ 5, 6 }, &.{ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 21, 22, 23, 24, 25, 26 } }) |rows| {
        try testing.expect(!isScattered(rows));
    }
    for ([_][]const i64{ &.{ 5, 5 }, &.{ 6, 5 }, &.{ 1, 2, 4, 5 }, &.{ 0, std.math.minInt(i64), std.math.maxInt(i64) } }) |rows| {
        try testing.expect(isScattered(rows));
    }
}

test "a watch asks until all is in memory for a while, and after a surprise for everything" {
    var watch: Watch = .{};
    try testing.expect(watch.asks() and !watch.isThorough());
    watch.asked(false);
    try testing.expect(!watch.asks());
    for ([_]u32{ 4, 8, 16, 32, 64, 128, 256, 256 }) |expected| {
        watch.surprise();
        var thorough: u32 = 0;
        while (watch.isThorough()) : (thorough += 1) watch.asked(false);
        try testing.expectEqual(expected, thorough);
        var count: u32 = thorough;
        while (watch.asks()) : (count += 1) watch.asked(false);
        try testing.expectEqual(@max(expected, Watch.left_after_reading), count);
    }
    watch.surprise();
    for (0..1000) |_| watch.asked(true);
    try testing.expect(!watch.isThorough());
    var count: u32 = 0;
    while (watch.asks()) : (count += 1) watch.asked(false);
    try testing.expectEqual(Watch.thorough_max, count);
    watch.asked(true);
    count = 0;
    while (watch.asks()) : (count += 1) watch.asked(false);
    try testing.expectEqual(Watch.left_after_reading, count);
}

const Nowhere = struct {
    asked: *std.ArrayList(usize),

    pub fn at(list: Nowhere, index: usize) ?Place {
        list.asked.appendAssumeCapacity(index);
        return null;
    }
};

test "rows are asked for a block ahead, each once, and not at all when all is in memory" {
    const rows: usize = 5 * Ahead.block_rows / 2;
    const start: usize = 7;
    var asked: std.ArrayList(usize) = try .initCapacity(testing.allocator, 8 * rows);
    defer asked.deinit(testing.allocator);
    var watch: Watch = .{};
    watch.surprise();
    {
        var ahead: Ahead = .init(testing.allocator, &watch, true, start);
        defer ahead.deinit();
        for (start..rows) |index| {
            ahead.reach(Nowhere{ .asked = &asked }, index, rows);
            const reached = @min(rows, start + (index - start) / Ahead.block_rows * Ahead.block_rows + 2 * Ahead.block_rows);
            try testing.expectEqual(2 * (reached - start), asked.items.len); // tables and payloads
        }
    }
    asked.clearRetainingCapacity();
    { // a surprise in the middle of a block: the rest of it is asked for, and the next one
        while (watch.asks()) watch.asked(false);
        var ahead: Ahead = .init(testing.allocator, &watch, true, start);
        defer ahead.deinit();
        const middle: usize = start + 5 * Ahead.look_rows;
        for (start..rows) |index| {
            if (index == middle) watch.surprise();
            ahead.reach(Nowhere{ .asked = &asked }, index, rows);
            if (index < middle) try testing.expectEqual(0, asked.items.len);
            if (index == middle) try testing.expectEqual(2 * (2 * Ahead.block_rows - (middle - start)), asked.items.len);
        }
        try testing.expectEqual(2 * (rows - middle), asked.items.len);
    }
    asked.clearRetainingCapacity();
    while (watch.asks()) watch.asked(false);
    for ([_]bool{ true, false }) |scattered| {
        if (!scattered) watch.surprise();
        var ahead: Ahead = .init(testing.allocator, &watch, scattered, 0);
        defer ahead.deinit();
        for (0..rows) |index| ahead.reach(Nowhere{ .asked = &asked }, index, rows);
        try testing.expectEqual(0, asked.items.len);
    }
}
