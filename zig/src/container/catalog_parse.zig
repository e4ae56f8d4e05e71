//! Reading a catalog: checked in full before any of it is used.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Blake3 = std.crypto.hash.Blake3;
const catalog_format = @import("catalog.zig");
const errors = @import("../errors.zig");
const layout = @import("layout.zig");
const quoted = @import("quoted.zig");
const SectionType = @import("section_types.zig").SectionType;
const Catalog = catalog_format.Catalog;
const Failure = errors.Failure;
const Report = errors.Report;
const Section = catalog_format.Section;
const ShardStats = catalog_format.ShardStats;
const hash_bytes = catalog_format.hash_bytes;

/// What the header says and the entries are compared with.
pub const Context = struct {
    file_bytes: u64,
    catalog_range: layout.Range,
    n_vars: u64,
};

/// `bytes` is the catalog's range of the file and must stay as long as the result.
pub fn parse(allocator: Allocator, bytes: []const u8, context: Context, report: *Report) Failure!Catalog {
    report.setSection("catalog");
    if (bytes.len < catalog_format.catalog_bytes_min) return report.fail(error.Corrupt, "the catalog is damaged: only {d} bytes", .{
        bytes.len,
    });
    const body = bytes[0 .. bytes.len - hash_bytes];
    var hash: [hash_bytes]u8 = undefined;
    Blake3.hash(body, &hash, .{});
    if (!std.mem.eql(u8, &hash, bytes[body.len..])) {
        return report.fail(error.Corrupt, "the catalog is damaged: its BLAKE3 checksum does not match; " ++
            "copy or convert the file again", .{});
    }
    var cursor: Cursor = .{ .bytes = body };
    const catalog = parseBody(allocator, &cursor, context, report) catch |failure| switch (failure) {
        error.Ended => return report.fail(error.Corrupt, "the catalog contradicts itself: it ends inside an entry", .{}),
        else => |other| return other,
    };
    report.section_length = 0;
    return catalog;
}

const Ended = error{Ended};

fn parseBody(allocator: Allocator, cursor: *Cursor, context: Context, report: *Report) (Failure || Ended)!Catalog {
    const version = try cursor.int(u16);
    if (version == 0) return report.fail(error.Corrupt, "the catalog has version 0, which does not exist", .{});
    if (version > catalog_format.version_max) {
        return report.fail(error.Unsupported, "the catalog has version {d}, this version reads 1 to {d}; update scx-core", .{
            version, catalog_format.version_max,
        });
    }
    var catalog: Catalog = .{
        .version = version,
        .manifest_sequence = try cursor.int(u64),
        .prev_catalog_offset = try cursor.int(u64),
        .n_obs = try cursor.int(u64),
        .sections = &.{},
    };
    const n_entries = try cursor.int(u32);
    if (n_entries > cursor.left() / catalog_format.entry_bytes_min) {
        return report.fail(error.Corrupt, "the catalog promises {d} sections in {d} bytes", .{
            n_entries, cursor.left(),
        });
    }
    catalog.sections = try allocator.alloc(Section, n_entries);
    errdefer allocator.free(catalog.sections);

    for (catalog.sections) |*section| {
        section.* = try parseEntry(cursor, &catalog, context, report);
    }
    if (version >= 4 and cursor.left() == 16) {
        catalog.data_generation = try cursor.int(u64);
        catalog.csc_build_generation = try cursor.int(u64);
    }
    if (cursor.left() != 0) {
        return report.fail(error.Corrupt, "the catalog contradicts itself: {d} bytes lie behind its last entry", .{
            cursor.left(),
        });
    }
    return catalog;
}

