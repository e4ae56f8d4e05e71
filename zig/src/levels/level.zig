//! What is compiled once for each CPU level: exports the level's table.

const std = @import("std");
const options = @import("level_options");
const bin_lookup = @import("../kernels/tokens/bin_lookup.zig");
const chunk = @import("../deflate/chunk.zig");
const decode = @import("../codec/rowpack_decode.zig");
const dense = @import("../kernels/dense.zig");
const emit = @import("../kernels/emit.zig");
const log_scaled = @import("../kernels/log_scaled.zig");
const ranked_places = @import("../kernels/ranked_places.zig");
const row_sum = @import("../kernels/row_sum.zig");
const token_draws = @import("../kernels/tokens/draws.zig");
const token_rank = @import("../kernels/tokens/rank_values.zig");
const row_values = @import("../codec/row_values.zig");
const table_format = @import("table.zig");
const whole_codes = @import("../kernels/tokens/whole_codes.zig");
const ValueType = @import("../codec/value_type.zig").ValueType;

const RowFault = decode.RowFault;

fn levelName() callconv(.c) [*:0]const u8 {
    return (options.name ++ "\x00")[0..options.name.len :0];
}

fn hashUpdate(hasher: *std.crypto.hash.Blake3, bytes: [*]const u8, length: usize) callconv(.c) void {
    hasher.update(bytes[0..length]);
}

fn openRow(row: *const decode.Row, scratch: *const decode.RowScratch, open: *decode.OpenRow) callconv(.c) RowFault {
    return decode.openRow(row, scratch, open);
}

fn decodeValues(
    value_type: u8,
    target: table_format.Target,
    row: *const decode.Row,
    open: *const decode.OpenRow,
    scratch: *const decode.RowScratch,
    values: [*]u8,
) callconv(.c) RowFault {
    switch (@as(ValueType, @fromBackingInt(@intCast(value_type)))) {
        inline else => |stored| switch (target) {
            .stored => return valuesAs(stored.Of(), stored.Of(), row, open, scratch, values),
            .f32 => return valuesAs(stored.Of(), f32, row, open, scratch, values),
            .f64 => return valuesAs(stored.Of(), f64, row, open, scratch, values),
        },
    }
}

fn valuesAs(
    comptime Stored: type,
    comptime T: type,
    row: *const decode.Row,
    open: *const decode.OpenRow,
    scratch: *const decode.RowScratch,
    values: [*]u8,
) RowFault {
    const typed: [*]T = @ptrCast(@alignCast(values));
    return row_values.decodeValues(Stored, T, row, open, scratch, typed[0..row.n_values]);
}

fn selectRow(
    value_type: u8,
    plan: *const dense.DenseRowPlan,
    row: *const decode.Row,
    open: *const decode.OpenRow,
    total: f64,
    scratch: *const dense.DenseScratch,
    selected: *dense.Selected,
) callconv(.c) RowFault {
    switch (@as(ValueType, @fromBackingInt(@intCast(value_type)))) {
        inline else => |stored| return dense.selectRow(stored.Of(), plan, row, open, total, scratch, selected),
    }
}

fn selectValues(
    plan: *const dense.DenseRowPlan,
    n_values: u32,
    scratch: *const dense.DenseScratch,
    selected: *dense.Selected,
) callconv(.c) void {
    dense.selectValues(plan, scratch.values[0..n_values], scratch, selected);
}

fn emitSelected(
    plan: *const dense.DenseRowPlan,
    selected: *const dense.Selected,
    scratch: *const dense.DenseScratch,
    way: emit.Way,
    out: [*]u8,
) callconv(.c) void {
    dense.emitSelected(plan, selected, scratch, way, out);
}

fn copyWords(way: emit.Way, source: [*]const u32, n_words: usize, target: [*]u32) callconv(.c) void {
    emit.copyWords(way, source[0..n_words], target);
}

fn logScaled(values: [*]const f32, n_values: usize, factor: f64, out: [*]f32) callconv(.c) void {
    log_scaled.logScaled(values[0..n_values], factor, out);
}

fn librarySize(values: [*]const f32, n_values: usize) callconv(.c) f64 {
    return row_sum.librarySize(values[0..n_values]);
}

fn rankedPlaces(values: [*]const f32, n_values: usize, k: usize, space: *const ranked_places.Space) callconv(.c) usize {
    return ranked_places.rankedPlaces(values[0..n_values], k, space.*).len;
}

