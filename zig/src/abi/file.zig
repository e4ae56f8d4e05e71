//! `scx_file_*`: a file that is open for reading.

const std = @import("std");
const assert = std.debug.assert;
const errors = @import("../errors.zig");
const quoted = @import("../container/quoted.zig");
const handle = @import("handle.zig");
const container_file = @import("../container/file.zig");
const shard_peek = @import("../container/shard_peek.zig");
const SectionType = @import("../container/section_types.zig").SectionType;
const Failure = errors.Failure;
const Report = errors.Report;
const AbiError = errors.AbiError;
const FileHandle = handle.FileHandle;

/// `scx_file_info`
pub const FileInfo = extern struct {
    struct_bytes: u32,
    format_version: u32,
    catalog_version: u32,
    flags: u32,
    file_bytes: u64,
    n_obs: u64,
    n_vars: u64,
    nnz: u64,
    manifest_sequence: u64,
    shard_target_rows: u32,
    n_sections: u32,
    n_modalities: u32,
    n_unknown_sections: u32,
};

/// `scx_section_info`
pub const SectionInfo = extern struct {
    struct_bytes: u32,
    section_type: u32,
    modality_id: u32,
    name_bytes: u32,
    name: ?[*]const u8,
    data: ?[*]const u8,
    offset: u64,
    length: u64,
    blake3: [32]u8,
    has_shard_stats: u32,
    reserved: u32,
    row_start: u64,
    row_end: u64,
    column_start: u64,
    column_end: u64,
    nnz: u64,
    value_sum: u64,
    value_min: u32,
    value_max: u32,
};

/// `scx_modality_info`
pub const ModalityInfo = extern struct {
    struct_bytes: u32,
    modality_type: u32,
    name_bytes: u32,
    codec_id: u32,
    name: ?[*]const u8,
    n_vars: u64,
    nnz: u64,
    n_csr_shards: u32,
    value_type: u32,
};

comptime {
    assert(@sizeOf(FileInfo) == 72);
    assert(@sizeOf(SectionInfo) == 144);
    assert(@sizeOf(ModalityInfo) == 48);
}

export fn scx_file_open(path: ?[*:0]const u8, open_flags: u32, file_out: ?*?*FileHandle, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(open(path, open_flags, file_out, &report), &report, error_out);
}

fn open(path: ?[*:0]const u8, open_flags: u32, file_out: ?*?*FileHandle, report: *Report) Failure!void {
    const out = try handle.required(*?*FileHandle, file_out, "file_out", report);
    out.* = null;
    const own = try handle.allocator.create(FileHandle);
    errdefer handle.allocator.destroy(own);
    const path_text = try handle.text(path, "path", report);
    const file = try container_file.File.open(handle.allocator, path_text, @bitCast(open_flags), report);
    own.* = .{ .process_id = file.process_id, .file = file };
    out.* = own;
}

export fn scx_file_close(file: ?*FileHandle) void {
    const own = file orelse return;
    if (!handle.isOwn(own.process_id)) return;
    own.file.close();
    handle.allocator.destroy(own);
}

export fn scx_file_get_info(file: ?*FileHandle, info_out: ?*FileInfo, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(getInfo(file, info_out, &report), &report, error_out);
}

fn getInfo(file_handle: ?*FileHandle, info_out: ?*FileInfo, report: *Report) Failure!void {
    const info = try handle.required(*FileInfo, info_out, "info_out", report);
    try handle.checkSize(FileInfo, info.struct_bytes, "scx_file_info", report);
    handle.clearStruct(FileInfo, info);
    const file = (try handle.checked(FileHandle, file_handle, report)).file;
    info.* = .{
        .struct_bytes = @sizeOf(FileInfo),
        .format_version = file.header.format_version,
        .catalog_version = file.catalog.version,
        .flags = file.header.flags,
        .file_bytes = file.bytes.len,
        .n_obs = file.header.n_obs,
        .n_vars = file.columnCount(),
        .nnz = file.header.nnz,
        .manifest_sequence = file.header.manifest_sequence,
        .shard_target_rows = file.header.shard_target_rows,
        .n_sections = @intCast(file.sections.len),
        .n_modalities = @intCast(file.modalities.len),
        .n_unknown_sections = file.unknownSectionCount(),
    };
}

