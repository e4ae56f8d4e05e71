//! Making a row canonical: columns strictly ascending, duplicates summed, explicit zeros dropped.
//!
//! Most rows are canonical already and are passed through after one look. Zeros are exactly +0.0 (or integer 0): -0.0
//! has bits of its own, which must come back.

const std = @import("std");
const value_type = @import("value_type.zig");

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;

/// What was mended, and what is worth a warning; `scx_mended` of the C ABI.
pub const Mended = extern struct {
    unsorted_rows: u64 = 0,
    duplicate_entries: u64 = 0,
    explicit_zeros: u64 = 0,
    non_finite_values: u64 = 0,
    negative_values: u64 = 0,
    fractional_values: u64 = 0,

    pub fn add(self: *Mended, other: Mended) void {
        inline for (comptime std.meta.fieldNames(Mended)) |name| @field(self, name) += @field(other, name);
    }
};

pub fn Canonicalizer(comptime T: type) type {
    return struct {
        const Self = @This();
        const Pair = struct { column: u32, value: T };

        pub const Row = struct { columns: []const u32, values: []const T };

        allocator: Allocator,
        keep_zeros: bool,
        mended: Mended = .{},
        columns: std.ArrayList(u32) = .empty,
        values: std.ArrayList(T) = .empty,
        pairs: std.ArrayList(Pair) = .empty,

        pub fn init(allocator: Allocator, keep_zeros: bool) Self {
            return .{ .allocator = allocator, .keep_zeros = keep_zeros };
        }

        pub fn deinit(self: *Self) void {
            self.columns.deinit(self.allocator);
            self.values.deinit(self.allocator);
            self.pairs.deinit(self.allocator);
        }

        /// The row stays valid until the next call. error.Column: an index outside [0, n_cols).
        pub fn sparseRow(
            self: *Self,
            comptime Index: type,
            indices: []const Index,
            values: []const T,
            n_cols: u32,
        ) (Allocator.Error || error{Column})!Row {
            assert(indices.len == values.len);
            const ascending = isAscending(Index, indices);
            const inside = if (ascending)
                indices.len == 0 or (indices[0] >= 0 and indices[indices.len - 1] < n_cols)
            else
                allInside(Index, indices, n_cols);
            if (!inside) return error.Column;
            const has_zero = self.countValues(values);
            if (Index == i32 and ascending and (self.keep_zeros or !has_zero)) {
                return .{ .columns = @ptrCast(indices), .values = values };
            }
            try self.columns.resize(self.allocator, indices.len);
            for (self.columns.items, indices) |*column, index| column.* = @intCast(index);
            if (!ascending) return self.sortedRow(self.columns.items, values);
            if (self.keep_zeros or !has_zero) return .{ .columns = self.columns.items, .values = values };
            return self.withoutZeros(self.columns.items, values);
        }

        fn isAscending(comptime Index: type, indices: []const Index) bool {
            var ascending = true;
            for (indices[0..indices.len -| 1], indices[@min(1, indices.len)..]) |index, next| {
                ascending = ascending and index < next;
            }
            return ascending;
        }

        fn allInside(comptime Index: type, indices: []const Index, n_cols: u32) bool {
            var inside = true;
            for (indices) |index| inside = inside and index >= 0 and index < n_cols;
            return inside;
        }

        /// Row of a dense matrix: every value that is not +0.0.
        pub fn denseRow(self: *Self, values: []const T) Allocator.Error!Row {
            try self.columns.resize(self.allocator, values.len);
            try self.values.resize(self.allocator, values.len);
            var found: usize = 0;
            for (values, 0..) |value, column| {
                self.columns.items[found] = @intCast(column);
                self.values.items[found] = value;
                found += @intFromBool(self.keep_zeros or !isZero(value));
            }
            const kept = self.values.items[0..found];
            _ = self.countValues(kept);
            return .{ .columns = self.columns.items[0..found], .values = kept };
        }

        fn sortedRow(self: *Self, columns: []const u32, values: []const T) Allocator.Error!Row {
            try self.pairs.resize(self.allocator, columns.len);
            for (self.pairs.items, columns, values) |*pair, column, value| pair.* = .{ .column = column, .value = value };
            // stable: duplicates are summed in the order in which they are stored
            std.sort.block(Pair, self.pairs.items, {}, byColumn);
            try self.values.resize(self.allocator, columns.len);
            const target = self.columns.items;
            var length: usize = 0;
            var sorted_already = true;
            for (self.pairs.items, columns) |pair, column| sorted_already = sorted_already and pair.column == column;
            for (self.pairs.items) |pair| {
                if (length > 0 and target[length - 1] == pair.column) {
                    self.values.items[length - 1] = sum(self.values.items[length - 1], pair.value);
                    self.mended.duplicate_entries += 1;
                    continue;
                }
                target[length] = pair.column;
                self.values.items[length] = pair.value;
                length += 1;
            }
            self.mended.unsorted_rows += @intFromBool(!sorted_already);
            const row_values = self.values.items[0..length];
            if (self.keep_zeros or !hasZero(row_values)) return .{ .columns = target[0..length], .values = row_values };
            return self.withoutZeros(target[0..length], row_values);
        }

        fn byColumn(_: void, a: Pair, b: Pair) bool {
            return a.column < b.column;
        }

        /// Integers wrap around, as numpy's do.
        fn sum(a: T, b: T) T {
            return if (@typeInfo(T) == .float) a + b else a +% b;
        }

        /// `columns` and `values` may be this object's own arrays: elements only move towards the front.
        fn withoutZeros(self: *Self, columns: []const u32, values: []const T) Allocator.Error!Row {
            if (values.ptr != self.values.items.ptr) try self.values.resize(self.allocator, values.len);
            var found: usize = 0;
            for (columns, values) |column, value| {
                self.columns.items[found] = column;
                self.values.items[found] = value;
                found += @intFromBool(!isZero(value));
            }
            self.mended.explicit_zeros += values.len - found;
            return .{ .columns = self.columns.items[0..found], .values = self.values.items[0..found] };
        }

        /// Counts what is worth a warning; true when there is a +0.0 or an integer 0.
        fn countValues(self: *Self, values: []const T) bool {
            var has_zero = false;
            var at: usize = 0;
            while (at + lanes <= values.len) : (at += lanes) {
                has_zero = self.countLanes(values[at..][0..lanes].*) or has_zero;
            }
            if (at == values.len) return has_zero;
            var rest: [lanes]T = @splat(1); // ones count as nothing
            @memcpy(rest[0 .. values.len - at], values[at..]);
            return self.countLanes(rest) or has_zero;
        }

        const lanes = 16;
        const Lanes = @Vector(lanes, T);
        const BitLanes = @Vector(lanes, value_type.BitsOf(T));

        inline fn countLanes(self: *Self, values: Lanes) bool {
            const zero: Lanes = @splat(0);
            const pattern: BitLanes = @bitCast(values);
            const has_zero = @reduce(.Or, pattern == @as(BitLanes, @splat(0)));
            if (@typeInfo(T) == .int and @typeInfo(T).int.signedness == .unsigned) return has_zero;
            self.mended.negative_values += countTrue(values < zero);
            if (@typeInfo(T) == .int) return has_zero;
            const finite: u16 = @bitCast((values - values) == zero);
            const whole: u16 = @bitCast(@trunc(values) == values);
            self.mended.non_finite_values += @popCount(~finite);
            self.mended.fractional_values += @popCount(finite & ~whole);
            return has_zero;
        }

        inline fn countTrue(truth: @Vector(lanes, bool)) u64 {
            return @popCount(@as(u16, @bitCast(truth)));
        }

        inline fn isZero(value: T) bool {
            return @as(value_type.BitsOf(T), @bitCast(value)) == 0;
        }

        fn hasZero(values: []const T) bool {
            var found = false;
            for (values) |value| found = found or isZero(value);
            return found;
        }
    };
}

