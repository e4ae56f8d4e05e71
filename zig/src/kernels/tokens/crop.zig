//! The k genes of a cell with the largest values: one row of k slots for each cell.
//!
//! Slots in the order of the ranking hold id, value, mask 0, pad 0. Those that are left over hold PAD, 0, mask 0,
//! pad 1. A cell without a positive value has one GENE_MASK in its first slot, with value 0, mask 1 and pad 0: the mask
//! tells it from genes.

const std = @import("std");
const dispatch = @import("../../levels/dispatch.zig");
const errors = @import("../../errors.zig");
const parallel = @import("../../codec/parallel.zig");
const per_row = @import("per_row.zig");
const top_k = @import("../top_k.zig");
const CsrRows = @import("../csr_rows.zig").CsrRows;

const Failure = errors.Failure;
const Report = errors.Report;

pub const Crop = struct {
    allocator: std.mem.Allocator,
    rows: CsrRows,
    k: usize,
    /// GENE_MASK; PAD is one more.
    n_genes_total: u32,
    /// rows x k each.
    ids: []i32,
    values: []f32,
    mask: []u8,
    pad: []u8,

    pub const who = "top_k: ";

    /// Fails at ids that are out of order or no genes.
    pub fn run(crop: *const Crop, threads: u32, report: *Report) Failure!void {
        try per_row.run(.{ .rows = crop.rows, .width = crop.k, .threads = threads }, crop, part, report);
    }

    fn part(crop: *const Crop, range: parallel.Range, report: *Report) Failure!void {
        var scratch: top_k.Scratch = try .init(crop.allocator, per_row.longestIn(crop.rows, range));
        defer scratch.deinit();
        for (range.start..range.stop) |row| {
            try crop.rows.checkRow(who, row, crop.n_genes_total, report);
            crop.one(row, &scratch);
        }
    }

    fn one(crop: *const Crop, row: usize, scratch: *top_k.Scratch) void {
        const from = row * crop.k;
        const ids = crop.ids[from..][0..crop.k];
        const values = crop.values[from..][0..crop.k];
        const mask = crop.mask[from..][0..crop.k];
        const pad = crop.pad[from..][0..crop.k];
        const stored = crop.rows.rowValues(row);
        const count = dispatch.table().rankedRow(
            crop.rows.ids(row).ptr,
            stored.ptr,
            stored.len,
            &scratch.space,
            crop.k,
            ids.ptr,
            values.ptr,
        );
        @memset(mask, 0);
        @memset(pad[0..count], 0);
        @memset(ids[count..], @intCast(crop.n_genes_total + 1));
        @memset(values[count..], 0);
        @memset(pad[count..], 1);
        if (count > 0) return;
        ids[0] = @intCast(crop.n_genes_total);
        mask[0] = 1;
        pad[0] = 0;
    }
};

test "a worked batch: more genes than slots, fewer, none" {
    var ids: [6]i32 = undefined;
    var values: [6]f32 = undefined;
    var mask: [6]u8 = undefined;
    var pad: [6]u8 = undefined;
    const crop: Crop = .{
        .allocator = std.testing.allocator,
        .rows = .{
            .indptr = &.{ 0, 3, 5, 6 },
            .indices = &.{ 0, 4, 9, 2, 3, 1 },
            .values = &.{ 1, 2, 2, -1, 5, std.math.nan(f32) },
        },
        .k = 2,
        .n_genes_total = 10,
        .ids = &ids,
        .values = &values,
        .mask = &mask,
        .pad = &pad,
    };
    var report: Report = .{};
    try crop.run(1, &report);
    try std.testing.expectEqualSlices(i32, &.{ 4, 9, 3, 11, 10, 11 }, &ids);
    try std.testing.expectEqualSlices(f32, &.{ 2, 2, 5, 0, 0, 0 }, &values);
    try std.testing.expectEqualSlices(u8, &.{ 0, 0, 0, 0, 1, 0 }, &mask);
    try std.testing.expectEqualSlices(u8, &.{ 0, 0, 0, 1, 0, 1 }, &pad);
}
