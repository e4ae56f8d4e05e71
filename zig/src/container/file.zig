//! A file that is open for reading: mapped as a whole, its header and catalog checked, its sections in a list.
//!
//!   File.open(allocator, path, options, report) Failure!*File
//!   file.close() void                                       frees the file itself too
//!   file.bytes, .path, .header, .catalog, .sections, .modalities, .open_flags, .process_id
//!   file.find(section_type, modality_id, name) ?u32         an index into sections
//!   file.sectionBytes(index) []const u8                     as they are, nothing is checked
//!   file.verifySection(index, report) Failure!void          hashes, each time
//!   file.verifyOnce(index, report) Failure!void             hashes the first time, then remembers
//!   file.verifyChecksum(report) Failure!void                the whole file
//!   file.willNeed(range)                                    a hint that the range is read soon; waits for it if it can
//!   file.startReading(bytes)                                the same for a few bytes that are read next; does not wait
//!   file.forgetHead(index, length)                          a section's first bytes are not read again soon, until all are
//!   file.seemsResident(range) bool                          whether it is in memory, as far as a few pages tell
//!
//! Nothing but the verified marks changes after `open`, and those are atomic: threads may share a file.
//! The map shows the file that was opened even when a writer puts another in its place.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const errors = @import("../errors.zig");
const quoted = @import("quoted.zig");
const layout = @import("layout.zig");
const catalog_format = @import("catalog.zig");
const modality_table = @import("modality_table.zig");
const facts = @import("facts.zig");
const hashing = @import("hashing.zig");
const platform = @import("platform.zig");
const section_index = @import("section_index.zig");
const SectionType = @import("section_types.zig").SectionType;
const Failure = errors.Failure;
const Report = errors.Report;
const SectionIndex = section_index.SectionIndex;

pub const Section = catalog_format.Section;
pub const ShardStats = catalog_format.ShardStats;
pub const Modality = modality_table.Modality;

/// `SCX_OPEN_*` of scx.h.
pub const OpenFlags = packed struct(u32) {
    verify: bool = false,
    unassigned: u31 = 0,
};

