//! `scx_joined_*`: rows of several matrices in one call, and `scx_pipeline_open_joined`: batches of them.

const std = @import("std");
const dense_plan = @import("../codec/dense_plan.zig");
const downsample = @import("../kernels/downsample.zig");
const end_to_end = @import("end_to_end.zig");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const joined = @import("../codec/joined.zig");
const map_guard = @import("../container/map_guard.zig");
const pipelines = @import("pipeline.zig");
const row_reads = @import("../codec/row_reads.zig");
const JoinedSource = @import("../pipeline/joined_source.zig").JoinedSource;
const MatrixHandle = @import("matrix.zig").MatrixHandle;

const assert = std.debug.assert;
const AbiError = errors.AbiError;
const Failure = errors.Failure;
const Opening = end_to_end.Opening;
const Report = errors.Report;
const Transform = @import("../kernels/transform.zig").Transform;
const TransformFlags = @import("transform_flags.zig").TransformFlags;

/// `scx_row_source`
pub const RowSource = extern struct {
    matrix: ?*MatrixHandle,
    remap: ?[*]const i32,
    file_identity: u64,
};

/// `scx_joined_rows`
pub const JoinedRows = extern struct {
    struct_bytes: u32,
    n_sources: u32,
    sources: ?[*]const RowSource,
    source_of_row: ?[*]const u32,
    rows: ?[*]const i64,
    n_rows: u64,
};

/// `scx_joined_options`
pub const JoinedOptions = extern struct {
    struct_bytes: u32,
    threads: u32,
    transform: u32,
    downsample_method: u32,
    target_sum: f64,
    downsample_target: u64,
    downsample_seed: u64,
};

/// `scx_joined_output`
pub const JoinedOutput = extern struct {
    struct_bytes: u32,
    reserved: u32,
    starts: ?[*]const i64,
    counts: ?[*]const i64,
    indices: ?[*]i32,
    values: ?[*]f32,
    kept: ?[*]i64,
};

comptime {
    assert(@sizeOf(RowSource) == 24);
    assert(@sizeOf(JoinedRows) == 40);
    assert(@sizeOf(JoinedOptions) == 40);
    assert(@sizeOf(JoinedOutput) == 48);
}

export fn scx_joined_counts(
    rows: ?*const JoinedRows,
    counts_out: ?[*]i64,
    failed_source_out: ?*u64,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const result = countValues(rows, counts_out, failed_source_out, &report);
    return handle.answer(afterReading(rows, failed_source_out, result, &report), &report, error_out);
}

fn countValues(rows_in: ?*const JoinedRows, counts_out: ?[*]i64, failed_source_out: ?*u64, report: *Report) Failure!void {
    const failed_source = try handle.required(*u64, failed_source_out, "failed_source_out", report);
    failed_source.* = errors.no_index;
    const given = try checkedRows(rows_in, failed_source, report);
    if (given.rows.len == 0) return;
    const counts = try handle.required([*]i64, counts_out, "counts_out", report);
    given.startReadingCounts();
    for (given.rows, given.source_of_row, counts) |row, source, *count| {
        count.* = @intCast(given.sources[source].matrix.?.matrix.rowCount(@intCast(row), report) catch |failure| {
            failed_source.* = source;
            return failure;
        });
    }
}

/// What came of reading, or the error of the first source some of whose bytes could not be read.
fn afterReading(rows: ?*const JoinedRows, failed_source_out: ?*u64, result: Failure!void, report: *Report) Failure!void {
    const given = rows orelse return result;
    const sources = (given.sources orelse return result)[0..given.n_sources];
    if (map_guard.anyCut()) for (sources, 0..) |source, number| {
        handle.afterReading(source.matrix, {}, report) catch |failure| {
            if (failed_source_out) |out| out.* = number;
            return failure;
        };
    };
    const failed = failed_source_out orelse return result;
    return if (failed.* < sources.len) handle.afterReading(sources[failed.*].matrix, result, report) else result;
}

const Given = struct {
    sources: []const RowSource,
    source_of_row: []const u32,
    rows: []const i64,

    fn startReadingCounts(given: Given) void {
        const watch = given.sources[given.source_of_row[0]].matrix.?.matrix.watch;
        row_reads.askForCounts(handle.allocator, given, given.rows, watch);
    }

    /// Where a row lies.
    pub fn at(given: Given, index: usize) ?row_reads.Place {
        return given.sources[given.source_of_row[index]].matrix.?.matrix.placeOf(@intCast(given.rows[index]));
    }
};