fn parseEntry(cursor: *Cursor, catalog: *const Catalog, context: Context, report: *Report) (Failure || Ended)!Section {
    const entry_start = cursor.position;
    const name_length = try cursor.int(u16);
    const name = try cursor.take(name_length);
    report.setSection(name);
    if (name.len > layout.section_name_bytes_max or !std.unicode.utf8ValidateSlice(name)) {
        return report.fail(error.Corrupt, "the catalog names a section with {d} bytes that are no UTF-8 of at most {d} bytes", .{
            name.len, layout.section_name_bytes_max,
        });
    }
    var section: Section = .{
        .name = name,
        .offset = try cursor.int(u64),
        .length = try cursor.int(u64),
        .section_type = @fromBackingInt(try cursor.int(u8)),
        .blake3 = (try cursor.take(hash_bytes))[0..hash_bytes].*,
        .modality_id = 0,
        .stats = null,
    };
    if (catalog.version >= 2) section.modality_id = try cursor.int(u8);
    const stats_length = try cursor.int(u16);
    const stats_bytes = try cursor.take(stats_length);
    section.entry = cursor.bytes[entry_start..cursor.position];
    try checkPlace(&section, context, report);
    if (section.section_type.isShard() and stats_bytes.len > 0) {
        section.stats = parseStats(stats_bytes, section.section_type, catalog, context) catch |failure| switch (failure) {
            error.Ended => return report.fail(error.Corrupt, "the catalog's statistics of shard {f} are cut off", .{
                quoted.name(name),
            }),
        };
        try checkStats(&section, catalog.n_obs, context, report);
    }
    return section;
}

fn checkPlace(section: *const Section, context: Context, report: *Report) Failure!void {
    const range = section.range();
    const end = range.end() orelse {
        return report.fail(error.Corrupt, "the catalog places section {f} at {d}, {d} bytes long", .{
            quoted.name(section.name), section.offset, section.length,
        });
    };
    if (end > context.file_bytes) {
        return report.fail(error.Truncated, "the file is cut off: section {f} should end at byte {d} but the file has {d} " ++
            "bytes; copy or convert it again", .{ quoted.name(section.name), end, context.file_bytes });
    }
    if (section.offset < layout.sections_offset or section.offset % layout.section_alignment != 0 or
        (section.length > 0 and range.overlaps(context.catalog_range)))
    {
        return report.fail(error.Corrupt, "the catalog places section {f} at {d}, {d} bytes long: inside the header or " ++
            "the catalog, or not at a multiple of {d}", .{
            quoted.name(section.name), section.offset, section.length, layout.section_alignment,
        });
    }
}

fn parseStats(
    bytes: []const u8,
    section_type: SectionType,
    catalog: *const Catalog,
    context: Context,
) Ended!ShardStats {
    var cursor: Cursor = .{ .bytes = bytes };
    var stats: ShardStats = .{
        .row_start = try cursor.int(u64),
        .row_end = try cursor.int(u64),
        .col_start = 0,
        .col_end = context.n_vars,
        .nnz = undefined,
    };
    if (catalog.version >= 2) {
        stats.col_start = try cursor.int(u64);
        stats.col_end = try cursor.int(u64);
    } else if (section_type.isColumnShard()) {
        stats.col_start = stats.row_start;
        stats.col_end = stats.row_end;
        stats.row_start = 0;
        stats.row_end = catalog.n_obs;
    }
    stats.nnz = try cursor.int(u64);
    stats.value_min = try cursor.int(u32);
    stats.value_max = try cursor.int(u32);
    stats.value_sum = try cursor.int(u64);
    stats.n_indexed_columns = try cursor.int(u8);
    stats.indexed_columns = bytes[cursor.position..];
    try checkIndexedColumns(&cursor, stats.n_indexed_columns);
    return stats;
}

fn checkIndexedColumns(cursor: *Cursor, n_indexed_columns: u8) Ended!void {
    for (0..n_indexed_columns) |_| {
        const kind = try cursor.int(u8);
        _ = try cursor.int(u64); // the name's hash
        switch (kind) {
            0 => _ = try cursor.take(16),
            1 => _ = try cursor.take(try cursor.int(u16)),
            else => return error.Ended, // what follows has no known length
        }
    }
    if (cursor.left() != 0) return error.Ended;
}

