//! Writing one shard: rows are appended in order, in pieces of any size, and encoded by several threads.
//!
//! What is encoded goes to the file as it comes: only the row table (24 bytes a row) stays in memory.

const std = @import("std");
const canonical = @import("canonical.zig");
const encode_rows = @import("encode_rows.zig");
const errors = @import("../errors.zig");
const hashing = @import("../container/hashing.zig");
const parallel = @import("parallel.zig");
const PlainStreams = @import("plain_streams.zig").PlainStreams;
const rowpack = @import("rowpack.zig");
const shard = @import("shard.zig");
const container_writer = @import("../container/writer.zig");
const SectionType = @import("../container/section_types.zig").SectionType;
const ValueType = @import("value_type.zig").ValueType;

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const Failure = errors.Failure;
const Mended = canonical.Mended;
const Report = errors.Report;
const Rows = encode_rows.Rows;
const ShardStats = @import("shard_stats.zig").ShardStats;
const Writer = container_writer.Writer;

/// What may follow the streams of a shard without one more check: padding and a block index of the usual length.
const room_behind_streams = 4096;

pub const Options = struct {
    name: []const u8,
    section_type: SectionType,
    modality_id: u8,
    codec: shard.Codec,
    value_type: ValueType,
    row_start: u64,
    n_rows: u32,
    n_cols: u32,
    threads: u32,
    keep_zeros: bool,
};

