//! `scx_pipeline_*` and the shuffle: rows in an order that a seed decides, as batches that are decoded ahead.

const std = @import("std");
const assert = std.debug.assert;

const buffers = @import("../pipeline/buffers.zig");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const pipelines = @import("../pipeline/pipeline.zig");
const platform = @import("../pipeline/platform.zig");
const rng = @import("../rng.zig");
const AbiError = errors.AbiError;
const CsrViews = @import("../pipeline/csr_batch.zig").Views;
const Failure = errors.Failure;
const MatrixSource = @import("../pipeline/matrix_source.zig").MatrixSource;
const Report = errors.Report;
const Status = errors.Status;

/// `scx_pipeline`
pub const MatrixPipeline = pipelines.Pipeline(MatrixSource);

/// `scx_pipeline_options`
pub const PipelineOptions = extern struct {
    struct_bytes: u32,
    threads: u32,
    batches: u32,
    reserved: u32,
};

/// `scx_batch`
pub const Batch = extern struct {
    struct_bytes: u32,
    reserved: u32,
    buffer: ?*buffers.Buffer,
    data: ?*anyopaque,
    data_bytes: u64,
    n_rows: u64,
    n_values: u64,
    indptr: ?[*]i32,
    indices: ?[*]i32,
};

comptime {
    assert(@sizeOf(PipelineOptions) == 16);
    assert(@sizeOf(Batch) == 64);
}

export fn scx_epoch_stream(seed: u64, tag: u64, epoch: u64) u64 {
    return rng.epochStream(.{ .seed = seed, .tag = tag, .epoch = epoch });
}

export fn scx_shuffle(stream: u64, position: ?*u64, values: ?[*]i64, n_values: u64, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(shuffle(stream, position, values, n_values, &report), &report, error_out);
}

fn shuffle(stream: u64, position: ?*u64, values: ?[*]i64, n_values: u64, report: *Report) Failure!void {
    const place = try handle.required(*u64, position, "position", report);
    if (n_values > rng.shuffle_values_max) return report.fail(
        error.Limit,
        "{d} values are too many for one shuffle: at most {d} are possible",
        .{ n_values, @as(u64, rng.shuffle_values_max) },
    );
    if (n_values == 0) return;
    const start = try handle.required([*]i64, values, "values", report);
    var generator: rng.Generator = .initAt(stream, place.*);
    rng.shuffle(&generator, i64, start[0..@intCast(n_values)]);
    place.* = generator.wordsDrawn();
}

/// Takes the source over when it succeeds. The options have been checked.
pub fn openSource(source: MatrixSource, options: *const PipelineOptions) Failure!*MatrixPipeline {
    return .open(source, .{
        .allocator = handle.allocator,
        .page_allocator = std.heap.page_allocator,
        .threads = if (options.threads == 0) platform.usableCpus() else options.threads,
        .batches = options.batches,
    });
}

pub fn checkOptions(options: *const PipelineOptions, report: *Report) Failure!void {
    try handle.checkSize(PipelineOptions, options.struct_bytes, "options", report);
    if (options.threads > pipelines.threads_max) return report.fail(
        error.Limit,
        "{d} threads are too many: at most {d} are possible, and 0 takes one for each CPU",
        .{ options.threads, @as(u32, pipelines.threads_max) },
    );
    if (options.batches < 1 or options.batches > pipelines.batches_max) return report.fail(
        error.BadArgument,
        "{d} batches at once: 1 to {d} are possible",
        .{ options.batches, @as(u32, pipelines.batches_max) },
    );
    if (options.reserved != 0) return report.fail(error.BadArgument, "options.reserved must be 0", .{});
}

fn pipelineOf(pipeline: ?*MatrixPipeline, report: *Report) Failure!*MatrixPipeline {
    return handle.required(*MatrixPipeline, pipeline, "pipeline", report);
}

export fn scx_pipeline_submit(pipeline: ?*MatrixPipeline, rows: ?[*]const i64, n_rows: u64, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(submit(pipeline, rows, n_rows, &report), &report, error_out);
}

fn submit(pipeline: ?*MatrixPipeline, rows: ?[*]const i64, n_rows: u64, report: *Report) Failure!void {
    const own = try pipelineOf(pipeline, report);
    const count = std.math.cast(usize, n_rows) orelse return error.Limit;
    if (count == 0) return own.submit(&.{}, report);
    const start = try handle.required([*]const i64, rows, "rows", report);
    return own.submit(start[0..count], report);
}

export fn scx_pipeline_wait(
    pipeline: ?*MatrixPipeline,
    timeout_ms: u32,
    batch_out: ?*Batch,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(wait(pipeline, timeout_ms, batch_out, &report), &report, error_out);
}

fn wait(pipeline: ?*MatrixPipeline, timeout_ms: u32, batch_out: ?*Batch, report: *Report) Failure!void {
    const out = try handle.required(*Batch, batch_out, "batch_out", report);
    try handle.checkSize(Batch, out.struct_bytes, "batch_out", report);
    handle.clearStruct(Batch, out);
    const own = try pipelineOf(pipeline, report);
    const batch = try own.wait(timeout_ms, report);
    out.buffer = batch.buffer;
    out.data = batch.buffer.memory.ptr;
    out.data_bytes = batch.bytes;
    out.n_rows = batch.n_rows;
    if (own.source.layout == .csr) {
        const views: CsrViews = .of(batch.n_rows, batch.buffer.memory[0..batch.bytes]);
        out.indptr = views.indptr.ptr;
        out.indices = views.indices.ptr;
        out.data = views.values.ptr;
        out.n_values = @intCast(views.indptr[batch.n_rows]);
        out.data_bytes = out.n_values * @sizeOf(f32);
    }
}

