//! `scx_tokens_*`: the kernels that make tokens of a batch in memory.

const std = @import("std");
const bins_kernel = @import("../kernels/tokens/bins.zig");
const crop_kernel = @import("../kernels/tokens/crop.zig");
const csr_rows = @import("../kernels/csr_rows.zig");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const rank_kernel = @import("../kernels/tokens/rank.zig");
const rows_module = @import("csr_rows.zig");
const sample_kernel = @import("../kernels/tokens/sample.zig");
const value_modes = @import("../kernels/value_modes.zig");
const values_kernel = @import("../kernels/tokens/values.zig");

const assert = std.debug.assert;
const AbiError = errors.AbiError;
const AbiRows = rows_module.AbiRows;
const CsrRows = csr_rows.CsrRows;
const isScale = @import("../kernels/transform.zig").isScale;
const Failure = errors.Failure;
const Report = errors.Report;

/// The largest vocabulary: PAD, one above GENE_MASK, is a 32-bit id too.
const vocabulary_max = (1 << 31) - 2;
/// The most tokens of a row: lengths are 32-bit.
const width_max = (1 << 31) - 1;

/// `scx_rank_options`
pub const RankOptions = extern struct {
    struct_bytes: u32,
    threads: u32,
    gene_stats: ?[*]const f32,
    n_genes: u64,
    target_sum: f64,
    l_max: u64,
};

/// `scx_bin_options`
pub const BinOptions = extern struct {
    struct_bytes: u32,
    threads: u32,
    n_bins: u32,
    tie: u32,
    edges: ?[*]const f64,
    n_edges: u64,
    seed: u64,
    file_identity: u64,
    row_numbers: ?[*]const u64,
};

/// `scx_sample_options`
pub const SampleOptions = extern struct {
    struct_bytes: u32,
    threads: u32,
    weight: u32,
    reserved: u32,
    n: u64,
    seed: u64,
    file_identity: u64,
    row_numbers: ?[*]const u64,
};

/// `scx_transform_options`
pub const TransformOptions = extern struct {
    struct_bytes: u32,
    threads: u32,
    mode: u32,
    reserved: u32,
    target_sum: f64,
    pflog_alpha: f64,
    n_measured: ?[*]const i64,
};

comptime {
    assert(@sizeOf(RankOptions) == 40);
    assert(@sizeOf(BinOptions) == 56);
    assert(@sizeOf(SampleOptions) == 48);
    assert(@sizeOf(TransformOptions) == 40);
}

export fn scx_tokens_top_k(
    rows: ?*const AbiRows,
    k: u64,
    n_genes_total: u64,
    ids_out: ?[*]i32,
    values_out: ?[*]f32,
    mask_out: ?[*]u8,
    pad_out: ?[*]u8,
    threads: u32,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const result = topK(rows, k, n_genes_total, ids_out, values_out, mask_out, pad_out, threads, &report);
    return handle.answer(result, &report, error_out);
}

fn topK(
    rows_in: ?*const AbiRows,
    k: u64,
    n_genes_total: u64,
    ids_out: ?[*]i32,
    values_out: ?[*]f32,
    mask_out: ?[*]u8,
    pad_out: ?[*]u8,
    threads: u32,
    report: *Report,
) Failure!void {
    const who = crop_kernel.Crop.who;
    const rows = try rows_module.checkedRows(rows_in, who, report);
    try checkWidth(who ++ "k", k, report);
    if (n_genes_total < 1) return report.fail(error.BadArgument, who ++ "n_genes_total must be >= 1, but it is 0", .{});
    if (n_genes_total > vocabulary_max) return report.fail(error.BadArgument, who ++
        "n_genes_total is {d}, but at most {d} genes can be told apart", .{ n_genes_total, vocabulary_max });
    const slots = try slotCount(rows, k);
    if (slots == 0) return;
    const crop: crop_kernel.Crop = .{
        .allocator = handle.allocator,
        .rows = rows,
        .k = @intCast(k),
        .n_genes_total = @intCast(n_genes_total),
        .ids = (try handle.required([*]i32, ids_out, "ids_out", report))[0..slots],
        .values = (try handle.required([*]f32, values_out, "values_out", report))[0..slots],
        .mask = (try handle.required([*]u8, mask_out, "mask_out", report))[0..slots],
        .pad = (try handle.required([*]u8, pad_out, "pad_out", report))[0..slots],
    };
    try crop.run(threads, report);
}

/// For kernels that look at one of the two alone: the other may be NULL, and stands for nothing.
fn withoutIds(rows_in: ?*const AbiRows, report: *Report) Failure!AbiRows {
    var rows = (try handle.required(*const AbiRows, rows_in, "rows", report)).*;
    rows.indices = @ptrCast(rows.values);
    return rows;
}

fn withoutValues(rows_in: ?*const AbiRows, report: *Report) Failure!AbiRows {
    var rows = (try handle.required(*const AbiRows, rows_in, "rows", report)).*;
    rows.values = @ptrCast(rows.indices);
    return rows;
}