pub const File = struct {
    allocator: Allocator,
    bytes: platform.Map,
    path: [:0]const u8,
    header: layout.Header,
    catalog: catalog_format.Catalog,
    /// `catalog.sections`; names point into the map.
    sections: []const Section,
    modalities: []const Modality,
    open_flags: OpenFlags,
    /// Of the process that opened it.
    process_id: u32,
    index: SectionIndex,
    marks: []std.atomic.Value(Mark),

    const Mark = enum(u8) { unchecked, good, bad };

    pub fn open(allocator: Allocator, path: []const u8, open_flags: OpenFlags, report: *Report) Failure!*File {
        if (path.len == 0 or std.mem.indexOfScalar(u8, path, 0) != null) {
            return report.fail(error.BadArgument, "the path is empty or contains a zero byte", .{});
        }
        if (open_flags.unassigned != 0) {
            return report.fail(error.BadArgument, "unknown open flags 0x{x}", .{@as(u32, @bitCast(open_flags))});
        }
        const file = try allocator.create(File);
        errdefer allocator.destroy(file);
        const own_path = try allocator.dupeSentinel(u8, path, 0);
        errdefer allocator.free(own_path);
        const bytes = try mapFile(own_path, report);
        errdefer platform.unmap(bytes);

        file.* = try parse(allocator, bytes, report);
        file.path = own_path;
        file.open_flags = open_flags;
        return file;
    }

    /// A file that lies in the caller's memory, which must outlive it; ended by `closeBorrowed`. For the fuzzer.
    pub fn fromBytes(allocator: Allocator, bytes: platform.Map, open_flags: OpenFlags, report: *Report) Failure!*File {
        const file = try allocator.create(File);
        errdefer allocator.destroy(file);
        file.* = try parse(allocator, bytes, report);
        file.path = "";
        file.open_flags = open_flags;
        return file;
    }

    pub fn closeBorrowed(file: *File) void {
        const allocator = file.allocator;
        file.freeTables();
        allocator.destroy(file);
    }

    /// Everything but the path and the open flags, from the bytes of a file.
    fn parse(allocator: Allocator, bytes: platform.Map, report: *Report) Failure!File {
        // Said before they are touched: the system reads megabytes around a page that is not in memory.
        platform.startReading(bytes[0..@min(bytes.len, layout.sections_offset)]);
        const header = layout.readHeader(bytes, report) catch |failure| return newerOrDamaged(bytes, failure, report);
        const catalog_range: layout.Range = .{ .offset = header.full_catalog_offset, .length = header.full_catalog_length };
        platform.startReading(slice(bytes, catalog_range));
        var catalog = try catalog_format.parse(allocator, slice(bytes, catalog_range), .{
            .file_bytes = bytes.len,
            .catalog_range = catalog_range,
            .n_vars = header.n_vars,
        }, report);
        errdefer catalog.deinit(allocator);
        const modalities = try readModalities(allocator, bytes, &header, catalog.sections, report);
        errdefer allocator.free(modalities);
        try facts.check(&header, &catalog, modalities, report);
        var index = try buildIndex(allocator, catalog.sections, report);
        errdefer index.deinit(allocator);
        const marks = try allocator.alloc(std.atomic.Value(Mark), catalog.sections.len);
        @memset(marks, .init(.unchecked));

        return .{
            .allocator = allocator,
            .bytes = bytes,
            .path = undefined,
            .header = header,
            .catalog = catalog,
            .sections = catalog.sections,
            .modalities = modalities,
            .open_flags = .{},
            .process_id = platform.processId(),
            .index = index,
            .marks = marks,
        };
    }

    /// A header that asks for what does not exist yet is either a later version's or damaged: its checksum tells.
    fn newerOrDamaged(bytes: platform.Map, failure: Failure, report: *Report) Failure {
        if (failure != error.Unsupported) return failure;
        const header: layout.Header = @as(*const layout.Header, @ptrCast(bytes[0..layout.header_bytes])).*;
        const range: layout.Range = .{ .offset = header.full_catalog_offset, .length = header.full_catalog_length };
        if (range.isInside(layout.sections_offset, bytes.len) and
            checksumOf(header, bytes[layout.root_catalog_offset..layout.sections_offset], bytes) == header.file_checksum) return failure;
        return report.fail(error.Corrupt, "the header is damaged: it names a version, a flag or a byte order that does " ++
            "not exist, and the file's checksum does not match; copy or convert the file again", .{});
    }

    pub fn close(file: *File) void {
        const allocator = file.allocator;
        file.freeTables();
        platform.unmap(file.bytes);
        allocator.free(file.path);
        allocator.destroy(file);
    }

    fn freeTables(file: *File) void {
        const allocator = file.allocator;
        allocator.free(file.marks);
        file.index.deinit(allocator);
        allocator.free(file.modalities);
        file.catalog.deinit(allocator);
    }

    pub fn find(file: *const File, section_type: SectionType, modality_id: u8, name: []const u8) ?u32 {
        return file.index.get(.{ .section_type = section_type, .modality_id = modality_id, .name = name });
    }

    pub fn sectionBytes(file: *const File, index: u32) []const u8 {
        return slice(file.bytes, file.sections[index].range());
    }

    /// Of longer sections the system sees that they are read from front to back.
    const read_at_once_max = 4 << 20;

    /// Compares a section's bytes with the hash in the catalog.
    pub fn verifySection(file: *File, index: u32, report: *Report) Failure!void {
        const section = &file.sections[index];
        const bytes = file.sectionBytes(index);
        platform.startReading(bytes[0..@min(bytes.len, read_at_once_max)]);
        const hash = hashing.hash(bytes);
        const good = std.mem.eql(u8, &hash, &section.blake3);
        file.marks[index].store(if (good) .good else .bad, .release);
        if (!good) return damaged(section, report);
    }

    /// The same, but a section that was hashed before is not hashed again.
    pub fn verifyOnce(file: *File, index: u32, report: *Report) Failure!void {
        return switch (file.marks[index].load(.acquire)) {
            .good => {},
            .bad => damaged(&file.sections[index], report),
            .unchecked => file.verifySection(index, report),
        };
    }

    fn damaged(section: *const Section, report: *Report) Failure {
        report.setSection(section.name);
        return report.fail(error.Corrupt, "section {f} is damaged: its {d} bytes at {d} do not match the BLAKE3 in the " ++
            "catalog; copy or convert the file again", .{ quoted.name(section.name), section.length, section.offset });
    }

    /// Hashes the file up to the end of its catalog and compares with the header.
    pub fn verifyChecksum(file: *const File, report: *Report) Failure!void {
        const root = file.bytes[layout.root_catalog_offset..layout.sections_offset];
        if (checksumOf(file.header, root, file.bytes) == file.header.file_checksum) return;
        if (file.isBeingChanged()) {
            var own_root: [layout.root_catalog_bytes_max]u8 = undefined;
            _ = facts.rootCatalog(file.sections, &own_root);
            if (checksumOf(file.header, &own_root, file.bytes) == file.header.file_checksum) return;
        }
        return report.fail(error.Corrupt, "the file is damaged: its checksum does not match the header", .{});
    }

    /// Whether the root catalog may be a later one than the header that was read: an appender writes it first. Then
    /// either something lies behind the catalog, or the header has become another one as well.
    fn isBeingChanged(file: *const File) bool {
        const catalog_end = file.header.full_catalog_offset + file.header.full_catalog_length;
        return file.bytes.len > catalog_end or
            !std.mem.eql(u8, file.bytes[0..layout.header_bytes], file.header.asBytes());
    }

    /// Of the header with its checksum field zero, the padded root catalog and everything up to the end of the catalog.
    fn checksumOf(header: layout.Header, root: *const [layout.root_catalog_bytes_max]u8, bytes: platform.Map) u64 {
        const end = header.full_catalog_offset + header.full_catalog_length;
        return checksum(header, root, &.{bytes[layout.sections_offset..@intCast(end)]});
    }

    /// What the header's `file_checksum` has to be; `rest` is all behind the root catalog.
    pub fn checksum(header_in: layout.Header, root: *const [layout.root_catalog_bytes_max]u8, rest: []const []const u8) u64 {
        var hasher: hashing.Blake3 = .init(.{});
        var header = header_in;
        header.file_checksum = 0;
        hashing.update(&hasher, header.asBytes());
        hashing.update(&hasher, root);
        for (rest) |piece| hashing.update(&hasher, piece);
        return hashing.finalShort(&hasher);
    }

    pub fn willNeed(file: *const File, range: layout.Range) void {
        platform.willNeed(slice(file.bytes, range));
    }

    pub fn startReading(_: *const File, bytes: []const u8) void {
        platform.startReading(bytes);
    }

    pub fn forgetHead(file: *const File, index: u32, length: usize) void {
        platform.forgetHead(file.sectionBytes(index), length);
    }

    pub fn seemsResident(file: *const File, range: layout.Range) bool {
        return platform.seemsResident(slice(file.bytes, range));
    }

    pub fn unknownSectionCount(file: *const File) u32 {
        var count: u32 = 0;
        for (file.sections) |*section| count += @intFromBool(!section.section_type.isKnown());
        return count;
    }
};