pub const ShardWriter = struct {
    allocator: Allocator,
    writer: *Writer,
    options: Options,
    name: []u8,
    section_at: u64,
    identity_crc: u32,
    entries: std.ArrayList(rowpack.RowEntry),
    payload_bytes: u64,
    stats: ShardStats,
    /// Only with codec none.
    plain: PlainStreams,

    pub fn begin(allocator: Allocator, writer: *Writer, options: Options, report: *Report) Failure!*ShardWriter {
        const self = try allocator.create(ShardWriter);
        errdefer allocator.destroy(self);
        const name = try allocator.dupe(u8, options.name);
        errdefer allocator.free(name);
        var entries: std.ArrayList(rowpack.RowEntry) = .empty;
        errdefer entries.deinit(allocator);
        try entries.ensureTotalCapacityPrecise(allocator, options.n_rows);

        self.* = .{
            .allocator = allocator,
            .writer = writer,
            .options = options,
            .name = name,
            .section_at = try writer.beginSection(report),
            .identity_crc = 0,
            .entries = entries,
            .payload_bytes = 0,
            .stats = .{},
            .plain = undefined,
        };
        self.options.name = name;
        const indptr_bytes = (@as(u64, options.n_rows) + 1) * @sizeOf(u64);
        self.plain = .init(self.section_at + shard.streams_at + indptr_bytes);
        var header: [shard.header_bytes]u8 = undefined;
        self.plainHeader().write(&header);
        self.identity_crc = rowpack.shardSeed(&shard.identity(&header));
        return self;
    }

    /// Frees the memory; the section stays as it is.
    pub fn deinit(self: *ShardWriter) void {
        const allocator = self.allocator;
        allocator.free(self.name);
        self.entries.deinit(allocator);
        allocator.destroy(self);
    }

    pub fn append(self: *ShardWriter, rows: Rows, mended: *Mended, report: *Report) Failure!void {
        const room = self.options.n_rows - self.entries.items.len;
        if (rows.count() > room) {
            return report.fail(error.BadArgument, "{d} rows were given to shard '{f}', which has room for {d} more", .{
                rows.count(), errors.escaped(self.name), room,
            });
        }
        if (rows == .csr) try encode_rows.checkIndptr(rows.csr.indptr, self.options.row_start + self.entries.items.len, report);
        switch (self.options.value_type) {
            inline else => |value_type| try self.appendAs(value_type.Of(), rows, mended, report),
        }
    }

    fn appendAs(self: *ShardWriter, comptime T: type, rows: Rows, mended: *Mended, report: *Report) Failure!void {
        const Job = encode_rows.Job(T);
        const parts = parallel.threadCount(self.options.threads, (rows.count() + 255) / 256);
        const jobs = try self.allocator.alloc(Job.Part, parts);
        for (jobs) |*part| part.* = .init(self.allocator, &self.options);
        defer {
            for (jobs) |*part| part.deinit();
            self.allocator.free(jobs);
        }
        const job: Job = .{
            .options = &self.options,
            .first_row = self.options.row_start + self.entries.items.len,
            .rows = rows,
            .parts = jobs,
        };
        try parallel.run(parts, &job, Job.encodePart, report);
        for (jobs) |*part| {
            try self.take(part, report);
            mended.add(part.canonicalizer.mended);
        }
    }

    /// Puts a thread's rows behind those that are there.
    fn take(self: *ShardWriter, part: anytype, report: *Report) Failure!void {
        self.stats.add(part.stats);
        if (self.options.codec == .none) return self.takePlain(part, report);
        const at = self.payload_bytes;
        const end = at + part.bytes.items.len;
        if (end > std.math.maxInt(u32) - rowpack.tail_bytes - shard.streams_at) return self.tooLarge(report);
        for (part.entries.items) |entry| {
            var moved = entry;
            moved.payload_offset += @intCast(at);
            const payload = part.bytes.items[entry.payload_offset..][0..entry.payload_bytes];
            const row: u32 = @intCast(self.entries.items.len);
            moved.crc = rowpack.rowCrc(self.identity_crc, row, &moved, payload);
            self.entries.appendAssumeCapacity(moved);
        }
        try self.writer.writeAt(self.section_at + self.payloadAt() + at, part.bytes.items, report);
        self.payload_bytes = end;
    }

    fn takePlain(self: *ShardWriter, part: anytype, report: *Report) Failure!void {
        self.entries.appendSliceAssumeCapacity(part.entries.items);
        if (part.entries.items.len == 0) return;
        try self.plain.append(self.allocator, self.writer, .{
            .indices = part.indices.items,
            .values = part.bytes.items,
            .rows_done = self.entries.items.len,
            .rows_total = self.options.n_rows,
        }, report);
        if (self.plain.indices_bytes + self.plain.values_bytes > std.math.maxInt(u32)) return self.tooLarge(report);
    }

    fn tooLarge(self: *const ShardWriter, report: *Report) Failure {
        return shard.tooLarge(self.name, report);
    }

    fn payloadAt(self: *const ShardWriter) u64 {
        return shard.streams_at + @as(u64, self.options.n_rows) * @sizeOf(rowpack.RowEntry);
    }

    pub fn finish(self: *ShardWriter, report: *Report) Failure!void {
        if (self.entries.items.len != self.options.n_rows) {
            return report.fail(error.BadArgument, "shard '{f}' is to have {d} rows but got {d}", .{
                errors.escaped(self.name), self.options.n_rows, self.entries.items.len,
            });
        }
        var header = self.plainHeader();
        header.nnz = self.stats.nnz;
        if (header.nnz > std.math.maxInt(u32)) return self.tooLarge(report);
        const end = switch (self.options.codec) {
            .rowpack => try self.finishRowpack(&header, report),
            .none => try self.finishNone(&header, report),
        };
        try self.writeBlockIndex(&header, end, report);
        const length = @as(u64, header.block_index.offset) + header.block_index.length;
        header.body_hash = try self.hashBody(length, report);
        var bytes: [shard.header_bytes]u8 = undefined;
        header.write(&bytes);
        try self.writer.writeAt(self.section_at, &bytes, report);
        try self.writer.endSection(self.catalogEntry(), length, report);
    }

    fn plainHeader(self: *const ShardWriter) shard.Header {
        return .{
            .codec_id = @backingInt(self.options.codec),
            .value_encoding = @backingInt(self.options.value_type),
            .index_dtype = if (shard.indexBytes(self.options.n_cols) == 2) 0 else 1,
            .n_major = self.options.n_rows,
            .n_minor = self.options.n_cols,
            .nnz = 0,
            .global_offset = self.options.row_start,
        };
    }

    fn catalogEntry(self: *const ShardWriter) container_writer.SectionEntry {
        return .{
            .name = self.name,
            .section_type = self.options.section_type,
            .modality_id = self.options.modality_id,
            .stats = .{
                .row_start = self.options.row_start,
                .row_end = self.options.row_start + self.options.n_rows,
                .col_start = 0,
                .col_end = self.options.n_cols,
                .nnz = self.stats.nnz,
                .value_min = self.stats.value_min orelse 0,
                .value_max = self.stats.value_max,
                .value_sum = self.stats.value_sum,
            },
        };
    }

    /// Row table before the payloads, zeros behind them. Gives where the streams end.
    fn finishRowpack(self: *ShardWriter, header: *shard.Header, report: *Report) Failure!u64 {
        const table = std.mem.sliceAsBytes(self.entries.items);
        const payload_at = self.payloadAt();
        if (payload_at + self.payload_bytes > std.math.maxInt(u32) - room_behind_streams) return self.tooLarge(report);
        try self.writer.writeAt(self.section_at + shard.streams_at, table, report);
        const zeros: [rowpack.tail_bytes]u8 = @splat(0);
        try self.writer.writeAt(self.section_at + payload_at + self.payload_bytes, &zeros, report);
        const values_length = self.payload_bytes + rowpack.tail_bytes;
        header.indptr = .{ .offset = shard.streams_at, .length = @intCast(table.len) };
        header.indices = .{ .offset = @intCast(payload_at), .length = 0 };
        header.values = .{ .offset = @intCast(payload_at), .length = @intCast(values_length) };
        return payload_at + values_length;
    }

    /// indptr (u64), indices (u16 or u32), values, each at a multiple of 8. Gives where the streams end.
    fn finishNone(self: *ShardWriter, header: *shard.Header, report: *Report) Failure!u64 {
        const pointers = try self.rowPointers();
        defer self.allocator.free(pointers);
        const plain = &self.plain;
        const end = try plain.finish(self.allocator, self.writer, report) - self.section_at;
        if (end > std.math.maxInt(u32) - room_behind_streams) return self.tooLarge(report);
        const indptr = std.mem.sliceAsBytes(pointers);
        try self.writer.writeAt(self.section_at + shard.streams_at, indptr, report);
        header.indptr = .{ .offset = shard.streams_at, .length = @intCast(indptr.len) };
        header.indices = .{
            .offset = @intCast(plain.indices_at - self.section_at),
            .length = @intCast(plain.indices_bytes),
        };
        header.values = .{
            .offset = @intCast(plain.values_at - self.section_at),
            .length = @intCast(plain.values_bytes),
        };
        return end;
    }

    /// Of each row the number of its first value, and of the values in all; the caller's to free.
    fn rowPointers(self: *const ShardWriter) Allocator.Error![]u64 {
        const pointers = try self.allocator.alloc(u64, self.entries.items.len + 1);
        pointers[0] = 0;
        for (self.entries.items, 1..) |row, index| pointers[index] = pointers[index - 1] + row.n_values;
        return pointers;
    }

    fn writeBlockIndex(self: *ShardWriter, header: *shard.Header, streams_end: u64, report: *Report) Failure!void {
        const first_values = try self.rowPointers();
        defer self.allocator.free(first_values);
        const bytes = try self.allocator.alloc(u8, shard.blockIndexBytes(self.entries.items.len));
        defer self.allocator.free(bytes);
        shard.writeBlockIndex(bytes, first_values);
        const at = std.mem.alignForward(u64, streams_end, 8);
        if (at + bytes.len > std.math.maxInt(u32)) return self.tooLarge(report);
        header.block_index = .{ .offset = @intCast(at), .length = @intCast(bytes.len) };
        try self.writer.writeAt(self.section_at + at, bytes, report);
    }

    fn hashBody(self: *ShardWriter, length: u64, report: *Report) Failure![8]u8 {
        const piece = try self.allocator.alloc(u8, 1 << 18);
        defer self.allocator.free(piece);
        var hasher: hashing.Blake3 = .init(.{});
        var at: u64 = shard.header_bytes;
        while (at < length) {
            const part = piece[0..@intCast(@min(piece.len, length - at))];
            try self.writer.readAt(self.section_at + at, part, report);
            hashing.update(&hasher, part);
            at += part.len;
        }
        var hash: [8]u8 = undefined;
        hasher.final(&hash);
        return hash;
    }
};

comptime {
    // rows are written as they lie in memory
    assert(@import("builtin").cpu.arch.endian() == .little);
}
