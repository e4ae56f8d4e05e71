//! Packing one canonical row. The widths are chosen by exact cost, so the same row always gives the same bytes.

const std = @import("std");
const bits = @import("bits.zig");
const decimals = @import("decimals.zig");
const row_tiers = @import("row_tiers.zig");
const rowpack = @import("rowpack.zig");
const value_type = @import("value_type.zig");

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const RowEntry = rowpack.RowEntry;
const PaletteOf = @import("palette.zig").PaletteOf;
const RowHeader = rowpack.RowHeader;
const TierWriter = row_tiers.TierWriter;
const Tiers = row_tiers.Tiers;
const chooseTiers = row_tiers.chooseTiers;
const decimalExponent = decimals.decimalExponent;
const decimalOf = decimals.decimalOf;
const zeroedArea = row_tiers.zeroedArea;

/// Working memory of one encoding thread.
pub fn RowEncoder(comptime T: type) type {
    return struct {
        const Self = @This();
        const Palette = PaletteOf(T);

        allocator: Allocator,
        codes: std.ArrayList(u64) = .empty,
        palette: Palette = .{},
        tiers: TierWriter = .{},
        low_codes: std.ArrayList(u32) = .empty,
        decimal_codes: std.ArrayList(u64) = .empty,

        pub fn init(allocator: Allocator) Self {
            return .{ .allocator = allocator };
        }

        pub fn deinit(self: *Self) void {
            self.codes.deinit(self.allocator);
            self.palette.deinit(self.allocator);
            self.tiers.deinit(self.allocator);
            self.low_codes.deinit(self.allocator);
            self.decimal_codes.deinit(self.allocator);
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
            const columns_plan = planColumns(columns, n_cols);
            const values_plan = try self.planValues(values);
            entry.total, const irregular = totalOf(T, values, values_plan.whole_sum);
            const start = target.items.len;
            const header: RowHeader = .{
                .column_mode = columns_plan.mode,
                .low_bits = columns_plan.low_bits,
                .value_mode = values_plan.mode,
                .widths = values_plan.tiers.widths,
                .irregular = irregular,
                .decimal_exponent = values_plan.decimal_exponent,
                .short_palette = values_plan.short_palette,
                .palette_length = if (values_plan.mode == .palette) @intCast(self.palette.length()) else 0,
            };
            header.write((try target.addManyAsArray(self.allocator, RowHeader.byte_count)));
            if (values_plan.mode == .palette) try self.palette.write(self.allocator, header, target);
            try self.writeColumns(columns, n_cols, columns_plan, target);
            if (values_plan.mode == .raw) {
                try target.appendSlice(self.allocator, std.mem.sliceAsBytes(values));
            } else {
                const codes = if (values_plan.mode == .decimals) self.decimal_codes.items else self.codes.items;
                try self.tiers.write(self.allocator, codes, values_plan.tiers, target);
            }
            entry.payload_bytes = @intCast(target.items.len - start);
            return entry;
        }

        const ValuesPlan = struct {
            mode: rowpack.ValueMode,
            tiers: Tiers,
            /// The sum, where the row holds whole numbers only and it is exact.
            whole_sum: ?u64 = null,
            decimal_exponent: u8 = 0,
            short_palette: bool = false,
        };

        fn planValues(self: *Self, values: []const T) Allocator.Error!ValuesPlan {
            const raw_bits = values.len * @sizeOf(T) * 8;
            if (try self.integerCodes(values)) |whole| {
                const tiers = chooseTiers(self.codes.items);
                if (tiers.cost_bits <= raw_bits) return .{ .mode = whole.mode, .tiers = tiers, .whole_sum = whole.sum };
            }
            const exponent = if (@typeInfo(T) == .float) decimalExponent(T, values) else 0;
            var best: ValuesPlan = .{ .mode = .raw, .tiers = .{ .widths = .{ 0, 0, 0 }, .cost_bits = raw_bits } };
            if (try self.planPalette(values, exponent)) |plan| keepCheaperPlan(&best, plan);
            if (exponent > 0) keepCheaperPlan(&best, try self.planDecimals(values, exponent));
            return best;
        }

        fn keepCheaperPlan(best: *ValuesPlan, plan: ValuesPlan) void {
            if (plan.tiers.cost_bits < best.tiers.cost_bits) best.* = plan;
        }

        /// The cost counts the palette too. null when there are too many distinct values.
        fn planPalette(self: *Self, values: []const T, exponent: u8) Allocator.Error!?ValuesPlan {
            if (!try self.palette.build(self.allocator, values)) return null;
            try self.codes.resize(self.allocator, values.len);
            self.palette.encode(values, self.codes.items);
            var plan: ValuesPlan = .{ .mode = .palette, .tiers = chooseTiers(self.codes.items) };
            var entry_bytes: u64 = @sizeOf(T);
            if (@typeInfo(T) == .float and exponent > 0) {
                const short = self.palette.decimalsFitTwoBytes(exponent);
                if (short or @sizeOf(T) >= 4) {
                    plan.decimal_exponent = exponent;
                    plan.short_palette = short;
                    entry_bytes = if (short) 2 else 4;
                }
            }
            plan.tiers.cost_bits += self.palette.length() * entry_bytes * 8;
            return plan;
        }

        fn planDecimals(self: *Self, values: []const T, exponent: u8) Allocator.Error!ValuesPlan {
            if (@typeInfo(T) != .float) unreachable; // only floats have an exponent
            try self.decimal_codes.resize(self.allocator, values.len);
            for (self.decimal_codes.items, values) |*code, value| code.* = rowpack.zigzag(decimalOf(T, value, exponent).?);
            return .{ .mode = .decimals, .tiers = chooseTiers(self.decimal_codes.items), .decimal_exponent = exponent };
        }

        const WholeNumbers = struct { mode: rowpack.ValueMode, sum: ?u64 };

        /// Codes of a row of whole numbers, from 1 where there is no zero; null for any other row.
        fn integerCodes(self: *Self, values: []const T) Allocator.Error!?WholeNumbers {
            try self.codes.resize(self.allocator, values.len);
            const codes = self.codes.items;
            if (!wholeNumbers(T, values, codes)) return null;
            var least: u64 = std.math.maxInt(u64);
            var all_bits: u64 = 0;
            for (codes) |code| {
                least = @min(least, code);
                all_bits |= code;
            }
            // below 2^52 / n no sum of n numbers leaves the exact range of f64
            const is_exact = @clz(all_bits) + @clz(@as(u64, values.len)) >= 64 + 12;
            var sum: u64 = 0;
            if (is_exact) for (codes) |code| {
                sum += code;
            };
            const mode: rowpack.ValueMode = if (least == 0) .integers else .positive_integers;
            if (mode == .positive_integers) for (codes) |*code| {
                code.* -= 1;
            };
            return .{ .mode = mode, .sum = if (is_exact) sum else null };
        }

        fn writeColumns(
            self: *Self,
            columns: []const u32,
            n_cols: u32,
            plan: ColumnsPlan,
            target: *std.ArrayList(u8),
        ) Allocator.Error!void {
            const bytes: usize = @intCast(rowpack.columnBytes(plan.mode, columns.len, n_cols, plan.low_bits));
            const area = try zeroedArea(self.allocator, bytes, target);
            switch (plan.mode) {
                .run => std.mem.writeInt(u32, area[0..4], columns[0], .little),
                .bitmap => setBits(area.ptr, columns, 0, 0),
                .elias_fano => {
                    setBits(area.ptr, columns, @intCast(plan.low_bits), 1);
                    const upper_bits = rowpack.upperBits(columns.len, n_cols, plan.low_bits);
                    const low_area = area[@intCast((upper_bits + 7) / 8)..];
                    try self.low_codes.resize(self.allocator, columns.len);
                    const mask: u32 = @intCast(bits.lowMask(plan.low_bits));
                    for (self.low_codes.items, columns) |*code, column| code.* = column & mask;
                    bits.pack(u32, self.low_codes.items, plan.low_bits, low_area.ptr);
                },
            }
            target.items.len -= bits.pack_slack;
        }
    };
}

