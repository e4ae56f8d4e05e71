//! `scx_matrix_*`: rows of a matrix of an open file.

const std = @import("std");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const gather = @import("../codec/gather.zig");
const handle = @import("handle.zig");
const matrix_module = @import("../codec/matrix.zig");
const platform = @import("../container/platform.zig");
const validate = @import("../codec/validate.zig");
const SectionType = @import("../container/section_types.zig").SectionType;
const Target = @import("../levels/table.zig").Target;
const TransformFlags = @import("transform_flags.zig").TransformFlags;
const ValueType = @import("../codec/value_type.zig").ValueType;

const assert = std.debug.assert;
const AbiError = errors.AbiError;
const Failure = errors.Failure;
const FileHandle = handle.FileHandle;
const Matrix = matrix_module.Matrix;
const Report = errors.Report;

/// `scx_matrix`
pub const MatrixHandle = struct {
    process_id: u32,
    matrix: *Matrix,
};

/// `scx_matrix_info`
pub const MatrixInfo = extern struct {
    struct_bytes: u32,
    value_type: u32,
    n_rows: u64,
    n_cols: u64,
    nnz: u64,
    n_shards: u32,
    codec_id: u32,
};

/// `scx_dense_options`
pub const DenseOptions = extern struct {
    struct_bytes: u32,
    transform: u32,
    target_sum: f64,
    panel: ?[*]const u32,
    n_panel: u64,
    pflog_alpha: f64,
    output: u32,
    reserved: u32,
};

comptime {
    assert(@sizeOf(MatrixInfo) == 40);
    assert(@sizeOf(DenseOptions) == 48);
}

export fn scx_matrix_open(
    file: ?*FileHandle,
    section_type: u32,
    modality_id: u32,
    name: ?[*:0]const u8,
    matrix_out: ?*?*MatrixHandle,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const result = open(file, section_type, modality_id, name, matrix_out, &report);
    return handle.answer(handle.afterReading(file, result, &report), &report, error_out);
}

fn open(
    file: ?*FileHandle,
    section_type: u32,
    modality_id: u32,
    name: ?[*:0]const u8,
    matrix_out: ?*?*MatrixHandle,
    report: *Report,
) Failure!void {
    const out = try handle.required(*?*MatrixHandle, matrix_out, "matrix_out", report);
    out.* = null;
    const own = try handle.checked(FileHandle, file, report);
    const kind: SectionType = @fromBackingInt(@intCast(std.math.cast(u8, section_type) orelse 255));
    if (!kind.isRowShard()) return report.fail(error.BadArgument, "section type {d} is no shard of rows", .{section_type});
    const matrix_handle = try handle.allocator.create(MatrixHandle);
    errdefer handle.allocator.destroy(matrix_handle);

    const matrix = try Matrix.open(handle.allocator, own.file, .{
        .section_type = kind,
        .modality_id = std.math.cast(u8, modality_id) orelse
            return report.fail(error.BadArgument, "modality id {d} is above 255", .{modality_id}),
        .name = try handle.text(name, "name", report),
    }, report);
    matrix_handle.* = .{ .process_id = platform.processId(), .matrix = matrix };
    out.* = matrix_handle;
}

/// A matrix has neither threads nor locks: it is freed in whatever process closes it.
export fn scx_matrix_close(matrix: ?*MatrixHandle) void {
    const own = matrix orelse return;
    own.matrix.close();
    handle.allocator.destroy(own);
}

export fn scx_matrix_get_info(matrix: ?*MatrixHandle, info_out: ?*MatrixInfo, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(getInfo(matrix, info_out, &report), &report, error_out);
}

fn getInfo(matrix_handle: ?*MatrixHandle, info_out: ?*MatrixInfo, report: *Report) Failure!void {
    const own = try handle.checked(MatrixHandle, matrix_handle, report);
    const info = try handle.required(*MatrixInfo, info_out, "info_out", report);
    try handle.checkSize(MatrixInfo, info.struct_bytes, "scx_matrix_info", report);
    const matrix = own.matrix;
    info.* = .{
        .struct_bytes = info.struct_bytes,
        .value_type = @backingInt(matrix.value_type),
        .n_rows = matrix.n_rows,
        .n_cols = matrix.n_cols,
        .nnz = matrix.nnz,
        .n_shards = @intCast(matrix.shards.len),
        .codec_id = @backingInt(matrix.shards[0].codec),
    };
}

