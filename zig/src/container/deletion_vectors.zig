//! Deletion vectors: which of the file's rows readers leave out.
//!
//!   u8 version 1, u32 n_shards
//!   per shard: u32 shard_id, u32 length, a Roaring bitmap of rows inside the shard
//!
//! Version 2, which other writers make, counts rows of the file:
//!
//!   u8 version 2, u32 n_entries
//!   per entry: u8 modality_id, 3 zero bytes, u32 length, a Roaring bitmap of rows of the file
//!
//! The last entry of modality 0 is that of the whole file; those of other modalities are reserved and left aside.
//!
//! In version 1 a shard's id is its place among the row ranges that the shards of X have, counted from 0. A file without X takes
//! the ranges of its layers and of raw, and a file without any matrix is one range.
//!
//!   ranges(allocator, sections, n_obs, report) Failure![]Range       the caller's to free
//!   countsFileRows(bytes) bool                                       whether one range of all rows takes their place
//!   count(bytes, ranges, report) Failure!u64                         checks the section in full
//!   fill(bytes, ranges, rows, report) Failure!void                   file rows, ascending
//!   serialize(allocator, vectors) Allocator.Error![]u8               the caller's to free

const std = @import("std");
const Allocator = std.mem.Allocator;
const errors = @import("../errors.zig");
const roaring = @import("roaring.zig");
const Section = @import("catalog.zig").Section;
const SectionType = @import("section_types.zig").SectionType;
const Failure = errors.Failure;
const Report = errors.Report;

pub const section_name = "deletion_vectors";

const version = 1;
const version_of_file_rows = 2;
const start_bytes = 1 + 4;
const vector_start_bytes = 4 + 4;

/// Rows of the file; the end is exclusive.
pub const Range = struct { start: u64, end: u64 };

pub const Vector = struct { shard_id: u32, bitmap: []const u8 };

/// The section that holds them, an index into `sections`; `null` when no row is deleted.
pub fn find(sections: []const Section, report: *Report) Failure!?u32 {
    var found: ?u32 = null;
    for (sections, 0..) |*section, index| {
        if (section.section_type != .deletion_vectors) continue;
        if (found != null or section.modality_id != 0) {
            report.setSection(section.name);
            return report.fail(error.Unsupported, "the file has several deletion vectors, or ones of a modality; only " ++
                "one section for all of its rows is understood", .{});
        }
        found = @intCast(index);
    }
    return found;
}

pub fn ranges(allocator: Allocator, sections: []const Section, n_obs: u64, report: *Report) Failure![]Range {
    var found: std.ArrayList(Range) = .empty;
    defer found.deinit(allocator);
    try collect(allocator, &found, sections, &.{.csr_shard}, report);
    if (found.items.len == 0) try collect(allocator, &found, sections, &.{ .layer_csr_shard, .raw_csr_shard }, report);
    if (found.items.len == 0) try found.append(allocator, .{ .start = 0, .end = n_obs });
    std.mem.sortUnstable(Range, found.items, {}, before);

    var n_distinct: usize = 0;
    var reached: u64 = 0;
    for (found.items) |range| {
        if (n_distinct > 0 and std.meta.eql(range, found.items[n_distinct - 1])) continue;
        if (range.start != reached) return notTiled(report);
        found.items[n_distinct] = range;
        n_distinct += 1;
        reached = range.end;
        if (range.end - range.start > 1 << 32) return report.fail(error.Unsupported, "the shard of the rows {d} to {d} has " ++
            "more rows than a deletion vector can count", .{ range.start, range.end });
    }
    if (reached != n_obs) return notTiled(report);
    return allocator.dupe(Range, found.items[0..n_distinct]);
}

fn collect(
    allocator: Allocator,
    found: *std.ArrayList(Range),
    sections: []const Section,
    types: []const SectionType,
    report: *Report,
) Failure!void {
    for (sections) |*section| {
        if (std.mem.indexOfScalar(SectionType, types, section.section_type) == null) continue;
        const stats = section.stats orelse {
            report.setSection(section.name);
            return report.fail(error.Unsupported, "the catalog does not say which rows the file's shards hold, so no row " ++
                "can be found by its shard", .{});
        };
        try found.append(allocator, .{ .start = stats.row_start, .end = stats.row_end });
    }
}

