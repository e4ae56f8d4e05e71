//! Packing one canonical row. The widths are chosen by exact cost, so the same row always gives the same bytes.

const std = @import("std");
const bits = @import("bits.zig");
const rowpack = @import("rowpack.zig");
const value_type = @import("value_type.zig");

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const RowEntry = rowpack.RowEntry;
const RowHeader = rowpack.RowHeader;

/// Codes are counted one by one up to here; an escape starts below it.
const histogram_length = 2 * (1 << rowpack.escape_width_max);

/// Working memory of one encoding thread.
pub fn RowEncoder(comptime T: type) type {
    return struct {
        const Self = @This();
        const Palette = PaletteOf(T);

        allocator: Allocator,
        codes: std.ArrayList(u64) = .empty,
        palette: Palette = .{},

        pub fn init(allocator: Allocator) Self {
            return .{ .allocator = allocator };
        }

        pub fn deinit(self: *Self) void {
            self.codes.deinit(self.allocator);
            self.palette.deinit(self.allocator);
        }

        /// Appends the payload to `target` and describes it; offset and CRC are left to the caller, who knows where
        /// the row stands. Columns are strictly ascending and below `n_cols`.
        pub fn encode(
            self: *Self,
            columns: []const u32,
            values: []const T,
            n_cols: u32,
            target: *std.ArrayList(u8),
        ) Allocator.Error!RowEntry {
            assert(columns.len == values.len);
            assert(columns.len == 0 or columns[columns.len - 1] < n_cols);
            var entry: RowEntry = .{
                .payload_offset = 0,
                .n_values = @intCast(columns.len),
                .payload_bytes = 0,
                .crc = 0,
                .total = 0,
            };
            if (columns.len == 0) return entry;
            entry.total, const irregular = totalOf(T, values);
            const columns_plan = planColumns(columns, n_cols);
            const values_plan = try self.planValues(values);
            const start = target.items.len;
            const header: RowHeader = .{
                .column_mode = columns_plan.mode,
                .low_bits = columns_plan.low_bits,
                .value_mode = values_plan.mode,
                .widths = values_plan.tiers.widths,
                .irregular = irregular,
                .palette_length = if (values_plan.mode == .palette) @intCast(self.palette.length()) else 0,
            };
            header.write((try target.addManyAsArray(self.allocator, RowHeader.byte_count)));
            if (values_plan.mode == .palette) try self.palette.write(self.allocator, target);
            try writeColumns(self.allocator, columns, n_cols, columns_plan, target);
            if (values_plan.mode == .raw) {
                try target.appendSlice(self.allocator, std.mem.sliceAsBytes(values));
            } else {
                try writeTiers(self.allocator, self.codes.items, values_plan.tiers, target);
            }
            entry.payload_bytes = @intCast(target.items.len - start);
            return entry;
        }

        const ValuesPlan = struct { mode: rowpack.ValueMode, tiers: Tiers };

        fn planValues(self: *Self, values: []const T) Allocator.Error!ValuesPlan {
            const raw_bits = values.len * @sizeOf(T) * 8;
            if (try self.integerCodes(values)) |mode| {
                const tiers = chooseTiers(self.codes.items);
                if (tiers.cost_bits <= raw_bits) return .{ .mode = mode, .tiers = tiers };
            }
            if (try self.palette.build(self.allocator, values)) {
                try self.codes.resize(self.allocator, values.len);
                self.palette.encode(values, self.codes.items);
                const tiers = chooseTiers(self.codes.items);
                const palette_bits = self.palette.length() * @sizeOf(T) * 8;
                if (tiers.cost_bits + palette_bits < raw_bits) return .{ .mode = .palette, .tiers = tiers };
            }
            return .{ .mode = .raw, .tiers = .{ .widths = .{ 0, 0, 0 }, .cost_bits = raw_bits } };
        }

        /// Codes of a row of whole numbers, from 1 where there is no zero; null for any other row.
        fn integerCodes(self: *Self, values: []const T) Allocator.Error!?rowpack.ValueMode {
            try self.codes.resize(self.allocator, values.len);
            var has_zero = false;
            for (self.codes.items, values) |*code, value| {
                code.* = wholeNumber(T, value) orelse return null;
                has_zero = has_zero or code.* == 0;
            }
            if (has_zero) return .integers;
            for (self.codes.items) |*code| code.* -= 1;
            return .positive_integers;
        }
    };
}

