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
//!   file.willNeed(range)                                    a hint that the range is read soon
//!
//! Nothing but the verified marks changes after `open`, and those are atomic: threads may share a file.
//! The map shows the file that was opened even when a writer puts another in its place.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const Blake3 = std.crypto.hash.Blake3;
const errors = @import("../errors.zig");
const layout = @import("layout.zig");
const catalog_format = @import("catalog.zig");
const modality_table = @import("modality_table.zig");
const facts = @import("facts.zig");
const platform = @import("platform.zig");
const SectionType = @import("section_types.zig").SectionType;
const Failure = errors.Failure;
const Report = errors.Report;

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
    index: Index,
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

    /// Everything but the path and the open flags, from the bytes of a file.
    fn parse(allocator: Allocator, bytes: platform.Map, report: *Report) Failure!File {
        const header = try layout.readHeader(bytes, report);
        const catalog_range: layout.Range = .{ .offset = header.full_catalog_offset, .length = header.full_catalog_length };
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

    pub fn close(file: *File) void {
        const allocator = file.allocator;
        allocator.free(file.marks);
        file.index.deinit(allocator);
        allocator.free(file.modalities);
        file.catalog.deinit(allocator);
        platform.unmap(file.bytes);
        allocator.free(file.path);
        allocator.destroy(file);
    }

    pub fn find(file: *const File, section_type: SectionType, modality_id: u8, name: []const u8) ?u32 {
        return file.index.get(.{ .section_type = section_type, .modality_id = modality_id, .name = name });
    }

    pub fn sectionBytes(file: *const File, section_index: u32) []const u8 {
        return slice(file.bytes, file.sections[section_index].range());
    }

    /// Compares a section's bytes with the hash in the catalog.
    pub fn verifySection(file: *File, section_index: u32, report: *Report) Failure!void {
        const section = &file.sections[section_index];
        var hash: [catalog_format.hash_bytes]u8 = undefined;
        Blake3.hash(file.sectionBytes(section_index), &hash, .{});
        const good = std.mem.eql(u8, &hash, &section.blake3);
        file.marks[section_index].store(if (good) .good else .bad, .release);
        if (!good) return damaged(section, report);
    }

    /// The same, but a section that was hashed before is not hashed again.
    pub fn verifyOnce(file: *File, section_index: u32, report: *Report) Failure!void {
        return switch (file.marks[section_index].load(.acquire)) {
            .good => {},
            .bad => damaged(&file.sections[section_index], report),
            .unchecked => file.verifySection(section_index, report),
        };
    }

    fn damaged(section: *const Section, report: *Report) Failure {
        report.setSection(section.name);
        return report.fail(error.Corrupt, "section '{f}' is damaged: its {d} bytes at {d} do not match the BLAKE3 in the " ++
            "catalog; copy or convert the file again", .{ errors.escaped(section.name), section.length, section.offset });
    }

    /// Hashes the file up to the end of its catalog and compares with the header.
    pub fn verifyChecksum(file: *const File, report: *Report) Failure!void {
        const end = file.header.full_catalog_offset + file.header.full_catalog_length;
        var hasher: Blake3 = .init(.{});
        var header = file.header;
        header.file_checksum = 0;
        hasher.update(header.asBytes());
        hasher.update(file.bytes[layout.header_bytes..@intCast(end)]);
        if (fileChecksum(&hasher) != file.header.file_checksum) {
            return report.fail(error.Corrupt, "the file is damaged: its checksum does not match the header", .{});
        }
    }

    pub fn willNeed(file: *const File, range: layout.Range) void {
        platform.willNeed(slice(file.bytes, range));
    }

    pub fn unknownSectionCount(file: *const File) u32 {
        var count: u32 = 0;
        for (file.sections) |*section| count += @intFromBool(!section.section_type.isKnown());
        return count;
    }
};

/// The first 64 bits of the hash, as the header holds them.
pub fn fileChecksum(hasher: *const Blake3) u64 {
    var hash: [8]u8 = undefined;
    hasher.final(&hash);
    return std.mem.readInt(u64, &hash, .little);
}

/// The range must lie inside: `open` has checked those of the header and of every section.
fn slice(bytes: []const u8, range: layout.Range) []const u8 {
    assert(range.isInside(0, bytes.len));
    return bytes[@intCast(range.offset)..][0..@intCast(range.length)];
}

fn mapFile(path: [:0]const u8, report: *Report) Failure!platform.Map {
    const errno = &report.os_error;
    const handle = platform.openForReading(path, errno) catch {
        return platform.fail(report, "cannot open '{f}'", .{errors.escaped(path)});
    };
    defer platform.closeFile(handle); // the map stays

    const size = platform.sizeOfRegularFile(handle, errno) catch {
        return platform.fail(report, "cannot open '{f}'", .{errors.escaped(path)});
    };
    if (size == 0) return report.fail(error.Truncated, "'{f}' is empty (0 bytes): not an .scx file", .{errors.escaped(path)});
    return platform.map(handle, size, errno) catch {
        return platform.fail(report, "cannot map '{f}' of {d} bytes", .{ errors.escaped(path), size });
    };
}

fn readModalities(allocator: Allocator, bytes: []const u8, header: *const layout.Header, sections: []const Section, report: *Report) Failure![]Modality {
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

// ---- lookup ----

const Key = struct { section_type: SectionType, modality_id: u8, name: []const u8 };

const KeyContext = struct {
    pub fn hash(_: KeyContext, key: Key) u64 {
        const seed = @as(u64, @intFromEnum(key.section_type)) << 8 | key.modality_id;
        return std.hash.Wyhash.hash(seed, key.name);
    }

    pub fn eql(_: KeyContext, a: Key, b: Key) bool {
        return a.section_type == b.section_type and a.modality_id == b.modality_id and std.mem.eql(u8, a.name, b.name);
    }
};

const Index = std.HashMapUnmanaged(Key, u32, KeyContext, std.hash_map.default_max_load_percentage);

fn buildIndex(allocator: Allocator, sections: []const Section, report: *Report) Failure!Index {
    var index: Index = .empty;
    errdefer index.deinit(allocator);

    const count = std.math.cast(u32, sections.len) orelse return error.Limit;
    try index.ensureTotalCapacity(allocator, count);
    for (sections, 0..) |*section, position| {
        const key: Key = .{ .section_type = section.section_type, .modality_id = section.modality_id, .name = section.name };
        const entry = index.getOrPutAssumeCapacity(key);
        if (entry.found_existing) {
            report.setSection(section.name);
            return report.fail(error.Corrupt, "the catalog lists section '{f}' twice", .{errors.escaped(section.name)});
        }
        entry.value_ptr.* = @intCast(position);
    }
    return index;
}
