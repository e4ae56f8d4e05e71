//! From an opened row to the values that a batch takes of it, and to a dense row: all genes, or a panel of them. Compiled
//! once per CPU level.
//!
//! A row of counts holds few distinct values, so the transform is worked out once for each small code (or palette
//! entry) and the stored values only look theirs up.

const std = @import("std");
const decode = @import("../codec/rowpack_decode.zig");
const emit = @import("emit.zig");
const panel = @import("panel.zig");
const row_values = @import("../codec/row_values.zig");
const rowpack = @import("../codec/rowpack.zig");
const ValueType = @import("../codec/value_type.zig").ValueType;
const Transform = @import("transform.zig").Transform;
const transform_kernel = @import("transform.zig");

const assert = std.debug.assert;
const RowFault = decode.RowFault;

/// What one output row consists of; shared by all threads.
pub const DenseRowPlan = extern struct {
    transform: Transform,
    n_cols: u32,
    n_output: u32,
    /// For a panel: a bitmap of its genes, `panel.wordCount` words; null for all genes.
    members: ?[*]const u32,
    /// For a panel: the output column of each of its genes, n_cols entries.
    slots: ?[*]const u32,
    output: emit.Output,

    pub fn emission(plan: *const DenseRowPlan, way: emit.Way, background: f32) emit.Emission {
        return .{ .n_output = plan.n_output, .output = plan.output, .way = way, .background = background };
    }
};

/// Beyond `RowScratch`: what the dense way needs for itself. `values` has n_cols entries, `table` table_length; `piece`
/// holds zeros between the rows.
pub const DenseScratch = extern struct {
    row: decode.RowScratch,
    values: [*]f64,
    table: [*]f32,
    piece: *align(64) emit.Piece,
};

/// What a batch takes of a row: output columns and their values, somewhere in the scratch.
pub const Selected = extern struct {
    columns: [*]const u32,
    values: [*]const f32,
    count: u32,
    /// What the other elements of a dense row are.
    background: f32,
    /// The row cannot be taken: `Transform.isScaledBeyond`.
    is_beyond: bool = false,

    pub const nothing: Selected = .{ .columns = &.{}, .values = &.{}, .count = 0, .background = 0 };
};

/// Codes up to here are looked up; larger ones, 1 in 300 of UMI counts, are worked out singly.
const small_codes = 64;
pub const table_length = rowpack.palette_length_max + lanes;
const lanes = 8;

comptime {
    assert(decode.scratch_slack >= panel.slack_values);
    assert(small_codes >= panel.direct_entries and table_length >= panel.direct_entries);
}

/// Decodes an opened row, whose columns are in the scratch.
pub fn selectRow(
    comptime Stored: type,
    plan: *const DenseRowPlan,
    row: *const decode.Row,
    open: *const decode.OpenRow,
    total: f64,
    scratch: *const DenseScratch,
    selected: *Selected,
) RowFault {
    const header = open.header;
    if (header.irregular or header.value_mode == .raw or header.value_mode == .decimals or !header.isNarrow()) {
        const values = scratch.values[0..row.n_values];
        const fault = row_values.decodeValues(Stored, f64, row, open, &scratch.row, values);
        if (fault != .none) return fault;
        selectValues(plan, values, scratch, selected);
        return .none;
    }
    const fault = decode.decodeCodes(row, open, &scratch.row);
    if (fault != .none) return fault;
    const transform = plan.transform;
    const scale = transform.factor(total);
    if (header.value_mode == .palette) {
        if (@typeInfo(Stored) == .int and header.decimal_exponent > 0) return .header;
        if (row_values.largestCode(scratch.row.codes, row.n_values) >= header.palette_length) return .codes;
        paletteTable(Stored, transform, open, scale, scratch.table);
        selectCodes(plan, row.n_values, PaletteRest{ .table = scratch.table }, scratch, selected);
    } else {
        const base: u32 = if (header.value_mode == .positive_integers) 1 else 0;
        integerTable(transform, base, scale, scratch.table);
        const rest: IntegerRest = .{ .table = scratch.table, .transform = transform, .base = base, .scale = scale };
        selectCodes(plan, row.n_values, rest, scratch, selected);
    }
    return .none;
}

/// All codes of a palette are in its table.
const PaletteRest = struct {
    table: [*]const f32,

    pub inline fn of(self: PaletteRest, code: u32) f32 {
        return self.table[code];
    }
};

const IntegerRest = struct {
    table: [*]const f32,
    transform: Transform,
    base: u32,
    scale: f64,

    pub inline fn of(self: IntegerRest, code: u32) f32 {
        if (code < small_codes) return self.table[code];
        return self.transform.applyOne(@floatFromInt(code + self.base), self.scale);
    }
};

fn integerTable(transform: Transform, base: u32, scale: f64, table: [*]f32) void {
    const step: @Vector(lanes, f64) = @splat(lanes);
    var numbers: @Vector(lanes, f64) = @floatFromInt(std.simd.iota(u32, lanes) + @as(@Vector(lanes, u32), @splat(base)));
    for (0..small_codes / lanes) |block| {
        table[block * lanes ..][0..lanes].* = transform.apply(lanes, numbers, scale);
        numbers += step;
    }
}

