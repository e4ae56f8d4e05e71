//! Writes a new file: sections first, then modality table, catalog, root catalog and header, then the rename.
//!
//!   Writer.create(allocator, path, options, report) Failure!*Writer
//!   writer.addModality(modality, report) Failure!u8                  gives its id, counted from 1
//!   writer.beginSection(report) Failure!u64                          absolute offset, a multiple of 8; one is open at a time
//!   writer.writeAt(absolute_offset, bytes, report) Failure!void      anywhere at or behind that offset; from any thread
//!   writer.readAt(absolute_offset, target, report) Failure!void      what was written before; from any thread
//!   writer.endSection(entry, length, report) Failure!void            pads, hashes, adds it to the catalog
//!   writer.abandonSection() void                                     forgets the open section
//!   writer.addSection(entry, bytes, report) Failure!void             begin, write and end in one
//!   writer.finish(report) Failure!void                               catalogs, checksum, sync, rename
//!   writer.close() void                                              frees; removes the temporary file if unfinished
//!
//! The bytes go to a hidden file beside the target, which takes the target's name only when it is complete and on
//! the medium. It is locked while it is written: the next writer of the same target removes those that are not,
//! because only a killed process leaves one. Nothing in a file depends on when or where it was written.

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
const shard_peek = @import("shard_peek.zig");
const temporary = @import("temporary.zig");
const SectionType = @import("section_types.zig").SectionType;
const Failure = errors.Failure;
const Report = errors.Report;

pub const ShardStats = catalog_format.ShardStats;
pub const Modality = modality_table.Modality;

pub const CreateOptions = struct {
    n_obs: u64,
    n_vars: u64,
    overwrite: bool = false,
    shard_target_rows: u32 = layout.shard_target_rows_default,
    codec_id: u8 = 0,
};

pub const SectionEntry = struct {
    name: []const u8,
    section_type: SectionType,
    modality_id: u8 = 0,
    stats: ?ShardStats = null,
};

/// One piece of reading back: large enough that the calls do not count, small enough for the cache.
const hash_piece_bytes = 1 << 20;

