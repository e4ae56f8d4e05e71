//! One shard of an open file, as it lies in the map: where its streams are, and one row of it.

const std = @import("std");
const bits = @import("bits.zig");
const container_file = @import("../container/file.zig");
const errors = @import("../errors.zig");
const matrix_module = @import("matrix.zig");
const rowpack = @import("rowpack.zig");
const rowpack_decode = @import("rowpack_decode.zig");
const shard = @import("shard.zig");
const value_type_module = @import("value_type.zig");
const File = container_file.File;
const Section = container_file.Section;
const Target = @import("../levels/table.zig").Target;
const ValueType = value_type_module.ValueType;

const assert = std.debug.assert;
const Failure = errors.Failure;
const Report = errors.Report;

pub const ShardView = struct {
    section_index: u32,
    codec: shard.Codec,
    value_type: ValueType,
    index_bytes: u8,
    n_cols: u32,
    n_rows: u32,
    row_start: u64,
    nnz: u64,
    /// What the CRCs of the rows start from.
    identity_crc: u32,
    verify: bool,
    indptr: []const u8,
    indices: []const u8,
    values: []const u8,

    /// Compares the header with the catalog and places the streams; `report` names the section already.
    pub fn open(file: *const File, section_index: u32, report: *Report) Failure!ShardView {
        const section = &file.sections[section_index];
        const bytes = file.sectionBytes(section_index);
        if (bytes.len < shard.header_bytes) {
            return report.fail(error.Truncated, "shard '{f}' has {d} bytes, its header alone needs {d}", .{
                errors.escaped(section.name), bytes.len, shard.header_bytes,
            });
        }
        const header_source = bytes[0..shard.header_bytes];
        const header = shard.Header.parse(header_source) orelse return damaged(file, section_index, "magic", report);
        if (header.shard_format_version < 1 or header.shard_format_version > 2) {
            return damaged(file, section_index, "shard_format_version", report);
        }
        if (header.shard_type != 0) return damaged(file, section_index, "shard_type", report);
        const codec = std.enums.fromInt(shard.Codec, header.codec_id) orelse {
            return report.fail(error.Unsupported, "shard '{f}' has codec {d} ({s}), which this version does not decode", .{
                errors.escaped(section.name), header.codec_id, shard.foreignCodecName(header.codec_id),
            });
        };
        if (header.shard_format_version != 1) {
            return report.fail(error.Unsupported, "shard '{f}' is framed into row groups, which this version does not decode", .{
                errors.escaped(section.name),
            });
        }
        const value_type = ValueType.fromInt(header.value_encoding) orelse return damaged(file, section_index, "value_encoding", report);
        if (header.index_dtype > 1) return damaged(file, section_index, "index_dtype", report);
        if (header.n_minor > rowpack.columns_max) return damaged(file, section_index, "n_minor", report);
        const stats = section.stats orelse {
            return report.fail(error.Corrupt, "the catalog has no row range for shard '{f}'", .{errors.escaped(section.name)});
        };
        if (header.global_offset != stats.row_start) return damaged(file, section_index, "global_offset", report);
        if (header.n_major != stats.row_end - stats.row_start) return damaged(file, section_index, "n_major", report);
        if (header.n_minor != stats.col_end - stats.col_start) return damaged(file, section_index, "n_minor", report);
        if (header.nnz != stats.nnz) return damaged(file, section_index, "nnz", report);
        const n_cols = if (header.n_minor == 0 and header.nnz > 0) try columnsOfVar(file, section, report) else header.n_minor;
        const view: ShardView = .{
            .section_index = section_index,
            .codec = codec,
            .value_type = value_type,
            .index_bytes = if (header.index_dtype == 0) 2 else 4,
            .n_cols = n_cols,
            .n_rows = header.n_major,
            .row_start = stats.row_start,
            .nnz = header.nnz,
            .identity_crc = rowpack.shardSeed(&shard.identity(header_source)),
            .verify = file.open_flags.verify,
            .indptr = stream(bytes, header.indptr) orelse return damaged(file, section_index, "indptr_offset", report),
            .indices = stream(bytes, header.indices) orelse return damaged(file, section_index, "indices_offset", report),
            .values = stream(bytes, header.values) orelse return damaged(file, section_index, "values_offset", report),
        };
        if (!areApart(&.{ header.indptr, header.indices, header.values })) return damaged(file, section_index, "the place of a stream", report);
        try view.checkStreams(file, report);
        return view;
    }

    /// Early multimodal files do not say in their shards how many columns there are.
    fn columnsOfVar(file: *const File, section: *const Section, report: *Report) Failure!u32 {
        const n_vars = if (section.modality_id == 0) 0 else file.modalities[section.modality_id - 1].n_vars;
        if (n_vars == 0 or n_vars > rowpack.columns_max) {
            return report.fail(error.Corrupt, "shard '{f}' does not say how many columns it has, and its modality has {d}", .{
                errors.escaped(section.name), n_vars,
            });
        }
        return @intCast(n_vars);
    }

    fn checkStreams(self: *const ShardView, file: *const File, report: *Report) Failure!void {
        switch (self.codec) {
            .rowpack => {
                const table_bytes = @as(u64, self.n_rows) * @sizeOf(rowpack.RowEntry);
                if (self.indptr.len != table_bytes) return damaged(file, self.section_index, "indptr_length", report);
                if (@intFromPtr(self.indptr.ptr) % 8 != 0) return damaged(file, self.section_index, "indptr_offset", report);
                if (self.values.len < rowpack.tail_bytes) return damaged(file, self.section_index, "values_length", report);
            },
            .none => {
                if (self.indptr.len != (@as(u64, self.n_rows) + 1) * 8) return damaged(file, self.section_index, "indptr_length", report);
                if (self.indices.len != self.nnz * self.index_bytes) return damaged(file, self.section_index, "indices_length", report);
                if (self.values.len != self.nnz * self.value_type.bytes()) return damaged(file, self.section_index, "values_length", report);
            },
        }
    }

    /// Whether none of the streams lies in the header or in another one. They lie inside the section.
    fn areApart(places: []const shard.Stream) bool {
        for (places, 0..) |place, number| {
            if (place.length == 0) continue;
            if (place.offset < shard.header_bytes) return false;
            for (places[0..number]) |other| {
                if (place.offset < @as(u64, other.offset) + other.length and other.offset < @as(u64, place.offset) + place.length) return false;
            }
        }
        return true;
    }

    fn stream(bytes: []const u8, place: shard.Stream) ?[]const u8 {
        const end = @as(u64, place.offset) + place.length;
        if (end > bytes.len) return null;
        return bytes[place.offset..][0..place.length];
    }

    /// Whether any of rows [row_start, row_stop) of the matrix are in the shard.
    pub fn meets(self: *const ShardView, row_start: u64, row_stop: u64) bool {
        return self.row_start < row_stop and self.row_start + self.n_rows > row_start;
    }

    /// The table's entries of some rows.
    pub fn tableOf(self: *const ShardView, local_row: u64, count: usize) []const u8 {
        const entry_bytes: usize = if (self.codec == .rowpack) @sizeOf(rowpack.RowEntry) else 8;
        return self.indptr[@as(usize, @intCast(local_row)) * entry_bytes ..][0 .. count * entry_bytes];
    }

    /// What the table says some rows are decoded from; null where that cannot be, or is not one piece.
    pub fn payloadOf(self: *const ShardView, local_row: u64, count: usize) ?[]const u8 {
        if (self.codec != .rowpack or count == 0) return null;
        const last = self.entryOf(local_row + count - 1);
        const start = self.entryOf(local_row).payload_offset;
        const stop = @as(u64, last.payload_offset) + last.payload_bytes;
        if (start > stop or stop > self.values.len) return null;
        return self.values[start..@intCast(stop)];
    }

    /// What is touched when a row is decoded, by its table; empty where that cannot be.
    pub fn piecesOf(self: *const ShardView, local_row: u64) [2][]const u8 {
        if (self.codec == .rowpack) {
            const payload = self.payloadOf(local_row, 1) orelse return .{ &.{}, &.{} };
            const start = payload.ptr - self.values.ptr;
            // whole words are loaded, also over the end of the last one
            return .{ self.values[start..@min(start + payload.len + rowpack.tail_bytes, self.values.len)], &.{} };
        }
        const start, const stop = self.pointers(local_row);
        if (stop < start or stop > self.nnz) return .{ &.{}, &.{} };
        const first: usize = @intCast(start);
        const count: usize = @intCast(stop - start);
        const value_bytes = self.value_type.bytes();
        return .{
            self.indices[first * self.index_bytes ..][0 .. count * self.index_bytes],
            self.values[first * value_bytes ..][0 .. count * value_bytes],
        };
    }

    pub inline fn entryOf(self: *const ShardView, local_row: u64) *const rowpack.RowEntry {
        assert(self.codec == .rowpack and local_row < self.n_rows);
        const table: [*]const rowpack.RowEntry = @ptrCast(@alignCast(self.indptr.ptr));
        return &table[@intCast(local_row)];
    }

    /// Hints alone: nothing is trusted, and an address outside the map does no harm.
    pub inline fn prefetchEntry(self: *const ShardView, local_row: u64) void {
        const entry_bytes: usize = if (self.codec == .rowpack) @sizeOf(rowpack.RowEntry) else 8;
        @prefetch(self.indptr.ptr + @as(usize, @intCast(local_row)) * entry_bytes, .{});
    }

    pub inline fn prefetchPayload(self: *const ShardView, local_row: u64) void {
        if (self.codec != .rowpack) return;
        const entry = self.entryOf(local_row);
        const end = @as(u64, entry.payload_offset) + entry.payload_bytes;
        if (end > self.values.len) return;
        const payload = self.values.ptr + entry.payload_offset;
        var at: usize = 0;
        while (at < @min(entry.payload_bytes, prefetch_bytes_max)) : (at += 64) @prefetch(payload + at, .{});
    }

    /// Beyond it the hardware sees a stream by itself.
    const prefetch_bytes_max = 4096;

    /// How many values the table gives a row; null where that cannot be. The entry is not verified.
    pub fn rowCount(self: *const ShardView, local_row: u64) ?u64 {
        const count: u64 = switch (self.codec) {
            .rowpack => self.entryOf(local_row).n_values,
            .none => plain: {
                const start, const stop = self.pointers(local_row);
                if (stop < start or stop > self.nnz) return null;
                break :plain stop - start;
            },
        };
        return if (count <= self.longestRow()) count else null;
    }

    /// No row of the shard can store more values.
    fn longestRow(self: *const ShardView) u64 {
        return @min(self.n_cols, self.nnz);
    }

    fn pointers(self: *const ShardView, local_row: u64) struct { u64, u64 } {
        const at = self.indptr.ptr + @as(usize, @intCast(local_row)) * 8;
        return .{ bits.load(u64, at), bits.load(u64, at + 8) };
    }

    /// Checks a row and decodes its columns into the scratch.
    pub fn openRow(
        self: *const ShardView,
        matrix: *const matrix_module.Matrix,
        local_row: u64,
        scratch: *matrix_module.Scratch,
        report: *Report,
    ) Failure!matrix_module.FoundRow {
        return switch (self.codec) {
            .rowpack => self.openRowpack(matrix, local_row, scratch, report),
            .none => self.openPlain(matrix.file, local_row, scratch, report),
        };
    }

    fn openRowpack(
        self: *const ShardView,
        matrix: *const matrix_module.Matrix,
        local_row: u64,
        scratch: *matrix_module.Scratch,
        report: *Report,
    ) Failure!matrix_module.FoundRow {
        const entry = self.entryOf(local_row).*; // who writes into the file changes what the map says
        const payload_end = @as(u64, entry.payload_offset) + entry.payload_bytes;
        if (payload_end > self.values.len - rowpack.tail_bytes or entry.n_values > self.longestRow()) {
            return failFault(matrix.file, self, local_row, .length, report);
        }
        const payload = self.values[entry.payload_offset..][0..entry.payload_bytes];
        if (self.verify and rowpack.rowCrc(self.identity_crc, @intCast(local_row), &entry, payload) != entry.crc) {
            return failCrc(matrix.file, self, local_row, report);
        }
        var found: matrix_module.FoundRow = .{
            .view = self,
            .local_row = local_row,
            .row = .{
                .payload = payload.ptr,
                .payload_bytes = entry.payload_bytes,
                .n_values = entry.n_values,
                .n_cols = self.n_cols,
                .value_bytes = self.value_type.bytes(),
            },
            .open = undefined,
            .total = entry.total,
        };
        if (entry.n_values > 0) {
            try scratch.reserve(entry.n_values);
            const fault = matrix.level.openRow(&found.row, &scratch.arrays.row, &found.open);
            if (fault != .none) return failFault(matrix.file, self, local_row, fault, report);
        }
        return found;
    }

    /// Codec none. Rows have no checksum of their own: the section is hashed when the first one is read.
    fn openPlain(
        self: *const ShardView,
        file: *File,
        local_row: u64,
        scratch: *matrix_module.Scratch,
        report: *Report,
    ) Failure!matrix_module.FoundRow {
        if (self.verify) try file.verifyOnce(self.section_index, report);
        const start, const stop = self.pointers(local_row);
        if (stop < start or stop > self.nnz or stop - start > self.n_cols) {
            return failFault(file, self, local_row, .length, report);
        }
        const count: u32 = @intCast(stop - start);
        try scratch.reserve(count);
        const source = self.indices.ptr + @as(usize, @intCast(start)) * self.index_bytes;
        const columns = scratch.arrays.row.columns[0..count];
        var largest: u32 = 0;
        for (columns, 0..) |*column, index| {
            column.* = if (self.index_bytes == 2) bits.load(u16, source + index * 2) else bits.load(u32, source + index * 4);
            largest = @max(largest, column.*);
        }
        if (count > 0 and largest >= self.n_cols) return failFault(file, self, local_row, .columns, report);
        const value_bytes = self.value_type.bytes();
        return .{
            .view = self,
            .local_row = local_row,
            .row = .{
                .payload = self.values.ptr + @as(usize, @intCast(start)) * value_bytes,
                .payload_bytes = 0,
                .n_values = count,
                .n_cols = self.n_cols,
                .value_bytes = value_bytes,
            },
            .open = undefined,
            .total = 0,
        };
    }
};

