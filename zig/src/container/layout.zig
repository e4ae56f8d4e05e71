//! The fixed parts of a file: the header of 256 bytes and the root catalog behind it.
//!
//!      0  header, 256 bytes
//!    256  root catalog, padded with zeros to 4096 bytes
//!   4352  sections, each at a multiple of 8
//!    ...  full catalog
//!
//! Everything is little-endian and packed, so the header is described by its offsets: the struct below has
//! alignment 1 throughout and the comptime block holds each field to its place.

const std = @import("std");
const builtin = @import("builtin");
const assert = std.debug.assert;
const errors = @import("../errors.zig");
const section_types = @import("section_types.zig");
const SectionType = section_types.SectionType;
const Failure = errors.Failure;
const Report = errors.Report;

comptime {
    // Fields are read in place from the map.
    assert(builtin.cpu.arch.endian() == .little);
}

pub const magic = "SCX\x01";
pub const header_bytes = 256;
pub const root_catalog_offset = 256;
pub const root_catalog_bytes_max = 4096;
pub const sections_offset = root_catalog_offset + root_catalog_bytes_max;
pub const section_alignment = 8;
pub const shard_target_rows_default = 16_384;
/// The newest format that is read.
pub const format_version_max = 4;
/// Sections are named in the catalog with a u16; names of one kilobyte are far beyond any real key.
pub const section_name_bytes_max = 1024;

/// Written: rows are canonical, so at least 3; 4 once a shard is framed into row groups.
pub const format_version_canonical = 3;
pub const format_version_framed = 4;

pub const Flags = packed struct(u32) {
    csc: bool = false,
    bitmap: bool = false,
    obsm: bool = false,
    obsp: bool = false,
    unassigned_4: bool = false,
    deletion_vectors: bool = false,
    front_catalog: bool = false,
    modalities: bool = false,
    raw: bool = false,
    unassigned: u23 = 0,

    /// A set bit without a meaning is a feature that this version does not know.
    pub fn allKnown(flags: Flags) bool {
        return !flags.unassigned_4 and flags.unassigned == 0;
    }
};

pub const Header = extern struct {
    magic: [4]u8 = magic.*,
    format_version: u16 align(1) = format_version_canonical,
    header_length: u16 align(1) = header_bytes,
    flags: u32 align(1) = 0,
    n_obs: u64 align(1) = 0,
    n_vars: u64 align(1) = 0,
    nnz: u64 align(1) = 0,
    n_csr_shards: u32 align(1) = 0,
    n_csc_shards: u32 align(1) = 0,
    shard_target_rows: u32 align(1) = shard_target_rows_default,
    /// A hint, as index_dtype is: each shard's own header decides.
    codec_id: u8 = 0,
    index_dtype: u8 = index_dtype_u32,
    endian: u8 = endian_little,
    reserved_byte: u8 = 0,
    root_catalog_offset: u64 align(1) = root_catalog_offset,
    root_catalog_length: u64 align(1) = 0,
    full_catalog_offset: u64 align(1) = 0,
    full_catalog_length: u64 align(1) = 0,
    manifest_sequence: u64 align(1) = 0,
    prev_catalog_offset: u64 align(1) = 0,
    file_checksum: u64 align(1) = 0,
    front_catalog_offset: u64 align(1) = 0,
    front_catalog_length: u64 align(1) = 0,
    n_modalities: u32 align(1) = 0,
    modality_table_offset: u64 align(1) = 0,
    modality_table_length: u64 align(1) = 0,
    /// Written as zeros; what later versions put there must be announced by a flag or a version.
    reserved: [112]u8 = @splat(0),

    pub const index_dtype_u16 = 0;
    pub const index_dtype_u32 = 1;
    pub const endian_little = 0;

    pub fn flagSet(header: *const Header) Flags {
        return @bitCast(header.flags);
    }

    pub fn catalogRange(header: *const Header) Range {
        return .{ .offset = header.full_catalog_offset, .length = header.full_catalog_length };
    }

    pub fn asBytes(header: *const Header) *const [header_bytes]u8 {
        return @ptrCast(header);
    }
};

