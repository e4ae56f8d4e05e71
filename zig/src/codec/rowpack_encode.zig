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

/// The number d with value = d / 10^exponent to the bit; null where there is none.
fn decimalOf(comptime T: type, value: T, exponent: u8) ?i32 {
    const scaled = @round(@as(f64, value) * rowpack.powers_of_ten[exponent]);
    if (!(@abs(scaled) < rowpack.decimal_limit)) return null;
    const number: i32 = @intFromFloat(scaled);
    const Bits = value_type.BitsOf(T);
    const again = rowpack.decimalValue(T, rowpack.zigzag(number), exponent);
    return if (@as(Bits, @bitCast(again)) == @as(Bits, @bitCast(value))) number else null;
}

/// The smallest exponent that fits every value; 0 where none does.
fn decimalExponent(comptime T: type, values: []const T) u8 {
    var exponent: u8 = 1;
    for (values) |value| {
        while (decimalOf(T, value, exponent) == null) {
            exponent += 1;
            if (exponent > rowpack.decimal_exponent_max) return 0;
        }
    }
    // a larger exponent fits what a smaller one does only while the numbers stay below the limit
    for (values) |value| if (decimalOf(T, value, exponent) == null) return 0;
    return exponent;
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

/// Zero bytes at the end of `target`, with the slack of `bits.pack` behind them, which the caller cuts off again.
fn zeroedArea(allocator: Allocator, bytes: usize, target: *std.ArrayList(u8)) Allocator.Error![]u8 {
    const area = try target.addManyAsSlice(allocator, bytes + bits.pack_slack);
    @memset(area, 0);
    return area;
}

const Tiers = struct { widths: [3]u8, cost_bits: u64 };

/// at_least[c]: how many codes are c or larger.
const Histogram = [histogram_length + 1]u32;

/// Fills `at_least` as far as `chooseTiers` looks and gives the largest code.
fn countAtLeast(codes: []const u64, at_least: *Histogram) u64 {
    var largest: u64 = 0;
    for (codes) |code| largest = @max(largest, code);
    const used: usize = @intCast(@min(largest, histogram_length));
    // two tables in turn, because most codes are equal and adding to one counter waits for the last addition
    var odd: Histogram = undefined;
    @memset(at_least, 0);
    @memset(odd[0 .. used + 1], 0);
    var index: usize = 0;
    while (index + 2 <= codes.len) : (index += 2) {
        at_least[@intCast(@min(codes[index], histogram_length))] += 1;
        odd[@intCast(@min(codes[index + 1], histogram_length))] += 1;
    }
    if (index < codes.len) at_least[@intCast(@min(codes[index], histogram_length))] += 1;
    var rest: u32 = 0;
    index = used + 1;
    while (index > 0) {
        index -= 1;
        rest += at_least[index] + odd[index];
        at_least[index] = rest;
    }
    return largest;
}

/// The cheapest widths by exact count, the first among equals.
fn chooseTiers(codes: []const u64) Tiers {
    var at_least: Histogram = undefined;
    const largest = countAtLeast(codes, &at_least);
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

/// Writes codes tier by tier; the escaped ones of a tier are collected for the next.
const TierWriter = struct {
    capped: std.ArrayList(u64) = .empty,
    escaped: [2]std.ArrayList(u64) = .{ .empty, .empty },

    fn deinit(self: *TierWriter, allocator: Allocator) void {
        self.capped.deinit(allocator);
        for (&self.escaped) |*list| list.deinit(allocator);
    }

    fn write(
        self: *TierWriter,
        allocator: Allocator,
        codes: []const u64,
        tiers: Tiers,
        target: *std.ArrayList(u8),
    ) Allocator.Error!void {
        var current = codes;
        for (tiers.widths, 0..) |width, tier| {
            const is_last = tier == 2 or tiers.widths[tier + 1] == 0;
            const bytes: usize = @intCast(bits.packedBytes(current.len, width));
            const area = try zeroedArea(allocator, bytes, target);
            if (is_last) {
                bits.pack(u64, current, width, area.ptr);
                target.items.len -= bits.pack_slack;
                return;
            }
            const next = &self.escaped[tier];
            try next.resize(allocator, current.len + 1);
            try self.capped.resize(allocator, current.len);
            const found = splitEscaped(current, bits.lowMask(width), self.capped.items, next.items);
            bits.pack(u64, self.capped.items, width, area.ptr);
            target.items.len -= bits.pack_slack;
            current = next.items[0..found];
        }
    }
};

/// `capped` gets every code, at most `escape`; `excess` what the escaped ones are beyond it, one element more than
/// there can be.
fn splitEscaped(codes: []const u64, escape: u64, capped: []u64, excess: []u64) usize {
    var found: usize = 0;
    for (codes, capped) |code, *kept| {
        kept.* = @min(code, escape);
        excess[found] = code -% escape;
        found += @intFromBool(code >= escape);
    }
    return found;
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

        fn decimalsFitTwoBytes(self: *const Self, exponent: u8) bool {
            for (self.entries.items) |entry| {
                const number = decimalOf(T, @bitCast(entry.bits), exponent).?;
                if (rowpack.zigzag(number) > std.math.maxInt(u16)) return false;
            }
            return true;
        }

        fn write(
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