fn before(_: void, one: Range, other: Range) bool {
    return one.start < other.start or (one.start == other.start and one.end < other.end);
}

fn notTiled(report: *Report) Failure {
    return report.fail(error.Unsupported, "the file's shards do not follow one another, so no row can be found by its shard", .{});
}

/// Whether its bitmaps are of rows of the file, so that it does not matter how the file is cut into shards.
pub fn countsFileRows(bytes: []const u8) bool {
    return bytes.len > 0 and bytes[0] == version_of_file_rows;
}

/// How many rows are deleted. Everything in the section is checked.
pub fn count(bytes: []const u8, shards: []const Range, report: *Report) Failure!u64 {
    const Counter = struct {
        n_rows: u64 = 0,

        fn add(counter: *@This(), _: u64) void {
            counter.n_rows += 1;
        }
    };
    var counter: Counter = .{};
    try walk(bytes, shards, &counter, Counter.add, report);
    return counter.n_rows;
}

/// The deleted rows; `rows` has as many entries as `count` found.
pub fn fill(bytes: []const u8, shards: []const Range, rows: []i64, report: *Report) Failure!void {
    const Filler = struct {
        rows: []i64,
        n_filled: usize = 0,
        ascending: bool = true,

        fn add(filler: *@This(), row: u64) void {
            defer filler.n_filled += 1;
            if (filler.n_filled >= filler.rows.len) return;
            const value: i64 = @intCast(row);
            if (filler.n_filled > 0 and value <= filler.rows[filler.n_filled - 1]) filler.ascending = false;
            filler.rows[filler.n_filled] = value;
        }
    };
    var filler: Filler = .{ .rows = rows };
    try walk(bytes, shards, &filler, Filler.add, report);
    // who writes into a mapped file changes what it says in between
    if (filler.n_filled != rows.len) return damaged(report, "{d} rows are deleted where {d} were counted", .{ filler.n_filled, rows.len });
    if (filler.ascending) return;
    std.mem.sortUnstable(i64, rows, {}, std.sort.asc(i64));
    for (rows[1..], rows[0 .. rows.len - 1]) |row, previous| {
        if (row == previous) return damaged(report, "row {d} is deleted twice", .{row});
    }
}

fn walk(
    bytes: []const u8,
    shards: []const Range,
    context: anytype,
    comptime add: fn (@TypeOf(context), u64) void,
    report: *Report,
) Failure!void {
    if (bytes.len < start_bytes) return damaged(report, "only {d} bytes", .{bytes.len});
    if (bytes[0] != version and bytes[0] != version_of_file_rows) {
        report.setSection(section_name);
        return report.fail(error.Unsupported, "the deletion vectors have version {d}, this version reads {d} and {d}; " ++
            "update scx-core", .{ bytes[0], version, version_of_file_rows });
    }
    var of_file: ?Vector = null;
    var left = bytes[start_bytes..];
    const n_vectors = std.mem.readInt(u32, bytes[1..5], .little);
    for (0..n_vectors) |_| {
        if (left.len < vector_start_bytes) return damaged(report, "they end inside a vector", .{});
        const id = std.mem.readInt(u32, left[0..4], .little);
        const length = std.mem.readInt(u32, left[4..8], .little);
        left = left[vector_start_bytes..];
        if (length > left.len) return damaged(report, "they end inside the bitmap of {s} {d}", .{ if (countsFileRows(bytes)) "modality" else "shard", id });
        const one: Vector = .{ .shard_id = id, .bitmap = left[0..length] };
        left = left[length..];
        if (countsFileRows(bytes)) {
            if (id > std.math.maxInt(u8)) return damaged(report, "they name modality {d}", .{id});
            if (id == 0) of_file = one;
            continue;
        }
        if (id >= shards.len) return damaged(report, "they name shard {d} of {d}", .{ id, shards.len });
        try walkVector(one, shards[id], context, add, report);
    }
    if (left.len > 0) return damaged(report, "{d} bytes lie behind the last vector", .{left.len});
    const vector = of_file orelse return;
    walkVector(vector, shards[0], context, add, report) catch |failure| switch (failure) {
        error.Corrupt => return damaged(report, "the bitmap is not one of the file's {d} rows", .{shards[0].end}),
        else => |other| return other,
    };
}