fn checkWidth(comptime what: []const u8, width: u64, report: *Report) Failure!void {
    if (width < 1 or width > width_max) return report.fail(error.BadArgument, what ++
        " is {d}, but it goes from 1 to {d}", .{ width, width_max });
}

fn slotCount(rows: CsrRows, width: u64) Failure!usize {
    return std.math.mul(usize, rows.count(), @intCast(width)) catch error.OutOfMemory;
}

export fn scx_tokens_rank(
    rows: ?*const AbiRows,
    options: ?*const RankOptions,
    ids_out: ?[*]i32,
    lengths_out: ?[*]i32,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(rank(rows, options, ids_out, lengths_out, &report), &report, error_out);
}

fn rank(
    rows_in: ?*const AbiRows,
    options_in: ?*const RankOptions,
    ids_out: ?[*]i32,
    lengths_out: ?[*]i32,
    report: *Report,
) Failure!void {
    const who = rank_kernel.Ranking.who;
    const rows = try rows_module.checkedRows(rows_in, who, report);
    const options = try handle.required(*const RankOptions, options_in, "options", report);
    try handle.checkSize(RankOptions, options.struct_bytes, "scx_rank_options", report);
    try checkWidth(who ++ "l_max", options.l_max, report);
    try checkTargetSum(who, options.target_sum, report);
    const n_genes: usize = @intCast(options.n_genes);
    const statistics: []const f32 = if (n_genes == 0)
        &.{}
    else
        (try handle.required([*]const f32, options.gene_stats, "gene_stats", report))[0..n_genes];
    try rank_kernel.checkStatistics(who, statistics, report);
    const slots = try slotCount(rows, options.l_max);
    if (slots == 0) return;
    const job: rank_kernel.Ranking = .{
        .allocator = handle.allocator,
        .rows = rows,
        .statistics = statistics,
        .target_sum = options.target_sum,
        .l_max = @intCast(options.l_max),
        .ids = (try handle.required([*]i32, ids_out, "ids_out", report))[0..slots],
        .lengths = (try handle.required([*]i32, lengths_out, "lengths_out", report))[0..rows.count()],
    };
    try job.run(options.threads, report);
}

fn checkTargetSum(comptime who: []const u8, target_sum: f64, report: *Report) Failure!void {
    if (!isScale(target_sum)) return report.fail(error.BadArgument, who ++
        "target_sum is {d}, but it has to be finite and strictly positive, as a float32", .{target_sum});
}

export fn scx_tokens_bin(rows: ?*const AbiRows, options: ?*const BinOptions, bins_out: ?[*]i32, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(bin(rows, options, bins_out, &report), &report, error_out);
}

fn bin(rows_in: ?*const AbiRows, options_in: ?*const BinOptions, bins_out: ?[*]i32, report: *Report) Failure!void {
    const who = bins_kernel.Binning.who;
    const rows = try rows_module.checkedRows(rows_in, who, report);
    const options = try handle.required(*const BinOptions, options_in, "options", report);
    try handle.checkSize(BinOptions, options.struct_bytes, "scx_bin_options", report);
    if (options.n_bins < bins_kernel.n_bins_min or options.n_bins > bins_kernel.n_bins_max) {
        return report.fail(error.BadArgument, who ++ "n_bins is {d}, but it goes from {d} to {d}", .{
            options.n_bins, bins_kernel.n_bins_min, bins_kernel.n_bins_max,
        });
    }
    const tie = std.enums.fromInt(bins_kernel.Tie, options.tie) orelse
        return report.fail(error.BadArgument, who ++ "unknown tie {d}", .{options.tie});
    const edges: ?[]const f64 = if (options.edges) |edges| edges[0..@intCast(options.n_edges)] else null;
    if (edges) |given| try bins_kernel.checkEdges(given, options.n_bins, report);
    try rows.checkIds(who, csr_rows.any_genes, options.threads, report);
    if (rows.indices.len == 0) return;
    const job: bins_kernel.Binning = .{
        .allocator = handle.allocator,
        .rows = rows,
        .n_bins = options.n_bins,
        .edges = edges,
        .tie = tie,
        .seed = options.seed,
        .file_identity = options.file_identity,
        .row_numbers = rowNumbers(rows, options.row_numbers),
        .out = (try handle.required([*]i32, bins_out, "bins_out", report))[0..rows.indices.len],
    };
    try job.run(options.threads, report);
}

fn rowNumbers(rows: CsrRows, numbers: ?[*]const u64) ?[]const u64 {
    return if (numbers) |given| given[0..rows.count()] else null;
}

export fn scx_tokens_sample(
    rows: ?*const AbiRows,
    options: ?*const SampleOptions,
    ids_out: ?[*]i32,
    lengths_out: ?[*]i32,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(sample(rows, options, ids_out, lengths_out, &report), &report, error_out);
}

