//! A file that is open for reading: mapped as a whole, its header and catalog checked, its sections in a list.
//!
//!   File.open(allocator, path, options, report) Failure!*File
//!   file.close() void                                       frees the file itself too
//!   file.bytes, .path, .header, .catalog, .sections, .modalities, .open_flags, .process_id
//!   file.find(section_type, modality_id, name) ?u32         an index into sections
//!   file.sectionBytes(index) []const u8                     as they are, nothing is checked
//!   file.verifySection(index, report) Failure!void          hashes, each time
//!   file.verifyOnce(index, report) Failure!void             hashes the first time, then remembers
//!   file.verifyChecksum(report) Failure!void                the whole file, or header and catalog of one that was changed in place
//!   file.readAhead(range)                                   reads it from front to back, before it is looked at
//!   file.startReading(bytes)                                a hint that a few bytes are read next; does not wait
//!   file.forgetHead(index, length)                          a section's first bytes are not read again soon, until all are
//!   file.seemsResident(range) bool                          whether it is in memory, as far as a few pages tell
//!   file.expectUnchanged(report) Failure!void               before reading: refuses a file that was overwritten in place
//!   file.afterReading(result, report) Failure!void          after reading: an error where bytes could not be read
//!
//! Nothing but marks changes after `open`, and those are atomic: threads may share a file.
//! The map shows the file that was opened even when a writer puts another in its place. Who writes into the file
//! itself changes what the map shows: the next generation leaves all that was there, anything else makes reading an error.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const errors = @import("../errors.zig");
const quoted = @import("quoted.zig");
const layout = @import("layout.zig");
const catalog_format = @import("catalog.zig");
const catalog_parse = @import("catalog_parse.zig");
const modality_table = @import("modality_table.zig");
const facts = @import("facts.zig");
const generation = @import("generation.zig");
const hashing = @import("hashing.zig");
const platform = @import("platform.zig");
const section_index = @import("section_index.zig");
const SectionType = @import("section_types.zig").SectionType;
const Changes = @import("changes.zig").Changes;
const Failure = errors.Failure;
const Report = errors.Report;
const SectionIndex = section_index.SectionIndex;

pub const Section = catalog_format.Section;
pub const ShardStats = catalog_format.ShardStats;
pub const Modality = modality_table.Modality;

/// `SCX_OPEN_*` of scx.h.
pub const OpenFlags = packed struct(u32) {
    verify: bool = false,
    unassigned: u15 = 0,
    /// How many generations before the last one; see generation.zig.
    generations_back: u16 = 0,
};