/// The range must lie inside: `open` has checked those of the header and of every section.
fn slice(bytes: []const u8, range: layout.Range) []const u8 {
    assert(range.isInside(0, bytes.len));
    return bytes[@intCast(range.offset)..][0..@intCast(range.length)];
}

fn mapFile(path: [:0]const u8, report: *Report) Failure!platform.Map {
    const errno = &report.os_error;
    const handle = platform.openForReading(path, errno) catch {
        return platform.fail(report, "cannot open {f}", .{quoted.path(path)});
    };
    defer platform.closeFile(handle); // the map stays

    const size = platform.sizeOfRegularFile(handle, errno) catch {
        return platform.fail(report, "cannot open {f}", .{quoted.path(path)});
    };
    if (size == 0) return report.fail(error.Truncated, "{f} is empty (0 bytes): not an .scx file", .{
        quoted.path(path),
    });
    return platform.map(handle, size, errno) catch {
        return platform.fail(report, "cannot map {f} of {d} bytes", .{ quoted.path(path), size });
    };
}

fn readModalities(
    allocator: Allocator,
    bytes: []const u8,
    header: *const layout.Header,
    sections: []const Section,
    report: *Report,
) Failure![]Modality {
    const found = findModalityTable(sections) orelse {
        if (header.n_modalities != 0 or header.modality_table_offset != 0 or header.modality_table_length != 0) {
            return report.fail(error.Corrupt, "the header is damaged: it places a modality table, but the catalog has none", .{});
        }
        return allocator.alloc(Modality, 0);
    };
    if (found.offset != header.modality_table_offset or found.length != header.modality_table_length) {
        return report.fail(error.Corrupt, "the header is damaged: the modality table is not where the catalog has it", .{});
    }
    return modality_table.parse(allocator, slice(bytes, found.range()), report);
}