pub const Writer = struct {
    allocator: Allocator,
    options: CreateOptions,
    output: temporary.Output,
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

        writer.* = .{
            .allocator = allocator,
            .options = options,
            .output = output,
            .state = .init(.idle),
            .process_id = platform.processId(),
            .sections = .empty,
            .index = .empty,
            .names = .init(allocator),
            .modalities = .empty,
            .end = layout.sections_offset,
            .written_end = .init(layout.sections_offset),
            .has_framed_shard = false,
            .piece = piece,
        };
        return writer;
    }

    pub fn close(writer: *Writer) void {
        const allocator = writer.allocator;
        writer.output.close(allocator);
        writer.modalities.deinit(allocator);
        writer.index.deinit(allocator);
        writer.sections.deinit(allocator);
        writer.names.deinit();
        allocator.free(writer.piece);
        allocator.destroy(writer);
    }

    pub fn addModality(writer: *Writer, modality: Modality, report: *Report) Failure!u8 {
        try writer.expect(.idle, report);
        if (writer.sections.items.len > 0) {
            return report.fail(error.BadArgument, "modalities are declared before the first section", .{});
        }
        if (writer.modalities.items.len == modality_table.modalities_max) {
            return report.fail(error.Limit, "a file holds at most {d} modalities", .{modality_table.modalities_max});
        }
        const name = modality.name;
        if (name.len == 0 or name.len > modality_table.name_bytes_max or !std.unicode.utf8ValidateSlice(name)) {
            return report.fail(error.BadArgument, "modality name {f}: 1 to {d} bytes of UTF-8 are needed", .{
                quoted.name(name), modality_table.name_bytes_max,
            });
        }
        if (modality_table.find(writer.modalities.items, name) != null) {
            return report.fail(error.BadArgument, "modality {f} is declared twice", .{quoted.name(name)});
        }
        if (modality.n_vars > writer.options.n_vars) {
            return report.fail(error.BadArgument, "modality {f} has {d} variables, more than the file's largest ({d})", .{
                quoted.name(name), modality.n_vars, writer.options.n_vars,
            });
        }
        try writer.modalities.ensureUnusedCapacity(writer.allocator, 1);
        var own = modality;
        own.name = try writer.names.allocator().dupe(u8, name);
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
        platform.readAll(writer.output.file, target, absolute_offset, &report.os_error) catch {
            return platform.fail(report, "cannot read back {f}", .{quoted.name(writer.output.temporary_name)});
        };
    }

    /// `length` counts from the section's offset; what was not written up to there is zeros, what was written
    /// beyond is cut off.
    pub fn endSection(writer: *Writer, entry: SectionEntry, length: u64, report: *Report) Failure!void {
        try writer.expect(.section_open, report);
        try writer.checkEntry(entry, report);
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
        writer.state.store(.idle, .release);
    }

    /// The open section is forgotten; the next one starts at the same place.
    pub fn abandonSection(writer: *Writer) void {
        if (writer.state.load(.acquire) != .section_open) return;
        var errno: i32 = 0;
        const next: State = if (platform.setSize(writer.output.file, writer.end, &errno)) .idle else |_| .broken;
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
        try writer.checkEntry(entry, report);
        const offset = try writer.beginSection(report);
        errdefer writer.abandonSection();
        try writer.writeAt(offset, bytes, report);
        try writer.endSection(entry, bytes.len, report);
    }

    /// Afterwards the target exists and only `close` is allowed. When it fails, the target is as before.
    pub fn finish(writer: *Writer, report: *Report) Failure!void {
        try writer.expect(.idle, report);
        try writer.checkVariables(report);
        errdefer writer.state.store(.broken, .release);
        var header = try writer.finishModalities(report);
        const catalog = try catalog_format.serialize(writer.allocator, writer.sections.items, .{
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
        try writer.output.publish(report);
        writer.state.store(.finished, .release);
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

    fn checkEntry(writer: *const Writer, entry: SectionEntry, report: *Report) Failure!void {
        const name = entry.name;
        if (name.len == 0 or name.len > layout.section_name_bytes_max or !std.unicode.utf8ValidateSlice(name)) {
            return report.fail(error.BadArgument, "section name {f}: 1 to {d} bytes of UTF-8 are needed", .{
                quoted.name(name), layout.section_name_bytes_max,
            });
        }
        if (!entry.section_type.isKnown() and !entry.section_type.isVendor()) {
            return report.fail(error.BadArgument, "section type {d} is not defined", .{
                @backingInt(entry.section_type),
            });
        }
        if (entry.modality_id > writer.modalities.items.len) {
            return report.fail(error.BadArgument, "section {f} names modality {d}, but {d} are declared", .{
                quoted.name(name), entry.modality_id, writer.modalities.items.len,
            });
        }
        if (entry.stats) |*stats| try writer.checkStats(entry, stats, report);
        const key: section_index.Key = .{ .section_type = entry.section_type, .modality_id = entry.modality_id, .name = name };
        if (writer.index.contains(key)) {
            return report.fail(error.BadArgument, "section {f} is written twice", .{quoted.name(name)});
        }
    }

    /// What a reader would refuse is not written.
    fn checkStats(writer: *const Writer, entry: SectionEntry, stats: *const ShardStats, report: *Report) Failure!void {
        if (!entry.section_type.isShard()) {
            return report.fail(error.BadArgument, "section {f} is no shard and has no statistics", .{
                quoted.name(entry.name),
            });
        }
        if (catalog_format.judge(stats, writer.options.n_obs) != .good) {
            return report.fail(error.BadArgument, "shard {f} cannot have {d} values in the rows {d} to {d} of {d} and the columns {d} to {d}", .{
                quoted.name(entry.name), stats.nnz,       stats.row_start, stats.row_end,
                writer.options.n_obs,    stats.col_start, stats.col_end,
            });
        }
        const spans_all = entry.section_type == .csr_shard or entry.section_type == .layer_csr_shard;
        if (!spans_all) return;
        const n_vars = if (writer.modalities.items.len == 0)
            writer.options.n_vars
        else if (entry.modality_id > 0)
            writer.modalities.items[entry.modality_id - 1].n_vars
        else
            return;
        if (stats.col_start != 0 or stats.col_end != n_vars) {
            return report.fail(error.BadArgument, "shard {f} has the columns {d} to {d} where there are {d} variables", .{
                quoted.name(entry.name), stats.col_start, stats.col_end, n_vars,
            });
        }
    }

    fn checkVariables(writer: *const Writer, report: *Report) Failure!void {
        if (writer.modalities.items.len == 0) return;
        var largest: u64 = 0;
        for (writer.modalities.items) |modality| largest = @max(largest, modality.n_vars);
        if (largest != writer.options.n_vars) {
            return report.fail(error.BadArgument, "the file was announced with {d} variables, but its largest modality has {d}", .{
                writer.options.n_vars, largest,
            });
        }
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
        platform.setSize(writer.output.file, size, &report.os_error) catch {
            writer.state.store(.broken, .release);
            return platform.fail(report, "cannot grow {f} to {d} bytes", .{
                quoted.name(writer.output.temporary_name), size,
            });
        };
    }

    fn store(writer: *Writer, offset: u64, bytes: []const u8, report: *Report) Failure!void {
        platform.writeAll(writer.output.file, bytes, offset, &report.os_error) catch {
            writer.state.store(.broken, .release);
            return platform.fail(report, "cannot write to {f}", .{quoted.name(writer.output.temporary_name)});
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

    /// Writes the modality table and gives a header that knows it.
    fn finishModalities(writer: *Writer, report: *Report) Failure!layout.Header {
        var header: layout.Header = .{};
        const modalities = writer.modalities.items;
        if (modalities.len == 0) return header;
        for (modalities, 1..) |*modality, id| {
            const counted: facts.Facts = .of(writer.sections.items, @intCast(id));
            modality.nnz = counted.nnz;
            modality.n_csr_shards = counted.n_csr_shards;
            modality.n_csc_shards = counted.n_csc_shards;
        }
        const table = try modality_table.serialize(writer.allocator, modalities);
        defer writer.allocator.free(table);
        header.n_modalities = @intCast(modalities.len);
        header.modality_table_offset = writer.end;
        header.modality_table_length = table.len;
        try writer.addSectionOfAnyType(.{ .name = modality_table.section_name, .section_type = .modality_table }, table, report);
        return header;
    }

    fn fillHeader(writer: *const Writer, header: *layout.Header, catalog_length: u64) void {
        const counted: facts.Facts = .of(writer.sections.items, null);
        header.format_version = if (writer.has_framed_shard) layout.format_version_framed else layout.format_version_canonical;
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

// ---- tests ----

const testing = std.testing;
const testing_files = @import("testing_files.zig");
const File = @import("file.zig").File;

fn writeInFolder(allocator: Allocator, folder: *testing_files.Folder) !void {
    var report: Report = .{};
    try testing_files.writeSmall(allocator, folder.path("a.scx"), .multimodal, &report);
}

test "writing fails cleanly at every allocation" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    try testing.checkAllAllocationFailures(testing.allocator, writeInFolder, .{&folder});
    try testing.expectEqual(@as(usize, 1), try folder.entryCount());
}

test "after a call that ran out of memory the writer goes on" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    var failing = testing.FailingAllocator.init(testing.allocator, .{});
    const writer: *Writer = try .create(failing.allocator(), folder.path("a.scx"), .{ .n_obs = 1, .n_vars = 1 }, &report);
    defer writer.close();
    failing.fail_index = failing.alloc_index;
    for (0..2) |_| {
        try testing.expectError(error.OutOfMemory, writer.addSection(.{ .name = "a", .section_type = .uns }, "lost", &report));
    }
    failing.fail_index = std.math.maxInt(usize);
    try writer.addSection(.{ .name = "a", .section_type = .uns }, "kept", &report);
    try writer.finish(&report);
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer file.close();
    try testing.expectEqualStrings("kept", file.sectionBytes(0));
}

test "the same input gives the same bytes" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try testing_files.writeSmall(testing.allocator, folder.path("a.scx"), .multimodal, &report);
    try testing_files.writeSmall(testing.allocator, folder.path("b.scx"), .multimodal, &report);
    const a = try folder.read("a.scx");
    defer testing.allocator.free(a);
    const b = try folder.read("b.scx");
    defer testing.allocator.free(b);
    try testing.expectEqualSlices(u8, a, b);
}

test "a section is written out of order, read back, cut and padded" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const writer: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 1, .n_vars = 1 }, &report);
    defer writer.close();
    const offset = try writer.beginSection(&report);
    try testing.expectEqual(@as(u64, layout.sections_offset), offset);
    try writer.writeAt(offset + 8, "behind, and cut off here: scratch that is longer than the section", &report);
    try writer.writeAt(offset, "front", &report);
    var back: [3]u8 = undefined;
    try writer.readAt(offset + 1, &back, &report);
    try testing.expectEqualStrings("ron", &back);
    try writer.endSection(.{ .name = "one", .section_type = .uns }, 14, &report);
    const second = try writer.beginSection(&report);
    try testing.expectEqual(offset + 16, second);
    // Longer than what was written: zeros.
    try writer.endSection(.{ .name = "two", .section_type = .uns }, 5, &report);
    try writer.finish(&report);

    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer file.close();
    try testing.expectEqualSlices(u8, "front\x00\x00\x00behind", file.sectionBytes(0));
    try testing.expectEqualSlices(u8, "\x00\x00\x00\x00\x00", file.sectionBytes(1));
    try testing.expectEqualSlices(u8, "\x00\x00", file.bytes[offset + 14 ..][0..2]);
    for (0..2) |index| try file.verifySection(@intCast(index), &report);
    try file.verifyChecksum(&report);
}