fn sample(
    rows_in: ?*const AbiRows,
    options_in: ?*const SampleOptions,
    ids_out: ?[*]i32,
    lengths_out: ?[*]i32,
    report: *Report,
) Failure!void {
    const who = "sample_genes: ";
    const rows = try rows_module.checkedRows(rows_in, who, report);
    const options = try handle.required(*const SampleOptions, options_in, "options", report);
    try handle.checkSize(SampleOptions, options.struct_bytes, "scx_sample_options", report);
    try checkWidth(who ++ "n", options.n, report);
    const weight = std.enums.fromInt(sample_kernel.Weight, options.weight) orelse
        return report.fail(error.BadArgument, who ++ "weight {d} does not exist", .{options.weight});
    try rows.checkIds(who, csr_rows.any_genes, options.threads, report);
    const slots = try slotCount(rows, options.n);
    if (slots == 0) return;
    const job: sample_kernel.Sampling = .{
        .allocator = handle.allocator,
        .rows = rows,
        .n = @intCast(options.n),
        .weight = weight,
        .seed = options.seed,
        .file_identity = options.file_identity,
        .row_numbers = rowNumbers(rows, options.row_numbers),
        .ids = (try handle.required([*]i32, ids_out, "ids_out", report))[0..slots],
        .lengths = (try handle.required([*]i32, lengths_out, "lengths_out", report))[0..rows.count()],
    };
    try job.run(options.threads, report);
}

export fn scx_tokens_transform(
    rows: ?*const AbiRows,
    options: ?*const TransformOptions,
    values_out: ?[*]f32,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(transform(rows, options, values_out, &report), &report, error_out);
}

fn transform(
    rows_in: ?*const AbiRows,
    options_in: ?*const TransformOptions,
    values_out: ?[*]f32,
    report: *Report,
) Failure!void {
    const who = "transform_values: ";
    const rows = try rows_module.checkedRows(&try withoutIds(rows_in, report), who, report);
    const options = try handle.required(*const TransformOptions, options_in, "options", report);
    try handle.checkSize(TransformOptions, options.struct_bytes, "scx_transform_options", report);
    const mode = std.enums.fromInt(value_modes.Mode, options.mode) orelse
        return report.fail(error.BadArgument, who ++ "mode {d} does not exist", .{options.mode});
    if (mode == .normalize_log1p) try checkTargetSum(who, options.target_sum, report);
    var measured: ?[]const i64 = null;
    if (mode == .pflog_raw) {
        const alpha = options.pflog_alpha;
        if (!isScale(alpha)) return report.fail(error.BadArgument, who ++
            "pflog_alpha is {d}, but it has to be finite and strictly positive, as a float32", .{alpha});
        measured = (try handle.required([*]const i64, options.n_measured, "n_measured", report))[0..rows.count()];
        for (measured.?, 0..) |count, row| {
            if (count < 1) return report.fail(error.BadArgument, who ++
                "n_measured of row {d} is {d}, but it has to be at least 1", .{ row, count });
        }
    }
    if (rows.values.len == 0) return;
    const job: values_kernel.Transformation = .{
        .rows = rows,
        .parameters = .{ .mode = mode, .target_sum = options.target_sum, .pflog_alpha = options.pflog_alpha },
        .n_measured = measured,
        .out = (try handle.required([*]f32, values_out, "values_out", report))[0..rows.values.len],
    };
    try job.run(options.threads, report);
}

export fn scx_tokens_library_size(rows: ?*const AbiRows, totals_out: ?[*]f64, threads: u32, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(librarySize(rows, totals_out, threads, &report), &report, error_out);
}

fn librarySize(rows_in: ?*const AbiRows, totals_out: ?[*]f64, threads: u32, report: *Report) Failure!void {
    const rows = try rows_module.checkedRows(&try withoutIds(rows_in, report), "library_size: ", report);
    if (rows.count() == 0) return;
    const job: values_kernel.LibrarySizes = .{
        .rows = rows,
        .out = (try handle.required([*]f64, totals_out, "totals_out", report))[0..rows.count()],
    };
    try job.run(threads, report);
}

export fn scx_tokens_measured(
    rows: ?*const AbiRows,
    panel: ?[*]const i32,
    n_panel: u64,
    measured_out: ?[*]u8,
    threads: u32,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(measuredMask(rows, panel, n_panel, measured_out, threads, &report), &report, error_out);
}

fn measuredMask(
    rows_in: ?*const AbiRows,
    panel_in: ?[*]const i32,
    n_panel: u64,
    measured_out: ?[*]u8,
    threads: u32,
    report: *Report,
) Failure!void {
    const who = "measured_mask: ";
    const rows = try rows_module.checkedRows(&try withoutValues(rows_in, report), who, report);
    try rows.checkIds(who, csr_rows.any_genes, threads, report);
    const slots = try slotCount(rows, n_panel);
    if (slots == 0) return;
    const panel = (try handle.required([*]const i32, panel_in, "panel", report))[0..@intCast(n_panel)];
    for (panel[0 .. panel.len - 1], panel[1..]) |gene, next| {
        if (next <= gene) return report.fail(error.BadArgument, who ++ "the panel is not strictly ascending: {d} follows {d}", .{ next, gene });
    }
    const job: values_kernel.Measured = .{
        .rows = rows,
        .panel = panel,
        .out = (try handle.required([*]u8, measured_out, "measured_out", report))[0..slots],
    };
    try job.run(threads, report);
}
