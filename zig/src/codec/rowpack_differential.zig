//! Rows of many shapes and every value type, packed and unpacked again.

const std = @import("std");
const bits = @import("bits.zig");
const rowpack = @import("rowpack.zig");
const decode = @import("rowpack_decode.zig");
const RowEncoder = @import("rowpack_encode.zig").RowEncoder;
const ValueType = @import("value_type.zig").ValueType;
const values_out = @import("row_values.zig");

const testing = std.testing;

/// A row as it is on disk, with the bytes behind it that decoding may touch.
const PackedRow = struct {
    bytes: std.ArrayList(u8),
    entry: rowpack.RowEntry,

    fn make(comptime T: type, columns: []const u32, values: []const T, n_cols: u32) !PackedRow {
        var encoder: RowEncoder(T) = .init(testing.allocator);
        defer encoder.deinit();
        var bytes: std.ArrayList(u8) = .empty;
        errdefer bytes.deinit(testing.allocator);
        const entry = try encoder.encode(columns, values, n_cols, &bytes);
        try testing.expectEqual(bytes.items.len, entry.payload_bytes);
        try bytes.appendNTimes(testing.allocator, 0xa5, rowpack.tail_bytes);
        return .{ .bytes = bytes, .entry = entry };
    }

    fn deinit(self: *PackedRow) void {
        self.bytes.deinit(testing.allocator);
    }

    fn row(self: *const PackedRow, comptime T: type, n_cols: u32) decode.Row {
        return .{
            .payload = self.bytes.items.ptr,
            .payload_bytes = self.entry.payload_bytes,
            .n_values = self.entry.n_values,
            .n_cols = n_cols,
            .value_bytes = @sizeOf(T),
        };
    }
};

/// Scratch arrays of exactly the promised size, so that the test allocator sees a write beyond them.
pub const TestScratch = struct {
    arrays: [4][]align(8) u32,

    pub fn init(n_cols: u32) !TestScratch {
        var self: TestScratch = undefined;
        for (&self.arrays, 0..) |*array, number| {
            const length = (n_cols + decode.scratch_slack) * @as(usize, if (number == 1) 2 else 1);
            array.* = try testing.allocator.alignedAlloc(u32, .@"8", length);
            @memset(array.*, 0xdead_beef);
        }
        return self;
    }

    pub fn deinit(self: *TestScratch) void {
        for (self.arrays) |array| testing.allocator.free(array);
    }

    pub fn view(self: *const TestScratch) decode.RowScratch {
        return .{
            .columns = self.arrays[0].ptr,
            .codes = self.arrays[1].ptr,
            .positions = self.arrays[2].ptr,
            .tier = self.arrays[3].ptr,
        };
    }
};

fn expectRoundTrip(comptime T: type, columns: []const u32, values: []const T, n_cols: u32) !void {
    var made = try PackedRow.make(T, columns, values, n_cols);
    defer made.deinit();
    if (columns.len == 0) return testing.expectEqual(0, made.entry.payload_bytes);
    var scratch = try TestScratch.init(n_cols);
    defer scratch.deinit();
    const view = scratch.view();
    const row = made.row(T, n_cols);
    var open: decode.OpenRow = undefined;
    try testing.expectEqual(decode.RowFault.none, decode.openRow(&row, &view, &open));
    try testing.expectEqualSlices(u32, columns, scratch.arrays[0][0..columns.len]);

    const got = try testing.allocator.alloc(T, values.len);
    defer testing.allocator.free(got);
    try testing.expectEqual(decode.RowFault.none, values_out.decodeValues(T, T, &row, &open, &view, got));
    try testing.expectEqualSlices(u8, std.mem.sliceAsBytes(values), std.mem.sliceAsBytes(got));
    if (open.header.value_mode != .raw and open.header.isNarrow()) {
        const wide = try testing.allocator.alloc(u64, values.len);
        defer testing.allocator.free(wide);
        try testing.expectEqual(decode.RowFault.none, decode.decodeCodes(&row, &open, &view));
        try testing.expectEqual(decode.RowFault.none, decode.decodeCodesWide(&row, &open, wide.ptr));
        for (wide, scratch.arrays[1][0..values.len]) |code, narrow| try testing.expectEqual(code, narrow);
    }
}

/// `count` distinct columns in ascending order.
fn sampleColumns(random: std.Random, n_cols: u32, count: usize, columns: []u32) []const u32 {
    var needed = count;
    var length: usize = 0;
    for (0..n_cols) |column| {
        if (random.uintLessThan(usize, n_cols - column) >= needed) continue;
        columns[length] = @intCast(column);
        length += 1;
        needed -= 1;
    }
    return columns[0..length];
}