const testing = std.testing;

fn expectRow(comptime T: type, keep_zeros: bool, indices: []const i32, values: []const T, columns: []const u32, kept: []const T, mended: Mended) !void {
    var canonicalizer: Canonicalizer(T) = .init(testing.allocator, keep_zeros);
    defer canonicalizer.deinit();
    const row = try canonicalizer.sparseRow(i32, indices, values, 10);
    try testing.expectEqualSlices(u32, columns, row.columns);
    try testing.expectEqualSlices(T, kept, row.values);
    try testing.expectEqualDeep(mended, canonicalizer.mended);
}

test "rows of all kinds" {
    try expectRow(u16, false, &.{ 1, 5 }, &.{ 7, 8 }, &.{ 1, 5 }, &.{ 7, 8 }, .{});
    try expectRow(f32, false, &.{ 3, 1, 2 }, &.{ 30, 10, 20 }, &.{ 1, 2, 3 }, &.{ 10, 20, 30 }, .{ .unsorted_rows = 1 });
    try expectRow(f32, false, &.{ 1, 1 }, &.{ 2, 3.5 }, &.{1}, &.{5.5}, .{ .duplicate_entries = 1, .fractional_values = 1 });
    try expectRow(f32, false, &.{ 2, 4 }, &.{ 0, 1 }, &.{4}, &.{1}, .{ .explicit_zeros = 1 });
    try expectRow(f32, true, &.{ 2, 4 }, &.{ 0, 1 }, &.{ 2, 4 }, &.{ 0, 1 }, .{});
    try expectRow(f32, false, &.{ 4, 2, 4 }, &.{ 1, 0, -1 }, &.{}, &.{}, .{
        .unsorted_rows = 1,
        .duplicate_entries = 1,
        .explicit_zeros = 2,
        .negative_values = 1,
    });
    try expectRow(f64, false, &.{}, &.{}, &.{}, &.{}, .{});
    try expectRow(f32, false, &.{0}, &.{-0.0}, &.{0}, &.{-0.0}, .{});
    try expectRow(f32, false, &.{ 0, 1 }, &.{ std.math.inf(f32), -1 }, &.{ 0, 1 }, &.{ std.math.inf(f32), -1 }, .{
        .non_finite_values = 1,
        .negative_values = 1,
    });
    try expectRow(u8, false, &.{ 3, 3 }, &.{ 255, 2 }, &.{3}, &.{1}, .{ .duplicate_entries = 1 });
}

test "columns outside the matrix" {
    var canonicalizer: Canonicalizer(f32) = .init(testing.allocator, false);
    defer canonicalizer.deinit();
    try testing.expectError(error.Column, canonicalizer.sparseRow(i32, &.{-1}, &.{1}, 10));
    try testing.expectError(error.Column, canonicalizer.sparseRow(i64, &.{ 1, 1 << 32 }, &.{ 1, 1 }, 10));
    try testing.expectError(error.Column, canonicalizer.sparseRow(i32, &.{10}, &.{1}, 10));
}

test "a dense row" {
    var canonicalizer: Canonicalizer(f32) = .init(testing.allocator, false);
    defer canonicalizer.deinit();
    const row = try canonicalizer.denseRow(&.{ 0, 2, -0.0, 0, 3 });
    try testing.expectEqualSlices(u32, &.{ 1, 2, 4 }, row.columns);
    try testing.expectEqualSlices(f32, &.{ 2, -0.0, 3 }, row.values);
}