fn paletteTable(
    comptime Stored: type,
    transform: Transform,
    open: *const decode.OpenRow,
    scale: f64,
    table: [*]f32,
) void {
    const length: usize = open.header.palette_length;
    var block: usize = 0;
    while (block < length) : (block += lanes) {
        var numbers: [lanes]f64 = @splat(0);
        const live = @min(lanes, length - block);
        for (numbers[0..live], block..) |*number, index| number.* = row_values.paletteAt(Stored, f64, open, index);
        table[block..][0..lanes].* = transform.apply(lanes, numbers, scale);
    }
}

/// Keeps the genes that are wanted, then looks their codes up; PFlog needs all values for its centre first.
inline fn selectCodes(
    plan: *const DenseRowPlan,
    n_values: u32,
    rest: anytype,
    scratch: *const DenseScratch,
    selected: *Selected,
) void {
    if (plan.transform.isCentred()) {
        const codes = scratch.row.codes;
        panel.lookUpCodes(codes, n_values, scratch.table, rest);
        const background = centre(plan, @as([*]f32, @ptrCast(codes))[0..n_values]);
        selected.* = keepWanted(plan, n_values, scratch).selected(background);
        return;
    }
    const wanted = keepWanted(plan, n_values, scratch);
    panel.lookUpCodes(wanted.pairs.codes, wanted.count, scratch.table, rest);
    selected.* = wanted.selected(0);
}

const Wanted = struct {
    pairs: panel.Pairs,
    count: u32,

    fn selected(self: Wanted, background: f32) Selected {
        return .{
            .columns = self.pairs.columns,
            .values = @ptrCast(self.pairs.codes),
            .count = self.count,
            .background = background,
        };
    }
};

/// Drops genes that are not wanted, with what stands in `codes` beside them, and makes columns output columns.
fn keepWanted(plan: *const DenseRowPlan, n_values: u32, scratch: *const DenseScratch) Wanted {
    const pairs: panel.Pairs = .{ .columns = scratch.row.columns, .codes = scratch.row.codes };
    const slots = plan.slots orelse return .{ .pairs = pairs, .count = n_values };
    // both were needed for decoding alone
    const hits: panel.Pairs = .{ .columns = scratch.row.positions, .codes = scratch.row.tier };
    const count = panel.keepHits(plan.members.?, pairs, n_values, hits);
    for (hits.columns[0..count]) |*column| column.* = slots[column.*];
    return .{ .pairs = hits, .count = @intCast(count) };
}

/// Takes the mean over all genes off a PFlog row, absent ones included; gives what these are then.
fn centre(plan: *const DenseRowPlan, results: []f32) f32 {
    var sum: f64 = 0;
    for (results) |result| sum += result;
    const mean = sum / @as(f64, @floatFromInt(plan.n_cols));
    for (results) |*result| result.* = @floatCast(result.* - mean);
    return @floatCast(-mean);
}

/// For values that are at hand as such: rows of the codec `none`, raw rows, rows with negatives.
pub fn selectValues(plan: *const DenseRowPlan, values: []const f64, scratch: *const DenseScratch, selected: *Selected) void {
    const transform = plan.transform;
    const n_values: u32 = @intCast(values.len);
    const depth = if (transform.normalize) transform_kernel.depthOf(values, transform.log1p) else 0;
    const scale = transform.factor(depth);
    const codes = scratch.row.codes;
    if (transform.isCentred()) {
        const results: [*]f32 = @ptrCast(codes);
        for (values, results) |value, *result| result.* = transform.applyOne(value, scale);
        const background = centre(plan, results[0..n_values]);
        selected.* = keepWanted(plan, n_values, scratch).selected(background);
        return;
    }
    for (codes[0..n_values], 0..) |*code, index| code.* = @intCast(index);
    const wanted = keepWanted(plan, n_values, scratch);
    const results: [*]f32 = @ptrCast(wanted.pairs.codes);
    var at: usize = 0;
    while (at < wanted.count) : (at += lanes) {
        const live = @min(lanes, wanted.count - at);
        var block: [lanes]f64 = @splat(0);
        for (block[0..live], wanted.pairs.codes[at..]) |*value, index| value.* = values[index];
        const transformed: [lanes]f32 = if (transform.isIdentity())
            @as(@Vector(lanes, f32), @floatCast(@as(@Vector(lanes, f64), block)))
        else
            transform.apply(lanes, block, scale);
        @memcpy(results[at..][0..live], transformed[0..live]);
    }
    selected.* = wanted.selected(0);
    selected.is_beyond = transform.isScaledBeyond(scale, values, results[0..wanted.count]);
}

/// A dense row of what was selected as values, plan.n_output elements of plan.output.
pub fn emitSelected(
    plan: *const DenseRowPlan,
    selected: *const Selected,
    scratch: *const DenseScratch,
    way: emit.Way,
    out: [*]u8,
) void {
    const emission = plan.emission(way, selected.background);
    const columns = selected.columns[0..selected.count];
    emit.emitRow(&emission, columns, emit.Values{ .values = selected.values }, scratch.piece, out);
}