fn rowsSlice(rows: ?[*]const i64, n_rows: u64, report: *Report) Failure![]const i64 {
    if (n_rows == 0) return &.{};
    return (try handle.required([*]const i64, rows, "rows", report))[0..@intCast(n_rows)];
}

export fn scx_matrix_row_counts(
    matrix: ?*MatrixHandle,
    rows: ?[*]const i64,
    n_rows: u64,
    counts_out: ?[*]i64,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const result = rowCounts(matrix, rows, n_rows, counts_out, &report);
    return handle.answer(handle.afterReading(matrix, result, &report), &report, error_out);
}

fn rowCounts(matrix: ?*MatrixHandle, rows_in: ?[*]const i64, n_rows: u64, counts_out: ?[*]i64, report: *Report) Failure!void {
    const own = try handle.checked(MatrixHandle, matrix, report);
    const rows = try rowsSlice(rows_in, n_rows, report);
    if (rows.len == 0) return;
    try own.matrix.file.expectUnchanged(report);
    const counts = try handle.required([*]i64, counts_out, "counts_out", report);
    try own.matrix.checkRows(rows, report);
    own.matrix.startReadingCounts(rows);
    for (rows, counts) |row, *count| count.* = @intCast(try own.matrix.rowCount(@intCast(row), report));
}

export fn scx_matrix_row_totals(
    matrix: ?*MatrixHandle,
    rows: ?[*]const i64,
    n_rows: u64,
    totals_out: ?[*]f64,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const result = rowTotals(matrix, rows, n_rows, totals_out, &report);
    return handle.answer(handle.afterReading(matrix, result, &report), &report, error_out);
}

fn rowTotals(matrix: ?*MatrixHandle, rows_in: ?[*]const i64, n_rows: u64, totals_out: ?[*]f64, report: *Report) Failure!void {
    const own = try handle.checked(MatrixHandle, matrix, report);
    const rows = try rowsSlice(rows_in, n_rows, report);
    if (rows.len == 0) return;
    try own.matrix.file.expectUnchanged(report);
    const totals = try handle.required([*]f64, totals_out, "totals_out", report);
    try gather.rowTotals(handle.allocator, own.matrix, rows, totals[0..rows.len], report);
}

export fn scx_matrix_gather_csr(
    matrix: ?*MatrixHandle,
    rows: ?[*]const i64,
    n_rows: u64,
    indptr: ?[*]const i64,
    indices_out: ?[*]i32,
    value_type: u32,
    values_out: ?[*]u8,
    threads: u32,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const result = gatherCsr(matrix, rows, n_rows, indptr, indices_out, value_type, values_out, threads, &report);
    return handle.answer(handle.afterReading(matrix, result, &report), &report, error_out);
}

fn gatherCsr(
    matrix: ?*MatrixHandle,
    rows_in: ?[*]const i64,
    n_rows: u64,
    indptr_in: ?[*]const i64,
    indices_out: ?[*]i32,
    value_type_number: u32,
    values_out: ?[*]u8,
    threads: u32,
    report: *Report,
) Failure!void {
    const own = try handle.checked(MatrixHandle, matrix, report);
    const rows = try rowsSlice(rows_in, n_rows, report);
    if (rows.len == 0) return;
    try own.matrix.file.expectUnchanged(report);
    const indptr = try handle.offsets(indptr_in, n_rows, "indptr", report);
    const value_type = ValueType.fromInt(value_type_number) orelse
        return report.fail(error.BadArgument, "value type {d} does not exist", .{value_type_number});
    const target = targetOf(own.matrix.value_type, value_type) orelse
        return report.fail(error.BadArgument, "values of type {t} can be had as they are, as f32 or as f64, not as {t}", .{
            own.matrix.value_type, value_type,
        });
    if (indptr[0] != 0) return report.fail(error.BadArgument, "indptr[0] is {d}, not 0", .{indptr[0]});
    var nothing: [8]u8 align(8) = undefined; // rows without values write nothing
    if (indptr[rows.len] != 0 and (indices_out == null or values_out == null)) {
        return report.fail(error.BadArgument, "indices_out or values_out is NULL", .{});
    }
    var job: gather.CsrGather = .{
        .allocator = handle.allocator,
        .matrix = own.matrix,
        .rows = rows,
        .indptr = indptr,
        .indices = indices_out orelse @ptrCast(&nothing),
        .target = target,
        .value_bytes = value_type.bytes(),
        .values = values_out orelse &nothing,
    };
    try job.run(threads, report);
}

