//! What one CPU level offers to the library: the loops over the values of a row, behind plain C calls.

const std = @import("std");
const bin_lookup = @import("../kernels/tokens/bin_lookup.zig");
const decode = @import("../codec/rowpack_decode.zig");
const dense = @import("../kernels/dense.zig");
const emit = @import("../kernels/emit.zig");
const rank_values = @import("../kernels/tokens/rank_values.zig");
const ranked_places = @import("../kernels/ranked_places.zig");
const whole_codes = @import("../kernels/tokens/whole_codes.zig");
const chunk = @import("../deflate/chunk.zig");

/// What the values of a row become.
pub const Target = enum(u32) {
    /// the stored type
    stored = 0,
    f32 = 1,
    f64 = 2,
};

/// The functions of one level, as the library calls them. `value_type` is a `ValueType` number; faults are
/// `RowFault` numbers.
pub const Table = extern struct {
    name: *const fn () callconv(.c) [*:0]const u8,

    /// BLAKE3 over the next bytes of a section or file.
    hashUpdate: *const fn (hasher: *std.crypto.hash.Blake3, bytes: [*]const u8, length: usize) callconv(.c) void,

    /// Columns into the scratch; `open` is what the other two need.
    openRow: *const fn (
        row: *const decode.Row,
        scratch: *const decode.RowScratch,
        open: *decode.OpenRow,
    ) callconv(.c) decode.RowFault,

    /// The values of an opened row as `target`, row.n_values of them.
    decodeValues: *const fn (
        value_type: u8,
        target: Target,
        row: *const decode.Row,
        open: *const decode.OpenRow,
        scratch: *const decode.RowScratch,
        values: [*]u8,
    ) callconv(.c) decode.RowFault,

    /// What a batch takes of an opened row, transformed; it stays in the scratch.
    selectRow: *const fn (
        value_type: u8,
        plan: *const dense.DenseRowPlan,
        row: *const decode.Row,
        open: *const decode.OpenRow,
        total: f64,
        scratch: *const dense.DenseScratch,
        selected: *dense.Selected,
    ) callconv(.c) decode.RowFault,

    /// The same from columns in the scratch and values in `scratch.values`.
    selectValues: *const fn (
        plan: *const dense.DenseRowPlan,
        n_values: u32,
        scratch: *const dense.DenseScratch,
        selected: *dense.Selected,
    ) callconv(.c) void,

    /// A dense row of what was selected.
    emitSelected: *const fn (
        plan: *const dense.DenseRowPlan,
        selected: *const dense.Selected,
        scratch: *const dense.DenseScratch,
        way: emit.Way,
        out: [*]u8,
    ) callconv(.c) void,

    /// Columns or values of a row to where a batch has them.
    copyWords: *const fn (way: emit.Way, source: [*]const u32, n_words: usize, target: [*]u32) callconv(.c) void,

    /// ln(1 + v * factor) of each value, negatives and NaN counting as 0.
    logScaled: *const fn (values: [*]const f32, n_values: usize, factor: f64, out: [*]f32) callconv(.c) void,

    /// The sum of a row in float64, as if added in order; negatives and NaN left out.
    librarySize: *const fn (values: [*]const f32, n_values: usize) callconv(.c) f64,

    /// The places of the at most k largest values, in their order, into `space.places`; gives their number.
    rankedPlaces: *const fn (
        values: [*]const f32,
        n_values: usize,
        k: usize,
        space: *const ranked_places.Space,
    ) callconv(.c) usize,

    /// Ids and values at those places, `k` of them at most; gives their number.
    rankedRow: *const fn (
        ids: [*]const i32,
        values: [*]const f32,
        n_values: usize,
        space: *const ranked_places.Space,
        k: usize,
        ids_out: [*]i32,
        values_out: [*]f32,
    ) callconv(.c) usize,

    /// The ids of a row in the order of what they are ranked by, at most l_max; gives their number.
    rankRow: *const fn (
        row: *const rank_values.Row,
        keys: [*]f32,
        space: *const ranked_places.Space,
        ids_out: [*]i32,
        l_max: usize,
    ) callconv(.c) usize,

    /// Genes drawn by cumulative weights, which are changed.
    choose: *const fn (
        stream: u64,
        ids: [*]const i32,
        cumulative: [*]f64,
        n_values: usize,
        out: [*]i32,
        n_draws: usize,
    ) callconv(.c) void,

    /// Codes of small counts, and how often each occurs; the largest one into `highest`. False for other values.
    wholeCodes: *const fn (
        values: [*]const f32,
        n_values: usize,
        codes: [*]u32,
        counters: *whole_codes.Counters,
        highest: *u32,
    ) callconv(.c) bool,

    /// One bound of each code as its bin.
    lookUpBins: *const fn (
        codes: [*]const u32,
        n_codes: usize,
        bounds: [*]const bin_lookup.Bounds,
        side: bin_lookup.Side,
        out: [*]i32,
    ) callconv(.c) void,

    /// A bin between its bounds for each code, drawn where the code is not 0.
    drawBins: *const fn (
        stream: u64,
        codes: [*]const u32,
        n_codes: usize,
        bounds: [*]const bin_lookup.Bounds,
        n_drawn: usize,
        out: [*]i32,
    ) callconv(.c) void,

    /// The DEFLATE stream of a chunk, in `out` of `encoding.bound()` bytes: how many they are, 0 for none.
    deflateChunk: *const fn (
        encoding: *const chunk.Encoding,
        values: [*]const u8,
        n_bytes: usize,
        scratch: *chunk.Scratch,
        out: [*]u8,
    ) callconv(.c) usize,
};