export fn scx_file_get_section(
    file: ?*FileHandle,
    section_index: u32,
    info_out: ?*SectionInfo,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(getSection(file, section_index, info_out, &report), &report, error_out);
}

fn getSection(file_handle: ?*FileHandle, section_index: u32, info_out: ?*SectionInfo, report: *Report) Failure!void {
    const info = try handle.required(*SectionInfo, info_out, "info_out", report);
    try handle.checkSize(SectionInfo, info.struct_bytes, "scx_section_info", report);
    handle.clearStruct(SectionInfo, info);
    const file = (try handle.checked(FileHandle, file_handle, report)).file;
    try checkSectionIndex(file, section_index, report);

    const section = &file.sections[section_index];
    info.section_type = @backingInt(section.section_type);
    info.modality_id = section.modality_id;
    info.name_bytes = @intCast(section.name.len);
    info.name = section.name.ptr;
    info.data = file.sectionBytes(section_index).ptr;
    info.offset = section.offset;
    info.length = section.length;
    info.blake3 = section.blake3;
    if (section.stats) |*stats| fillStats(info, stats);
}

fn fillStats(info: *SectionInfo, stats: *const container_file.ShardStats) void {
    info.has_shard_stats = 1;
    info.row_start = stats.row_start;
    info.row_end = stats.row_end;
    info.column_start = stats.col_start;
    info.column_end = stats.col_end;
    info.nnz = stats.nnz;
    info.value_sum = stats.value_sum;
    info.value_min = stats.value_min;
    info.value_max = stats.value_max;
}

fn checkSectionIndex(file: *const container_file.File, section_index: u32, report: *Report) Failure!void {
    if (section_index >= file.sections.len) {
        return report.fail(error.OutOfRange, "section {d} of {d}", .{ section_index, file.sections.len });
    }
}

export fn scx_file_get_modality(
    file: ?*FileHandle,
    modality_index: u32,
    info_out: ?*ModalityInfo,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(getModality(file, modality_index, info_out, &report), &report, error_out);
}

fn getModality(file_handle: ?*FileHandle, modality_index: u32, info_out: ?*ModalityInfo, report: *Report) Failure!void {
    const info = try handle.required(*ModalityInfo, info_out, "info_out", report);
    try handle.checkSize(ModalityInfo, info.struct_bytes, "scx_modality_info", report);
    handle.clearStruct(ModalityInfo, info);
    const file = (try handle.checked(FileHandle, file_handle, report)).file;
    if (modality_index >= file.modalities.len) {
        return report.fail(error.OutOfRange, "modality {d} of {d}", .{ modality_index, file.modalities.len });
    }
    const modality = &file.modalities[modality_index];
    info.* = .{
        .struct_bytes = @sizeOf(ModalityInfo),
        .modality_type = modality.modality_type,
        .name_bytes = @intCast(modality.name.len),
        .codec_id = modality.codec_id,
        .name = modality.name.ptr,
        .n_vars = modality.n_vars,
        .nnz = modality.nnz,
        .n_csr_shards = modality.n_csr_shards,
        .value_type = modality.value_encoding,
    };
}

export fn scx_file_declare_columns(file: ?*FileHandle, modality_index: u32, n_vars: u64, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(declareColumns(file, modality_index, n_vars, &report), &report, error_out);
}

fn declareColumns(file_handle: ?*FileHandle, modality_index: u32, n_vars: u64, report: *Report) Failure!void {
    const file = (try handle.checked(FileHandle, file_handle, report)).file;
    try file.declareColumns(modality_index, n_vars, report);
}

