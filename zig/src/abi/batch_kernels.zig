//! `scx_collate_cell_sets`, `scx_downsample_counts`, `scx_hash64`: kernels on a batch in memory.

const std = @import("std");
const collate_kernel = @import("../kernels/collate.zig");
const csr_rows = @import("../kernels/csr_rows.zig");
const downsample_kernel = @import("../kernels/downsample.zig");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const hashing = @import("../container/hashing.zig");
const rows_module = @import("csr_rows.zig");
const value_modes = @import("../kernels/value_modes.zig");

const assert = std.debug.assert;
const AbiError = errors.AbiError;
const AbiRows = rows_module.AbiRows;
const Failure = errors.Failure;
const Report = errors.Report;

/// `scx_collate_options`
pub const CollateOptions = extern struct {
    struct_bytes: u32,
    threads: u32,
    mode: u32,
    lib_size_redef: u32,
    set_offsets: ?[*]const i64,
    n_sets: u64,
    k_enc: u64,
    k_dec: u64,
    n_genes_total: u64,
    target_sum: f64,
    pflog_alpha: f64,
    query_gene_ids: ?[*]const i32,
    enc_mask_positions: ?[*]const u8,
    query_offsets: ?[*]const i64,
    n_query: u64,
    hide_readout: ?[*]const u8,
    n_measured: ?[*]const i64,
    n_marks: u64,
};

/// `scx_collated`
pub const Collated = extern struct {
    struct_bytes: u32,
    reserved: u32,
    encoder_gene_ids: ?[*]i32,
    encoder_counts: ?[*]f32,
    encoder_mask: ?[*]u8,
    encoder_pad_mask: ?[*]u8,
    target_counts: ?[*]f32,
    target_pad_mask: ?[*]u8,
    library_size: ?[*]f64,
};

/// `scx_downsample_options`
pub const DownsampleOptions = extern struct {
    struct_bytes: u32,
    threads: u32,
    method: u32,
    reserved: u32,
    target: u64,
    seed: u64,
    file_identities: ?[*]const u64,
    row_numbers: ?[*]const u64,
};

comptime {
    assert(@sizeOf(CollateOptions) == 128);
    assert(@sizeOf(Collated) == 64);
    assert(@sizeOf(DownsampleOptions) == 48);
}

export fn scx_collate_cell_sets(
    rows: ?*const AbiRows,
    options: ?*const CollateOptions,
    collated: ?*const Collated,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(collate(rows, options, collated, &report), &report, error_out);
}

fn collate(
    rows_in: ?*const AbiRows,
    options_in: ?*const CollateOptions,
    collated: ?*const Collated,
    report: *Report,
) Failure!void {
    const rows = try rows_module.checkedRows(rows_in, collate_kernel.who, report);
    const options = try handle.required(*const CollateOptions, options_in, "options", report);
    try handle.checkSize(CollateOptions, options.struct_bytes, "scx_collate_options", report);
    var job = try collation(rows, options, report);
    try job.check(options.threads, report);
    if (rows.count() == 0) return;
    job.outputs = try outputsOf(&job, try handle.required(*const Collated, collated, "collated", report), report);
    try job.run(options.threads, report);
}

/// All but the outputs.
fn collation(rows: csr_rows.CsrRows, options: *const CollateOptions, report: *Report) Failure!collate_kernel.Collation {
    const n_sets: usize = @intCast(options.n_sets);
    const n_groups = if (options.query_offsets == null) n_sets else rows.count();
    const n_query: usize = @intCast(options.n_query);
    const mode = std.enums.fromInt(value_modes.Mode, options.mode) orelse
        return report.fail(error.BadArgument, collate_kernel.who ++ "mode {d} does not exist", .{options.mode});
    return .{
        .allocator = handle.allocator,
        .rows = rows,
        .set_offsets = try handle.offsets(options.set_offsets, options.n_sets, "set_offsets", report),
        .k_enc = @intCast(options.k_enc),
        .k_dec = @intCast(options.k_dec),
        .n_genes_total = options.n_genes_total,
        .parameters = .{ .mode = mode, .target_sum = options.target_sum, .pflog_alpha = options.pflog_alpha },
        .lib_size_redef = options.lib_size_redef != 0,
        .query = .{
            .genes = if (n_query == 0) &.{} else (try handle.required([*]const i32, options.query_gene_ids, "query_gene_ids", report))[0..n_query],
            .marks = if (options.enc_mask_positions) |marks| marks[0..@intCast(options.n_marks)] else null,
            .offsets = if (options.query_offsets) |offsets| offsets[0..rows.indptr.len] else null,
        },
        .hide_readout = if (options.hide_readout) |hidden| hidden[0..rows.count()] else null,
        .n_measured = if (options.n_measured) |measured| measured[0..n_groups] else null,
        .outputs = undefined,
    };
}