fn findModalityTable(sections: []const Section) ?*const Section {
    for (sections) |*section| {
        if (section.section_type == .modality_table) return section;
    }
    return null;
}

fn buildIndex(allocator: Allocator, sections: []const Section, report: *Report) Failure!SectionIndex {
    var duplicate: u32 = undefined;
    return section_index.build(allocator, sections, &duplicate) catch |failure| switch (failure) {
        error.OutOfMemory => error.OutOfMemory,
        error.Duplicate => {
            const name = sections[duplicate].name;
            report.setSection(name);
            return report.fail(error.Corrupt, "the catalog lists section {f} twice", .{quoted.name(name)});
        },
    };
}

// ---- tests ----

const testing = std.testing;
const testing_files = @import("testing_files.zig");

fn releaseParsed(file: *File, allocator: Allocator) void {
    allocator.free(file.marks);
    file.index.deinit(allocator);
    allocator.free(file.modalities);
    file.catalog.deinit(allocator);
}

/// Header fields that no reader depends on; everything else must be noticed when it changes.
fn isHarmless(offset: usize) bool {
    return switch (offset) {
        4, 5 => true, // format_version: each shard says itself how it is built
        44...51 => true, // hints
        60, 61 => true, // the root catalog's length, within its bounds
        100...107 => true, // file_checksum: compared by validation
        144...layout.sections_offset - 1 => true, // reserved, and the root catalog
        else => false,
    };
}

test "a flipped byte anywhere gives an error or the same list of sections" {
    inline for (.{ .single, .multimodal }) |kind| {
        var folder: testing_files.Folder = .create();
        defer folder.remove();
        var report: Report = .{};
        try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), kind, &report);
        const written = try folder.read("a.scx");
        defer testing.allocator.free(written);
        const bytes = try testing_files.aligned(testing.allocator, written);
        defer testing.allocator.free(bytes);
        var original: File = try .parse(testing.allocator, bytes, &report);
        defer releaseParsed(&original, testing.allocator);
        const sections_end = original.header.full_catalog_offset;

        for (0..bytes.len) |offset| {
            for ([_]u8{ 0x01, 0x80, 0xFF }) |mask| {
                bytes[offset] ^= mask;
                defer bytes[offset] ^= mask;
                var changed: File = File.parse(testing.allocator, bytes, &report) catch |failure| {
                    try testing.expect(failure == error.Corrupt or failure == error.Truncated or failure == error.Unsupported);
                    continue;
                };
                defer releaseParsed(&changed, testing.allocator);
                const in_section = offset >= layout.sections_offset and offset < sections_end;
                try testing.expect(in_section or isHarmless(offset));
                try testing.expectEqual(original.header.n_obs, changed.header.n_obs);
                try testing.expectEqual(original.header.n_vars, changed.header.n_vars);
                try testing.expectEqualDeep(original.sections, changed.sections);
                try testing.expectEqualDeep(original.modalities, changed.modalities);
            }
        }
    }
}