fn damaged(file: *const File, section_index: u32, comptime field: []const u8, report: *Report) Failure {
    return report.fail(error.Corrupt, "the header of shard '{f}' is damaged: " ++ field ++ " does not fit the catalog; " ++
        "copy or convert the file again", .{errors.escaped(file.sections[section_index].name)});
}

fn failCrc(file: *const File, view: *const ShardView, local_row: u64, report: *Report) Failure {
    const name = file.sections[view.section_index].name;
    return report.fail(error.Corrupt, "row {d} (row {d} of shard '{f}') is damaged: its CRC-32C does not match; " ++
        "copy or convert the file again", .{ view.row_start + local_row, local_row, errors.escaped(name) });
}

pub fn failFault(
    file: *const File,
    view: *const ShardView,
    local_row: u64,
    fault: rowpack_decode.RowFault,
    report: *Report,
) Failure {
    const name = file.sections[view.section_index].name;
    return report.fail(error.Corrupt, "row {d} (row {d} of shard '{f}') is damaged: its {s} cannot be; " ++
        "copy or convert the file again", .{ view.row_start + local_row, local_row, errors.escaped(name), switch (fault) {
        .none => unreachable,
        .header => "header",
        .length => "length",
        .columns => "columns",
        .codes => "values",
    } });
}