export fn scx_file_find_section(
    file: ?*FileHandle,
    section_type: u32,
    modality_id: u32,
    name: ?[*:0]const u8,
    section_index_out: ?*u32,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const result = findSection(file, section_type, modality_id, name, section_index_out, &report);
    return handle.answer(handle.afterReading(file, result, &report), &report, error_out);
}

fn findSection(
    file_handle: ?*FileHandle,
    section_type: u32,
    modality_id: u32,
    name: ?[*:0]const u8,
    section_index_out: ?*u32,
    report: *Report,
) Failure!void {
    const out = try handle.required(*u32, section_index_out, "section_index_out", report);
    out.* = std.math.maxInt(u32);
    const file = (try handle.checked(FileHandle, file_handle, report)).file;
    const name_text = try handle.text(name, "name", report);
    const type_byte = std.math.cast(u8, section_type);
    const modality_byte = std.math.cast(u8, modality_id);
    if (type_byte != null and modality_byte != null) {
        if (file.find(@fromBackingInt(type_byte.?), modality_byte.?, name_text)) |index| {
            out.* = index;
            return;
        }
    }
    return report.fail(error.NotFound, "the file has no section {f} of type {d} in modality {d}", .{
        quoted.name(name_text), section_type, modality_id,
    });
}

export fn scx_file_get_shard_encoding(
    file: ?*FileHandle,
    section_index: u32,
    codec_id_out: ?*u32,
    value_type_out: ?*u32,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const result = getShardEncoding(file, section_index, codec_id_out, value_type_out, &report);
    return handle.answer(handle.afterReading(file, result, &report), &report, error_out);
}

fn getShardEncoding(
    file_handle: ?*FileHandle,
    section_index: u32,
    codec_id_out: ?*u32,
    value_type_out: ?*u32,
    report: *Report,
) Failure!void {
    const codec_id = try handle.required(*u32, codec_id_out, "codec_id_out", report);
    const value_type = try handle.required(*u32, value_type_out, "value_type_out", report);
    codec_id.* = 0;
    value_type.* = 0;
    const file = (try handle.checked(FileHandle, file_handle, report)).file;
    try checkSectionIndex(file, section_index, report);

    const section = &file.sections[section_index];
    if (!section.section_type.isShard()) {
        return report.fail(error.BadArgument, "section {f} is no shard", .{quoted.name(section.name)});
    }
    const shard = shard_peek.peek(file.sectionBytes(section_index)) orelse {
        report.setSection(section.name);
        return report.fail(error.Corrupt, "section {f} is damaged: it does not start like a shard; copy or convert the " ++
            "file again", .{quoted.name(section.name)});
    };
    codec_id.* = shard.codec_id;
    value_type.* = shard.value_encoding;
}

export fn scx_file_verify_section(file: ?*FileHandle, section_index: u32, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    const result = verifySection(file, section_index, &report);
    return handle.answer(handle.afterReading(file, result, &report), &report, error_out);
}

fn verifySection(file_handle: ?*FileHandle, section_index: u32, report: *Report) Failure!void {
    const file = (try handle.checked(FileHandle, file_handle, report)).file;
    try checkSectionIndex(file, section_index, report);
    try file.verifySection(section_index, report);
}

export fn scx_file_verify_checksum(file: ?*FileHandle, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    const result = verifyChecksum(file, &report);
    return handle.answer(handle.afterReading(file, result, &report), &report, error_out);
}

fn verifyChecksum(file_handle: ?*FileHandle, report: *Report) Failure!void {
    const file = (try handle.checked(FileHandle, file_handle, report)).file;
    try file.verifyChecksum(report);
}

/// For who reads bytes of sections straight from the map.
export fn scx_file_expect_unchanged(file: ?*FileHandle, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    const result = expectUnchanged(file, &report);
    return handle.answer(handle.afterReading(file, result, &report), &report, error_out);
}

fn expectUnchanged(file_handle: ?*FileHandle, report: *Report) Failure!void {
    const file = (try handle.checked(FileHandle, file_handle, report)).file;
    try file.expectUnchanged(report);
}
