//! A row between its decoding and its batch: output columns and their values, in as few bytes as is quickly done.
//!
//! A record is a head, then float32 values, then the columns. Where values were looked up by small codes, it has the table
//! instead of the values and, behind the columns, a byte for each code: a row of counts holds few distinct values.
//! Compiled once per CPU level.

const std = @import("std");
const dense = @import("dense.zig");
const emit = @import("emit.zig");

const assert = std.debug.assert;

/// Of the columns of all records of one plan.
pub const Width = enum(u32) {
    two_bytes,
    four_bytes,

    /// Columns are below n_output.
    pub fn of(n_output: u32) Width {
        return if (n_output <= 1 << 16) .two_bytes else .four_bytes;
    }

    fn bytes(width: Width) usize {
        return if (width == .two_bytes) @sizeOf(u16) else @sizeOf(u32);
    }
};

const Head = extern struct {
    count: u32,
    background: f32,
    /// 0 where the values stand there themselves.
    table_length: u32,
};

pub const Record = [*]align(@alignOf(Head)) u8;
pub const alignment = @alignOf(Head);

/// Codes are kept in bytes; larger tables would not save anything either.
pub const table_length_max = 256;

/// How many bytes the record of a row takes, a multiple of its alignment.
pub fn recordBytes(selected: *const dense.Selected, width: Width) usize {
    const count: usize = selected.count;
    const n_floats = if (selected.codes == null) count else selected.table_length;
    const code_bytes = if (selected.codes == null) 0 else count;
    const bytes = @sizeOf(Head) + n_floats * @sizeOf(f32) + count * width.bytes() + code_bytes;
    return std.mem.alignForward(usize, bytes, alignment);
}

/// Fills `recordBytes`.
pub fn write(selected: *const dense.Selected, width: Width, record: Record) void {
    const count = selected.count;
    const table_length = if (selected.codes == null) 0 else selected.table_length;
    assert(table_length <= table_length_max);
    const head: *Head = @ptrCast(record);
    head.* = .{ .count = count, .background = selected.background, .table_length = table_length };
    const parts: Parts = .of(record, width);
    @memcpy(parts.floats[0..parts.n_floats], selected.values);
    switch (width) {
        .two_bytes => emit.narrowWords(u16, selected.columns[0..count], @ptrCast(@alignCast(parts.columns))),
        .four_bytes => {
            const columns: [*]u32 = @ptrCast(@alignCast(parts.columns));
            @memcpy(columns[0..count], selected.columns);
        },
    }
    if (selected.codes) |codes| emit.narrowWords(u8, codes[0..count], parts.codes);
}

/// The row's dense form.
pub fn emitKept(
    plan: *const dense.DenseRowPlan,
    record: Record,
    width: Width,
    scratch: *const dense.DenseScratch,
    way: emit.Way,
    out: [*]u8,
) void {
    const head: *const Head = @ptrCast(record);
    const parts: Parts = .of(record, width);
    const emission = plan.emission(way, head.background);
    switch (width) {
        inline else => |own| {
            const Slot = if (own == .two_bytes) u16 else u32;
            const columns: [*]const Slot = @ptrCast(@alignCast(parts.columns));
            const slots = columns[0..head.count];
            if (head.table_length == 0) {
                emit.emitRow(&emission, slots, emit.Values{ .values = parts.floats }, scratch.piece, out);
            } else {
                const coded: emit.CodedValues = .{ .table = parts.floats, .codes = parts.codes };
                emit.emitRow(&emission, slots, coded, scratch.piece, out);
            }
        },
    }
}

const Parts = struct {
    floats: [*]f32,
    n_floats: usize,
    columns: [*]u8,
    codes: [*]u8,

    /// The record's head has been written.
    fn of(record: Record, width: Width) Parts {
        const head: *const Head = @ptrCast(record);
        const count: usize = head.count;
        const n_floats = if (head.table_length == 0) count else head.table_length;
        const columns = record + @sizeOf(Head) + n_floats * @sizeOf(f32);
        return .{
            .floats = @ptrCast(@alignCast(record + @sizeOf(Head))),
            .n_floats = n_floats,
            .columns = columns,
            .codes = columns + count * width.bytes(),
        };
    }
};

const testing = std.testing;

test "a row that was kept comes out as it would have at once" {
    var random_source = std.Random.DefaultPrng.init(21);
    const random = random_source.random();
    var piece: emit.Piece align(64) = @splat(0);
    var scratch: dense.DenseScratch = undefined;
    scratch.piece = &piece;
    for (0..400) |round| {
        const n_output = random.intRangeAtMost(u32, 1, if (round % 10 == 0) 70_000 else 3_000);
        const width: Width = .of(n_output);
        const plan: dense.DenseRowPlan = .{
            .transform = .{ .normalize = false, .log1p = false, .target_sum = 1, .pflog_scale = 0 },
            .n_cols = n_output,
            .n_output = n_output,
            .members = null,
            .slots = null,
            .output = random.enumValue(emit.Output),
        };
        var columns: [300]u32 = undefined;
        var codes: [300]u32 = undefined;
        var values: [300]f32 = undefined;
        var table: [table_length_max]f32 = undefined;
        const table_length = random.intRangeAtMost(u32, 1, table_length_max);
        for (&table) |*value| value.* = random.floatNorm(f32);
        const count = random.uintAtMost(u32, @min(n_output, columns.len));
        for (columns[0..count], codes[0..count], values[0..count]) |*column, *code, *value| {
            column.* = random.uintLessThan(u32, n_output);
            code.* = random.uintLessThan(u32, table_length);
            value.* = table[code.*];
        }
        if (round % 3 != 0) std.mem.sort(u32, columns[0..count], {}, std.sort.asc(u32));
        var plain: dense.Selected = .{ .columns = &columns, .values = &values, .count = count, .background = -2.5 };
        if (round % 2 == 0) plain.background = 0;
        var coded = plain;
        coded.values = &table;
        coded.codes = &codes;
        coded.table_length = table_length;

        const bytes = n_output * plan.output.bytes();
        const expected = try testing.allocator.alignedAlloc(u8, .@"64", bytes);
        defer testing.allocator.free(expected);
        dense.emitSelected(&plan, &plain, &scratch, .through_caches, expected.ptr);
        for ([_]dense.Selected{ plain, coded }) |selected| {
            const size = recordBytes(&selected, width);
            const record = try testing.allocator.alignedAlloc(u8, .fromByteUnits(alignment), size);
            defer testing.allocator.free(record);
            write(&selected, width, record.ptr);
            const found = try testing.allocator.alignedAlloc(u8, .@"64", bytes);
            defer testing.allocator.free(found);
            emitKept(&plan, record.ptr, width, &scratch, .through_caches, found.ptr);
            try testing.expectEqualSlices(u8, expected, found);
        }
    }
}