/// The value as an unsigned number where the decoder can make the same bits of it again.
inline fn wholeNumber(comptime T: type, value: T) ?u64 {
    if (@typeInfo(T) == .int) return if (value < 0) null else @intCast(value);
    // up to here every whole number has a float of its own
    const exact_max: T = switch (T) {
        f16 => 1 << 11,
        f32 => 1 << 24,
        f64 => 1 << 53,
        else => comptime unreachable,
    };
    if (!(value >= 0 and value <= exact_max)) return null;
    const number: u64 = @intFromFloat(value);
    const Bits = value_type.BitsOf(T);
    const again: T = @floatFromInt(number);
    return if (@as(Bits, @bitCast(again)) == @as(Bits, @bitCast(value))) number else null;
}

/// The sum in column order with negatives and NaN as 0, and whether there were any.
fn totalOf(comptime T: type, values: []const T) struct { f64, bool } {
    var total: f64 = 0;
    var irregular = false;
    for (values) |value| {
        const wide = value_type.convert(f64, value);
        if (wide >= 0) total += wide else irregular = true;
    }
    return .{ total, irregular };
}

const ColumnsPlan = struct { mode: rowpack.ColumnMode, low_bits: u8 };

fn planColumns(columns: []const u32, n_cols: u32) ColumnsPlan {
    const count = columns.len;
    if (columns[count - 1] - columns[0] == count - 1) return .{ .mode = .run, .low_bits = 0 };
    var best: ColumnsPlan = .{ .mode = .bitmap, .low_bits = 0 };
    var best_bytes = rowpack.columnBytes(.bitmap, count, n_cols, 0);
    for (0..rowpack.low_bits_max + 1) |low_bits| {
        const bytes = rowpack.columnBytes(.elias_fano, count, n_cols, @intCast(low_bits));
        if (bytes >= best_bytes) continue;
        best_bytes = bytes;
        best = .{ .mode = .elias_fano, .low_bits = @intCast(low_bits) };
    }
    return best;
}

fn writeColumns(
    allocator: Allocator,
    columns: []const u32,
    n_cols: u32,
    plan: ColumnsPlan,
    target: *std.ArrayList(u8),
) Allocator.Error!void {
    const bytes: usize = @intCast(rowpack.columnBytes(plan.mode, columns.len, n_cols, plan.low_bits));
    const area = try zeroedArea(allocator, bytes, target);
    switch (plan.mode) {
        .run => std.mem.writeInt(u32, area[0..4], columns[0], .little),
        .bitmap => for (columns) |column| setBit(area, column),
        .elias_fano => {
            for (columns, 0..) |column, index| setBit(area, (column >> @intCast(plan.low_bits)) + index);
            const upper_bits = rowpack.upperBits(columns.len, n_cols, plan.low_bits);
            var packer: bits.Packer = .{ .target = area[@intCast((upper_bits + 7) / 8)..] };
            const mask = bits.lowMask(plan.low_bits);
            if (plan.low_bits > 0) for (columns) |column| packer.put(column & mask, plan.low_bits);
        },
    }
    target.items.len -= packer_slack;
}

inline fn setBit(area: []u8, bit: usize) void {
    area[bit / 8] |= @as(u8, 1) << @intCast(bit % 8);
}

/// `Packer` writes whole words: this many bytes behind the area must be there while it works.
const packer_slack = 16;

/// Zero bytes at the end of `target`, with the packer's slack behind them, which the caller cuts off again.
fn zeroedArea(allocator: Allocator, bytes: usize, target: *std.ArrayList(u8)) Allocator.Error![]u8 {
    const area = try target.addManyAsSlice(allocator, bytes + packer_slack);
    @memset(area, 0);
    return area;
}

const Tiers = struct { widths: [3]u8, cost_bits: u64 };