test "an abandoned section leaves no trace" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    for ([_][]const u8{ "plain.scx", "abandoned.scx" }, 0..) |name, abandons| {
        const writer: *Writer = try .create(testing.allocator, folder.path(name), .{ .n_obs = 1, .n_vars = 1 }, &report);
        defer writer.close();
        if (abandons == 1) {
            const offset = try writer.beginSection(&report);
            try writer.writeAt(offset, "what will be forgotten", &report);
            writer.abandonSection();
        }
        try writer.addSection(.{ .name = "uns", .section_type = .uns }, "{}", &report);
        writer.abandonSection(); // none is open: nothing happens
        try writer.finish(&report);
    }
    const plain = try folder.read("plain.scx");
    defer testing.allocator.free(plain);
    const abandoned = try folder.read("abandoned.scx");
    defer testing.allocator.free(abandoned);
    try testing.expectEqualSlices(u8, plain, abandoned);
}

test "calls in the wrong order and entries that cannot be are refused and change nothing" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const writer: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 1, .n_vars = 2 }, &report);
    defer writer.close();
    const modality: Modality = .{ .name = "rna", .modality_type = 0, .codec_id = 0, .value_encoding = 0, .n_vars = 2 };
    try testing.expectEqual(@as(u8, 1), try writer.addModality(modality, &report));
    try testing.expectError(error.BadArgument, writer.addModality(modality, &report));
    var wide = modality;
    wide.name = "wide";
    wide.n_vars = 3;
    try testing.expectError(error.BadArgument, writer.addModality(wide, &report));

    try testing.expectError(error.BadArgument, writer.writeAt(layout.sections_offset, "x", &report));
    try testing.expectError(error.BadArgument, writer.endSection(.{ .name = "a", .section_type = .uns }, 0, &report));
    _ = try writer.beginSection(&report);
    try testing.expectError(error.BadArgument, writer.beginSection(&report));
    try testing.expectError(error.BadArgument, writer.addSection(.{ .name = "a", .section_type = .uns }, "", &report));
    try testing.expectError(error.BadArgument, writer.finish(&report));
    writer.abandonSection();

    try writer.addSection(.{ .name = "a", .section_type = .uns }, "", &report);
    const long: [layout.section_name_bytes_max + 1]u8 = @splat('n');
    for ([_]SectionEntry{
        .{ .name = "a", .section_type = .uns }, // again
        .{ .name = "", .section_type = .uns },
        .{ .name = "\xff", .section_type = .uns },
        .{ .name = &long, .section_type = .uns },
        .{ .name = "b", .section_type = @fromBackingInt(26) },
        .{ .name = "b", .section_type = .modality_table },
        .{ .name = "b", .section_type = .uns, .modality_id = 2 },
    }) |entry| try testing.expectError(error.BadArgument, writer.addSection(entry, "", &report));
    try testing.expectError(error.BadArgument, writer.addModality(wide, &report)); // after the first section
    try writer.addSection(.{ .name = long[1..], .section_type = .uns }, "", &report);
    try writer.finish(&report);
    try testing.expectError(error.Closed, writer.finish(&report));
    try testing.expectError(error.Closed, writer.beginSection(&report));
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer file.close();
    try testing.expectEqual(@as(usize, 3), file.sections.len);
}

