//! Which rows are marked as deleted, and marking more.

const std = @import("std");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const deletion_vectors = @import("../container/deletion_vectors.zig");
const File = @import("../container/file.zig").File;
const Failure = errors.Failure;
const Report = errors.Report;
const AbiError = errors.AbiError;
const FileHandle = handle.FileHandle;
const WriterHandle = handle.WriterHandle;

export fn scx_file_get_row_ranges(
    file: ?*FileHandle,
    ends_out: ?[*]u64,
    n_ends: u64,
    n_ranges_out: ?*u64,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    return handle.answer(getRowRanges(file, ends_out, n_ends, n_ranges_out, &report), &report, error_out);
}

fn getRowRanges(
    file_handle: ?*FileHandle,
    ends_out: ?[*]u64,
    n_ends: u64,
    n_ranges_out: ?*u64,
    report: *Report,
) Failure!void {
    const n_ranges = try handle.required(*u64, n_ranges_out, "n_ranges_out", report);
    n_ranges.* = 0;
    const file = (try handle.checked(FileHandle, file_handle, report)).file;
    const ranges = try rangesOf(file, report);
    defer handle.allocator.free(ranges);
    n_ranges.* = ranges.len;
    const ends = ends_out orelse return;
    if (n_ends != ranges.len) return report.fail(error.BadArgument, "n_ends is {d}, but there are {d} ranges", .{
        n_ends, ranges.len,
    });
    for (ranges, ends) |range, *end| end.* = range.end;
}

fn rangesOf(file: *const File, report: *Report) Failure![]deletion_vectors.Range {
    return deletion_vectors.ranges(handle.allocator, file.sections, file.header.n_obs, report);
}

/// Those that the vectors count in.
fn rangesFor(vectors: []const u8, file: *const File, report: *Report) Failure![]deletion_vectors.Range {
    if (!deletion_vectors.countsFileRows(vectors)) return rangesOf(file, report);
    return handle.allocator.dupe(deletion_vectors.Range, &.{.{ .start = 0, .end = file.header.n_obs }});
}

export fn scx_file_count_deleted(file: ?*FileHandle, n_rows_out: ?*u64, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    const result = countDeleted(file, n_rows_out, &report);
    return handle.answer(handle.afterReading(file, result, &report), &report, error_out);
}

fn countDeleted(file_handle: ?*FileHandle, n_rows_out: ?*u64, report: *Report) Failure!void {
    const n_rows = try handle.required(*u64, n_rows_out, "n_rows_out", report);
    n_rows.* = 0;
    const file = (try handle.checked(FileHandle, file_handle, report)).file;
    const bytes = try vectorsOf(file, report) orelse return;
    const ranges = try rangesFor(bytes, file, report);
    defer handle.allocator.free(ranges);
    errdefer nameSection(file, report);
    n_rows.* = try deletion_vectors.count(bytes, ranges, report);
}

/// The section's bytes, hashed first where the file is open for checking.
fn vectorsOf(file: *File, report: *Report) Failure!?[]const u8 {
    const index = try deletion_vectors.find(file.sections, report) orelse return null;
    if (file.open_flags.verify) try file.verifyOnce(index, report);
    return file.sectionBytes(index);
}

/// Other writers may call the section otherwise.
fn nameSection(file: *const File, report: *Report) void {
    const index = deletion_vectors.find(file.sections, report) catch return orelse return;
    report.setSection(file.sections[index].name);
}

export fn scx_file_get_deleted(file: ?*FileHandle, rows_out: ?[*]i64, n_rows: u64, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    const result = getDeleted(file, rows_out, n_rows, &report);
    return handle.answer(handle.afterReading(file, result, &report), &report, error_out);
}

fn getDeleted(file_handle: ?*FileHandle, rows_out: ?[*]i64, n_rows: u64, report: *Report) Failure!void {
    const file = (try handle.checked(FileHandle, file_handle, report)).file;
    const bytes = try vectorsOf(file, report) orelse {
        if (n_rows != 0) return report.fail(error.BadArgument, "n_rows is {d}, but no row is deleted", .{n_rows});
        return;
    };
    const ranges = try rangesFor(bytes, file, report);
    defer handle.allocator.free(ranges);
    errdefer nameSection(file, report);
    const n_found = try deletion_vectors.count(bytes, ranges, report);
    if (n_rows != n_found) return report.fail(error.BadArgument, "n_rows is {d}, but {d} rows are deleted", .{ n_rows, n_found });
    if (n_rows == 0) return;
    const rows = try handle.required([*]i64, rows_out, "rows_out", report);
    try deletion_vectors.fill(bytes, ranges, rows[0..@intCast(n_rows)], report);
}

export fn scx_writer_set_deleted(
    writer: ?*WriterHandle,
    n_vectors: u32,
    shard_ids: ?[*]const u32,
    bitmap_bytes: ?[*]const u32,
    bitmaps: ?[*]const u8,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const result = setDeleted(writer, n_vectors, shard_ids, bitmap_bytes, bitmaps, &report);
    return handle.answer(result, &report, error_out);
}

fn setDeleted(
    writer: ?*WriterHandle,
    n_vectors: u32,
    shard_ids: ?[*]const u32,
    bitmap_bytes: ?[*]const u32,
    bitmaps: ?[*]const u8,
    report: *Report,
) Failure!void {
    const own = try handle.checked(WriterHandle, writer, report);
    const vectors = try handle.allocator.alloc(deletion_vectors.Vector, n_vectors);
    defer handle.allocator.free(vectors);
    if (n_vectors > 0) {
        const ids = try handle.required([*]const u32, shard_ids, "shard_ids", report);
        const lengths = try handle.required([*]const u32, bitmap_bytes, "bitmap_bytes", report);
        const bytes = try handle.required([*]const u8, bitmaps, "bitmaps", report);
        var at: usize = 0;
        for (vectors, ids, lengths) |*vector, id, length| {
            vector.* = .{ .shard_id = id, .bitmap = bytes[at..][0..length] };
            at += length;
        }
    }
    try own.writer.setDeleted(vectors, report);
}
