//! `scx_writer_*`: writing a new file.

const std = @import("std");
const assert = std.debug.assert;
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const container_writer = @import("../container/writer.zig");
const SectionType = @import("../container/section_types.zig").SectionType;
const Failure = errors.Failure;
const Report = errors.Report;
const AbiError = errors.AbiError;
const WriterHandle = handle.WriterHandle;

/// `scx_writer_options`
pub const WriterOptions = extern struct {
    struct_bytes: u32,
    overwrite: u32,
    shard_target_rows: u32,
    codec_id: u32,
    n_obs: u64,
    n_vars: u64,
};

comptime {
    assert(@sizeOf(WriterOptions) == 32);
}

export fn scx_writer_create(
    path: ?[*:0]const u8,
    options: ?*const WriterOptions,
    writer_out: ?*?*WriterHandle,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(create(path, options, writer_out, &report), &report, error_out);
}

fn create(
    path: ?[*:0]const u8,
    options_in: ?*const WriterOptions,
    writer_out: ?*?*WriterHandle,
    report: *Report,
) Failure!void {
    const out = try handle.required(*?*WriterHandle, writer_out, "writer_out", report);
    out.* = null;
    const options = try handle.required(*const WriterOptions, options_in, "options", report);
    try handle.checkSize(WriterOptions, options.struct_bytes, "scx_writer_options", report);
    const path_text = try handle.text(path, "path", report);
    if (options.overwrite > 1) return report.fail(error.BadArgument, "overwrite is {d}; 0 and 1 are allowed", .{
        options.overwrite,
    });
    const own = try handle.allocator.create(WriterHandle);
    errdefer handle.allocator.destroy(own);

    const writer = try container_writer.Writer.create(handle.allocator, path_text, .{
        .n_obs = options.n_obs,
        .n_vars = options.n_vars,
        .overwrite = options.overwrite == 1,
        .shard_target_rows = options.shard_target_rows,
        .codec_id = try byte(options.codec_id, "codec_id", report),
    }, report);
    own.* = .{ .process_id = writer.process_id, .writer = writer };
    out.* = own;
}

export fn scx_writer_change(
    path: ?[*:0]const u8,
    note: ?[*:0]const u8,
    writer_out: ?*?*WriterHandle,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(change(path, note, writer_out, &report), &report, error_out);
}

fn change(path: ?[*:0]const u8, note: ?[*:0]const u8, writer_out: ?*?*WriterHandle, report: *Report) Failure!void {
    const out = try handle.required(*?*WriterHandle, writer_out, "writer_out", report);
    out.* = null;
    const path_text = try handle.text(path, "path", report);
    const note_text = try handle.text(note, "note", report);
    const own = try handle.allocator.create(WriterHandle);
    errdefer handle.allocator.destroy(own);
    const writer = try container_writer.Writer.change(handle.allocator, path_text, note_text, report);
    own.* = .{ .process_id = writer.process_id, .writer = writer };
    out.* = own;
}

/// A number that the file keeps in one byte.
fn byte(number: u32, comptime what: []const u8, report: *Report) Failure!u8 {
    return std.math.cast(u8, number) orelse report.fail(error.BadArgument, what ++ " is {d}; 0 to 255 are allowed", .{
        number,
    });
}

export fn scx_writer_add_modality(
    writer: ?*WriterHandle,
    name: ?[*:0]const u8,
    modality_type: u32,
    codec_id: u32,
    value_type: u32,
    n_vars: u64,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const result = addModality(writer, name, .{ modality_type, codec_id, value_type }, n_vars, &report);
    return handle.answer(result, &report, error_out);
}

fn addModality(writer: ?*WriterHandle, name: ?[*:0]const u8, codes: [3]u32, n_vars: u64, report: *Report) Failure!void {
    const own = try handle.checked(WriterHandle, writer, report);
    _ = try own.writer.addModality(.{
        .name = try handle.text(name, "name", report),
        .modality_type = try byte(codes[0], "modality_type", report),
        .codec_id = try byte(codes[1], "codec_id", report),
        .value_encoding = try byte(codes[2], "value_type", report),
        .n_vars = n_vars,
    }, report);
}

export fn scx_writer_add_section(
    writer: ?*WriterHandle,
    section_type: u32,
    modality_id: u32,
    name: ?[*:0]const u8,
    data: ?[*]const u8,
    data_bytes: u64,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const result = addSection(writer, section_type, modality_id, name, data, data_bytes, &report);
    return handle.answer(result, &report, error_out);
}

fn addSection(
    writer: ?*WriterHandle,
    section_type: u32,
    modality_id: u32,
    name: ?[*:0]const u8,
    data: ?[*]const u8,
    data_bytes: u64,
    report: *Report,
) Failure!void {
    const own = try handle.checked(WriterHandle, writer, report);
    const length = std.math.cast(usize, data_bytes) orelse {
        return report.fail(error.BadArgument, "data_bytes is {d}, more than this machine addresses", .{data_bytes});
    };
    const bytes: []const u8 = if (length == 0) &.{} else (try handle.required([*]const u8, data, "data", report))[0..length];
    const kind: SectionType = @fromBackingInt(try byte(section_type, "section_type", report));
    if (kind.isShard()) return report.fail(error.BadArgument, "shards are written with scx_shard_begin", .{});
    try own.writer.addSection(.{
        .name = try handle.text(name, "name", report),
        .section_type = kind,
        .modality_id = try byte(modality_id, "modality_id", report),
    }, bytes, report);
}

export fn scx_writer_drop_section(
    writer: ?*WriterHandle,
    section_type: u32,
    modality_id: u32,
    name: ?[*:0]const u8,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(dropSection(writer, section_type, modality_id, name, &report), &report, error_out);
}

fn dropSection(
    writer: ?*WriterHandle,
    section_type: u32,
    modality_id: u32,
    name: ?[*:0]const u8,
    report: *Report,
) Failure!void {
    const own = try handle.checked(WriterHandle, writer, report);
    try own.writer.dropSection(.{
        .name = try handle.text(name, "name", report),
        .section_type = @fromBackingInt(try byte(section_type, "section_type", report)),
        .modality_id = try byte(modality_id, "modality_id", report),
    }, report);
}

export fn scx_writer_finish(writer: ?*WriterHandle, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(finish(writer, &report), &report, error_out);
}

fn finish(writer: ?*WriterHandle, report: *Report) Failure!void {
    const own = try handle.checked(WriterHandle, writer, report);
    try own.writer.finish(report);
}

export fn scx_writer_close(writer: ?*WriterHandle) void {
    const own = writer orelse return;
    if (!handle.isOwn(own.process_id)) return;
    if (own.open_shard) |shard| shard.discard(shard.state);
    own.writer.close();
    handle.allocator.destroy(own);
}