fn walkVector(
    vector: Vector,
    shard: Range,
    context: anytype,
    comptime add: fn (@TypeOf(context), u64) void,
    report: *Report,
) Failure!void {
    const Checker = struct {
        shard: Range,
        inner: @TypeOf(context),

        fn visit(checker: *const @This(), local_row: u32) roaring.Damaged!void {
            if (local_row >= checker.shard.end - checker.shard.start) return error.Damaged;
            add(checker.inner, checker.shard.start + local_row);
        }
    };
    const checker: Checker = .{ .shard = shard, .inner = context };
    roaring.walk(vector.bitmap, &checker, Checker.visit) catch |failure| switch (failure) {
        error.Damaged => return damaged(report, "the bitmap of shard {d} is not one of its {d} rows", .{
            vector.shard_id, shard.end - shard.start,
        }),
    };
}

fn damaged(report: *Report, comptime what: []const u8, args: anytype) Failure {
    report.setSection(section_name);
    return report.fail(error.Corrupt, "the deletion vectors are damaged: " ++ what, args);
}

pub fn serialize(allocator: Allocator, vectors: []const Vector) Allocator.Error![]u8 {
    var allocating: std.Io.Writer.Allocating = .init(allocator);
    defer allocating.deinit();
    write(&allocating.writer, vectors) catch return error.OutOfMemory;
    return allocating.toOwnedSlice();
}

fn write(writer: *std.Io.Writer, vectors: []const Vector) std.Io.Writer.Error!void {
    try writer.writeByte(version);
    try writer.writeInt(u32, @intCast(vectors.len), .little);
    for (vectors) |vector| {
        try writer.writeInt(u32, vector.shard_id, .little);
        try writer.writeInt(u32, @intCast(vector.bitmap.len), .little);
        try writer.writeAll(vector.bitmap);
    }
}

// ---- tests ----

const testing = std.testing;

/// {0, 2} and {1}
const bitmap_0_2 = "\x3a\x30\x00\x00\x01\x00\x00\x00" ++ "\x00\x00\x01\x00" ++ "\x10\x00\x00\x00" ++ "\x00\x00\x02\x00";
const bitmap_1 = "\x3a\x30\x00\x00\x01\x00\x00\x00" ++ "\x00\x00\x00\x00" ++ "\x10\x00\x00\x00" ++ "\x01\x00";
const two_shards = [_]Range{ .{ .start = 0, .end = 3 }, .{ .start = 3, .end = 5 } };

fn expectRows(vectors: []const Vector, shards: []const Range, expected: []const i64) !void {
    const bytes = try serialize(testing.allocator, vectors);
    defer testing.allocator.free(bytes);
    var report: Report = .{};
    var rows: [8]i64 = undefined;
    const n_rows: usize = @intCast(try count(bytes, shards, &report));
    try fill(bytes, shards, rows[0..n_rows], &report);
    try testing.expectEqualSlices(i64, expected, rows[0..n_rows]);
}

test "rows of shards become rows of the file, whatever the order of the shards" {
    const one: Vector = .{ .shard_id = 0, .bitmap = bitmap_0_2 };
    const other: Vector = .{ .shard_id = 1, .bitmap = bitmap_1 };
    try expectRows(&.{ one, other }, &two_shards, &.{ 0, 2, 4 });
    try expectRows(&.{ other, one }, &two_shards, &.{ 0, 2, 4 });
    try expectRows(&.{}, &two_shards, &.{});
}