/// The cheapest widths by exact count, the first among equals.
fn chooseTiers(codes: []const u64) Tiers {
    // at_least[c]: how many codes are c or larger
    var at_least: [histogram_length + 1]u32 = @splat(0);
    var largest: u64 = 0;
    for (codes) |code| {
        at_least[@intCast(@min(code, histogram_length))] += 1;
        largest = @max(largest, code);
    }
    var index: usize = histogram_length;
    while (index > 0) : (index -= 1) at_least[index - 1] += at_least[index];

    const count: u64 = codes.len;
    const plain_width = bitLength(largest);
    var best: Tiers = .{ .widths = .{ plain_width, 0, 0 }, .cost_bits = count * plain_width };
    for (1..escapeWidthsEnd(plain_width)) |width_0| {
        const escape_0 = bits.lowMask(@intCast(width_0));
        const escaped: u64 = at_least[@intCast(escape_0)];
        const cost_0 = count * width_0;
        const last_1 = @max(1, bitLength(largest - escape_0));
        keepCheaper(&best, .{ @intCast(width_0), last_1, 0 }, cost_0 + escaped * last_1);
        for (1..escapeWidthsEnd(last_1)) |width_1| {
            const escape_1 = bits.lowMask(@intCast(width_1));
            const escaped_again: u64 = at_least[@intCast(escape_0 + escape_1)];
            const last_2 = @max(1, bitLength(largest - escape_0 - escape_1));
            const cost = cost_0 + escaped * width_1 + escaped_again * last_2;
            keepCheaper(&best, .{ @intCast(width_0), @intCast(width_1), last_2 }, cost);
        }
    }
    return best;
}

/// Escapes pay only in tiers narrower than what would hold every code.
fn escapeWidthsEnd(width_needed: u8) usize {
    return @max(1, @min(@as(usize, width_needed), rowpack.escape_width_max + 1));
}

fn keepCheaper(best: *Tiers, widths: [3]u8, cost_bits: u64) void {
    if (cost_bits < best.cost_bits) best.* = .{ .widths = widths, .cost_bits = cost_bits };
}

fn bitLength(number: u64) u8 {
    return 64 - @as(u8, @clz(number));
}

fn writeTiers(
    allocator: Allocator,
    codes: []const u64,
    tiers: Tiers,
    target: *std.ArrayList(u8),
) Allocator.Error!void {
    var base: u64 = 0;
    for (tiers.widths, 0..) |width, tier| {
        if (width == 0) return;
        const is_last = tier == 2 or tiers.widths[tier + 1] == 0;
        var count: usize = 0;
        for (codes) |code| count += @intFromBool(code >= base);
        const bytes: usize = @intCast(bits.packedBytes(count, width));
        var packer: bits.Packer = .{ .target = try zeroedArea(allocator, bytes, target) };
        const escape = bits.lowMask(width);
        for (codes) |code| {
            if (code < base) continue;
            packer.put(if (is_last) code - base else @min(code - base, escape), width);
        }
        target.items.len -= packer_slack;
        if (is_last) return;
        base += escape;
    }
}

/// The distinct values of a row, most frequent first.
fn PaletteOf(comptime T: type) type {
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

        fn deinit(self: *Self, allocator: Allocator) void {
            self.entries.deinit(allocator);
            self.order.deinit(allocator);
            self.table.deinit(allocator);
        }

        fn length(self: *const Self) usize {
            return self.entries.items.len;
        }

        /// false when there are so many distinct values that a palette cannot pay.
        fn build(self: *Self, allocator: Allocator, values: []const T) Allocator.Error!bool {
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

        fn encode(self: *Self, values: []const T, codes: []u64) void {
            for (codes, values) |*code, value| code.* = self.entries.items[self.find(@bitCast(value)).*].code;
        }

        fn write(self: *const Self, allocator: Allocator, target: *std.ArrayList(u8)) Allocator.Error!void {
            for (self.order.items) |number| {
                const value = std.mem.toBytes(std.mem.nativeToLittle(Bits, self.entries.items[number].bits));
                try target.appendSlice(allocator, &value);
            }
        }
    };
}