fn randomValue(comptime T: type, random: std.Random, kind: usize) T {
    if (@typeInfo(T) == .float) return switch (kind % 8) {
        0 => @floatFromInt(1 + random.uintLessThan(u8, 3)),
        1 => @floatCast(@log(1 + @as(f64, @floatFromInt(1 + random.uintLessThan(u8, 9))) * 1.7)),
        2 => @bitCast(random.int(@import("value_type.zig").BitsOf(T))),
        3 => if (random.boolean()) -0.0 else std.math.nan(T),
        4 => @floatFromInt(random.uintLessThan(u16, 2000)),
        5 => @floatCast(@as(f64, @floatFromInt(random.intRangeAtMost(i32, -9000, 9000))) / 1000),
        6 => @floatCast(@as(f64, @floatFromInt(random.intRangeAtMost(i32, -9, 9_000_000))) / 100),
        else => @floatCast(random.floatNorm(f64)),
    };
    return switch (kind % 4) {
        0 => @intCast(1 + random.uintLessThan(u8, 3)),
        1 => random.int(T),
        2 => @truncate(random.int(T) >> @intCast(random.uintLessThan(u8, @bitSizeOf(T)))),
        else => @intFromFloat(@min(100, @exp(random.floatExp(f64)))),
    };
}

test "rows of all shapes and types come back bit for bit" {
    var prng = std.Random.DefaultPrng.init(5);
    const random = prng.random();
    var columns: [70_000]u32 = undefined;
    var value_bytes: [70_000 * 8]u8 align(8) = undefined;
    const shapes = [_]struct { u32, usize }{
        .{ 1, 1 },      .{ 2, 1 },        .{ 7, 7 },     .{ 64, 1 },     .{ 65, 64 },       .{ 127, 60 },
        .{ 128, 127 },  .{ 129, 129 },    .{ 300, 2 },   .{ 1000, 500 }, .{ 1000, 130 },    .{ 2000, 1 },
        .{ 20000, 20 }, .{ 20000, 1900 }, .{ 60000, 3 }, .{ 70000, 0 },  .{ 70000, 69999 }, .{ 5, 0 },
    };
    inline for (comptime std.enums.values(ValueType)) |value_type| {
        const T = value_type.Of();
        for (shapes) |shape| {
            const n_cols, const count = shape;
            for (0..8) |kind| {
                const chosen = sampleColumns(random, n_cols, count, &columns);
                const values = std.mem.bytesAsSlice(T, value_bytes[0 .. count * @sizeOf(T)]);
                for (values) |*value| value.* = randomValue(T, random, kind);
                try expectRoundTrip(T, chosen, @alignCast(values), n_cols);
            }
        }
    }
}

test "damaged payloads are refused or decoded, never more" {
    var prng = std.Random.DefaultPrng.init(6);
    const random = prng.random();
    var columns: [400]u32 = undefined;
    for (0..300) |round| {
        const n_cols: u32 = 1 + random.uintLessThan(u32, 400);
        const chosen = sampleColumns(random, n_cols, 1 + random.uintLessThan(usize, n_cols), &columns);
        var values: [400]f32 = undefined;
        for (values[0..chosen.len]) |*value| value.* = randomValue(f32, random, round);
        var made = try PackedRow.make(f32, chosen, values[0..chosen.len], n_cols);
        defer made.deinit();
        var scratch = try TestScratch.init(n_cols);
        defer scratch.deinit();
        for (0..100) |_| try decodeDamaged(random, &made, &scratch, n_cols);
    }
}

fn decodeDamaged(random: std.Random, made: *PackedRow, scratch: *TestScratch, n_cols: u32) !void {
    const at = random.uintLessThan(usize, @min(made.entry.payload_bytes, 40));
    const before = made.bytes.items[at];
    made.bytes.items[at] = random.int(u8);
    defer made.bytes.items[at] = before;
    var row = made.row(f32, n_cols);
    if (random.boolean()) row.n_values = random.uintLessThan(u32, n_cols + 2);
    if (random.boolean()) row.payload_bytes = random.uintAtMost(u32, row.payload_bytes);
    const view = scratch.view();
    var open: decode.OpenRow = undefined;
    if (decode.openRow(&row, &view, &open) != .none) return;
    for (scratch.arrays[0][0..row.n_values]) |column| try testing.expect(column < n_cols);
    var got: [400]f32 = undefined;
    _ = values_out.decodeValues(f32, f32, &row, &open, &view, got[0..row.n_values]);
}