fn checkStats(section: *const Section, n_obs: u64, context: Context, report: *Report) Failure!void {
    const stats = &section.stats.?;
    switch (catalog_format.judge(stats, n_obs)) {
        .good => {},
        .bad_range => return report.fail(error.Corrupt, "the catalog gives shard {f} the rows {d} to {d} of {d} and the columns " ++
            "{d} to {d}", .{
            quoted.name(section.name), stats.row_start, stats.row_end, n_obs, stats.col_start, stats.col_end,
        }),
        .too_many_values => {
            // early multimodal files leave it to var how many columns there are
            if (context.n_vars == 0 and section.modality_id > 0 and stats.col_end == 0) return;
            return report.fail(error.Corrupt, "the catalog gives shard {f} {d} stored values in {d} x {d} places", .{
                quoted.name(section.name),       stats.nnz,
                stats.row_end - stats.row_start, stats.col_end - stats.col_start,
            });
        },
    }
}

/// Reads little-endian numbers and never beyond the end.
const Cursor = struct {
    bytes: []const u8,
    position: usize = 0,

    fn left(cursor: *const Cursor) usize {
        return cursor.bytes.len - cursor.position;
    }

    fn take(cursor: *Cursor, length: usize) Ended![]const u8 {
        if (length > cursor.left()) return error.Ended;
        defer cursor.position += length;
        return cursor.bytes[cursor.position..][0..length];
    }

    fn int(cursor: *Cursor, comptime T: type) Ended!T {
        const bytes = try cursor.take(@sizeOf(T));
        return std.mem.readInt(T, bytes[0..@sizeOf(T)], .little);
    }
};

// ---- tests ----

const testing = std.testing;

/// Entries of every version, packed by hand.
const Packer = struct {
    bytes: std.ArrayList(u8) = .empty,

    fn int(packer: *Packer, comptime T: type, value: T) void {
        var buffer: [@sizeOf(T)]u8 = undefined;
        std.mem.writeInt(T, &buffer, value, .little);
        packer.bytes.appendSlice(testing.allocator, &buffer) catch unreachable;
    }

    fn start(packer: *Packer, version: u16, n_obs: u64, n_entries: u32) void {
        packer.int(u16, version);
        packer.int(u64, 6);
        packer.int(u64, 0);
        packer.int(u64, n_obs);
        packer.int(u32, n_entries);
    }

    fn entry(
        packer: *Packer,
        version: u16,
        name: []const u8,
        range: layout.Range,
        section_type: u8,
        stats: []const u64,
    ) void {
        packer.int(u16, @intCast(name.len));
        packer.bytes.appendSlice(testing.allocator, name) catch unreachable;
        packer.int(u64, range.offset);
        packer.int(u64, range.length);
        packer.int(u8, section_type);
        packer.bytes.appendSlice(testing.allocator, &@as([hash_bytes]u8, @splat(0xAB))) catch unreachable;
        if (version >= 2) packer.int(u8, 0);
        if (stats.len == 0) return packer.int(u16, 0);
        packer.int(u16, @intCast(stats.len * 8 + 17));
        for (stats) |value| packer.int(u64, value); // the ranges and nnz
        packer.int(u32, 1);
        packer.int(u32, 9);
        packer.int(u64, 20);
        packer.int(u8, 0);
    }

    fn seal(packer: *Packer) []const u8 {
        var hash: [hash_bytes]u8 = undefined;
        Blake3.hash(packer.bytes.items, &hash, .{});
        packer.bytes.appendSlice(testing.allocator, &hash) catch unreachable;
        return packer.bytes.items;
    }

    fn deinit(packer: *Packer) void {
        packer.bytes.deinit(testing.allocator);
    }
};

const test_context: Context = .{ .file_bytes = 10_000, .catalog_range = .{ .offset = 9000, .length = 1000 }, .n_vars = 50 };