test "figures that no reader would believe are refused" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const right: ShardStats = .{ .row_start = 2, .row_end = 5, .col_start = 0, .col_end = 4, .nnz = 12 };
    const writer: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 5, .n_vars = 4 }, &report);
    defer writer.close();
    var wrong: [5]ShardStats = @splat(right);
    wrong[0].row_end = 6;
    wrong[1].row_start = 6;
    wrong[2].nnz = 13;
    wrong[3].col_start = 1;
    wrong[4].col_end = 5;
    for (wrong) |stats| {
        const entry: SectionEntry = .{ .name = "X_shard_0", .section_type = .csr_shard, .stats = stats };
        try testing.expectError(error.BadArgument, writer.addSection(entry, "x", &report));
    }
    try testing.expectError(error.BadArgument, writer.addSection(.{ .name = "obs", .section_type = .obs, .stats = right }, "x", &report));
    try writer.addSection(.{ .name = "X_shard_0", .section_type = .csr_shard, .stats = right }, "x", &report);
    // A raw matrix has variables of its own.
    try writer.addSection(.{ .name = "raw/X_shard_0", .section_type = .raw_csr_shard, .stats = wrong[4] }, "x", &report);
    try writer.finish(&report);
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    file.close();
}

test "modalities and the file's size must agree" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const writer: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 5, .n_vars = 4 }, &report);
    defer writer.close();
    var modality: Modality = .{ .name = "rna", .modality_type = 0, .codec_id = 0, .value_encoding = 0, .n_vars = 3 };
    _ = try writer.addModality(modality, &report);
    try testing.expectError(error.BadArgument, writer.finish(&report));
    modality.name = "atac";
    modality.n_vars = 4;
    _ = try writer.addModality(modality, &report);
    const stats: ShardStats = .{ .row_start = 0, .row_end = 5, .col_start = 0, .col_end = 4, .nnz = 1 };
    try testing.expectError(error.BadArgument, writer.addSection(.{ .name = "X", .section_type = .csr_shard, .modality_id = 1, .stats = stats }, "x", &report));
    try writer.addSection(.{ .name = "X", .section_type = .csr_shard, .modality_id = 2, .stats = stats }, "x", &report);
    try writer.finish(&report);
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    file.close();
}

