//! `scx_columns_*` and `scx_pipeline_open`: batches of the rows of matrices.

const std = @import("std");
const columns_module = @import("../codec/columns.zig");
const concatenation = @import("../pipeline/concatenation.zig");
const downsample = @import("../kernels/downsample.zig");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const matrices = @import("matrix.zig");
const pipelines = @import("pipeline.zig");
const platform = @import("../container/platform.zig");
const Failure = errors.Failure;
const Layout = @import("../pipeline/matrix_source.zig").Layout;
const Report = errors.Report;

const AbiError = errors.AbiError;
const assert = std.debug.assert;

/// `scx_columns`
pub const ColumnsHandle = struct {
    process_id: u32,
    columns: columns_module.Columns,
};

/// `scx_member`
pub const Member = extern struct {
    matrix: ?*matrices.MatrixHandle,
    columns: ?*ColumnsHandle,
    file_identity: u64,
};

/// `scx_row_changes`
pub const RowChanges = extern struct {
    struct_bytes: u32,
    clips: u32,
    downsample_method: u32,
    reserved: u32,
    downsample_target: u64,
    downsample_seed: u64,
};

comptime {
    assert(@sizeOf(Member) == 24);
    assert(@sizeOf(RowChanges) == 32);
}

export fn scx_columns_open(
    n_columns: u64,
    map: ?[*]const i32,
    n_output: u64,
    values: ?*const matrices.DenseOptions,
    columns_out: ?*?*ColumnsHandle,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(openColumns(n_columns, map, n_output, values, columns_out, &report), &report, error_out);
}

fn openColumns(
    n_columns: u64,
    map: ?[*]const i32,
    n_output: u64,
    values: ?*const matrices.DenseOptions,
    columns_out: ?*?*ColumnsHandle,
    report: *Report,
) Failure!void {
    const out = try handle.required(*?*ColumnsHandle, columns_out, "columns_out", report);
    out.* = null;
    const options = try matrices.denseOptions(try handle.required(*const matrices.DenseOptions, values, "values", report), report);
    if (n_columns > std.math.maxInt(i32) or n_output > std.math.maxInt(i32)) {
        return report.fail(error.Limit, "{d} columns are too many", .{@max(n_columns, n_output)});
    }
    const count: u32 = @intCast(n_columns);
    const own = try handle.allocator.create(ColumnsHandle);
    errdefer handle.allocator.destroy(own);
    own.* = .{
        .process_id = platform.processId(),
        .columns = try .init(handle.allocator, count, if (map) |entries| entries[0..count] else null, @intCast(n_output), options, report),
    };
    out.* = own;
}

export fn scx_columns_close(columns: ?*ColumnsHandle) void {
    const own = columns orelse return;
    own.columns.deinit();
    handle.allocator.destroy(own);
}

export fn scx_pipeline_open(
    layout: u32,
    members: ?[*]const Member,
    n_members: u64,
    changes: ?*const RowChanges,
    options: ?*const pipelines.PipelineOptions,
    pipeline_out: ?*?*pipelines.MatrixPipeline,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(openPipeline(layout, members, n_members, changes, options, pipeline_out, &report), &report, error_out);
}

