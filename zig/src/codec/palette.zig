//! The palette of a row: its distinct values, for rows that have few.

const std = @import("std");
const rowpack = @import("rowpack.zig");
const value_type = @import("value_type.zig");

const Allocator = std.mem.Allocator;
const RowHeader = rowpack.RowHeader;
const decimalOf = @import("decimals.zig").decimalOf;

/// The distinct values of a row, most frequent first.
pub fn PaletteOf(comptime T: type) type {
    return struct {
        const Self = @This();
        const Bits = value_type.BitsOf(T);
        const Entry = struct { bits: Bits, count: u32, code: u32 };

        /// Open addressing, at most half full.
        const table_length = 2 * rowpack.palette_length_max;
        const empty: u32 = std.math.maxInt(u32);

        entries: std.ArrayList(Entry) = .empty,
        order: std.ArrayList(u32) = .empty,
        table: std.ArrayList(u32) = .empty,

        pub fn deinit(self: *Self, allocator: Allocator) void {
            self.entries.deinit(allocator);
            self.order.deinit(allocator);
            self.table.deinit(allocator);
        }

        pub fn length(self: *const Self) usize {
            return self.entries.items.len;
        }

        /// false when there are so many distinct values that a palette cannot pay.
        pub fn build(self: *Self, allocator: Allocator, values: []const T) Allocator.Error!bool {
            self.entries.clearRetainingCapacity();
            if (self.table.items.len == 0) try self.table.resize(allocator, table_length);
            @memset(self.table.items, empty);
            const entries_max = @min(rowpack.palette_length_max, values.len);
            for (values) |value| {
                const slot = self.find(@bitCast(value));
                if (slot.* != empty) {
                    self.entries.items[slot.*].count += 1;
                    continue;
                }
                if (self.length() == entries_max) return false;
                slot.* = @intCast(self.length());
                try self.entries.append(allocator, .{ .bits = @bitCast(value), .count = 1, .code = 0 });
            }
            try self.assignCodes(allocator);
            return true;
        }

        fn find(self: *Self, value: Bits) *u32 {
            const mixed = (@as(u64, value) ^ @as(u64, value) >> 15) *% 0x9e37_79b9_7f4a_7c15;
            var at: usize = @intCast(mixed >> comptime (63 - std.math.log2_int(u64, table_length) + 1));
            while (true) : (at = (at + 1) % table_length) {
                const slot = &self.table.items[at];
                if (slot.* == empty or self.entries.items[slot.*].bits == value) return slot;
            }
        }

        fn assignCodes(self: *Self, allocator: Allocator) Allocator.Error!void {
            try self.order.resize(allocator, self.length());
            for (self.order.items, 0..) |*number, index| number.* = @intCast(index);
            std.mem.sort(u32, self.order.items, self.entries.items, moreFrequent);
            for (self.order.items, 0..) |number, code| self.entries.items[number].code = @intCast(code);
        }

        fn moreFrequent(entries: []const Entry, a: u32, b: u32) bool {
            if (entries[a].count != entries[b].count) return entries[a].count > entries[b].count;
            return entries[a].bits < entries[b].bits;
        }

        pub fn encode(self: *Self, values: []const T, codes: []u64) void {
            for (codes, values) |*code, value| code.* = self.entries.items[self.find(@bitCast(value)).*].code;
        }

        pub fn decimalsFitTwoBytes(self: *const Self, exponent: u8) bool {
            for (self.entries.items) |entry| {
                const number = decimalOf(T, @bitCast(entry.bits), exponent).?;
                if (rowpack.zigzag(number) > std.math.maxInt(u16)) return false;
            }
            return true;
        }

        pub fn write(
            self: *const Self,
            allocator: Allocator,
            header: RowHeader,
            target: *std.ArrayList(u8),
        ) Allocator.Error!void {
            const entry_bytes = header.paletteEntryBytes(@sizeOf(T));
            for (self.order.items) |number| {
                const pattern = self.entries.items[number].bits;
                var stored: u64 = pattern;
                if (@typeInfo(T) == .float and header.decimal_exponent > 0) {
                    stored = rowpack.zigzag(decimalOf(T, @bitCast(pattern), header.decimal_exponent).?);
                }
                const bytes = std.mem.toBytes(std.mem.nativeToLittle(u64, stored));
                try target.appendSlice(allocator, bytes[0..entry_bytes]);
            }
        }
    };
}

const testing = std.testing;

test "the most frequent values have the smallest codes" {
    var palette: PaletteOf(f32) = .{};
    defer palette.deinit(testing.allocator);
    const values = [_]f32{ 2.5, -0.0, 0.0, 2.5, 7, -0.0, 2.5, 1 };
    try testing.expect(try palette.build(testing.allocator, &values));
    try testing.expectEqual(5, palette.length()); // zeros of either sign are told apart
    var codes: [values.len]u64 = undefined;
    palette.encode(&values, &codes);
    // equally frequent ones by their bits: 0, 1, 7
    try testing.expectEqualSlices(u64, &.{ 0, 1, 2, 0, 4, 1, 0, 3 }, &codes);

    var bytes: std.ArrayList(u8) = .empty;
    defer bytes.deinit(testing.allocator);
    try palette.write(testing.allocator, .{
        .palette_length = 5,
        .column_mode = .run,
        .low_bits = 0,
        .value_mode = .palette,
        .widths = .{ 3, 0, 0 },
        .irregular = false,
    }, &bytes);
    const expected = [_]f32{ 2.5, -0.0, 0.0, 1, 7 };
    try testing.expectEqualSlices(u8, std.mem.asBytes(&expected), bytes.items);
}

test "more values than a palette holds are none" {
    var palette: PaletteOf(u32) = .{};
    defer palette.deinit(testing.allocator);
    var values: [rowpack.palette_length_max + 1]u32 = undefined;
    for (&values, 0..) |*value, number| value.* = @intCast(number * 977);
    try testing.expect(!try palette.build(testing.allocator, &values));
    try testing.expect(try palette.build(testing.allocator, values[1..]));
    try testing.expectEqual(rowpack.palette_length_max, palette.length());
    var codes: [rowpack.palette_length_max]u64 = undefined;
    palette.encode(values[1..], &codes);
    for (codes, 0..) |code, number| try testing.expectEqual(number, code);
}
