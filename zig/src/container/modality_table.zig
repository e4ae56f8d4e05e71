//! The modality table: what each modality of a multimodal file is called and holds.
//!
//!   u32 "MTBL", u16 version 1, u16 n_modalities
//!   per modality: u8 name_length (1 to 64), name, u8 modality_type, u8 codec_id, u8 value_encoding, u8 0,
//!                 u64 n_vars, u64 nnz, u32 n_csr_shards, u32 n_csc_shards, u8 flags, 7 zero bytes
//!   u32: BLAKE3 of all before it, cut to 4 bytes
//!
//! A modality's id is its place in the table, counted from 1; id 0 is what all share.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const Blake3 = std.crypto.hash.Blake3;
const errors = @import("../errors.zig");
const quoted = @import("quoted.zig");
const Failure = errors.Failure;
const Report = errors.Report;

pub const Modality = struct {
    name: []const u8,
    modality_type: u8,
    codec_id: u8,
    value_encoding: u8,
    n_vars: u64,
    nnz: u64 = 0,
    n_csr_shards: u32 = 0,
    n_csc_shards: u32 = 0,
    flags: u8 = 0,
};

pub const section_name = "modality_table";
pub const name_bytes_max = 64;
/// A section's modality id is one byte and 0 is taken.
pub const modalities_max = 255;

const magic = "MTBL";
const version = 1;
const start_bytes = magic.len + 2 + 2;
const entry_bytes_after_name = 4 + 8 + 8 + 4 + 4 + 1 + 7;
const checksum_bytes = 4;

/// Names point into `bytes`. The table carries its own checksum, so opening need not hash the section.
pub fn parse(allocator: Allocator, bytes: []const u8, report: *Report) Failure![]Modality {
    report.setSection(section_name);
    if (bytes.len < start_bytes + checksum_bytes or !std.mem.eql(u8, bytes[0..magic.len], magic)) {
        return report.fail(error.Corrupt, "the modality table is damaged: it does not start with 'MTBL'", .{});
    }
    const body = bytes[0 .. bytes.len - checksum_bytes];
    if (!std.mem.eql(u8, &checksum(body), bytes[body.len..])) {
        return report.fail(error.Corrupt, "the modality table is damaged: its checksum does not match", .{});
    }
    const found_version = std.mem.readInt(u16, body[4..6], .little);
    if (found_version != version) {
        return report.fail(error.Unsupported, "the modality table has version {d}, this version reads {d}; update scx-core", .{
            found_version, version,
        });
    }
    const n_modalities = std.mem.readInt(u16, body[6..8], .little);
    if (n_modalities == 0 or n_modalities > modalities_max) {
        return report.fail(error.Corrupt, "the modality table promises {d} modalities", .{n_modalities});
    }
    const modalities = try allocator.alloc(Modality, n_modalities);
    errdefer allocator.free(modalities);

    var rest = body[start_bytes..];
    for (modalities, 0..) |*modality, index| {
        modality.* = try parseOne(&rest, report);
        if (find(modalities[0..index], modality.name) != null) {
            return report.fail(error.Corrupt, "the modality table names {f} twice", .{quoted.name(modality.name)});
        }
    }
    if (rest.len != 0) return report.fail(error.Corrupt, "the modality table is longer than its entries", .{});
    report.section_length = 0;
    return modalities;
}

fn parseOne(rest: *[]const u8, report: *Report) Failure!Modality {
    const bytes = rest.*;
    const name_length: usize = if (bytes.len > 0) bytes[0] else 0;
    if (name_length == 0 or name_length > name_bytes_max or bytes.len < 1 + name_length + entry_bytes_after_name) {
        return report.fail(error.Corrupt, "the modality table is damaged: it ends inside an entry", .{});
    }
    const name = bytes[1..][0..name_length];
    if (!std.unicode.utf8ValidateSlice(name)) {
        return report.fail(error.Corrupt, "the modality table holds the name {f}, which is not UTF-8", .{
            quoted.name(name),
        });
    }
    const fields = bytes[1 + name_length ..][0..entry_bytes_after_name];
    rest.* = bytes[1 + name_length + entry_bytes_after_name ..];
    return .{
        .name = name,
        .modality_type = fields[0],
        .codec_id = fields[1],
        .value_encoding = fields[2],
        .n_vars = std.mem.readInt(u64, fields[4..12], .little),
        .nnz = std.mem.readInt(u64, fields[12..20], .little),
        .n_csr_shards = std.mem.readInt(u32, fields[20..24], .little),
        .n_csc_shards = std.mem.readInt(u32, fields[24..28], .little),
        .flags = fields[28],
    };
}

/// The index of the modality of that name.
pub fn find(modalities: []const Modality, name: []const u8) ?usize {
    for (modalities, 0..) |modality, index| {
        if (std.mem.eql(u8, modality.name, name)) return index;
    }
    return null;
}

/// The bytes of the table, the caller's to free.
pub fn serialize(allocator: Allocator, modalities: []const Modality) Allocator.Error![]u8 {
    assert(modalities.len > 0 and modalities.len <= modalities_max);
    var allocating: std.Io.Writer.Allocating = .init(allocator);
    defer allocating.deinit();

    writeBody(&allocating.writer, modalities) catch return error.OutOfMemory;
    const sum = checksum(allocating.written());
    allocating.writer.writeAll(&sum) catch return error.OutOfMemory;
    return allocating.toOwnedSlice();
}