/// Sets bit `(column >> shift) + index * step`, which rises from column to column, a word at a time.
fn setBits(area: [*]u8, columns: []const u32, shift: u5, step: usize) void {
    var word: u64 = 0;
    var word_index: usize = 0;
    for (columns, 0..) |column, index| {
        const bit = (column >> shift) + index * step;
        if (bit / 64 != word_index) {
            std.mem.writeInt(u64, area[word_index * 8 ..][0..8], word, .little);
            word_index = bit / 64;
            word = 0;
        }
        word |= @as(u64, 1) << @intCast(bit % 64);
    }
    // the last word may reach into the slack; it is written bytewise so that nothing behind the area is
    var at = word_index * 8;
    while (word != 0) : (word >>= 8) {
        area[at] = @truncate(word);
        at += 1;
    }
}

/// The values as unsigned numbers; false when one has no such number that gives its bits back.
fn wholeNumbers(comptime T: type, values: []const T, numbers: []u64) bool {
    if (T != f32) {
        for (values, numbers) |value, *number| number.* = wholeNumber(T, value) orelse return false;
        return true;
    }
    const lanes = 16;
    const Floats = @Vector(lanes, f32);
    const Patterns = @Vector(lanes, u32);
    var at: usize = 0;
    while (at + lanes <= values.len) : (at += lanes) {
        const loaded: Floats = values[at..][0..lanes].*;
        const zero: Floats = @splat(0);
        const inside = (loaded >= zero) & (loaded <= @as(Floats, @splat(1 << 24)));
        const safe = @select(f32, inside, loaded, zero);
        const whole: @Vector(lanes, i32) = @intFromFloat(safe);
        const again: Floats = @floatFromInt(whole);
        if (@reduce(.Or, @as(Patterns, @bitCast(again)) != @as(Patterns, @bitCast(loaded)))) return false;
        numbers[at..][0..lanes].* = @as(@Vector(lanes, u32), @bitCast(whole));
    }
    for (values[at..], numbers[at..]) |value, *number| number.* = wholeNumber(T, value) orelse return false;
    return true;
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
fn totalOf(comptime T: type, values: []const T, whole_sum: ?u64) struct { f64, bool } {
    if (whole_sum) |sum| return .{ @floatFromInt(sum), false };
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