fn checkedRows(rows_in: ?*const JoinedRows, failed_source: *u64, report: *Report) Failure!Given {
    const rows = try handle.required(*const JoinedRows, rows_in, "rows", report);
    try handle.checkSize(JoinedRows, rows.struct_bytes, "scx_joined_rows", report);
    if (rows.n_rows == 0) return .{ .sources = &.{}, .source_of_row = &.{}, .rows = &.{} };
    const n_rows: usize = @intCast(rows.n_rows);
    const given: Given = .{
        .sources = (try handle.required([*]const RowSource, rows.sources, "sources", report))[0..rows.n_sources],
        .source_of_row = (try handle.required([*]const u32, rows.source_of_row, "source_of_row", report))[0..n_rows],
        .rows = (try handle.required([*]const i64, rows.rows, "rows", report))[0..n_rows],
    };
    for (given.sources, 0..) |source, number| {
        const own = try handle.checked(MatrixHandle, source.matrix, report);
        errdefer failed_source.* = number;
        try own.matrix.file.expectUnchanged(report);
    }
    for (given.rows, given.source_of_row, 0..) |row, source, position| {
        if (source >= given.sources.len) return report.fail(error.OutOfRange, "source {d} (position {d}) does not exist", .{ source, position });
        const n_matrix_rows = given.sources[source].matrix.?.matrix.n_rows;
        if (row >= 0 and row < n_matrix_rows) continue;
        failed_source.* = source;
        return report.fail(error.OutOfRange, "row {d} (position {d}) is out of range: the matrix has {d} rows", .{ row, position, n_matrix_rows });
    }
    return given;
}

export fn scx_joined_gather(
    rows: ?*const JoinedRows,
    options: ?*const JoinedOptions,
    output: ?*const JoinedOutput,
    failed_source_out: ?*u64,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const result = gather(rows, options, output, failed_source_out, &report);
    return handle.answer(afterReading(rows, failed_source_out, result, &report), &report, error_out);
}

fn gather(
    rows_in: ?*const JoinedRows,
    options_in: ?*const JoinedOptions,
    output_in: ?*const JoinedOutput,
    failed_source_out: ?*u64,
    report: *Report,
) Failure!void {
    const failed_source = try handle.required(*u64, failed_source_out, "failed_source_out", report);
    failed_source.* = errors.no_index;
    const given = try checkedRows(rows_in, failed_source, report);
    const options = try handle.required(*const JoinedOptions, options_in, "options", report);
    try handle.checkSize(JoinedOptions, options.struct_bytes, "scx_joined_options", report);
    const output = try handle.required(*const JoinedOutput, output_in, "output", report);
    try handle.checkSize(JoinedOutput, output.struct_bytes, "scx_joined_output", report);
    const changes = try changesOf(options, report);
    if (given.rows.len == 0) return;
    const sources = try sourcesOf(given.sources);
    defer handle.allocator.free(sources);
    const n_rows = given.rows.len;
    var nothing: [8]u8 align(8) = undefined; // rows without values write nothing
    var job: joined.JoinedGather = .{
        .allocator = handle.allocator,
        .sources = sources,
        .source_of_row = given.source_of_row,
        .rows = given.rows,
        .starts = (try handle.required([*]const i64, output.starts, "starts", report))[0..n_rows],
        .counts = (try handle.required([*]const i64, output.counts, "counts", report))[0..n_rows],
        .changes = changes,
        .indices = output.indices orelse @ptrCast(&nothing),
        .values = output.values orelse @ptrCast(&nothing),
        .kept = (try handle.required([*]i64, output.kept, "kept", report))[0..n_rows],
    };
    if (try job.checkRoom(failed_source, report) > 0 and (output.indices == null or output.values == null)) {
        return report.fail(error.BadArgument, "indices or values is NULL", .{});
    }
    try job.run(options.threads, failed_source, report);
}