fn outputsOf(job: *const collate_kernel.Collation, out: *const Collated, report: *Report) Failure!collate_kernel.Outputs {
    try handle.checkSize(Collated, out.struct_bytes, "scx_collated", report);
    const n_rows = job.rows.count();
    const encoder = std.math.mul(usize, n_rows, job.k_enc) catch return error.OutOfMemory;
    const target = std.math.mul(usize, n_rows, job.k_dec) catch return error.OutOfMemory;
    return .{
        .encoder_gene_ids = (try handle.required([*]i32, out.encoder_gene_ids, "encoder_gene_ids", report))[0..encoder],
        .encoder_counts = (try handle.required([*]f32, out.encoder_counts, "encoder_counts", report))[0..encoder],
        .encoder_mask = (try handle.required([*]u8, out.encoder_mask, "encoder_mask", report))[0..encoder],
        .encoder_pad_mask = (try handle.required([*]u8, out.encoder_pad_mask, "encoder_pad_mask", report))[0..encoder],
        .target_counts = (try handle.required([*]f32, out.target_counts, "target_counts", report))[0..target],
        .target_pad_mask = (try handle.required([*]u8, out.target_pad_mask, "target_pad_mask", report))[0..target],
        .library_size = (try handle.required([*]f64, out.library_size, "library_size", report))[0..n_rows],
    };
}

export fn scx_downsample_counts(
    rows: ?*const AbiRows,
    options: ?*const DownsampleOptions,
    indices_out: ?[*]i32,
    values_out: ?[*]f32,
    kept_out: ?[*]i64,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(downsample(rows, options, indices_out, values_out, kept_out, &report), &report, error_out);
}

fn downsample(
    rows_in: ?*const AbiRows,
    options_in: ?*const DownsampleOptions,
    indices_out: ?[*]i32,
    values_out: ?[*]f32,
    kept_out: ?[*]i64,
    report: *Report,
) Failure!void {
    const rows = try rows_module.checkedRows(rows_in, "", report);
    const options = try handle.required(*const DownsampleOptions, options_in, "options", report);
    try handle.checkSize(DownsampleOptions, options.struct_bytes, "scx_downsample_options", report);
    const method = std.enums.fromInt(downsample_kernel.Method, options.method) orelse
        return report.fail(error.BadArgument, "method {d} does not exist", .{options.method});
    if (options.target < 1) return report.fail(error.BadArgument, "the target must be at least 1", .{});
    try rows.checkIds("", csr_rows.any_genes, options.threads, report);
    if (rows.count() == 0) return;
    var nothing: [4]u8 align(4) = undefined; // rows without values write nothing
    const n_values = rows.indices.len;
    if (n_values > 0 and (indices_out == null or values_out == null)) {
        return report.fail(error.BadArgument, "indices_out or values_out is NULL", .{});
    }
    var job: downsample_kernel.Downsampling = .{
        .rows = rows,
        .method = method,
        .target = options.target,
        .seed = options.seed,
        .file_identities = (try handle.required([*]const u64, options.file_identities, "file_identities", report))[0..rows.count()],
        .row_numbers = (try handle.required([*]const u64, options.row_numbers, "row_numbers", report))[0..rows.count()],
        .out_indices = (indices_out orelse @as([*]i32, @ptrCast(&nothing)))[0..n_values],
        .out_values = (values_out orelse @as([*]f32, @ptrCast(&nothing)))[0..n_values],
        .kept = (try handle.required([*]i64, kept_out, "kept_out", report))[0..rows.count()],
    };
    try job.run(options.threads, report);
}

export fn scx_pack_rows(
    starts: ?[*]const i64,
    counts: ?[*]const i64,
    n_rows: u64,
    indices: ?[*]const i32,
    values: ?[*]const f32,
    n_values: u64,
    indices_out: ?[*]i32,
    values_out: ?[*]f32,
    n_out: u64,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const from: Packing = .{ .n_rows = n_rows, .n_values = n_values, .n_out = n_out, .indices = indices, .values = values };
    return handle.answer(packRows(from, starts, counts, indices_out, values_out, &report), &report, error_out);
}