test "the target is untouched until finish, and existing ones are kept unless overwriting is allowed" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    try folder.put("a.scx", "old");
    const options: CreateOptions = .{ .n_obs = 1, .n_vars = 1 };
    try testing.expectError(error.Exists, Writer.create(testing.allocator, folder.path("a.scx"), options, &report));
    try testing.expectEqual(@as(usize, 1), try folder.entryCount());
    {
        // Dropped: the old file stays.
        const writer: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 1, .n_vars = 1, .overwrite = true }, &report);
        defer writer.close();
        try writer.addSection(.{ .name = "uns", .section_type = .uns }, "{}", &report);
        try testing.expectEqual(@as(usize, 2), try folder.entryCount());
    }
    try testing.expectEqual(@as(usize, 1), try folder.entryCount());
    const old = try folder.read("a.scx");
    defer testing.allocator.free(old);
    try testing.expectEqualStrings("old", old);
    {
        // Appears while another is written.
        const writer: *Writer = try .create(testing.allocator, folder.path("b.scx"), options, &report);
        defer writer.close();
        try folder.put("b.scx", "faster");
        try testing.expectError(error.Exists, writer.finish(&report));
        try testing.expectError(error.Closed, writer.finish(&report));
    }
    const faster = try folder.read("b.scx");
    defer testing.allocator.free(faster);
    try testing.expectEqualStrings("faster", faster);
    try testing.expectEqual(@as(usize, 2), try folder.entryCount());
}