test "a flipped byte in a section is found by its hash and by the checksum" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .single, &report);
    const bytes = try folder.read("a.scx");
    defer testing.allocator.free(bytes);
    {
        const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{ .verify = true }, &report);
        defer file.close();
        for (0..file.sections.len) |index| try file.verifyOnce(@intCast(index), &report);
        try file.verifyChecksum(&report);
    }
    bytes[layout.sections_offset + 2] ^= 0x10; // in obs
    try folder.put("b.scx", bytes);
    const file: *File = try .open(testing.allocator, folder.path("b.scx"), .{}, &report);
    defer file.close();
    const obs = file.find(.obs, 0, "obs").?;
    for (0..2) |_| try testing.expectError(error.Corrupt, file.verifyOnce(obs, &report));
    try testing.expectEqualStrings("obs", report.section[0..report.section_length]);
    try testing.expectError(error.Corrupt, file.verifyChecksum(&report));
    try file.verifyOnce(file.find(.csr_shard, 0, "X_shard_0").?, &report);
}

test "a file cut anywhere is refused" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .multimodal, &report);
    const written = try folder.read("a.scx");
    defer testing.allocator.free(written);
    const bytes = try testing_files.aligned(testing.allocator, written);
    defer testing.allocator.free(bytes);
    for (1..bytes.len) |length| {
        try testing.expectError(error.Truncated, File.parse(testing.allocator, bytes[0..length], &report));
    }
    // What an interrupted append leaves behind the catalog does no harm.
    const longer = try testing.allocator.alignedAlloc(u8, .fromByteUnits(platform.page_bytes_min), bytes.len + 100);
    defer testing.allocator.free(longer);
    @memset(longer, 0x55);
    @memcpy(longer[0..bytes.len], bytes);
    var file: File = try .parse(testing.allocator, longer, &report);
    releaseParsed(&file, testing.allocator);
}

fn openAndClose(allocator: Allocator, path: []const u8) !void {
    var report: Report = .{};
    const file: *File = try .open(allocator, path, .{}, &report);
    file.close();
}

test "opening fails cleanly at every allocation" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const path = folder.path("a.scx");
    try testing_files.writeSmall(testing.allocator, path, .multimodal, &report);
    try testing.checkAllAllocationFailures(testing.allocator, openAndClose, .{path});
}

test "what is listed of a multimodal file" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .multimodal, &report);
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer file.close();
    try testing.expectEqual(@as(usize, 2), file.modalities.len);
    try testing.expectEqualStrings("atac", file.modalities[1].name);
    try testing.expectEqual(@as(u64, 10), file.modalities[1].nnz);
    try testing.expectEqual(@as(u32, 2), file.modalities[0].n_csr_shards);
    try testing.expectEqual(@as(u64, 19), file.header.nnz);
    try testing.expectEqual(@as(u32, 1), file.unknownSectionCount());
    try testing.expectEqual(null, file.find(.csr_shard, 0, "X_shard_0"));
    const index = file.find(.csr_shard, 2, "X_shard_0").?;
    try testing.expect(std.mem.endsWith(u8, file.sectionBytes(index), "third"));
    try testing.expect(file.find(.modality_table, 0, "modality_table") != null);
}

test "what is no file is refused by its kind" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try folder.put("empty", "");
    try folder.put("text", "this is no such file");
    const Case = struct { []const u8, Failure, platform.Errno };
    for ([_]Case{
        .{ "missing", error.InputOutput, .no_entry },
        .{ "", error.InputOutput, .is_folder },
        .{ "empty", error.Truncated, @fromBackingInt(0) },
        .{ "text", error.Corrupt, @fromBackingInt(0) },
    }) |case| {
        const name, const failure, const errno = case;
        report = .{};
        try testing.expectError(failure, File.open(testing.allocator, folder.path(name), .{}, &report));
        try testing.expectEqual(@backingInt(errno), report.os_error);
        try testing.expect(report.message_length > 0);
    }
    try testing.expectError(error.BadArgument, File.open(testing.allocator, "", .{}, &report));
    try testing.expectError(error.BadArgument, File.open(testing.allocator, "a\x00b", .{}, &report));
    try testing.expectError(error.BadArgument, File.open(testing.allocator, "a", @bitCast(@as(u32, 2)), &report));
}

test "a reader keeps the content it opened when the file is replaced" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .single, &report);
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer file.close();
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .multimodal, &report);
    try file.verifyChecksum(&report);
    try testing.expectEqual(@as(usize, 0), file.modalities.len);
}