/// Plain little-endian values, cast to the target.
pub fn copyValues(value_type: ValueType, target: Target, source: [*]const u8, count: u32, values: [*]u8) void {
    switch (value_type) {
        inline else => |stored| switch (target) {
            .stored => @memcpy(values[0 .. count * stored.bytes()], source),
            .f32 => convertValues(stored.Of(), f32, source, count, values),
            .f64 => convertValues(stored.Of(), f64, source, count, values),
        },
    }
}

fn convertValues(comptime Stored: type, comptime T: type, source: [*]const u8, count: u32, values: [*]u8) void {
    const target: [*]T = @ptrCast(@alignCast(values));
    for (target[0..count], 0..) |*value, index| {
        const stored: Stored = @bitCast(bits.load(value_type_module.BitsOf(Stored), source + index * @sizeOf(Stored)));
        value.* = value_type_module.convert(T, stored);
    }
}

test "streams that lie in the header or in one another are told" {
    const apart = ShardView.areApart;
    try std.testing.expect(apart(&.{ .{ .offset = 76, .length = 4 }, .{ .offset = 80, .length = 8 }, .{ .offset = 88, .length = 1 } }));
    try std.testing.expect(apart(&.{ .{ .offset = 80, .length = 8 }, .{ .offset = 84, .length = 0 }, .{ .offset = 0, .length = 0 } }));
    try std.testing.expect(!apart(&.{.{ .offset = 75, .length = 4 }}));
    try std.testing.expect(!apart(&.{ .{ .offset = 80, .length = 8 }, .{ .offset = 87, .length = 1 } }));
    try std.testing.expect(!apart(&.{ .{ .offset = 84, .length = 1 }, .{ .offset = 80, .length = 8 } }));
    const last = std.math.maxInt(u32);
    try std.testing.expect(!apart(&.{ .{ .offset = last, .length = last }, .{ .offset = 80, .length = last } }));
}
