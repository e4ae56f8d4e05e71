//! Rows of the caller on their way into a shard: made canonical and encoded, by several threads.

const std = @import("std");
const canonical = @import("canonical.zig");
const errors = @import("../errors.zig");
const parallel = @import("parallel.zig");
const rowpack = @import("rowpack.zig");
const shard = @import("shard.zig");
const Options = @import("shard_writer.zig").Options;
const RowEncoder = @import("rowpack_encode.zig").RowEncoder;
const ShardStats = @import("shard_stats.zig").ShardStats;

const Allocator = std.mem.Allocator;
const Failure = errors.Failure;
const Report = errors.Report;

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

    pub fn count(self: Rows) usize {
        return switch (self) {
            .csr => |csr| csr.indptr.len - 1,
            .dense => |dense| dense.n_rows,
        };
    }
};

/// The first of the rows is `first_row` of the file.
pub fn checkIndptr(indptr: []const i64, first_row: u64, report: *Report) Failure!void {
    for (indptr[1..], indptr[0 .. indptr.len - 1], first_row..) |next, start, row| {
        // their distance may not fit 64 bits
        const length = std.math.sub(i64, next, start) catch -1;
        if (length >= 0 and length <= rowpack.columns_max) continue;
        report.row = row;
        return report.fail(error.BadArgument, "row {d} has row pointers {d} and {d}: they must not fall, nor be further " ++
            "apart than a row can be long", .{ row, start, next });
    }
}

/// Rows on their way into a shard, a part of them for each thread.
pub fn Job(comptime T: type) type {
    return struct {
        const Self = @This();

        options: *const Options,
        /// Of the file.
        first_row: u64,
        rows: Rows,
        parts: []Part,

        pub const Part = struct {
            allocator: Allocator,
            canonicalizer: canonical.Canonicalizer(T),
            encoder: RowEncoder(T),
            entries: std.ArrayList(rowpack.RowEntry) = .empty,
            /// Payloads, or the values with codec none.
            bytes: std.ArrayList(u8) = .empty,
            indices: std.ArrayList(u8) = .empty,
            stats: ShardStats = .{},

            pub fn init(allocator: Allocator, options: *const Options) Part {
                return .{
                    .allocator = allocator,
                    .canonicalizer = .init(allocator, options.keep_zeros),
                    .encoder = .init(allocator),
                };
            }

            pub fn deinit(self: *Part) void {
                self.canonicalizer.deinit();
                self.encoder.deinit();
                self.entries.deinit(self.allocator);
                self.bytes.deinit(self.allocator);
                self.indices.deinit(self.allocator);
            }
        };

        pub fn encodePart(self: *const Self, number: usize, report: *Report) Failure!void {
            const part = &self.parts[number];
            const range = parallel.rangeOf(self.rows.count(), self.parts.len, number);
            for (range.start..range.stop) |row| {
                const canonical_row = try self.canonicalRow(part, row, report);
                part.stats.count(T, canonical_row.values);
                switch (self.options.codec) {
                    .rowpack => try self.encodeRow(part, canonical_row, report),
                    .none => try self.copyRow(part, canonical_row),
                }
            }
        }

        const Row = canonical.Canonicalizer(T).Row;

        fn canonicalRow(self: *const Self, part: *Part, row: usize, report: *Report) Failure!Row {
            const n_cols = self.options.n_cols;
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
            const n_cols = self.options.n_cols;
            const file_row = self.first_row + row;
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
            var entry = try part.encoder.encode(row.columns, row.values, self.options.n_cols, &part.bytes);
            if (part.bytes.items.len > std.math.maxInt(u32)) return shard.tooLarge(self.options.name, report);
            entry.payload_offset = @intCast(at);
            try part.entries.append(part.allocator, entry);
        }

        fn copyRow(self: *const Self, part: *Part, row: Row) Allocator.Error!void {
            if (shard.indexBytes(self.options.n_cols) == 4) {
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