comptime {
    assert(@sizeOf(Header) == header_bytes);
    assert(@alignOf(Header) == 1);
    for (.{
        .{ "magic", 0 },                   .{ "format_version", 4 },          .{ "header_length", 6 },
        .{ "flags", 8 },                   .{ "n_obs", 12 },                  .{ "n_vars", 20 },
        .{ "nnz", 28 },                    .{ "n_csr_shards", 36 },           .{ "n_csc_shards", 40 },
        .{ "shard_target_rows", 44 },      .{ "codec_id", 48 },               .{ "index_dtype", 49 },
        .{ "endian", 50 },                 .{ "reserved_byte", 51 },          .{ "root_catalog_offset", 52 },
        .{ "root_catalog_length", 60 },    .{ "full_catalog_offset", 68 },    .{ "full_catalog_length", 76 },
        .{ "manifest_sequence", 84 },      .{ "prev_catalog_offset", 92 },    .{ "file_checksum", 100 },
        .{ "front_catalog_offset", 108 },  .{ "front_catalog_length", 116 },  .{ "n_modalities", 124 },
        .{ "modality_table_offset", 128 }, .{ "modality_table_length", 136 }, .{ "reserved", 144 },
    }) |place| {
        assert(@offsetOf(Header, place[0]) == place[1]);
    }
}

/// A range of the file. `end` is computed without overflow, `null` when there is none.
pub const Range = struct {
    offset: u64,
    length: u64,

    pub fn end(range: Range) ?u64 {
        return std.math.add(u64, range.offset, range.length) catch null;
    }

    pub fn isInside(range: Range, from: u64, to: u64) bool {
        const range_end = range.end() orelse return false;
        return range.offset >= from and range_end <= to;
    }

    pub fn overlaps(range: Range, other: Range) bool {
        const range_end = range.end() orelse return true;
        const other_end = other.end() orelse return true;
        return range.offset < other_end and other.offset < range_end;
    }
};

/// Where a section may start, at or behind `offset`.
pub fn alignSection(offset: u64) error{Overflow}!u64 {
    return (try std.math.add(u64, offset, section_alignment - 1)) / section_alignment * section_alignment;
}

/// Reads the header and checks all that can be checked without the catalog.
pub fn readHeader(bytes: []const u8, report: *Report) Failure!Header {
    if (bytes.len < magic.len or !std.mem.eql(u8, bytes[0..magic.len], magic)) {
        if (bytes.len < magic.len) {
            return report.fail(error.Truncated, "not an .scx file: only {d} bytes long", .{bytes.len});
        }
        return report.fail(error.Corrupt, "not an .scx file: it starts with '{f}' instead of 'SCX\\x01'", .{
            errors.escaped(bytes[0..magic.len]),
        });
    }
    if (bytes.len < sections_offset) {
        return report.fail(error.Truncated, "the file is cut off: {d} bytes, but header and root catalog alone " ++
            "take {d}; copy or convert it again", .{ bytes.len, sections_offset });
    }
    const header: Header = @as(*const Header, @ptrCast(bytes[0..header_bytes])).*;
    try checkHeader(&header, bytes.len, report);
    return header;
}

/// All but the magic.
pub fn checkHeader(header: *const Header, file_bytes: u64, report: *Report) Failure!void {
    try checkVersions(header, report);
    try checkRanges(header, file_bytes, report);
}

fn checkVersions(header: *const Header, report: *Report) Failure!void {
    if (header.format_version == 0) {
        return report.fail(error.Corrupt, "the header is damaged: format version 0 does not exist", .{});
    }
    if (header.format_version > format_version_max) {
        return report.fail(error.Unsupported, "the file has format version {d}, this version reads 1 to {d}; " ++
            "update scx-core", .{ header.format_version, format_version_max });
    }
    if (header.header_length != header_bytes) {
        return report.fail(error.Corrupt, "the header is damaged: it gives its own length as {d} instead of {d}", .{
            header.header_length, header_bytes,
        });
    }
    if (header.endian != Header.endian_little) {
        return report.fail(error.Unsupported, "the file is marked as big-endian (endian byte {d}); " ++
            "only little-endian files are supported", .{header.endian});
    }
    if (!header.flagSet().allKnown()) {
        return report.fail(error.Unsupported, "the file uses features that this version does not know " ++
            "(flags 0x{x:0>8}); update scx-core", .{header.flags});
    }
}

fn checkRanges(header: *const Header, file_bytes: u64, report: *Report) Failure!void {
    if (header.root_catalog_offset != root_catalog_offset or header.root_catalog_length > root_catalog_bytes_max) {
        return report.fail(error.Corrupt, "the header is damaged: root catalog at {d}, {d} bytes long", .{
            header.root_catalog_offset, header.root_catalog_length,
        });
    }
    const catalog = header.catalogRange();
    try checkRange("catalog", catalog, file_bytes, report);
    const front: Range = .{ .offset = header.front_catalog_offset, .length = header.front_catalog_length };
    if (header.flagSet().front_catalog) {
        try checkRange("front catalog", front, file_bytes, report);
    } else if (front.offset != 0 or front.length != 0) {
        return report.fail(error.Corrupt, "the header is damaged: it places a front catalog but its flag is not set", .{});
    }
}

