//! What the functions that open a pipeline over several matrices have in common.

const std = @import("std");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const pipelines = @import("pipeline.zig");
const Failure = errors.Failure;
const Report = errors.Report;

/// Where the pipeline goes, cleared, and how it is to be.
pub const Opening = struct {
    out: *?*pipelines.MatrixPipeline,
    options: *const pipelines.PipelineOptions,

    pub fn init(
        pipeline_out: ?*?*pipelines.MatrixPipeline,
        options_in: ?*const pipelines.PipelineOptions,
        report: *Report,
    ) Failure!Opening {
        const out = try handle.required(*?*pipelines.MatrixPipeline, pipeline_out, "pipeline_out", report);
        out.* = null;
        const options = try handle.required(*const pipelines.PipelineOptions, options_in, "options", report);
        try pipelines.checkOptions(options, report);
        return .{ .out = out, .options = options };
    }
};

/// The matrices, at least one, each with what belongs to it.
pub fn given(
    comptime T: type,
    pointer: ?[*]const T,
    count: u64,
    comptime what: []const u8,
    report: *Report,
) Failure![]const T {
    if (count < 1 or count > std.math.maxInt(u32)) {
        return report.fail(error.BadArgument, "{d} matrices cannot be put end to end", .{count});
    }
    return (try handle.required([*]const T, pointer, what, report))[0..@intCast(count)];
}