export fn scx_pipeline_cancel(pipeline: ?*MatrixPipeline, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(cancel(pipeline, &report), &report, error_out);
}

fn cancel(pipeline: ?*MatrixPipeline, report: *Report) Failure!void {
    const own = try pipelineOf(pipeline, report);
    return own.cancel(report);
}

export fn scx_pipeline_will_need(
    pipeline: ?*MatrixPipeline,
    row_start: u64,
    row_end: u64,
    hold: u32,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(willNeed(pipeline, row_start, row_end, hold != 0, &report), &report, error_out);
}

fn willNeed(
    pipeline: ?*MatrixPipeline,
    row_start: u64,
    row_end: u64,
    hold: bool,
    report: *Report,
) Failure!void {
    const own = try pipelineOf(pipeline, report);
    if (row_start > row_end or row_end > own.source.rowCount()) return report.fail(
        error.OutOfRange,
        "rows {d} to {d} are not a range of the matrix's {d} rows",
        .{ row_start, row_end, own.source.rowCount() },
    );
    _ = try own.willNeed(.{ .row_start = row_start, .row_end = row_end }, hold, report);
}

export fn scx_pipeline_expect_scattered(pipeline: ?*MatrixPipeline, scattered: u32, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(expectScattered(pipeline, scattered != 0, &report), &report, error_out);
}

fn expectScattered(pipeline: ?*MatrixPipeline, scattered: bool, report: *Report) Failure!void {
    const own = try pipelineOf(pipeline, report);
    return own.expectScattered(scattered, report);
}

export fn scx_pipeline_close(pipeline: ?*MatrixPipeline, deadline_ms: u32) i32 {
    const own = pipeline orelse return handle.ok;
    if (own.close(deadline_ms)) {
        return handle.ok;
    } else |failure| {
        return @backingInt(Status.of(failure));
    }
}

export fn scx_batch_release(batch: ?*Batch) void {
    const own = batch orelse return;
    const buffer = own.buffer orelse return;
    handle.clearStruct(Batch, own);
    buffer.release();
}

const testing = std.testing;

test "a shuffle is continued where the last one ended" {
    var values: [100]i64 = undefined;
    for (&values, 0..) |*value, index| value.* = @intCast(index);
    var pieces = values;
    var position: u64 = 0;
    const stream = scx_epoch_stream(42, rng.tag_row_order, 0);
    try testing.expectEqual(handle.ok, scx_shuffle(stream, &position, &pieces, 60, null));
    const middle = position;
    try testing.expect(middle >= 59);
    try testing.expectEqual(handle.ok, scx_shuffle(stream, &position, pieces[60..], 40, null));

    var generator: rng.Generator = .init(stream);
    rng.shuffle(&generator, i64, values[0..60]);
    rng.shuffle(&generator, i64, values[60..]);
    try testing.expectEqualSlices(i64, &values, &pieces);
    try testing.expectEqual(generator.wordsDrawn(), position);
}

test "NULL and bounds are refused, and nothing is done" {
    var failure: AbiError = undefined;
    var position: u64 = 5;
    var value: i64 = 1;
    try testing.expectEqual(@as(i32, 1), scx_shuffle(1, null, @ptrCast(&value), 1, &failure));
    try testing.expectEqual(@as(i32, 1), scx_shuffle(1, &position, null, 1, &failure));
    try testing.expectEqual(@as(i32, 8), scx_shuffle(1, &position, @ptrCast(&value), 1 << 32, &failure));
    try testing.expectEqual(handle.ok, scx_shuffle(1, &position, null, 0, &failure));
    try testing.expectEqual(@as(u64, 5), position);

    try testing.expectEqual(@as(i32, 1), scx_pipeline_submit(null, null, 0, &failure));
    try testing.expectEqual(@as(i32, 1), scx_pipeline_cancel(null, &failure));
    try testing.expectEqual(@as(i32, 1), scx_pipeline_will_need(null, 0, 0, 0, &failure));
    try testing.expectEqual(@as(i32, 1), scx_pipeline_expect_scattered(null, 1, &failure));
    try testing.expectEqual(@as(i32, 1), scx_pipeline_wait(null, 0, null, &failure));
    try testing.expectEqual(handle.ok, scx_pipeline_close(null, 0));
    scx_batch_release(null);
    var none: Batch = std.mem.zeroes(Batch);
    scx_batch_release(&none);

    var options: PipelineOptions = .{ .struct_bytes = @sizeOf(PipelineOptions), .threads = 0, .batches = 1, .reserved = 0 };
    var report: Report = .{};
    try checkOptions(&options, &report);
    options.threads = pipelines.threads_max + 1;
    try testing.expectError(error.Limit, checkOptions(&options, &report));
    options = .{ .struct_bytes = @sizeOf(PipelineOptions), .threads = 1, .batches = 0, .reserved = 0 };
    try testing.expectError(error.BadArgument, checkOptions(&options, &report));
    options.batches = pipelines.batches_max + 1;
    try testing.expectError(error.BadArgument, checkOptions(&options, &report));
}