fn checkRange(comptime what: []const u8, range: Range, file_bytes: u64, report: *Report) Failure!void {
    const end = range.end() orelse {
        return report.fail(error.Corrupt, "the header is damaged: " ++ what ++ " at {d}, {d} bytes long", .{
            range.offset, range.length,
        });
    };
    if (range.offset < sections_offset or range.offset % section_alignment != 0) {
        return report.fail(error.Corrupt, "the header is damaged: " ++ what ++ " at {d}", .{range.offset});
    }
    if (end > file_bytes) {
        return report.fail(error.Truncated, "the file is cut off: its " ++ what ++ " should end at byte {d} but the " ++
            "file has {d} bytes; copy or convert it again", .{ end, file_bytes });
    }
}

// ---- root catalog ----

const root_group_bytes = 53;
const root_summary_bytes = 32;
/// Defined types and those of vendors together are fewer than fit.
const root_groups_max = (root_catalog_bytes_max - 2) / root_group_bytes;

comptime {
    assert(root_group_bytes == 1 + 8 + 8 + 4 + root_summary_bytes);
    const defined = @typeInfo(SectionType).@"enum".field_names.len;
    assert(defined + section_types.vendor_last - section_types.vendor_first + 1 <= root_groups_max);
}

/// Sections by type, in the order of the types' numbers: for a quick look at a file, reading never needs it.
pub const RootGroups = struct {
    groups: [256]Group = @splat(.{}),

    const Group = struct { first_offset: u64 = 0, total_length: u64 = 0, n_sections: u32 = 0, nnz: u64 = 0 };

    pub fn add(root: *RootGroups, section_type: u8, range: Range, nnz: u64) void {
        const group = &root.groups[section_type];
        if (group.n_sections == 0) group.first_offset = range.offset;
        group.total_length +|= range.length; // sections that overlap may add up to more than there are bytes
        group.n_sections += 1;
        group.nnz +|= nnz;
    }

    /// Fills the padded catalog and gives the bytes that are in use.
    pub fn write(root: *const RootGroups, target: *[root_catalog_bytes_max]u8) u64 {
        var n_groups: u16 = 0;
        for (&root.groups) |*group| n_groups += @intFromBool(group.n_sections > 0);
        // a later version's file may have sections of more types: the last ones are left out of the quick look
        n_groups = @min(n_groups, root_groups_max);
        target.* = @splat(0);
        var writer: std.Io.Writer = .fixed(target);
        root.writeTo(&writer, n_groups) catch unreachable; // n_groups fit
        return writer.end;
    }

    fn writeTo(root: *const RootGroups, writer: *std.Io.Writer, n_groups: u16) std.Io.Writer.Error!void {
        try writer.writeInt(u16, n_groups, .little);
        var left = n_groups;
        for (&root.groups, 0..) |*group, section_type| {
            if (group.n_sections == 0) continue;
            if (left == 0) return;
            left -= 1;
            try writer.writeByte(@intCast(section_type));
            try writer.writeInt(u64, group.first_offset, .little);
            try writer.writeInt(u64, group.total_length, .little);
            try writer.writeInt(u32, group.n_sections, .little);
            try writer.writeInt(u64, group.nnz, .little); // the summary: stored values, then nothing
            try writer.splatByteAll(0, root_summary_bytes - 8);
        }
    }
};

test "the header is what its offsets say" {
    const header: Header = .{ .n_obs = 0x1122334455667788, .file_checksum = 0x99AABBCCDDEEFF00, .flags = @bitCast(Flags{ .raw = true }) };
    const bytes = header.asBytes();
    try std.testing.expectEqualSlices(u8, "SCX\x01\x03\x00\x00\x01\x00\x01\x00\x00", bytes[0..12]);
    try std.testing.expectEqualSlices(u8, "\x88\x77\x66\x55\x44\x33\x22\x11", bytes[12..20]);
    try std.testing.expectEqualSlices(u8, "\x00\xFF\xEE\xDD\xCC\xBB\xAA\x99", bytes[100..108]);
}