pub const File = struct {
    allocator: Allocator,
    bytes: platform.Map,
    path: [:0]const u8,
    header: layout.Header,
    catalog: catalog_format.Catalog,
    /// As the catalog ended with it when it was read and compared.
    catalog_hash: [hashing.digest_bytes]u8,
    /// `catalog.sections`; names point into the map.
    sections: []const Section,
    modalities: []Modality,
    open_flags: OpenFlags,
    /// Of the process that opened it.
    process_id: u32,
    index: SectionIndex,
    marks: []std.atomic.Value(Mark),
    changes: Changes = .{},

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
        for (0..looks_max) |_| {
            if (try look(file, allocator, own_path, open_flags, report)) return file;
            platform.sleepMilliseconds(look_again_ms);
        }
        return report.fail(error.Busy, "{f} is changed so often that it cannot be opened: open it again later", .{
            quoted.path(own_path),
        });
    }

    /// A writer that adds a generation changes the header and the file's length under the eyes of whoever opens it.
    /// Damage is what is still there at a second look.
    const looks_max = 1000;
    const look_again_ms = 1;

    /// False where the file was changed meanwhile: look again.
    fn look(file: *File, allocator: Allocator, path: [:0]const u8, open_flags: OpenFlags, report: *Report) Failure!bool {
        const mapped = try mapFile(path, report);
        errdefer platform.unmap(mapped.bytes);
        var changes: Changes = try .begin(mapped.bytes, path, mapped.stamp, report);
        errdefer changes.end();
        var first: [layout.header_bytes]u8 = @splat(0);
        const head_bytes = @min(first.len, mapped.bytes.len);
        @memcpy(first[0..head_bytes], mapped.bytes[0..head_bytes]);

        file.* = parse(allocator, mapped.bytes, open_flags.generations_back, report) catch |failure| {
            try changes.afterReading(report);
            if (!errors.isDamage(failure)) return failure;
            platform.sleepMilliseconds(look_again_ms);
            const is_settled = changes.found() == null and std.mem.eql(u8, first[0..head_bytes], mapped.bytes[0..head_bytes]);
            if (is_settled) return failure;
            changes.end();
            platform.unmap(mapped.bytes);
            report.* = .{};
            return false;
        };
        errdefer file.freeTables();
        file.path = path;
        file.open_flags = open_flags;
        file.changes = changes;
        try file.afterReading({}, report);
        return true;
    }

    /// A file that lies in the caller's memory, which must outlive it; ended by `closeBorrowed`. For the fuzzer.
    pub fn fromBytes(allocator: Allocator, bytes: platform.Map, open_flags: OpenFlags, report: *Report) Failure!*File {
        const file = try allocator.create(File);
        errdefer allocator.destroy(file);
        file.* = try parse(allocator, bytes, open_flags.generations_back, report);
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
    fn parse(allocator: Allocator, bytes: platform.Map, generations_back: u16, report: *Report) Failure!File {
        // Said before they are touched: the system reads megabytes around a page that is not in memory.
        platform.startReading(bytes[0..@min(bytes.len, layout.sections_offset)]);
        const newest = layout.readHeader(bytes, report) catch |failure| return newerOrDamaged(bytes, failure, report);
        var file = try parseGeneration(allocator, bytes, newest, report);
        for (0..generations_back) |_| {
            const header = generation.previousHeader(&file);
            file.freeTables();
            const previous = header orelse return report.fail(error.NotFound, "the file holds no generation that is {d} " ++
                "before the last one", .{generations_back});
            try layout.checkHeader(&previous, bytes.len, report);
            file = try parseGeneration(allocator, bytes, previous, report);
        }
        return file;
    }

    fn parseGeneration(allocator: Allocator, bytes: platform.Map, header: layout.Header, report: *Report) Failure!File {
        const catalog_range = header.catalogRange();
        const catalog_bytes = slice(bytes, catalog_range);
        platform.startReading(catalog_bytes);
        var catalog = try catalog_parse.parse(allocator, catalog_bytes, .{
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
            .catalog_hash = catalog_bytes[catalog_bytes.len - hashing.digest_bytes ..][0..hashing.digest_bytes].*,
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
        const range = header.catalogRange();
        const root = bytes[layout.root_catalog_offset..layout.sections_offset];
        if (range.isInside(layout.sections_offset, bytes.len) and hasChecksum(header, root, bytes)) return failure;
        return report.fail(error.Corrupt, "the header is damaged: it names a version, a flag or a byte order that does " ++
            "not exist, and the file's checksum does not match; copy or convert the file again", .{});
    }

    pub fn close(file: *File) void {
        const allocator = file.allocator;
        file.freeTables();
        file.changes.end();
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

    /// For a modality of an early file, which leaves it to var how many columns there are; before anything is read.
    pub fn declareColumns(file: *File, modality_index: u32, n_vars: u64, report: *Report) Failure!void {
        if (modality_index >= file.modalities.len) {
            return report.fail(error.OutOfRange, "modality {d} of {d}", .{ modality_index, file.modalities.len });
        }
        const modality = &file.modalities[modality_index];
        if (modality.n_vars != 0) {
            return report.fail(error.BadArgument, "modality {f} has {d} columns by the file itself", .{
                quoted.name(modality.name), modality.n_vars,
            });
        }
        modality.n_vars = n_vars;
    }

    /// Of the modality with the most columns.
    pub fn columnCount(file: *const File) u64 {
        var count = file.header.n_vars;
        for (file.modalities) |modality| count = @max(count, modality.n_vars);
        return count;
    }

    /// Looks at the file's size and time. What an appender writes lies behind the catalog and leaves all before it.
    pub fn expectUnchanged(file: *File, report: *Report) Failure!void {
        const now = file.changes.found() orelse return;
        if (now.size < file.contentEnd() or !file.hasSameCatalog()) return file.changes.fail(report);
        file.changes.accept(now);
    }

    /// The catalog holds the hashes of all sections.
    fn hasSameCatalog(file: *const File) bool {
        const bytes = slice(file.bytes, file.header.catalogRange());
        const hash = hashing.hash(bytes[0 .. bytes.len - hashing.digest_bytes]);
        return std.mem.eql(u8, &hash, &file.catalog_hash);
    }

    /// What came of reading, or an error where some of the bytes could not be read and were taken for zeros. What looks
    /// damaged may be another file's content.
    pub fn afterReading(file: *File, result: Failure!void, report: *Report) Failure!void {
        try file.changes.afterReading(report);
        result catch |failure| {
            if (!errors.isDamage(failure)) return failure;
            var of_change: Report = .{};
            file.expectUnchanged(&of_change) catch |change| {
                report.* = of_change;
                return change;
            };
            return failure;
        };
    }

    /// Where its content ends; what lies behind belongs to a change that was never finished.
    pub fn contentEnd(file: *const File) u64 {
        const header = &file.header;
        var end = header.full_catalog_offset + header.full_catalog_length;
        end = @max(end, header.front_catalog_offset + header.front_catalog_length);
        for (file.sections) |*section| end = @max(end, section.offset + section.length);
        assert(end <= file.bytes.len); // checked when the file was opened
        return end;
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

    /// Compares with the header's sum: that of the whole file, or of header and catalogs when it was changed in place.
    pub fn verifyChecksum(file: *const File, report: *Report) Failure!void {
        // The root catalog of an earlier generation, and of one that is just being followed, is written over.
        var own_root: [layout.root_catalog_bytes_max]u8 = undefined;
        var root: *const [layout.root_catalog_bytes_max]u8 = file.bytes[layout.root_catalog_offset..layout.sections_offset];
        if (file.isFollowed()) {
            _ = facts.rootCatalog(file.sections, &own_root);
            if (hasChecksum(file.header, &own_root, file.bytes)) return;
        }
        if (hasChecksum(file.header, root, file.bytes)) return;
        if (file.isFollowed()) { // meanwhile
            _ = facts.rootCatalog(file.sections, &own_root);
            root = &own_root;
            if (hasChecksum(file.header, root, file.bytes)) return;
        }
        return report.fail(error.Corrupt, "the file is damaged: its checksum does not match the header", .{});
    }

    /// Whether the root catalog may be that of a later generation than the header that was read: it is written first.
    /// Then either something lies behind the catalog, or the header has become another one as well.
    fn isFollowed(file: *const File) bool {
        const catalog_end = file.header.full_catalog_offset + file.header.full_catalog_length;
        const stamp = if (file.path.len > 0) platform.stampAt(file.path) else null;
        const size = if (stamp) |now| now.size else file.bytes.len;
        return size > catalog_end or !std.mem.eql(u8, file.bytes[0..layout.header_bytes], file.header.asBytes());
    }

    /// Whether the header's sum is one of the two that it may be: over header, root catalog and catalog, which a change
    /// in place leaves (the catalog has the hashes of all sections), or over all that lies between them, too.
    fn hasChecksum(header: layout.Header, root: *const [layout.root_catalog_bytes_max]u8, bytes: platform.Map) bool {
        const catalog = slice(bytes, header.catalogRange());
        if (checksum(header, root, &.{catalog}) == header.file_checksum) return true;
        const end = header.full_catalog_offset + header.full_catalog_length;
        return checksum(header, root, &.{bytes[layout.sections_offset..@intCast(end)]}) == header.file_checksum;
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

    pub fn readAhead(file: *const File, range: layout.Range) void {
        platform.readAhead(slice(file.bytes, range));
    }

    pub fn startReading(_: *const File, bytes: []const u8) void {
        platform.startReading(bytes);
    }

    pub fn expectScattered(file: *const File, range: layout.Range, scattered: bool) void {
        platform.expectScattered(slice(file.bytes, range), scattered);
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

const Mapped = struct { bytes: platform.Map, stamp: platform.Stamp };

fn mapFile(path: [:0]const u8, report: *Report) Failure!Mapped {
    const errno = &report.os_error;
    const handle = platform.openForReading(path, errno) catch {
        return platform.fail(report, "cannot open {f}", .{quoted.path(path)});
    };
    defer platform.closeFile(handle); // the map stays

    const stamp = platform.stampOf(handle, errno) catch {
        return platform.fail(report, "cannot open {f}", .{quoted.path(path)});
    };
    if (stamp.size == 0) return report.fail(error.Truncated, "{f} is empty (0 bytes): not an .scx file", .{
        quoted.path(path),
    });
    const bytes = platform.map(handle, stamp.size, errno) catch {
        return platform.fail(report, "cannot map {f} of {d} bytes", .{ quoted.path(path), stamp.size });
    };
    return .{ .bytes = bytes, .stamp = stamp };
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