test "vectors that cannot be are damage" {
    var report: Report = .{};
    const good = try serialize(testing.allocator, &.{.{ .shard_id = 1, .bitmap = bitmap_1 }});
    defer testing.allocator.free(good);
    for (0..good.len) |length| try testing.expectError(error.Corrupt, count(good[0..length], &two_shards, &report));
    for ([_][]const Vector{
        &.{.{ .shard_id = 2, .bitmap = bitmap_1 }}, // no such shard
        &.{.{ .shard_id = 1, .bitmap = bitmap_0_2 }}, // a row behind the shard
        &.{.{ .shard_id = 0, .bitmap = "" }},
    }) |vectors| {
        const bytes = try serialize(testing.allocator, vectors);
        defer testing.allocator.free(bytes);
        try testing.expectError(error.Corrupt, count(bytes, &two_shards, &report));
        try testing.expectEqualStrings(section_name, report.section[0..report.section_length]);
    }
    const again: Vector = .{ .shard_id = 0, .bitmap = bitmap_1 };
    const twice = try serialize(testing.allocator, &.{ again, again });
    defer testing.allocator.free(twice);
    var rows: [2]i64 = undefined;
    try testing.expectError(error.Corrupt, fill(twice, &two_shards, &rows, &report));
    good[0] = 3;
    try testing.expectError(error.Unsupported, count(good, &two_shards, &report));
}

test "version 2 counts rows of the file, and its last entry for all modalities counts" {
    var report: Report = .{};
    const file = [_]Range{.{ .start = 0, .end = 5 }};
    const start = "\x02\x03\x00\x00\x00";
    const all = "\x00\x00\x00\x00" ++ "\x14\x00\x00\x00" ++ bitmap_0_2;
    const of_modality = "\x01\x00\x00\x00" ++ "\x12\x00\x00\x00" ++ bitmap_1;
    const last = "\x00\x00\x00\x00" ++ "\x12\x00\x00\x00" ++ bitmap_1;
    var rows: [2]i64 = undefined;
    try testing.expect(countsFileRows(start));
    try testing.expectEqual(1, try count(start ++ all ++ last ++ of_modality, &file, &report));
    try fill(start ++ all ++ last ++ of_modality, &file, rows[0..1], &report);
    try testing.expectEqual(1, rows[0]);
    try testing.expectEqual(2, try count(start ++ last ++ of_modality ++ all, &file, &report));
    try fill(start ++ last ++ of_modality ++ all, &file, &rows, &report);
    try testing.expectEqualSlices(i64, &.{ 0, 2 }, &rows);

    const whole = start ++ all ++ last ++ of_modality;
    for (0..whole.len) |length| try testing.expectError(error.Corrupt, count(whole[0..length], &file, &report));
    try testing.expectError(error.Corrupt, count(whole ++ "x", &file, &report));
    const short = [_]Range{.{ .start = 0, .end = 1 }};
    try testing.expectError(error.Corrupt, count(whole, &short, &report)); // a row behind the last one
    try testing.expectError(error.Corrupt, count("\x02\x01\x00\x00\x00" ++ "\x00\x01\x00\x00" ++ "\x00\x00\x00\x00", &file, &report));
}

fn shardSection(section_type: SectionType, modality_id: u8, start: u64, end: u64) Section {
    return .{
        .name = "shard",
        .offset = 0,
        .length = 0,
        .section_type = section_type,
        .modality_id = modality_id,
        .blake3 = @splat(0),
        .stats = .{ .row_start = start, .row_end = end, .col_start = 0, .col_end = 1, .nnz = 0 },
    };
}

test "the ranges of X, else of the layers and raw, else one" {
    var report: Report = .{};
    const x = [_]Section{
        shardSection(.csr_shard, 1, 3, 5),     shardSection(.csr_shard, 1, 0, 3), shardSection(.csr_shard, 2, 0, 3),
        shardSection(.csr_shard, 2, 3, 5),     shardSection(.obs, 0, 0, 0),       shardSection(.layer_csr_shard, 1, 0, 4),
        shardSection(.raw_csr_shard, 0, 0, 1),
    };
    for ([_]struct { []const Section, u64, ?[]const Range }{
        .{ &x, 5, &two_shards },
        .{ x[4..6], 4, &.{.{ .start = 0, .end = 4 }} },
        .{ x[4..5], 7, &.{.{ .start = 0, .end = 7 }} },
        .{ &x, 6, null }, // the end is missing
        .{ x[0..1], 5, null }, // the start is
        .{ x[4..7], 4, null }, // overlapping
    }) |case| {
        const sections, const n_obs, const expected = case;
        const result = ranges(testing.allocator, sections, n_obs, &report);
        if (expected) |wanted| {
            const found = try result;
            defer testing.allocator.free(found);
            try testing.expectEqualSlices(Range, wanted, found);
        } else try testing.expectError(error.Unsupported, result);
    }
}
