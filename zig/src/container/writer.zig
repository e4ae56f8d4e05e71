//! Writes a file: sections first, then modality table, catalog, root catalog and header. A new one gets its name then.
//!
//!   Writer.create(allocator, path, options, report) Failure!*Writer  a new file
//!   Writer.change(allocator, path, note, report) Failure!*Writer     the next generation of a file; error.Busy: another one does it
//!   writer.addModality(modality, report) Failure!u8                  gives its id, counted from 1
//!   writer.beginSection(report) Failure!u64                          absolute offset, a multiple of 8; one is open at a time
//!   writer.writeAt(absolute_offset, bytes, report) Failure!void      anywhere at or behind that offset; from any thread
//!   writer.readAt(absolute_offset, target, report) Failure!void      what was written before; from any thread
//!   writer.endSection(entry, length, report) Failure!void            pads, hashes, adds it to the catalog
//!   writer.abandonSection() void                                     forgets the open section
//!   writer.addSection(entry, bytes, report) Failure!void             begin, write and end in one
//!   writer.dropSection(key, report) Failure!void                     takes it out of the catalog; its bytes stay
//!   writer.setDeleted(vectors, report) Failure!void                  replaces the deletion vectors
//!   writer.finish(report) Failure!void                               catalogs, checksum, sync, rename or commit
//!   writer.close() void                                              frees; takes back what is unfinished
//!
//! The bytes of a new file go to a hidden file beside the target, which takes the target's name only when it is complete and on
//! the medium. It is locked while it is written: the next writer of the same target removes those that are not,
//! because only a killed process leaves one. Nothing in a file depends on when or where it was written.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const errors = @import("../errors.zig");
const quoted = @import("quoted.zig");
const layout = @import("layout.zig");
const catalog_format = @import("catalog.zig");
const catalog_write = @import("catalog_write.zig");
const deletion_vectors = @import("deletion_vectors.zig");
const generation = @import("generation.zig");
const modality_table = @import("modality_table.zig");
const facts = @import("facts.zig");
const hashing = @import("hashing.zig");
const platform = @import("platform.zig");
const section_index = @import("section_index.zig");
const shard_peek = @import("shard_peek.zig");
const temporary = @import("temporary.zig");
const writer_rules = @import("writer_rules.zig");
const File = @import("file.zig").File;
const Failure = errors.Failure;
const Report = errors.Report;

pub const Modality = modality_table.Modality;
pub const SectionEntry = writer_rules.SectionEntry;
pub const ShardStats = catalog_format.ShardStats;

pub const CreateOptions = struct {
    n_obs: u64,
    n_vars: u64,
    overwrite: bool = false,
    shard_target_rows: u32 = layout.shard_target_rows_default,
    codec_id: u8 = 0,
};

/// One piece of reading back: large enough that the calls do not count, small enough for the cache.
const hash_piece_bytes = 1 << 20;

/// Where the bytes go.
const Output = union(enum) {
    new: temporary.Output,
    change: generation.Change,

    fn handle(output: *const Output) platform.File {
        return switch (output.*) {
            inline else => |*one| if (@hasField(@TypeOf(one.*), "output")) one.output else one.file,
        };
    }

    fn name(output: *const Output) []const u8 {
        return switch (output.*) {
            .new => |*new| new.temporary_name,
            .change => |*change| change.file.path,
        };
    }
};

