//! `scx_shard_*`: writing one shard of a matrix into a file that is being written.

const std = @import("std");
const canonical = @import("../codec/canonical.zig");
const container_writer = @import("../container/writer.zig");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const rowpack = @import("../codec/rowpack.zig");
const shard = @import("../codec/shard.zig");
const shard_writer = @import("../codec/shard_writer.zig");
const SectionType = @import("../container/section_types.zig").SectionType;
const ValueType = @import("../codec/value_type.zig").ValueType;

const assert = std.debug.assert;
const AbiError = errors.AbiError;
const Failure = errors.Failure;
const Mended = canonical.Mended;
const Report = errors.Report;
const ShardWriter = shard_writer.ShardWriter;
const WriterHandle = handle.WriterHandle;

/// `scx_shard_options`
pub const ShardOptions = extern struct {
    struct_bytes: u32,
    section_type: u32,
    modality_id: u32,
    codec_id: u32,
    value_type: u32,
    threads: u32,
    keep_zeros: u32,
    reserved: u32,
    row_start: u64,
    n_rows: u64,
    n_cols: u64,
    name: ?[*:0]const u8,
};

comptime {
    assert(@sizeOf(ShardOptions) == 64);
    assert(@sizeOf(Mended) == 48);
}

export fn scx_shard_begin(writer: ?*WriterHandle, options: ?*const ShardOptions, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(begin(writer, options, &report), &report, error_out);
}

fn begin(writer: ?*WriterHandle, options_in: ?*const ShardOptions, report: *Report) Failure!void {
    const own = try handle.checked(WriterHandle, writer, report);
    const options = try handle.required(*const ShardOptions, options_in, "options", report);
    try handle.checkSize(ShardOptions, options.struct_bytes, "scx_shard_options", report);
    if (own.open_shard != null) {
        return report.fail(error.BadArgument, "a shard is open already: finish it before the next is begun", .{});
    }
    const parsed = try parseOptions(options, report);
    const state = try ShardWriter.begin(handle.allocator, own.writer, parsed, report);
    own.open_shard = .{ .state = state, .discard = discard };
}

fn parseOptions(options: *const ShardOptions, report: *Report) Failure!shard_writer.Options {
    const name = try handle.text(options.name, "name", report);
    const section_type: SectionType = @fromBackingInt(@intCast(std.math.cast(u8, options.section_type) orelse 255));
    if (!section_type.isRowShard()) {
        return report.fail(error.BadArgument, "section type {d} is no shard of rows", .{options.section_type});
    }
    const codec = if (std.math.cast(u8, options.codec_id)) |number| std.enums.fromInt(shard.Codec, number) else null;
    const value_type = ValueType.fromInt(options.value_type);
    if (options.n_cols > rowpack.columns_max) {
        return report.fail(error.Limit, "a matrix has at most {d} columns, this one {d}", .{ rowpack.columns_max, options.n_cols });
    }
    return .{
        .name = name,
        .section_type = section_type,
        .modality_id = std.math.cast(u8, options.modality_id) orelse
            return report.fail(error.BadArgument, "modality id {d} is above 255", .{options.modality_id}),
        .codec = codec orelse return report.fail(error.Unsupported, "codec {d} cannot be written; 0 (none) and 64 " ++
            "(rowpack) can", .{options.codec_id}),
        .value_type = value_type orelse return report.fail(error.BadArgument, "value type {d} does not exist", .{options.value_type}),
        .row_start = options.row_start,
        .n_rows = std.math.cast(u32, options.n_rows) orelse
            return report.fail(error.Limit, "a shard has at most {d} rows, not {d}", .{ std.math.maxInt(u32), options.n_rows }),
        .n_cols = @intCast(options.n_cols),
        .threads = options.threads,
        .keep_zeros = options.keep_zeros != 0,
    };
}

fn discard(state: *anyopaque) void {
    const open: *ShardWriter = @ptrCast(@alignCast(state));
    open.deinit();
}

fn openShard(writer: ?*WriterHandle, report: *Report) Failure!*ShardWriter {
    const own = try handle.checked(WriterHandle, writer, report);
    const open = own.open_shard orelse return report.fail(error.BadArgument, "no shard was begun", .{});
    return @ptrCast(@alignCast(open.state));
}

export fn scx_shard_append_csr(
    writer: ?*WriterHandle,
    n_rows: u64,
    indptr: ?[*]const i64,
    indices: ?*const anyopaque,
    index_bytes: u32,
    values: ?[*]const u8,
    mended: ?*Mended,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(appendCsr(writer, n_rows, indptr, indices, index_bytes, values, mended, &report), &report, error_out);
}

fn appendCsr(
    writer: ?*WriterHandle,
    n_rows: u64,
    indptr_in: ?[*]const i64,
    indices: ?*const anyopaque,
    index_bytes: u32,
    values: ?[*]const u8,
    mended_out: ?*Mended,
    report: *Report,
) Failure!void {
    const open = try openShard(writer, report);
    const indptr = try handle.offsets(indptr_in, n_rows, "indptr", report);
    const is_empty = indptr[0] == indptr[indptr.len - 1];
    if (!is_empty and (indices == null or values == null)) {
        return report.fail(error.BadArgument, "indices or values is NULL", .{});
    }
    var nothing: [16]u8 align(16) = undefined; // stands for the arrays of rows without values
    const from: *const anyopaque = indices orelse &nothing;
    var mended: Mended = .{};
    try open.append(.{ .csr = .{
        .indptr = indptr,
        .indices = switch (index_bytes) {
            4 => .{ .i32 = @ptrCast(@alignCast(from)) },
            8 => .{ .i64 = @ptrCast(@alignCast(from)) },
            else => return report.fail(error.BadArgument, "index_bytes is {d}; 4 and 8 are allowed", .{index_bytes}),
        },
        .values = values orelse &nothing,
    } }, &mended, report);
    if (mended_out) |out| out.add(mended);
}

export fn scx_shard_append_dense(
    writer: ?*WriterHandle,
    n_rows: u64,
    values: ?[*]const u8,
    mended: ?*Mended,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(appendDense(writer, n_rows, values, mended, &report), &report, error_out);
}

fn appendDense(writer: ?*WriterHandle, n_rows: u64, values: ?[*]const u8, mended_out: ?*Mended, report: *Report) Failure!void {
    const open = try openShard(writer, report);
    var nothing: [16]u8 align(16) = undefined;
    if (values == null and n_rows > 0 and open.options.n_cols > 0) {
        return report.fail(error.BadArgument, "values is NULL", .{});
    }
    var mended: Mended = .{};
    try open.append(.{ .dense = .{ .n_rows = @intCast(n_rows), .values = values orelse &nothing } }, &mended, report);
    if (mended_out) |out| out.add(mended);
}

export fn scx_shard_finish(writer: ?*WriterHandle, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(finish(writer, &report), &report, error_out);
}

fn finish(writer: ?*WriterHandle, report: *Report) Failure!void {
    const open = try openShard(writer, report);
    try open.finish(report);
    writer.?.open_shard = null;
    open.deinit();
}