test "two writers of one target do not disturb each other, the last one wins" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const options: CreateOptions = .{ .n_obs = 1, .n_vars = 1, .overwrite = true };
    const first: *Writer = try .create(testing.allocator, folder.path("a.scx"), options, &report);
    defer first.close();
    const second: *Writer = try .create(testing.allocator, folder.path("a.scx"), options, &report);
    defer second.close();
    try testing.expectEqual(@as(usize, 2), try folder.entryCount());
    try second.addSection(.{ .name = "uns", .section_type = .uns }, "second", &report);
    try second.finish(&report);
    try first.addSection(.{ .name = "uns", .section_type = .uns }, "first", &report);
    try first.finish(&report);
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer file.close();
    try testing.expectEqualStrings("first", file.sectionBytes(0));
    try testing.expectEqual(@as(usize, 1), try folder.entryCount());
}

test "what a killed run left is removed by the next one, and nothing else" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    for ([_][]const u8{
        ".a.scx.99999.0123456789abcdef.tmp", // the only orphan
        ".b.scx.99999.0123456789abcdef.tmp",
        ".a.scx.99999.tmp",
        "notes.tmp",
    }) |name| try folder.put(name, "left");
    const live: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 1, .n_vars = 1 }, &report);
    defer live.close();
    try testing.expectEqual(@as(usize, 4), try folder.entryCount());
    const other: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 1, .n_vars = 1 }, &report);
    defer other.close();
    try testing.expectEqual(@as(usize, 5), try folder.entryCount());
}

test "a framed shard raises the format version" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    for ([_][]const u8{ "SCXS\x01\x00\x40\x02", "SCXS\x02\x00\x40\x02" }, [_]u16{ 3, 4 }) |shard, version| {
        const writer: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 1, .n_vars = 1, .overwrite = true }, &report);
        defer writer.close();
        try writer.addSection(.{ .name = "X_shard_0", .section_type = .csr_shard }, shard, &report);
        try writer.finish(&report);
        const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
        defer file.close();
        try testing.expectEqual(version, file.header.format_version);
    }
}

test "targets that cannot be written to" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const options: CreateOptions = .{ .n_obs = 1, .n_vars = 1, .overwrite = true };
    try folder.inner.dir.createDirPath(testing_files.io, "folder");
    try folder.put("file", "");
    const Case = struct { []const u8, Failure };
    for ([_]Case{
        .{ "folder", error.BadArgument },
        .{ "folder/", error.BadArgument },
        .{ "missing/a.scx", error.InputOutput },
        .{ "file/a.scx", error.InputOutput },
    }) |case| {
        const name, const failure = case;
        report = .{};
        try testing.expectError(failure, Writer.create(testing.allocator, folder.path(name), options, &report));
        try testing.expect(report.message_length > 0);
    }
    try testing.expectError(error.BadArgument, Writer.create(testing.allocator, "", options, &report));
    try testing.expectEqual(@as(usize, 2), try folder.entryCount());
}