const Packing = struct {
    n_rows: u64,
    n_values: u64,
    n_out: u64,
    indices: ?[*]const i32,
    values: ?[*]const f32,
};

fn packRows(
    from: Packing,
    starts_in: ?[*]const i64,
    counts_in: ?[*]const i64,
    indices_out: ?[*]i32,
    values_out: ?[*]f32,
    report: *Report,
) Failure!void {
    if (from.n_rows == 0) return;
    const starts = (try handle.required([*]const i64, starts_in, "starts", report))[0..@intCast(from.n_rows)];
    const counts = (try handle.required([*]const i64, counts_in, "counts", report))[0..@intCast(from.n_rows)];
    const is_in_place = indices_out == @constCast(from.indices) or values_out == @constCast(from.values);
    var at: u64 = 0;
    for (starts, counts, 0..) |start, count, row| {
        if (start < 0 or count < 0 or start > from.n_values or count > from.n_values - @as(u64, @intCast(start)) or
            count > from.n_out - at or (is_in_place and at > start))
        {
            return report.fail(error.BadArgument, "row {d} has {d} entries from {d} on, which do not lie in the {d} of the input, " ++
                "or go to {d} of {d}", .{ row, count, start, from.n_values, at, from.n_out });
        }
        at += @intCast(count);
    }
    if (at == 0) return;
    const indices = try handle.required([*]const i32, from.indices, "indices", report);
    const values = try handle.required([*]const f32, from.values, "values", report);
    const packed_indices = try handle.required([*]i32, indices_out, "indices_out", report);
    const packed_values = try handle.required([*]f32, values_out, "values_out", report);
    at = 0;
    for (starts, counts) |start_in, count| {
        const start: usize = @intCast(start_in);
        const length: usize = @intCast(count);
        @memmove(packed_indices[at..][0..length], indices[start..][0..length]);
        @memmove(packed_values[at..][0..length], values[start..][0..length]);
        at += length;
    }
}

export fn scx_hash64(bytes: ?[*]const u8, n_bytes: u64) u64 {
    var hasher: hashing.Blake3 = .init(.{});
    if (bytes) |start| hashing.update(&hasher, start[0..@intCast(n_bytes)]);
    return hashing.finalShort(&hasher);
}

test "rows that do not lie in the arrays are not moved" {
    var indices = [_]i32{ 1, 2, 3, 4, 5 };
    var values = [_]f32{ 1, 2, 3, 4, 5 };
    const lowest = std.math.minInt(i64);
    const highest = std.math.maxInt(i64);
    for ([_][4]i64{
        .{ -1, 3, 1, 1 }, .{ 0, 3, -1, 1 }, .{ 0, 3, 1, 3 },      .{ 0, 6, 1, 0 },
        .{ 0, 1, 3, 2 },  .{ 0, 3, 4, 2 },  .{ lowest, 0, 1, 1 }, .{ 0, highest, 1, highest },
    }) |wrong| {
        try std.testing.expectEqual(@as(i32, 1), scx_pack_rows(wrong[0..2], wrong[2..4], 2, &indices, &values, 5, &indices, &values, 5, null));
        try std.testing.expectEqualSlices(i32, &.{ 1, 2, 3, 4, 5 }, &indices);
    }
    const starts = [_]i64{ 0, 3 };
    const counts = [_]i64{ 1, 2 };
    try std.testing.expectEqual(@as(i32, 1), scx_pack_rows(&starts, &counts, 2, &indices, &values, 5, &indices, &values, 2, null));
    try std.testing.expectEqual(@as(i32, 1), scx_pack_rows(&starts, &counts, 2, null, &values, 5, &indices, &values, 5, null));
    try std.testing.expectEqual(handle.ok, scx_pack_rows(&starts, &counts, 2, &indices, &values, 5, &indices, &values, 5, null));
    try std.testing.expectEqualSlices(i32, &.{ 1, 4, 5 }, indices[0..3]);
    try std.testing.expectEqualSlices(f32, &.{ 1, 4, 5 }, values[0..3]);
}

test "the hash is the first eight bytes of BLAKE3" {
    try std.testing.expectEqual(@as(u64, 0x33514638acb33764), scx_hash64("abc", 3));
    try std.testing.expectEqual(@as(u64, 0xa6a1f9f5b94913af), scx_hash64(null, 0));
}