pub const Writer = struct {
    allocator: Allocator,
    options: CreateOptions,
    output: Output,
    /// Of a change: what the generation's section tells of it.
    note: []const u8 = "",
    is_changed: bool = false,
    state: std.atomic.Value(State),
    process_id: u32,
    sections: std.ArrayList(catalog_format.Section),
    index: section_index.SectionIndex,
    names: std.heap.ArenaAllocator,
    modalities: std.ArrayList(Modality),
    /// Where the next section starts.
    end: u64,
    /// How far the file reaches: the open section's highest byte.
    written_end: std.atomic.Value(u64),
    has_framed_shard: bool,
    piece: []u8,

    const State = enum(u8) {
        idle,
        section_open,
        /// A write failed: the file cannot be completed.
        broken,
        finished,
    };

    pub fn create(allocator: Allocator, path: []const u8, options: CreateOptions, report: *Report) Failure!*Writer {
        const writer = try allocator.create(Writer);
        errdefer allocator.destroy(writer);
        const piece = try allocator.alloc(u8, hash_piece_bytes);
        errdefer allocator.free(piece);
        const output = try temporary.Output.create(allocator, path, options.overwrite, report);
        writer.* = .empty(allocator, .{ .new = output }, options, piece, layout.sections_offset);
        return writer;
    }

    /// Sections are added and dropped in a file that is there; what is not dropped stays as it is.
    pub fn change(allocator: Allocator, path: [:0]const u8, note: []const u8, report: *Report) Failure!*Writer {
        const writer = try allocator.create(Writer);
        errdefer allocator.destroy(writer);
        const piece = try allocator.alloc(u8, hash_piece_bytes);
        errdefer allocator.free(piece);
        var output = try generation.Change.begin(allocator, path, report);
        errdefer output.end();
        const header = &output.file.header;
        const start = layout.alignSection(output.file.contentEnd()) catch return tooLong(report);
        writer.* = .empty(allocator, .{ .change = output }, .{
            .n_obs = header.n_obs,
            .n_vars = header.n_vars,
            .shard_target_rows = header.shard_target_rows,
            .codec_id = header.codec_id,
        }, piece, start);
        writer.written_end.store(@max(start, output.old_size), .release);
        writer.has_framed_shard = header.format_version >= layout.format_version_framed;
        errdefer writer.freeTables();
        writer.note = try writer.names.allocator().dupe(u8, note);
        try writer.sections.appendSlice(allocator, output.file.sections);
        try writer.modalities.appendSlice(allocator, output.file.modalities);
        try writer.indexSections();
        return writer;
    }

    fn empty(allocator: Allocator, output: Output, options: CreateOptions, piece: []u8, start: u64) Writer {
        return .{
            .allocator = allocator,
            .options = options,
            .output = output,
            .state = .init(.idle),
            .process_id = platform.processId(),
            .sections = .empty,
            .index = .empty,
            .names = .init(allocator),
            .modalities = .empty,
            .end = start,
            .written_end = .init(start),
            .has_framed_shard = false,
            .piece = piece,
        };
    }

    pub fn close(writer: *Writer) void {
        const allocator = writer.allocator;
        switch (writer.output) {
            .new => |*new| new.close(allocator),
            .change => |*old| old.end(),
        }
        writer.freeTables();
        allocator.free(writer.piece);
        allocator.destroy(writer);
    }

    fn freeTables(writer: *Writer) void {
        const allocator = writer.allocator;
        writer.modalities.deinit(allocator);
        writer.index.deinit(allocator);
        writer.sections.deinit(allocator);
        writer.names.deinit();
    }

    fn indexSections(writer: *Writer) Allocator.Error!void {
        var duplicate: u32 = undefined;
        const index = section_index.build(writer.allocator, writer.sections.items, &duplicate) catch |failure| switch (failure) {
            error.Duplicate => unreachable, // refused when it was added, or when the file was opened
            error.OutOfMemory => return error.OutOfMemory,
        };
        writer.index.deinit(writer.allocator);
        writer.index = index;
    }

    pub fn addModality(writer: *Writer, modality: Modality, report: *Report) Failure!u8 {
        try writer.expect(.idle, report);
        if (writer.sections.items.len > 0) {
            return report.fail(error.BadArgument, "modalities are declared before the first section", .{});
        }
        try writer_rules.checkModality(&modality, writer.contents(), report);
        try writer.modalities.ensureUnusedCapacity(writer.allocator, 1);
        var own = modality;
        own.name = try writer.names.allocator().dupe(u8, modality.name);
        own.nnz = 0;
        own.n_csr_shards = 0;
        own.n_csc_shards = 0;
        writer.modalities.appendAssumeCapacity(own);
        return @intCast(writer.modalities.items.len);
    }

    pub fn beginSection(writer: *Writer, report: *Report) Failure!u64 {
        try writer.expect(.idle, report);
        writer.state.store(.section_open, .release);
        return writer.end;
    }

    pub fn writeAt(writer: *Writer, absolute_offset: u64, bytes: []const u8, report: *Report) Failure!void {
        try writer.expect(.section_open, report);
        assert(absolute_offset >= writer.end);
        const bytes_end = std.math.add(u64, absolute_offset, bytes.len) catch {
            return report.fail(error.Limit, "the file would grow beyond what offsets can express", .{});
        };
        try writer.store(absolute_offset, bytes, report);
        _ = writer.written_end.fetchMax(bytes_end, .acq_rel);
    }

    pub fn readAt(writer: *Writer, absolute_offset: u64, target: []u8, report: *Report) Failure!void {
        platform.readAll(writer.output.handle(), target, absolute_offset, &report.os_error) catch {
            return platform.fail(report, "cannot read back {f}", .{quoted.name(writer.output.name())});
        };
    }

    /// `length` counts from the section's offset; what was not written up to there is zeros, what was written
    /// beyond is cut off.
    pub fn endSection(writer: *Writer, entry: SectionEntry, length: u64, report: *Report) Failure!void {
        try writer.expect(.section_open, report);
        try writer_rules.checkSection(&entry, writer.contents(), report);
        const offset = writer.end;
        const section_end = std.math.add(u64, offset, length) catch return tooLong(report);
        const padded_end = layout.alignSection(section_end) catch return tooLong(report);
        try writer.settleSize(section_end, padded_end, report);
        const hash = try writer.hashSection(entry, offset, length, report);

        try writer.sections.ensureUnusedCapacity(writer.allocator, 1);
        try writer.index.ensureUnusedCapacity(writer.allocator, 1);
        const section: catalog_format.Section = .{
            .name = try writer.names.allocator().dupe(u8, entry.name),
            .offset = offset,
            .length = length,
            .section_type = entry.section_type,
            .modality_id = entry.modality_id,
            .blake3 = hash,
            .stats = entry.stats,
        };
        writer.index.putAssumeCapacityNoClobber(.of(&section), @intCast(writer.sections.items.len));
        writer.sections.appendAssumeCapacity(section);
        writer.end = padded_end;
        writer.written_end.store(padded_end, .release);
        writer.is_changed = true;
        writer.state.store(.idle, .release);
    }

    /// The bytes that the section had are not used again.
    pub fn dropSection(writer: *Writer, key: section_index.Key, report: *Report) Failure!void {
        try writer.expect(.idle, report);
        const place = writer.index.get(key) orelse return report.fail(error.NotFound, "there is no section {f} to drop", .{
            quoted.name(key.name),
        });
        errdefer writer.state.store(.broken, .release);
        _ = writer.sections.orderedRemove(place);
        writer.is_changed = true;
        try writer.indexSections();
    }

    /// Replaces the deletion vectors. The bitmaps are checked as a reader would.
    pub fn setDeleted(writer: *Writer, vectors: []const deletion_vectors.Vector, report: *Report) Failure!void {
        try writer.expect(.idle, report);
        const allocator = writer.allocator;
        const old = try deletion_vectors.find(writer.sections.items, report);
        const shards = try deletion_vectors.ranges(allocator, writer.sections.items, writer.options.n_obs, report);
        defer allocator.free(shards);
        const bytes = try deletion_vectors.serialize(allocator, vectors);
        defer allocator.free(bytes);
        _ = deletion_vectors.count(bytes, shards, report) catch |failure| switch (failure) {
            error.Corrupt => return error.BadArgument, // the message says what is wrong with them
            else => |other| return other,
        };
        if (old) |place| try writer.dropSection(.of(&writer.sections.items[place]), report);
        errdefer writer.state.store(.broken, .release);
        try writer.addSection(.{ .name = deletion_vectors.section_name, .section_type = .deletion_vectors }, bytes, report);
    }

    /// The open section is forgotten; the next one starts at the same place.
    pub fn abandonSection(writer: *Writer) void {
        if (writer.state.load(.acquire) != .section_open) return;
        var errno: i32 = 0;
        const next: State = if (platform.setSize(writer.output.handle(), writer.end, &errno)) .idle else |_| .broken;
        writer.written_end.store(writer.end, .release);
        writer.state.store(next, .release);
    }

    pub fn addSection(writer: *Writer, entry: SectionEntry, bytes: []const u8, report: *Report) Failure!void {
        if (entry.section_type == .modality_table) {
            return report.fail(error.BadArgument, "the modality table is written by finish", .{});
        }
        try writer.addSectionOfAnyType(entry, bytes, report);
    }

    fn addSectionOfAnyType(writer: *Writer, entry: SectionEntry, bytes: []const u8, report: *Report) Failure!void {
        try writer_rules.checkSection(&entry, writer.contents(), report);
        const offset = try writer.beginSection(report);
        errdefer writer.abandonSection();
        try writer.writeAt(offset, bytes, report);
        try writer.endSection(entry, bytes.len, report);
    }

    /// Afterwards the target exists and only `close` is allowed. When it fails, the target is as before.
    pub fn finish(writer: *Writer, report: *Report) Failure!void {
        try writer.expect(.idle, report);
        try writer_rules.checkVariables(writer.contents(), report);
        if (writer.output == .change) return writer.finishChange(report);
        errdefer writer.state.store(.broken, .release);
        var header: layout.Header = .{};
        try writer.finishModalities(&header, report);
        const catalog = try catalog_write.serialize(writer.allocator, writer.sections.items, .{
            .n_obs = writer.options.n_obs,
            .manifest_sequence = 0,
            .prev_catalog_offset = 0,
        });
        defer writer.allocator.free(catalog);

        writer.fillHeader(&header, catalog.len);
        var root: [layout.root_catalog_bytes_max]u8 = undefined;
        header.root_catalog_length = facts.rootCatalog(writer.sections.items, &root);
        try writer.store(writer.end, catalog, report);
        try writer.store(layout.root_catalog_offset, &root, report);
        header.file_checksum = try writer.checksum(&header, writer.end + catalog.len, report);
        try writer.store(0, header.asBytes(), report);
        try writer.output.new.publish(report);
        writer.state.store(.finished, .release);
    }

    fn finishChange(writer: *Writer, report: *Report) Failure!void {
        if (!writer.is_changed) return report.fail(error.BadArgument, "there is nothing to commit", .{});
        errdefer writer.state.store(.broken, .release);
        const allocator = writer.allocator;
        const old = writer.output.change.file;
        try writer.keepGeneration(&old.header, report);
        var header = old.header;
        try writer.finishModalities(&header, report);
        header.manifest_sequence = std.math.add(u64, header.manifest_sequence, 1) catch {
            return report.fail(error.Limit, "the file counts as many changes as it can", .{});
        };
        header.prev_catalog_offset = old.header.full_catalog_offset;
        const catalog = try catalog_write.serializeNext(allocator, &old.catalog, writer.sections.items, .{
            .n_obs = writer.options.n_obs,
            .manifest_sequence = header.manifest_sequence,
            .prev_catalog_offset = header.prev_catalog_offset,
        }, report);
        defer allocator.free(catalog);

        writer.fillHeader(&header, catalog.len);
        header.flags = facts.flagsAfter(old.header.flags, writer.sections.items);
        header.front_catalog_offset = 0; // a copy of the old catalog
        header.front_catalog_length = 0;
        var root: [layout.root_catalog_bytes_max]u8 = undefined;
        header.root_catalog_length = facts.rootCatalog(writer.sections.items, &root);
        try writer.store(writer.end, catalog, report);
        header.file_checksum = File.checksum(header, &root, &.{catalog});
        try writer.output.change.commit(.{ .header = header, .root = &root, .end = writer.end + catalog.len }, report);
        writer.state.store(.finished, .release);
    }

    /// The old header, and the note, in a section of the new generation.
    fn keepGeneration(writer: *Writer, old_header: *const layout.Header, report: *Report) Failure!void {
        const key: section_index.Key = .{ .section_type = .generation, .modality_id = 0, .name = generation.section_name };
        if (writer.index.contains(key)) try writer.dropSection(key, report);
        const bytes = try std.mem.concat(writer.allocator, u8, &.{ old_header.asBytes(), writer.note });
        defer writer.allocator.free(bytes);
        try writer.addSection(.{ .name = key.name, .section_type = key.section_type }, bytes, report);
    }

    fn contents(writer: *const Writer) writer_rules.Contents {
        return .{
            .n_obs = writer.options.n_obs,
            .n_vars = writer.options.n_vars,
            .modalities = writer.modalities.items,
            .index = &writer.index,
        };
    }

    fn expect(writer: *const Writer, wanted: State, report: *Report) Failure!void {
        const state = writer.state.load(.acquire);
        if (state == wanted) return;
        return switch (state) {
            .finished => report.fail(error.Closed, "the file is finished already", .{}),
            .broken => report.fail(error.Closed, "an earlier write failed; the file cannot be completed, start again", .{}),
            .section_open => report.fail(error.BadArgument, "a section is being written; end it first", .{}),
            .idle => report.fail(error.BadArgument, "no section is being written; begin one first", .{}),
        };
    }

    fn tooLong(report: *Report) Failure {
        return report.fail(error.Limit, "the file would grow beyond what offsets can express", .{});
    }

    /// Cuts what lies beyond the section and fills up to the next multiple of 8.
    fn settleSize(writer: *Writer, section_end: u64, padded_end: u64, report: *Report) Failure!void {
        const written_end = writer.written_end.load(.acquire);
        if (written_end > section_end) try writer.resize(section_end, report);
        if (written_end != padded_end) try writer.resize(padded_end, report);
    }

    fn resize(writer: *Writer, size: u64, report: *Report) Failure!void {
        platform.setSize(writer.output.handle(), size, &report.os_error) catch {
            writer.state.store(.broken, .release);
            return platform.fail(report, "cannot grow {f} to {d} bytes", .{
                quoted.name(writer.output.name()), size,
            });
        };
    }

    fn store(writer: *Writer, offset: u64, bytes: []const u8, report: *Report) Failure!void {
        errdefer writer.state.store(.broken, .release);
        const new = switch (writer.output) {
            .new => |*new| new,
            .change => |*old| return old.store(offset, bytes, report),
        };
        platform.writeAll(new.file, bytes, offset, &report.os_error) catch {
            return platform.fail(report, "cannot write to {f}", .{quoted.name(new.temporary_name)});
        };
    }

    fn hashSection(
        writer: *Writer,
        entry: SectionEntry,
        offset: u64,
        length: u64,
        report: *Report,
    ) Failure![catalog_format.hash_bytes]u8 {
        var hasher: hashing.Blake3 = .init(.{});
        var done: u64 = 0;
        while (done < length) {
            const piece = writer.piece[0..@intCast(@min(length - done, writer.piece.len))];
            try writer.readAt(offset + done, piece, report);
            if (done == 0 and entry.section_type.isShard()) writer.noteFraming(piece);
            hashing.update(&hasher, piece);
            done += piece.len;
        }
        return hashing.final(&hasher);
    }

    fn noteFraming(writer: *Writer, start: []const u8) void {
        const shard = shard_peek.peek(start) orelse return;
        if (shard.shard_format_version == 2) writer.has_framed_shard = true;
    }

    /// Writes the modality table, unless it is there and the same, and tells the header where.
    fn finishModalities(writer: *Writer, header: *layout.Header, report: *Report) Failure!void {
        const modalities = writer.modalities.items;
        if (modalities.len == 0) return;
        for (modalities, 1..) |*modality, id| {
            const counted: facts.Facts = .of(writer.sections.items, @intCast(id));
            modality.nnz = counted.nnz;
            modality.n_csr_shards = counted.n_csr_shards;
            modality.n_csc_shards = counted.n_csc_shards;
        }
        const table = try modality_table.serialize(writer.allocator, modalities);
        defer writer.allocator.free(table);
        if (findModalityTable(writer.sections.items)) |old| {
            if (std.mem.eql(u8, &old.blake3, &hashing.hash(table))) return;
            try writer.dropSection(.of(old), report);
        }
        header.n_modalities = @intCast(modalities.len);
        header.modality_table_offset = writer.end;
        header.modality_table_length = table.len;
        try writer.addSectionOfAnyType(.{ .name = modality_table.section_name, .section_type = .modality_table }, table, report);
    }

    fn findModalityTable(sections: []const catalog_format.Section) ?*const catalog_format.Section {
        for (sections) |*section| if (section.section_type == .modality_table) return section;
        return null;
    }

    fn fillHeader(writer: *const Writer, header: *layout.Header, catalog_length: u64) void {
        const counted: facts.Facts = .of(writer.sections.items, null);
        if (writer.output == .new) header.format_version = layout.format_version_canonical;
        if (writer.has_framed_shard) header.format_version = @max(header.format_version, layout.format_version_framed);
        header.flags = @bitCast(facts.flagsFor(writer.sections.items));
        header.n_obs = writer.options.n_obs;
        header.n_vars = writer.options.n_vars;
        header.nnz = counted.nnz;
        header.n_csr_shards = counted.n_csr_shards;
        header.n_csc_shards = counted.n_csc_shards;
        header.shard_target_rows = writer.options.shard_target_rows;
        header.codec_id = writer.options.codec_id;
        header.index_dtype = if (writer.options.n_vars <= 1 << 16) layout.Header.index_dtype_u16 else layout.Header.index_dtype_u32;
        header.full_catalog_offset = writer.end;
        header.full_catalog_length = catalog_length;
    }

    /// Of the header with a checksum of 0 and of all behind it, read back.
    fn checksum(writer: *Writer, header: *const layout.Header, end: u64, report: *Report) Failure!u64 {
        assert(header.file_checksum == 0);
        var hasher: hashing.Blake3 = .init(.{});
        hashing.update(&hasher, header.asBytes());
        var done: u64 = layout.header_bytes;
        while (done < end) {
            const piece = writer.piece[0..@intCast(@min(end - done, writer.piece.len))];
            try writer.readAt(done, piece, report);
            hashing.update(&hasher, piece);
            done += piece.len;
        }
        return hashing.finalShort(&hasher);
    }
};