test "every range that a header gives is checked" {
    const good: Header = .{ .root_catalog_length = 2, .full_catalog_offset = sections_offset, .full_catalog_length = 64 };
    var front = good;
    front.flags = @bitCast(Flags{ .front_catalog = true });
    front.front_catalog_offset = sections_offset + 8;
    front.front_catalog_length = 56;
    const Case = struct { Header, []const u8, u64, ?Failure };
    for ([_]Case{
        .{ good, "full_catalog_offset", sections_offset, null },
        .{ front, "front_catalog_length", 56, null },
        .{ good, "full_catalog_offset", sections_offset + 4, error.Corrupt }, // not a multiple of 8
        .{ good, "full_catalog_offset", sections_offset - 8, error.Corrupt }, // in the root catalog
        .{ good, "full_catalog_offset", std.math.maxInt(u64) - 7, error.Corrupt }, // the end overflows
        .{ good, "full_catalog_length", 65, error.Truncated },
        .{ good, "root_catalog_offset", 264, error.Corrupt },
        .{ good, "root_catalog_length", root_catalog_bytes_max + 1, error.Corrupt },
        .{ good, "front_catalog_offset", sections_offset, error.Corrupt }, // without its flag
        .{ good, "front_catalog_length", 8, error.Corrupt },
        .{ front, "front_catalog_length", 57, error.Truncated },
        .{ front, "front_catalog_offset", 8, error.Corrupt },
        .{ good, "header_length", 255, error.Corrupt },
        .{ good, "format_version", 0, error.Corrupt },
        .{ good, "format_version", format_version_max + 1, error.Unsupported },
        .{ good, "endian", 1, error.Unsupported },
        .{ good, "flags", 1 << 4, error.Unsupported },
        .{ good, "flags", 1 << 9, error.Unsupported },
    }) |case| {
        var header, const field, const value, const failure = case;
        inline for (@typeInfo(Header).@"struct".field_names) |name| {
            if (@typeInfo(@FieldType(Header, name)) == .int and std.mem.eql(u8, name, field)) @field(header, name) = @intCast(value);
        }
        var bytes: [sections_offset + 64]u8 = @splat(0);
        bytes[0..header_bytes].* = header.asBytes().*;
        var report: Report = .{};
        const result = readHeader(&bytes, &report);
        if (failure) |expected| {
            try std.testing.expectError(expected, result);
            try std.testing.expect(report.message_length > 0);
        } else _ = try result;
        try std.testing.expectError(error.Truncated, readHeader(bytes[0 .. sections_offset - 1], &report));
    }
}

test "ranges do not overflow" {
    const last: Range = .{ .offset = std.math.maxInt(u64), .length = 1 };
    try std.testing.expectEqual(null, last.end());
    try std.testing.expect(!last.isInside(0, std.math.maxInt(u64)));
    try std.testing.expect(last.overlaps(.{ .offset = 0, .length = 1 }));
    const first: Range = .{ .offset = 0, .length = 8 };
    try std.testing.expect(!first.overlaps(.{ .offset = 8, .length = 8 }));
    try std.testing.expect(first.overlaps(.{ .offset = 7, .length = 8 }));
    try std.testing.expectError(error.Overflow, alignSection(std.math.maxInt(u64)));
    try std.testing.expectEqual(@as(u64, 16), try alignSection(9));
}

test "root catalog: one group a type, padded with zeros" {
    var root: RootGroups = .{};
    root.add(7, .{ .offset = 5000, .length = 10 }, 3);
    root.add(0, .{ .offset = 4352, .length = 1 }, 0);
    root.add(7, .{ .offset = 6000, .length = 20 }, 4);
    var bytes: [root_catalog_bytes_max]u8 = undefined;
    try std.testing.expectEqual(@as(u64, 2 + 2 * 53), root.write(&bytes));
    try std.testing.expectEqualSlices(u8, &.{ 2, 0, 0, 0x00, 0x11 }, bytes[0..5]); // two groups; obs at 4352
    const layer = bytes[2 + 53 ..][0..53];
    try std.testing.expectEqualSlices(u8, &.{ 7, 0x88, 0x13, 0, 0, 0, 0, 0, 0, 30, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 7 }, layer[0..22]);
    try std.testing.expect(std.mem.allEqual(u8, bytes[2 + 2 * 53 ..], 0));
}

test "root catalog: of more types than there is room for, the first ones" {
    var root: RootGroups = .{};
    for (0..256) |section_type| root.add(@intCast(section_type), .{ .offset = 4352, .length = std.math.maxInt(u64) }, 1);
    root.add(3, .{ .offset = 4352, .length = 8 }, 1);
    var bytes: [root_catalog_bytes_max]u8 = undefined;
    const length: usize = @intCast(root.write(&bytes));
    try std.testing.expectEqual(2 + root_groups_max * root_group_bytes, length);
    try std.testing.expectEqual(root_groups_max, std.mem.readInt(u16, bytes[0..2], .little));
    for (0..root_groups_max) |place| try std.testing.expectEqual(place, bytes[2 + place * root_group_bytes]);
    // lengths that overlap do not run over
    try std.testing.expectEqual(std.math.maxInt(u64), std.mem.readInt(u64, bytes[2 + 3 * root_group_bytes + 9 ..][0..8], .little));
}
