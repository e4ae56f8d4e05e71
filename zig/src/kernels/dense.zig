//! Decoding a row into a dense float32 row: all genes, or a panel of them. Compiled once per CPU level.
//!
//! A row of counts holds few distinct values, so the transform is worked out once for each small code (or palette
//! entry) and the stored values only look theirs up.

const std = @import("std");
const decode = @import("../codec/rowpack_decode.zig");
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
    /// For a panel: 1 for its genes, n_cols entries; null for all genes.
    is_member: ?[*]const u8,
    /// For a panel: the output column of each of its genes, n_cols entries.
    slots: ?[*]const u32,
};

/// Beyond `RowScratch`: what the dense way needs for itself. `values` has n_cols entries, `table` table_length.
pub const DenseScratch = extern struct {
    row: decode.RowScratch,
    values: [*]f64,
    table: [*]f32,
};

/// Codes up to here are looked up; larger ones, 1 in 300 of UMI counts, are worked out singly.
const small_codes = 64;
pub const table_length = rowpack.palette_length_max + lanes;
const lanes = 8;

/// Decodes an opened row (its columns are in the scratch) into `out`, n_output elements.
pub fn denseRow(
    comptime Stored: type,
    plan: *const DenseRowPlan,
    row: *const decode.Row,
    open: *const decode.OpenRow,
    total: f64,
    scratch: *const DenseScratch,
    out: [*]f32,
) RowFault {
    if (!plan.transform.isCentred()) @memset(out[0..plan.n_output], 0);
    const header = open.header;
    if (header.irregular or header.value_mode == .raw or header.value_mode == .decimals or !header.isNarrow()) {
        const values = scratch.values[0..row.n_values];
        const fault = row_values.decodeValues(Stored, f64, row, open, &scratch.row, values);
        if (fault != .none) return fault;
        scatterValues(plan, scratch.row.columns, values, scratch, out);
        return .none;
    }
    const fault = decode.decodeCodes(row, open, &scratch.row);
    if (fault != .none) return fault;
    const scale = plan.transform.factor(total);
    if (header.value_mode == .palette) {
        if (@typeInfo(Stored) == .int and header.decimal_exponent > 0) return .header;
        if (row_values.largestCode(scratch.row.codes, row.n_values) >= header.palette_length) return .codes;
        paletteTable(Stored, plan.transform, open, scale, scratch.table);
        const length: usize = open.header.palette_length;
        const centre = centreCodes(plan, row.n_values, null, scale, scratch, scratch.table[0..length], out);
        scatterCodes(plan, row.n_values, null, scale, centre, scratch, out);
    } else {
        const base: u32 = if (header.value_mode == .positive_integers) 1 else 0;
        integerTable(plan.transform, base, scale, scratch.table);
        const centre = centreCodes(plan, row.n_values, base, scale, scratch, scratch.table[0..small_codes], out);
        scatterCodes(plan, row.n_values, base, scale, centre, scratch, out);
    }
    return .none;
}

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

/// The centre of a PFlog row, which `out` is filled with and the table is less by afterwards; 0 for other transforms.
inline fn centreCodes(
    plan: *const DenseRowPlan,
    n_values: u32,
    base: ?u32,
    scale: f64,
    scratch: *const DenseScratch,
    table: []f32,
    out: [*]f32,
) f64 {
    if (!plan.transform.isCentred()) return 0;
    var sum: f64 = 0;
    for (scratch.row.codes[0..n_values]) |code| sum += lookUp(plan, code, base, scale, 0, scratch.table);
    const centre = sum / @as(f64, @floatFromInt(plan.n_cols));
    @memset(out[0..plan.n_output], @floatCast(-centre));
    for (table) |*entry| entry.* = @floatCast(entry.* - centre);
    return centre;
}

/// `base` is null for a palette, whose codes are all in the table.
inline fn scatterCodes(
    plan: *const DenseRowPlan,
    n_values: u32,
    base: ?u32,
    scale: f64,
    centre: f64,
    scratch: *const DenseScratch,
    out: [*]f32,
) void {
    const columns = scratch.row.columns;
    const codes = scratch.row.codes;
    const slots = plan.slots orelse {
        for (columns[0..n_values], codes) |column, code| {
            out[column] = lookUp(plan, code, base, scale, centre, scratch.table);
        }
        return;
    };
    const found = panelHits(plan, n_values, scratch);
    for (scratch.row.positions[0..found]) |hit| {
        out[slots[columns[hit]]] = lookUp(plan, codes[hit], base, scale, centre, scratch.table);
    }
}

inline fn lookUp(plan: *const DenseRowPlan, code: u32, base: ?u32, scale: f64, centre: f64, table: [*]const f32) f32 {
    const first = base orelse return table[code];
    if (code < small_codes) return table[code];
    const result = plan.transform.applyOne(@floatFromInt(code + first), scale);
    return if (centre == 0) result else @floatCast(result - centre);
}

/// The stored values whose gene is in the panel, as indices in `scratch.row.positions`. Without a branch: one in ten
/// hits, which no predictor can know.
fn panelHits(plan: *const DenseRowPlan, n_values: u32, scratch: *const DenseScratch) usize {
    const is_member = plan.is_member.?;
    const hits = scratch.row.positions;
    var found: usize = 0;
    for (scratch.row.columns[0..n_values], 0..) |column, index| {
        hits[found] = @intCast(index);
        found += is_member[column];
    }
    return found;
}

/// For values that are at hand as such: rows of the codec `none`, raw rows, rows with negatives. `out` is zeroed, or has
/// any content for PFlog.
pub fn scatterValues(
    plan: *const DenseRowPlan,
    columns: [*]const u32,
    values: []f64,
    scratch: *const DenseScratch,
    out: [*]f32,
) void {
    const depth = if (plan.transform.normalize) transform_kernel.depthOf(values, plan.transform.log1p) else 0;
    const scale = plan.transform.factor(depth);
    if (plan.transform.isCentred()) return scatterCentred(plan, columns, values, scratch, scale, out);
    const slots = plan.slots orelse {
        var at: usize = 0;
        while (at < values.len) : (at += lanes) {
            const live = @min(lanes, values.len - at);
            var block: [lanes]f64 = @splat(0);
            @memcpy(block[0..live], values[at..][0..live]);
            const results: [lanes]f32 = plan.transform.apply(lanes, block, scale);
            for (results[0..live], columns[at..]) |result, column| out[column] = result;
        }
        return;
    };
    assert(columns == scratch.row.columns);
    const found = panelHits(plan, @intCast(values.len), scratch);
    for (scratch.row.positions[0..found]) |hit| {
        out[slots[columns[hit]]] = plan.transform.applyOne(values[hit], scale);
    }
}

fn scatterCentred(
    plan: *const DenseRowPlan,
    columns: [*]const u32,
    values: []f64,
    scratch: *const DenseScratch,
    scale: f64,
    out: [*]f32,
) void {
    var sum: f64 = 0;
    for (values) |*value| {
        value.* = plan.transform.applyOne(value.*, scale);
        sum += value.*;
    }
    const centre = sum / @as(f64, @floatFromInt(plan.n_cols));
    @memset(out[0..plan.n_output], @floatCast(-centre));
    const slots = plan.slots orelse {
        for (values, columns) |value, column| out[column] = @floatCast(value - centre);
        return;
    };
    assert(columns == scratch.row.columns);
    const found = panelHits(plan, @intCast(values.len), scratch);
    for (scratch.row.positions[0..found]) |hit| out[slots[columns[hit]]] = @floatCast(values[hit] - centre);
}