fn targetOf(stored: ValueType, wanted: ValueType) ?Target {
    if (stored == wanted) return .stored;
    return switch (wanted) {
        .f32 => .f32,
        .f64 => .f64,
        else => null,
    };
}

export fn scx_matrix_gather_dense(
    matrix: ?*MatrixHandle,
    rows: ?[*]const i64,
    n_rows: u64,
    options: ?*const DenseOptions,
    values_out: ?[*]f32,
    threads: u32,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const result = gatherDense(matrix, rows, n_rows, options, values_out, threads, &report);
    return handle.answer(handle.afterReading(matrix, result, &report), &report, error_out);
}

fn gatherDense(
    matrix: ?*MatrixHandle,
    rows_in: ?[*]const i64,
    n_rows: u64,
    options_in: ?*const DenseOptions,
    values_out: ?[*]f32,
    threads: u32,
    report: *Report,
) Failure!void {
    const own = try handle.checked(MatrixHandle, matrix, report);
    const options = try handle.required(*const DenseOptions, options_in, "options", report);
    const dense_options = try denseOptions(options, report);
    try requireFloat32(dense_options, report);
    var plan: matrix_module.DensePlan = try .init(handle.allocator, own.matrix, dense_options, report);
    defer plan.deinit();
    const rows = try rowsSlice(rows_in, n_rows, report);
    const length = rows.len * plan.n_output;
    if (length == 0) return own.matrix.checkRows(rows, report);
    try own.matrix.file.expectUnchanged(report);
    const out = try handle.required([*]f32, values_out, "values_out", report);
    var job: gather.DenseGather = .{
        .allocator = handle.allocator,
        .matrix = own.matrix,
        .plan = &plan,
        .rows = rows,
        .out = std.mem.sliceAsBytes(out[0..length]),
    };
    try job.run(threads, report);
}

/// Where values have one type.
pub fn requireFloat32(options: matrix_module.DenseOptions, report: *Report) Failure!void {
    if (options.output != .f32) return report.fail(error.BadArgument, "half precision is for dense batches of a pipeline alone", .{});
}

/// `scx_dense_options` as the kernels want it.
pub fn denseOptions(options: *const DenseOptions, report: *Report) Failure!matrix_module.DenseOptions {
    try handle.checkSize(DenseOptions, options.struct_bytes, "scx_dense_options", report);
    const flags: TransformFlags = try .of(options.transform, report);
    if (options.reserved != 0) return report.fail(error.BadArgument, "options.reserved must be 0", .{});
    const output = std.enums.fromInt(emit.Output, options.output) orelse
        return report.fail(error.BadArgument, "output {d} does not exist", .{options.output});
    return .{
        .output = output,
        .normalize = flags.normalize,
        .log1p = flags.log1p,
        .target_sum = options.target_sum,
        .pflog_alpha = options.pflog_alpha,
        .panel = if (options.panel) |panel| panel[0..@intCast(options.n_panel)] else null,
    };
}

export fn scx_matrix_validate_shard(matrix: ?*MatrixHandle, shard_index: u32, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    const result = validateShard(matrix, shard_index, &report);
    return handle.answer(handle.afterReading(matrix, result, &report), &report, error_out);
}

fn validateShard(matrix_handle: ?*MatrixHandle, shard_index: u32, report: *Report) Failure!void {
    const own = try handle.checked(MatrixHandle, matrix_handle, report);
    const shards = own.matrix.shards.len;
    if (shard_index >= shards) {
        return report.fail(error.OutOfRange, "shard {d} is out of range: the matrix has {d} shards", .{ shard_index, shards });
    }
    try validate.validateShard(handle.allocator, own.matrix, shard_index, report);
}