fn writeBody(writer: *std.Io.Writer, modalities: []const Modality) std.Io.Writer.Error!void {
    try writer.writeAll(magic);
    try writer.writeInt(u16, version, .little);
    try writer.writeInt(u16, @intCast(modalities.len), .little);
    for (modalities) |modality| {
        assert(modality.name.len > 0 and modality.name.len <= name_bytes_max);
        try writer.writeByte(@intCast(modality.name.len));
        try writer.writeAll(modality.name);
        try writer.writeAll(&.{ modality.modality_type, modality.codec_id, modality.value_encoding, 0 });
        try writer.writeInt(u64, modality.n_vars, .little);
        try writer.writeInt(u64, modality.nnz, .little);
        try writer.writeInt(u32, modality.n_csr_shards, .little);
        try writer.writeInt(u32, modality.n_csc_shards, .little);
        try writer.writeByte(modality.flags);
        try writer.splatByteAll(0, 7);
    }
}

fn checksum(bytes: []const u8) [checksum_bytes]u8 {
    var hash: [checksum_bytes]u8 = undefined;
    Blake3.hash(bytes, &hash, .{}); // a shorter output is the start of the longer one
    return hash;
}

const testing = std.testing;

const two = [_]Modality{
    .{ .name = "rna", .modality_type = 0, .codec_id = 64, .value_encoding = 2, .n_vars = 300, .nnz = 1 << 33, .n_csr_shards = 4 },
    .{ .name = "prot\xc3\xa9in", .modality_type = 1, .codec_id = 0, .value_encoding = 3, .n_vars = 20, .nnz = 5, .n_csc_shards = 1, .flags = 1 },
};

fn roundTrip(allocator: Allocator) !void {
    const bytes = try serialize(allocator, &two);
    defer allocator.free(bytes);
    var report: Report = .{};
    const read = try parse(allocator, bytes, &report);
    defer allocator.free(read);
    try testing.expectEqualDeep(@as([]const Modality, &two), read);
}

test "the table is read as it was written, whatever allocation fails" {
    try roundTrip(testing.allocator);
    try testing.checkAllAllocationFailures(testing.allocator, roundTrip, .{});
}

test "a table of 8 + 2 entries + 4 bytes, its fields in place" {
    const bytes = try serialize(testing.allocator, &two);
    defer testing.allocator.free(bytes);
    try testing.expectEqual(@as(usize, 8 + 2 * (1 + 36) + 3 + 8 + 4), bytes.len);
    try testing.expectEqualSlices(u8, "MTBL\x01\x00\x02\x00\x03rna\x00\x40\x02\x00\x2c\x01\x00", bytes[0..19]);
}

test "any byte changed is noticed; under a fitting checksum nothing crashes" {
    const bytes = try serialize(testing.allocator, &two);
    defer testing.allocator.free(bytes);
    const body = bytes[0 .. bytes.len - checksum_bytes];
    for (bytes) |*byte| {
        byte.* ^= 0x81;
        defer byte.* ^= 0x81;
        var report: Report = .{};
        try testing.expectError(error.Corrupt, parse(testing.allocator, bytes, &report));
    }
    for (body) |*byte| {
        byte.* ^= 0x81;
        defer byte.* ^= 0x81;
        bytes[body.len..][0..checksum_bytes].* = checksum(body);
        var report: Report = .{};
        const read = parse(testing.allocator, bytes, &report) catch continue;
        testing.allocator.free(read);
    }
    for (0..bytes.len) |length| {
        var report: Report = .{};
        try testing.expectError(error.Corrupt, parse(testing.allocator, bytes[0..length], &report));
    }
}

test "a table that is longer than its entries, or has none, is refused" {
    const bytes = try serialize(testing.allocator, &two);
    defer testing.allocator.free(bytes);
    const longer = try testing.allocator.alloc(u8, bytes.len + 1);
    defer testing.allocator.free(longer);
    @memcpy(longer[0 .. bytes.len - checksum_bytes], bytes[0 .. bytes.len - checksum_bytes]);
    longer[bytes.len - checksum_bytes] = 0;
    longer[bytes.len + 1 - checksum_bytes ..][0..checksum_bytes].* = checksum(longer[0 .. bytes.len + 1 - checksum_bytes]);
    var report: Report = .{};
    try testing.expectError(error.Corrupt, parse(testing.allocator, longer, &report));

    var none: [12]u8 = "MTBL\x01\x00\x00\x00....".*;
    none[8..12].* = checksum(none[0..8]);
    try testing.expectError(error.Corrupt, parse(testing.allocator, &none, &report));
    var future: [12]u8 = "MTBL\x02\x00\x01\x00....".*;
    future[8..12].* = checksum(future[0..8]);
    try testing.expectError(error.Unsupported, parse(testing.allocator, &future, &report));
}

test "the same name twice is refused" {
    const doubled = [_]Modality{ two[0], two[0] };
    const bytes = try serialize(testing.allocator, &doubled);
    defer testing.allocator.free(bytes);
    var report: Report = .{};
    try testing.expectError(error.Corrupt, parse(testing.allocator, bytes, &report));
    try testing.expectEqual(@as(?usize, 1), find(&two, "prot\xc3\xa9in"));
    try testing.expectEqual(@as(?usize, null), find(&two, "atac"));
}