fn rankedRow(
    ids: [*]const i32,
    values: [*]const f32,
    n_values: usize,
    space: *const ranked_places.Space,
    k: usize,
    ids_out: [*]i32,
    values_out: [*]f32,
) callconv(.c) usize {
    return ranked_places.rankedRow(ids[0..n_values], values[0..n_values], space.*, ids_out[0..k], values_out);
}

fn rankRow(
    row: *const token_rank.Row,
    keys: [*]f32,
    space: *const ranked_places.Space,
    ids_out: [*]i32,
    l_max: usize,
) callconv(.c) usize {
    return token_rank.rankRow(row.*, keys, space.*, ids_out, l_max);
}

fn choose(
    stream: u64,
    ids: [*]const i32,
    cumulative: [*]f64,
    n_values: usize,
    out: [*]i32,
    n_draws: usize,
) callconv(.c) void {
    token_draws.choose(stream, ids[0..n_values], cumulative[0..n_values], out[0..n_draws]);
}

fn wholeCodes(
    values: [*]const f32,
    n_values: usize,
    codes: [*]u32,
    counters: *whole_codes.Counters,
    highest: *u32,
) callconv(.c) bool {
    highest.* = whole_codes.wholeCodes(values[0..n_values], codes, counters) orelse return false;
    return true;
}

fn lookUpBins(
    codes: [*]const u32,
    n_codes: usize,
    bounds: [*]const bin_lookup.Bounds,
    side: bin_lookup.Side,
    out: [*]i32,
) callconv(.c) void {
    bin_lookup.lookUp(codes[0..n_codes], bounds, side, out);
}

fn drawBins(
    stream: u64,
    codes: [*]const u32,
    n_codes: usize,
    bounds: [*]const bin_lookup.Bounds,
    n_drawn: usize,
    out: [*]i32,
) callconv(.c) void {
    bin_lookup.draw(stream, codes[0..n_codes], bounds, n_drawn, out);
}

fn deflateChunk(
    encoding: *const chunk.Encoding,
    values: [*]const u8,
    n_bytes: usize,
    scratch: *chunk.Scratch,
    out: [*]u8,
) callconv(.c) usize {
    return chunk.encode(encoding.*, values[0..n_bytes], scratch, out[0..encoding.bound()]);
}

const table: table_format.Table = .{
    .name = levelName,
    .hashUpdate = hashUpdate,
    .openRow = openRow,
    .decodeValues = decodeValues,
    .selectRow = selectRow,
    .selectValues = selectValues,
    .emitSelected = emitSelected,
    .copyWords = copyWords,
    .logScaled = logScaled,
    .librarySize = librarySize,
    .rankedPlaces = rankedPlaces,
    .rankedRow = rankedRow,
    .rankRow = rankRow,
    .choose = choose,
    .wholeCodes = wholeCodes,
    .lookUpBins = lookUpBins,
    .drawBins = drawBins,
    .deflateChunk = deflateChunk,
};

comptime {
    @export(&table, .{ .name = options.symbol, .visibility = .hidden });
}

test "the table knows its level" {
    try std.testing.expectEqualStrings(options.name, std.mem.span(table.name()));
}

test {
    _ = @import("../codec/decimals.zig");
    _ = @import("../codec/rowpack_differential.zig");
    _ = @import("../codec/crc32c.zig");
    _ = @import("../codec/compress.zig");
    _ = @import("../kernels/emit.zig");
    _ = @import("../deflate/bit_writer.zig");
    _ = @import("../deflate/chunk.zig");
    _ = @import("../deflate/huffman.zig");
    _ = @import("../deflate/symbols.zig");
    _ = @import("../deflate/stream.zig");
    _ = @import("../kernels/log1p.zig");
    _ = @import("../kernels/panel.zig");
    _ = @import("../kernels/transform.zig");
    _ = @import("../kernels/log_scaled.zig");
    _ = @import("../kernels/digit_sort.zig");
    _ = @import("../kernels/ranked_places.zig");
    _ = @import("../kernels/shared_values.zig");
    _ = @import("../kernels/row_sum.zig");
    _ = @import("../kernels/word_sort.zig");
    _ = @import("../kernels/tokens/bin_lookup.zig");
    _ = @import("../kernels/tokens/draws.zig");
    _ = @import("../kernels/tokens/rank_values.zig");
    _ = @import("../kernels/tokens/whole_codes.zig");
}