test "versions 1 to 4 are read" {
    for (1..5) |number| {
        const version: u16 = @intCast(number);
        var packer: Packer = .{};
        defer packer.deinit();
        packer.start(version, 20, 3);
        const csr: []const u64 = if (version == 1) &.{ 0, 20, 77 } else &.{ 0, 20, 0, 50, 77 };
        const csc: []const u64 = if (version == 1) &.{ 10, 30, 5 } else &.{ 0, 20, 10, 30, 5 };
        packer.entry(version, "obs", .{ .offset = 4352, .length = 9 }, 0, &.{});
        packer.entry(version, "X_shard_0", .{ .offset = 4368, .length = 16 }, 4, csr);
        packer.entry(version, "X_csc_0", .{ .offset = 4384, .length = 16 }, 5, csc);
        if (version == 4) {
            packer.int(u64, 3);
            packer.int(u64, 2);
        }
        var report: Report = .{};
        var catalog = try parse(testing.allocator, packer.seal(), test_context, &report);
        defer catalog.deinit(testing.allocator);
        try testing.expectEqual(@as(u64, 6), catalog.manifest_sequence);
        try testing.expectEqual(null, catalog.sections[0].stats);
        const rows = catalog.sections[1].stats.?;
        try testing.expectEqual([5]u64{ 0, 20, 0, 50, 77 }, [5]u64{ rows.row_start, rows.row_end, rows.col_start, rows.col_end, rows.nnz });
        const columns = catalog.sections[2].stats.?;
        try testing.expectEqual([5]u64{ 0, 20, 10, 30, 5 }, [5]u64{ columns.row_start, columns.row_end, columns.col_start, columns.col_end, columns.nnz });
        try testing.expectEqual(@as(u64, if (version == 4) 3 else 0), catalog.data_generation);
    }
}

test "a catalog that contradicts itself is refused" {
    const Case = struct { range: layout.Range, section_type: u8 = 0, stats: []const u64 = &.{}, failure: Failure = error.Corrupt };
    const inside: layout.Range = .{ .offset = 4352, .length = 8 };
    const cases = [_]Case{
        .{ .range = .{ .offset = 4360, .length = 10_000 }, .failure = error.Truncated },
        .{ .range = .{ .offset = 1 << 63, .length = 1 << 63 } },
        .{ .range = .{ .offset = 0, .length = 8 } }, // the header
        .{ .range = .{ .offset = 4353, .length = 8 } }, // not a multiple of 8
        .{ .range = .{ .offset = 8992, .length = 9 } }, // reaches into the catalog
        .{ .range = inside, .section_type = 4, .stats = &.{ 4, 3, 0, 50, 0 } },
        .{ .range = inside, .section_type = 4, .stats = &.{ 0, 21, 0, 50, 0 } },
        .{ .range = inside, .section_type = 4, .stats = &.{ 0, 20, 9, 8, 0 } },
        .{ .range = inside, .section_type = 4, .stats = &.{ 0, 20, 0, 50, 1001 } },
        .{ .range = inside, .section_type = 4, .stats = &.{ 0, 20, 0 } }, // cut off
        .{ .range = inside, .section_type = 4, .stats = &.{ 0, 20, 0, 50, 0, 7 } }, // too long
    };
    for (cases) |case| {
        var packer: Packer = .{};
        defer packer.deinit();
        packer.start(2, 20, 1);
        packer.entry(2, "a", case.range, case.section_type, case.stats);
        var report: Report = .{};
        try testing.expectError(case.failure, parse(testing.allocator, packer.seal(), test_context, &report));
        try testing.expect(report.message_length > 0);
        try testing.expectEqualStrings("a", report.section[0..report.section_length]);
    }
}

test "counts and lengths beyond the bytes there are refused before they are used" {
    for ([_]u32{ 2, 1000, std.math.maxInt(u32) }) |n_entries| {
        var packer: Packer = .{};
        defer packer.deinit();
        packer.start(2, 20, n_entries);
        packer.entry(2, "a", .{ .offset = 4352, .length = 8 }, 0, &.{});
        var report: Report = .{};
        try testing.expectError(error.Corrupt, parse(testing.allocator, packer.seal(), test_context, &report));
    }
    var future: Packer = .{};
    defer future.deinit();
    future.start(5, 20, 0);
    var report: Report = .{};
    try testing.expectError(error.Unsupported, parse(testing.allocator, future.seal(), test_context, &report));
    try testing.expectError(error.Corrupt, parse(testing.allocator, "short", test_context, &report));
}