fn openPipeline(
    layout_number: u32,
    members_in: ?[*]const Member,
    n_members: u64,
    changes_in: ?*const RowChanges,
    options_in: ?*const pipelines.PipelineOptions,
    pipeline_out: ?*?*pipelines.MatrixPipeline,
    report: *Report,
) Failure!void {
    const out = try handle.required(*?*pipelines.MatrixPipeline, pipeline_out, "pipeline_out", report);
    out.* = null;
    const options = try handle.required(*const pipelines.PipelineOptions, options_in, "options", report);
    try pipelines.checkOptions(options, report);
    const layout = std.enums.fromInt(Layout, layout_number) orelse
        return report.fail(error.BadArgument, "layout {d} does not exist", .{layout_number});
    const changes: concatenation.RowChanges = if (changes_in) |wanted| try changesOf(wanted, report) else .{};
    if (layout == .dense and changes_in != null) {
        return report.fail(error.BadArgument, "values are clipped and drawn in CSR batches alone", .{});
    }
    if (n_members < 1 or n_members > std.math.maxInt(u32)) {
        return report.fail(error.BadArgument, "{d} matrices cannot be put end to end", .{n_members});
    }
    const given = (try handle.required([*]const Member, members_in, "members", report))[0..@intCast(n_members)];
    const members = try handle.allocator.alloc(concatenation.Member, given.len);
    defer handle.allocator.free(members);
    for (given, members) |member, *own| {
        const matrix = try handle.checked(matrices.MatrixHandle, member.matrix, report);
        const columns = try handle.checked(ColumnsHandle, member.columns, report);
        if (layout == .csr and columns.columns.plan.row_plan.transform.isCentred()) return report.fail(
            error.BadArgument,
            "PFlog leaves no value at zero: it has dense batches alone",
            .{},
        );
        const output = columns.columns.plan.row_plan.output;
        if (output != (try handle.checked(ColumnsHandle, given[0].columns, report)).columns.plan.row_plan.output or (layout == .csr and output != .f32)) {
            return report.fail(error.BadArgument, "half precision is for dense batches alone, and for all files or none", .{});
        }
        if (layout == .dense and !columns.columns.isMapped() and columns.columns.plan.n_output != columns.columns.n_cols) {
            return report.fail(error.BadArgument, "dense batches need a map where files have other numbers of columns", .{});
        }
        own.* = .{ .matrix = matrix.matrix, .columns = &columns.columns, .file_identity = member.file_identity };
    }
    var whole: concatenation.Concatenation = try .init(handle.allocator, members, changes, report);
    errdefer whole.deinit();
    out.* = try pipelines.openSource(.{ .whole = whole, .layout = layout }, options);
}

fn changesOf(wanted: *const RowChanges, report: *Report) Failure!concatenation.RowChanges {
    try handle.checkSize(RowChanges, wanted.struct_bytes, "scx_row_changes", report);
    if (wanted.clips > 1) return report.fail(error.BadArgument, "clips is {d}; 0 and 1 are allowed", .{wanted.clips});
    if (wanted.downsample_method == 0) return .{ .clips = wanted.clips == 1 };
    if (wanted.downsample_target < 1) return report.fail(error.BadArgument, "the target must be at least 1", .{});
    const method = std.enums.fromInt(downsample.Method, wanted.downsample_method) orelse
        return report.fail(error.BadArgument, "method {d} does not exist", .{wanted.downsample_method});
    return .{ .clips = true, .draw = .{ .method = method, .target = wanted.downsample_target, .seed = wanted.downsample_seed } };
}

const testing = std.testing;

test "what cannot be opened is refused" {
    var failure: AbiError = undefined;
    var columns: ?*ColumnsHandle = null;
    try testing.expectEqual(@as(i32, 1), scx_columns_open(1, null, 1, null, &columns, &failure));
    const values: matrices.DenseOptions = .{
        .struct_bytes = @sizeOf(matrices.DenseOptions),
        .transform = 0,
        .target_sum = 1,
        .panel = null,
        .n_panel = 0,
        .pflog_alpha = 0,
        .output = 0,
        .reserved = 0,
    };
    try testing.expectEqual(@as(i32, 8), scx_columns_open(1 << 31, null, 1 << 31, &values, &columns, &failure));
    try testing.expectEqual(@as(i32, 1), scx_columns_open(2, null, 1, &values, &columns, &failure));
    try testing.expectEqual(handle.ok, scx_columns_open(2, &[_]i32{ -1, 0 }, 1, &values, &columns, &failure));
    defer scx_columns_close(columns);
    const options: pipelines.PipelineOptions = .{ .struct_bytes = @sizeOf(pipelines.PipelineOptions), .threads = 1, .batches = 1, .reserved = 0 };
    var pipeline: ?*pipelines.MatrixPipeline = null;
    const members = [_]Member{.{ .matrix = null, .columns = columns, .file_identity = 0 }};
    try testing.expectEqual(@as(i32, 1), scx_pipeline_open(2, &members, 1, null, &options, &pipeline, &failure));
    try testing.expectEqual(@as(i32, 1), scx_pipeline_open(0, &members, 0, null, &options, &pipeline, &failure));
    try testing.expectEqual(@as(i32, 1), scx_pipeline_open(0, &members, 1, null, &options, &pipeline, &failure));
    try testing.expectEqual(null, pipeline);
}