/// The caller frees them.
fn sourcesOf(given: []const RowSource) Failure![]joined.Source {
    const sources = try handle.allocator.alloc(joined.Source, given.len);
    for (given, sources) |source, *own| {
        const matrix = source.matrix.?.matrix;
        own.* = .{
            .matrix = matrix,
            .remap = if (source.remap) |remap| remap[0..matrix.n_cols] else null,
            .file_identity = source.file_identity,
        };
    }
    return sources;
}

fn changesOf(options: *const JoinedOptions, report: *Report) Failure!joined.Changes {
    const flags: TransformFlags = try .of(options.transform, report);
    const transform: Transform = .{
        .normalize = flags.normalize,
        .log1p = flags.log1p,
        .target_sum = options.target_sum,
    };
    if (transform.normalize) try dense_plan.checkTargetSum(transform.target_sum, report);
    if (options.downsample_method == 0) return .{ .transform = transform, .draw = null };
    if (options.downsample_target < 1) return report.fail(error.BadArgument, "the target must be at least 1", .{});
    const method = std.enums.fromInt(downsample.Method, options.downsample_method) orelse
        return report.fail(error.BadArgument, "method {d} does not exist", .{options.downsample_method});
    return .{
        .transform = transform,
        .draw = .{ .method = method, .target = options.downsample_target, .seed = options.downsample_seed },
    };
}

export fn scx_pipeline_open_joined(
    sources: ?[*]const RowSource,
    n_sources: u64,
    changes: ?*const JoinedOptions,
    options: ?*const pipelines.PipelineOptions,
    pipeline_out: ?*?*pipelines.MatrixPipeline,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(openPipeline(sources, n_sources, changes, options, pipeline_out, &report), &report, error_out);
}

fn openPipeline(
    sources_in: ?[*]const RowSource,
    n_sources: u64,
    changes_in: ?*const JoinedOptions,
    options_in: ?*const pipelines.PipelineOptions,
    pipeline_out: ?*?*pipelines.MatrixPipeline,
    report: *Report,
) Failure!void {
    const opening: Opening = try .init(pipeline_out, options_in, report);
    const wanted = try handle.required(*const JoinedOptions, changes_in, "changes", report);
    try handle.checkSize(JoinedOptions, wanted.struct_bytes, "scx_joined_options", report);
    const changes = try changesOf(wanted, report);
    const given = try end_to_end.given(RowSource, sources_in, n_sources, "sources", report);
    for (given) |source| _ = try handle.checked(MatrixHandle, source.matrix, report);
    const sources = try sourcesOf(given);
    defer handle.allocator.free(sources);
    var source: JoinedSource = try .init(handle.allocator, sources, changes, report);
    errdefer source.deinit();
    opening.out.* = try pipelines.openSource(.{ .joined = source }, opening.options);
}

const testing = std.testing;

test "pipelines that cannot be opened are refused" {
    var failure: AbiError = undefined;
    var pipeline: ?*pipelines.MatrixPipeline = null;
    var changes: JoinedOptions = .{
        .struct_bytes = @sizeOf(JoinedOptions),
        .threads = 0,
        .transform = 0,
        .downsample_method = 0,
        .target_sum = 1,
        .downsample_target = 0,
        .downsample_seed = 0,
    };
    const options: pipelines.PipelineOptions = .{ .struct_bytes = @sizeOf(pipelines.PipelineOptions), .threads = 1, .batches = 1, .reserved = 0 };
    const sources = [_]RowSource{.{ .matrix = null, .remap = null, .file_identity = 0 }};
    try testing.expectEqual(@as(i32, 1), scx_pipeline_open_joined(&sources, 0, &changes, &options, &pipeline, &failure));
    try testing.expectEqual(@as(i32, 1), scx_pipeline_open_joined(&sources, 1, &changes, &options, &pipeline, &failure));
    try testing.expectEqual(@as(i32, 1), scx_pipeline_open_joined(&sources, 1, null, &options, &pipeline, &failure));
    try testing.expectEqual(@as(i32, 1), scx_pipeline_open_joined(&sources, 1, &changes, null, &pipeline, &failure));
    changes.transform = 8;
    try testing.expectEqual(@as(i32, 1), scx_pipeline_open_joined(&sources, 1, &changes, &options, &pipeline, &failure));
    try testing.expectEqual(null, pipeline);
}
