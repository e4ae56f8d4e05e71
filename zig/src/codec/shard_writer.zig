//! Writing one shard: rows are appended in order, in pieces of any size, and encoded by several threads.
//!
//! What is encoded goes to the file as it comes: only the row table (24 bytes a row) stays in memory.

const std = @import("std");
const canonical = @import("canonical.zig");
const errors = @import("../errors.zig");
const hashing = @import("../container/hashing.zig");
const parallel = @import("parallel.zig");
const PlainStreams = @import("plain_streams.zig").PlainStreams;
const rowpack = @import("rowpack.zig");
const shard = @import("shard.zig");
const container_writer = @import("../container/writer.zig");
const SectionType = @import("../container/section_types.zig").SectionType;
const RowEncoder = @import("rowpack_encode.zig").RowEncoder;
const ValueType = @import("value_type.zig").ValueType;
const value_type_module = @import("value_type.zig");

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const Failure = errors.Failure;
const Mended = canonical.Mended;
const Report = errors.Report;
const Writer = container_writer.Writer;

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

/// Rows to append, in the caller's memory.
pub const Rows = union(enum) {
    csr: struct {
        /// n_rows + 1 entries; the first of `indices` and `values` belongs to indptr[0].
        indptr: []const i64,
        indices: Indices,
        values: [*]const u8,
    },
    dense: struct { n_rows: usize, values: [*]const u8 },

    pub const Indices = union(enum) { i32: [*]const i32, i64: [*]const i64 };

    fn count(self: Rows) usize {
        return switch (self) {
            .csr => |csr| csr.indptr.len - 1,
            .dense => |dense| dense.n_rows,
        };
    }
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
    stats: Stats,
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
        if (rows == .csr) try checkIndptr(rows.csr.indptr, self.options.row_start + self.entries.items.len, report);
        switch (self.options.value_type) {
            inline else => |value_type| try self.appendAs(value_type.Of(), rows, mended, report),
        }
    }

    fn appendAs(self: *ShardWriter, comptime T: type, rows: Rows, mended: *Mended, report: *Report) Failure!void {
        const Job = EncodeJob(T);
        const parts = parallel.threadCount(self.options.threads, (rows.count() + 255) / 256);
        const jobs = try self.allocator.alloc(Job.Part, parts);
        for (jobs) |*part| part.* = .init(self);
        defer {
            for (jobs) |*part| part.deinit();
            self.allocator.free(jobs);
        }
        const job: Job = .{ .owner = self, .rows = rows, .parts = jobs };
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
        return report.fail(error.Limit, "shard '{f}' grows beyond 4 GB: use a smaller shard_size", .{errors.escaped(self.name)});
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
        if (payload_at + self.payload_bytes > std.math.maxInt(u32) / 2 * 2 - 4096) return self.tooLarge(report);
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
        const pointers = try self.allocator.alloc(u64, self.entries.items.len + 1);
        defer self.allocator.free(pointers);
        pointers[0] = 0;
        for (self.entries.items, 1..) |row, index| pointers[index] = pointers[index - 1] + row.n_values;
        const plain = &self.plain;
        const end = try plain.finish(self.allocator, self.writer, report) - self.section_at;
        if (end > std.math.maxInt(u32) - 4096) return self.tooLarge(report);
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

    fn writeBlockIndex(self: *ShardWriter, header: *shard.Header, streams_end: u64, report: *Report) Failure!void {
        const first_values = try self.allocator.alloc(u64, self.entries.items.len + 1);
        defer self.allocator.free(first_values);
        first_values[0] = 0;
        for (self.entries.items, 1..) |row, index| first_values[index] = first_values[index - 1] + row.n_values;
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

/// What the catalog says of a shard's values.
const Stats = struct {
    nnz: u64 = 0,
    value_min: ?u32 = null,
    value_max: u32 = 0,
    value_sum: u64 = 0,

    fn add(self: *Stats, other: Stats) void {
        self.nnz += other.nnz;
        self.value_max = @max(self.value_max, other.value_max);
        self.value_sum +%= other.value_sum;
        if (other.value_min) |least| self.value_min = @min(least, self.value_min orelse least);
    }

    /// Integers only: of floats and of negative numbers the fields can say nothing.
    fn count(self: *Stats, comptime T: type, values: []const T) void {
        self.nnz += values.len;
        if (@typeInfo(T) != .int or values.len == 0) return;
        var least = values[0];
        var largest = values[0];
        for (values) |value| {
            least = @min(least, value);
            largest = @max(largest, value);
            if (value > 0) self.value_sum +%= @intCast(value);
        }
        const least_clipped = clip(least);
        self.value_min = @min(least_clipped, self.value_min orelse least_clipped);
        self.value_max = @max(self.value_max, clip(largest));
    }

    fn clip(value: anytype) u32 {
        if (value < 0) return 0;
        return std.math.cast(u32, value) orelse std.math.maxInt(u32);
    }
};

fn checkIndptr(indptr: []const i64, first_row: u64, report: *Report) Failure!void {
    for (indptr[1..], indptr[0 .. indptr.len - 1], first_row..) |next, start, row| {
        // their distance may not fit 64 bits
        const length = std.math.sub(i64, next, start) catch -1;
        if (length >= 0 and length <= rowpack.columns_max) continue;
        report.row = row;
        return report.fail(error.BadArgument, "row {d} has row pointers {d} and {d}: they must not fall, nor be further " ++
            "apart than a row can be long", .{ row, start, next });
    }
}

fn EncodeJob(comptime T: type) type {
    return struct {
        const Self = @This();

        owner: *const ShardWriter,
        rows: Rows,
        parts: []Part,

        const Part = struct {
            allocator: Allocator,
            canonicalizer: canonical.Canonicalizer(T),
            encoder: RowEncoder(T),
            entries: std.ArrayList(rowpack.RowEntry) = .empty,
            /// Payloads, or the values with codec none.
            bytes: std.ArrayList(u8) = .empty,
            indices: std.ArrayList(u8) = .empty,
            stats: Stats = .{},

            fn init(owner: *const ShardWriter) Part {
                return .{
                    .allocator = owner.allocator,
                    .canonicalizer = .init(owner.allocator, owner.options.keep_zeros),
                    .encoder = .init(owner.allocator),
                };
            }

            fn deinit(self: *Part) void {
                self.canonicalizer.deinit();
                self.encoder.deinit();
                self.entries.deinit(self.allocator);
                self.bytes.deinit(self.allocator);
                self.indices.deinit(self.allocator);
            }
        };

        fn encodePart(self: *const Self, number: usize, report: *Report) Failure!void {
            const part = &self.parts[number];
            const range = parallel.rangeOf(self.rows.count(), self.parts.len, number);
            for (range.start..range.stop) |row| {
                const canonical_row = try self.canonicalRow(part, row, report);
                part.stats.count(T, canonical_row.values);
                switch (self.owner.options.codec) {
                    .rowpack => try self.encodeRow(part, canonical_row, report),
                    .none => try self.copyRow(part, canonical_row),
                }
            }
        }

        const Row = canonical.Canonicalizer(T).Row;

        fn canonicalRow(self: *const Self, part: *Part, row: usize, report: *Report) Failure!Row {
            const n_cols = self.owner.options.n_cols;
            switch (self.rows) {
                .dense => |dense| {
                    const values: [*]const T = @ptrCast(@alignCast(dense.values));
                    return part.canonicalizer.denseRow(values[row * n_cols ..][0..n_cols]);
                },
                .csr => |csr| {
                    const start: usize = @intCast(csr.indptr[row] - csr.indptr[0]);
                    const length: usize = @intCast(csr.indptr[row + 1] - csr.indptr[row]);
                    const values = @as([*]const T, @ptrCast(@alignCast(csr.values)))[start..][0..length];
                    const result = switch (csr.indices) {
                        .i32 => |indices| part.canonicalizer.sparseRow(i32, indices[start..][0..length], values, n_cols),
                        .i64 => |indices| part.canonicalizer.sparseRow(i64, indices[start..][0..length], values, n_cols),
                    };
                    return result catch |failure| switch (failure) {
                        error.OutOfMemory => error.OutOfMemory,
                        error.Column => self.columnOutside(csr.indices, start, length, row, report),
                    };
                },
            }
        }

        fn columnOutside(self: *const Self, indices: Rows.Indices, start: usize, length: usize, row: usize, report: *Report) Failure {
            const n_cols = self.owner.options.n_cols;
            const file_row = self.owner.options.row_start + self.owner.entries.items.len + row;
            report.row = file_row;
            for (start..start + length) |at| {
                const column: i64 = switch (indices) {
                    .i32 => |narrow| narrow[at],
                    .i64 => |wide| wide[at],
                };
                if (column >= 0 and column < n_cols) continue;
                return report.fail(error.OutOfRange, "row {d} has a value in column {d}, but the matrix has {d} columns", .{
                    file_row, column, n_cols,
                });
            }
            unreachable;
        }

        fn encodeRow(self: *const Self, part: *Part, row: Row, report: *Report) Failure!void {
            const at = part.bytes.items.len;
            var entry = try part.encoder.encode(row.columns, row.values, self.owner.options.n_cols, &part.bytes);
            if (part.bytes.items.len > std.math.maxInt(u32)) return self.owner.tooLarge(report);
            entry.payload_offset = @intCast(at);
            try part.entries.append(part.allocator, entry);
        }

        fn copyRow(self: *const Self, part: *Part, row: Row) Allocator.Error!void {
            if (shard.indexBytes(self.owner.options.n_cols) == 4) {
                try part.indices.appendSlice(part.allocator, std.mem.sliceAsBytes(row.columns));
            } else {
                const target = try part.indices.addManyAsSlice(part.allocator, row.columns.len * 2);
                for (row.columns, 0..) |column, index| {
                    std.mem.writeInt(u16, target[index * 2 ..][0..2], @intCast(column), .little);
                }
            }
            try part.bytes.appendSlice(part.allocator, std.mem.sliceAsBytes(row.values));
            try part.entries.append(part.allocator, .{
                .payload_offset = 0,
                .n_values = @intCast(row.columns.len),
                .payload_bytes = 0,
                .crc = 0,
                .total = 0,
            });
        }
    };
}

comptime {
    // rows are written as they lie in memory
    assert(@import("builtin").cpu.arch.endian() == .little);
    _ = value_type_module;
}

test "row pointers that cannot be" {
    var report: Report = .{};
    try checkIndptr(&.{ 5, 5, 7, 7 + rowpack.columns_max }, 0, &report);
    const wrong = [_][3]i64{
        .{ 0, 4, 3 },
        .{ 0, 0, rowpack.columns_max + 1 },
        .{ 0, std.math.minInt(i64), std.math.maxInt(i64) },
        .{ -1, std.math.maxInt(i64), 0 },
    };
    for (wrong) |indptr| {
        report = .{};
        try std.testing.expectError(error.BadArgument, checkIndptr(&indptr, 10, &report));
        try std.testing.expect(report.row == 10 or report.row == 11);
    }
}
