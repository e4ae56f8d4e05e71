//! `scx_columns_*` and `scx_pipeline_open_concatenated`: batches of the rows of several matrices.

const std = @import("std");
const columns_module = @import("../codec/columns.zig");
const concatenation = @import("../pipeline/concatenation.zig");
const end_to_end = @import("end_to_end.zig");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const matrices = @import("matrix.zig");
const pipelines = @import("pipeline.zig");
const platform = @import("../container/platform.zig");
const Failure = errors.Failure;
const Opening = end_to_end.Opening;
const Layout = @import("../pipeline/concatenated_source.zig").Layout;
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
};

comptime {
    assert(@sizeOf(Member) == 16);
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

export fn scx_pipeline_open_concatenated(
    layout: u32,
    members: ?[*]const Member,
    n_members: u64,
    options: ?*const pipelines.PipelineOptions,
    pipeline_out: ?*?*pipelines.MatrixPipeline,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(openPipeline(layout, members, n_members, options, pipeline_out, &report), &report, error_out);
}

fn openPipeline(
    layout_number: u32,
    members_in: ?[*]const Member,
    n_members: u64,
    options_in: ?*const pipelines.PipelineOptions,
    pipeline_out: ?*?*pipelines.MatrixPipeline,
    report: *Report,
) Failure!void {
    const opening: Opening = try .init(pipeline_out, options_in, report);
    const layout = std.enums.fromInt(Layout, layout_number) orelse
        return report.fail(error.BadArgument, "layout {d} does not exist", .{layout_number});
    const given = try end_to_end.given(Member, members_in, n_members, "members", report);
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
        own.* = .{ .matrix = matrix.matrix, .columns = &columns.columns };
    }
    var whole: concatenation.Concatenation = try .init(handle.allocator, members, report);
    errdefer whole.deinit();
    opening.out.* = try pipelines.openSource(.{ .concatenated = .{ .whole = whole, .layout = layout } }, opening.options);
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
    try testing.expectEqual(@as(i32, 1), scx_columns_open(1, null, 2, &values, &columns, &failure));
    try testing.expectEqual(handle.ok, scx_columns_open(2, &[_]i32{ -1, 0 }, 1, &values, &columns, &failure));
    defer scx_columns_close(columns);
    const options: pipelines.PipelineOptions = .{ .struct_bytes = @sizeOf(pipelines.PipelineOptions), .threads = 1, .batches = 1, .reserved = 0 };
    var pipeline: ?*pipelines.MatrixPipeline = null;
    const members = [_]Member{.{ .matrix = null, .columns = columns }};
    try testing.expectEqual(@as(i32, 1), scx_pipeline_open_concatenated(2, &members, 1, &options, &pipeline, &failure));
    try testing.expectEqual(@as(i32, 1), scx_pipeline_open_concatenated(0, &members, 0, &options, &pipeline, &failure));
    try testing.expectEqual(@as(i32, 1), scx_pipeline_open_concatenated(0, &members, 1, &options, &pipeline, &failure));
    try testing.expectEqual(null, pipeline);
}
