//! `scx_columns_*` and `scx_outlier_shares`: matrices by gene, and what is computed once for a browser.

const std = @import("std");
const assert = std.debug.assert;
const columns = @import("../kernels/columns.zig");
const column_stretch = @import("../kernels/column_stretch.zig");
const errors = @import("../errors.zig");
const handle = @import("handle.zig");
const outliers = @import("../kernels/outliers.zig");
const ValueType = @import("../codec/value_type.zig").ValueType;
const AbiError = errors.AbiError;
const Failure = errors.Failure;
const Report = errors.Report;

/// `scx_cell_rows`
pub const Rows = extern struct {
    struct_bytes: u32,
    index_bytes: u32,
    value_type: u32,
    reserved: u32,
    n_rows: u64,
    n_cols: u64,
    indptr: ?[*]const i64,
    indices: ?*const anyopaque,
    values: ?*const anyopaque,
    places: ?[*]const i32,
};

/// `scx_column_scan`
pub const ColumnScan = extern struct {
    struct_bytes: u32,
    reserved: u32,
    scan: extern struct {
        stored_zeros: u64,
        nan_values: u64,
        positive_infinities: u64,
        negative_infinities: u64,
        beyond_f32: u64,
        fractional_values: u64,
        above_whole_f32: u64,
        unordered_rows: u64,
    },
};

/// `scx_column_range`
pub const ColumnRange = extern struct {
    struct_bytes: u32,
    value_type: u32,
    row_start: u64,
    column_start: u64,
    n_columns: u64,
    n_values: u64,
    cursors: ?[*]i64,
    rows_out: ?[*]i32,
    values_out: ?*anyopaque,
};

/// `scx_column_stretch`
pub const ColumnStretch = extern struct {
    struct_bytes: u32,
    value_type: u32,
    first: u64,
    n_values: u64,
    n_columns: u64,
    row_at: ?[*]i64,
    cursors: ?[*]i64,
    rows_out: ?[*]i32,
    values_out: ?*anyopaque,
};

comptime {
    assert(@sizeOf(ColumnStretch) == 64);
    assert(@sizeOf(Rows) == 64);
    assert(@sizeOf(ColumnScan) == 72);
    assert(@sizeOf(ColumnRange) == 64);
}

export fn scx_columns_scan(rows: ?*const Rows, counts: ?[*]i64, n_counts: u64, scan: ?*ColumnScan, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(scanAll(rows, counts, n_counts, scan, &report), &report, error_out);
}

fn scanAll(rows: ?*const Rows, counts: ?[*]i64, n_counts: u64, scan_out: ?*ColumnScan, report: *Report) Failure!void {
    const own = try handle.required(*const Rows, rows, "rows", report);
    const out = try handle.required(*ColumnScan, scan_out, "scan", report);
    const counted = try array(i64, counts, n_counts, "counts", report);
    try checkRows(own, n_counts, report);
    var scan: columns.Scan = .{};
    switch (try valueType(own.value_type, report)) {
        inline else => |value_type| switch (own.index_bytes) {
            4 => try scanTyped(i32, value_type.Of(), own, counted, &scan, report),
            else => try scanTyped(i64, value_type.Of(), own, counted, &scan, report),
        },
    }
    inline for (@typeInfo(columns.Scan).@"struct".field_names) |name| @field(out.scan, name) += @field(scan, name);
}

fn scanTyped(comptime Index: type, comptime Value: type, own: *const Rows, counts: []i64, scan: *columns.Scan, report: *Report) Failure!void {
    const typed = try csrRows(Index, Value, own, report);
    try columns.scanRows(Index, Value, typed, selection(own), counts, scan, report);
}

export fn scx_columns_scatter(rows: ?*const Rows, range: ?*const ColumnRange, threads: u32, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(scatterAll(rows, range, threads, &report), &report, error_out);
}

fn scatterAll(rows: ?*const Rows, range: ?*const ColumnRange, threads: u32, report: *Report) Failure!void {
    const own = try handle.required(*const Rows, rows, "rows", report);
    const wanted = try handle.required(*const ColumnRange, range, "range", report);
    const end = std.math.add(u64, wanted.column_start, wanted.n_columns) catch std.math.maxInt(u64);
    try checkIndexBytes(own, report);
    if (own.places == null and end > own.n_cols) return report.fail(
        error.BadArgument,
        "columns up to {d} are wanted, there are {d}",
        .{ end, own.n_cols },
    );
    const last_row = std.math.add(u64, wanted.row_start, own.n_rows) catch std.math.maxInt(u64);
    if (last_row > std.math.maxInt(i32)) return report.fail(error.Limit, "row {d} is beyond what int32 holds", .{last_row});
    switch (try valueType(own.value_type, report)) {
        inline else => |value_type| switch (try valueType(wanted.value_type, report)) {
            inline .f32, .f64 => |out_type| switch (own.index_bytes) {
                4 => try scatterTyped(i32, value_type.Of(), out_type.Of(), own, wanted, threads, report),
                else => try scatterTyped(i64, value_type.Of(), out_type.Of(), own, wanted, threads, report),
            },
            else => return report.fail(error.BadArgument, "values come out as f32 or f64 only", .{}),
        },
    }
}

fn scatterTyped(
    comptime Index: type,
    comptime Value: type,
    comptime Out: type,
    own: *const Rows,
    wanted: *const ColumnRange,
    threads: u32,
    report: *Report,
) Failure!void {
    const scatter: columns.Scatter(Index, Value, Out) = .{
        .rows = try csrRows(Index, Value, own, report),
        .selection = selection(own),
        .row_start = @intCast(wanted.row_start),
        .column_start = @intCast(wanted.column_start),
        .cursors = try array(i64, wanted.cursors, wanted.n_columns, "cursors", report),
        .rows_out = try array(i32, wanted.rows_out, wanted.n_values, "rows_out", report),
        .values_out = try array(Out, typedPointer([*]Out, wanted.values_out), wanted.n_values, "values_out", report),
    };
    var least: i64 = 0;
    for (scatter.cursors) |cursor| {
        if (cursor < least) return report.fail(error.BadArgument, "cursor {d} follows {d}: they ascend from 0", .{ cursor, least });
        least = cursor;
    }
    if (scatter.cursors.len == 0) return;
    try scatter.run(threads, report);
}

export fn scx_columns_stretch(rows: ?*const Rows, stretch: ?*const ColumnStretch, error_out: ?*AbiError) i32 {
    var report: Report = .{};
    return handle.answer(stretchAll(rows, stretch, &report), &report, error_out);
}

fn stretchAll(rows: ?*const Rows, stretch: ?*const ColumnStretch, report: *Report) Failure!void {
    const own = try handle.required(*const Rows, rows, "rows", report);
    const wanted = try handle.required(*const ColumnStretch, stretch, "stretch", report);
    try checkIndexBytes(own, report);
    if (own.n_rows > std.math.maxInt(i32)) return report.fail(error.Limit, "{d} rows are beyond what int32 holds", .{own.n_rows});
    if (wanted.first > std.math.maxInt(i64)) return report.fail(error.Limit, "value {d} is beyond what int64 holds", .{wanted.first});
    switch (try valueType(own.value_type, report)) {
        inline else => |value_type| switch (try valueType(wanted.value_type, report)) {
            inline .f32, .f64 => |out_type| switch (own.index_bytes) {
                4 => try stretchTyped(i32, value_type.Of(), out_type.Of(), own, wanted, report),
                else => try stretchTyped(i64, value_type.Of(), out_type.Of(), own, wanted, report),
            },
            else => return report.fail(error.BadArgument, "values come out as f32 or f64 only", .{}),
        },
    }
}

fn stretchTyped(
    comptime Index: type,
    comptime Value: type,
    comptime Out: type,
    own: *const Rows,
    wanted: *const ColumnStretch,
    report: *Report,
) Failure!void {
    const filling: column_stretch.Stretch(Index, Value, Out) = .{
        .rows = try csrRows(Index, Value, own, report),
        .selection = selection(own),
        .first = @intCast(wanted.first),
        .row_at = try array(i64, wanted.row_at, own.n_rows, "row_at", report),
        .cursors = try array(i64, wanted.cursors, wanted.n_columns, "cursors", report),
        .rows_out = try array(i32, wanted.rows_out, wanted.n_values, "rows_out", report),
        .values_out = try array(Out, typedPointer([*]Out, wanted.values_out), wanted.n_values, "values_out", report),
    };
    try filling.fill(report);
}

export fn scx_outlier_shares(
    n_cells: u64,
    n_axes: u64,
    coordinates: ?[*]const f32,
    codes: ?[*]const i32,
    n_categories: u64,
    cells_min: u64,
    shares_out: ?[*]f32,
    error_out: ?*AbiError,
) i32 {
    var report: Report = .{};
    const result = outlierShares(n_cells, n_axes, coordinates, codes, n_categories, cells_min, shares_out, &report);
    return handle.answer(result, &report, error_out);
}

fn outlierShares(
    n_cells: u64,
    n_axes: u64,
    coordinates: ?[*]const f32,
    codes: ?[*]const i32,
    n_categories: u64,
    cells_min: u64,
    shares_out: ?[*]f32,
    report: *Report,
) Failure!void {
    const n_coordinates = std.math.mul(u64, n_cells, n_axes) catch
        return report.fail(error.BadArgument, "{d} cells of {d} axes are too many", .{ n_cells, n_axes });
    _ = std.math.mul(u64, n_categories, n_axes) catch
        return report.fail(error.BadArgument, "{d} categories of {d} axes are too many", .{ n_categories, n_axes });
    const shares = try array(f32, shares_out, n_cells, "shares_out", report);
    try outliers.shareOfCategory(handle.allocator, .{
        .n_cells = @intCast(n_cells),
        .n_axes = @intCast(n_axes),
        .coordinates = try array(f32, @constCast(coordinates), n_coordinates, "coordinates", report),
        .codes = try array(i32, @constCast(codes), n_cells, "codes", report),
        .n_categories = @intCast(n_categories),
        .cells_min = cells_min,
    }, shares);
}

fn checkIndexBytes(own: *const Rows, report: *Report) Failure!void {
    if (own.index_bytes != 4 and own.index_bytes != 8) return report.fail(
        error.BadArgument,
        "index_bytes={d} must be 4 or 8",
        .{own.index_bytes},
    );
}

/// Bounds that counting rests on.
fn checkRows(own: *const Rows, n_places: u64, report: *Report) Failure!void {
    try checkIndexBytes(own, report);
    const places = own.places orelse {
        if (n_places <= own.n_cols) return;
        return report.fail(error.BadArgument, "there are {d} columns, not {d}", .{ own.n_cols, n_places });
    };
    for (places[0..@intCast(own.n_cols)]) |place| {
        if (place >= n_places) return report.fail(
            error.BadArgument,
            "place {d} is beyond the {d} columns of the result",
            .{ place, n_places },
        );
    }
}

fn csrRows(comptime Index: type, comptime Value: type, own: *const Rows, report: *Report) Failure!columns.CsrRows(Index, Value) {
    const indptr = try handle.offsets(own.indptr, own.n_rows, "indptr", report);
    for (indptr[0 .. indptr.len - 1], indptr[1..]) |start, stop| {
        if (stop < start) return report.fail(error.BadArgument, "indptr descends from {d} to {d}", .{ start, stop });
    }
    const last = indptr[indptr.len - 1];
    const n_values = std.math.sub(i64, last, indptr[0]) catch
        return report.fail(error.BadArgument, "indptr goes from {d} to {d}, which no matrix does", .{ indptr[0], last });
    return .{
        .indptr = indptr,
        .indices = try array(Index, @constCast(typedPointer([*]const Index, own.indices)), @intCast(n_values), "indices", report),
        .values = try array(Value, @constCast(typedPointer([*]const Value, own.values)), @intCast(n_values), "values", report),
    };
}

fn selection(own: *const Rows) columns.Selection {
    const n_cols: usize = @intCast(own.n_cols);
    return .{ .n_cols = n_cols, .places = if (own.places) |places| places[0..n_cols] else null };
}

fn typedPointer(comptime Pointer: type, pointer: anytype) ?Pointer {
    return if (pointer) |given| @ptrCast(@alignCast(given)) else null;
}

fn array(comptime T: type, pointer: ?[*]T, length: u64, comptime name: []const u8, report: *Report) Failure![]T {
    if (length == 0) return &.{};
    const start = try handle.required([*]T, pointer, name, report);
    return start[0..@intCast(length)];
}

fn valueType(number: u32, report: *Report) Failure!ValueType {
    return ValueType.fromInt(number) orelse
        report.fail(error.BadArgument, "value type {d} is unknown", .{number});
}

test "wrong arguments are answered, not followed" {
    var failure: AbiError = undefined;
    try std.testing.expectEqual(@as(i32, 1), scx_columns_scan(null, null, 0, null, &failure));
    var scan = std.mem.zeroes(ColumnScan);
    var counts: [2]i64 = @splat(0);
    const indptr = [_]i64{ 0, 2, 1 };
    const indices = [_]i32{ 0, 1 };
    const values = [_]f32{ 1, 2 };
    var rows: Rows = .{
        .struct_bytes = 64,
        .index_bytes = 4,
        .value_type = 3,
        .reserved = 0,
        .n_rows = 2,
        .n_cols = 2,
        .indptr = &indptr,
        .indices = &indices,
        .values = &values,
        .places = null,
    };
    try std.testing.expectEqual(@as(i32, 1), scx_columns_scan(&rows, &counts, 2, &scan, &failure));
    rows.n_rows = 1;
    try std.testing.expectEqual(@as(i32, 1), scx_columns_scan(&rows, &counts, 3, &scan, &failure));
    rows.index_bytes = 2;
    try std.testing.expectEqual(@as(i32, 1), scx_columns_scan(&rows, &counts, 2, &scan, &failure));
    rows.index_bytes = 4;
    try std.testing.expectEqual(handle.ok, scx_columns_scan(&rows, &counts, 2, &scan, &failure));
    try std.testing.expectEqualSlices(i64, &.{ 1, 1 }, &counts);
    try std.testing.expectEqual(@as(i32, 1), scx_columns_stretch(&rows, null, &failure));
    var stretch = std.mem.zeroes(ColumnStretch);
    stretch.struct_bytes = 64;
    stretch.value_type = 3;
    stretch.n_values = 2;
    stretch.n_columns = 2;
    try std.testing.expectEqual(@as(i32, 1), scx_columns_stretch(&rows, &stretch, &failure));
    stretch.value_type = 99;
    try std.testing.expectEqual(@as(i32, 1), scx_columns_stretch(&rows, &stretch, &failure));

    rows.n_rows = std.math.maxInt(u64);
    try std.testing.expectEqual(@as(i32, 1), scx_columns_scan(&rows, &counts, 2, &scan, &failure));
    rows.n_rows = 1;
    rows.indptr = &[_]i64{ std.math.minInt(i64), std.math.maxInt(i64) };
    try std.testing.expectEqual(@as(i32, 1), scx_columns_scan(&rows, &counts, 2, &scan, &failure));
    rows.indptr = &indptr;
    var cursors = [_]i64{ 1, 0 };
    var rows_out: [2]i32 = undefined;
    var values_out: [2]f32 = undefined;
    var range = std.mem.zeroes(ColumnRange);
    range.struct_bytes = 64;
    range.value_type = 3;
    range.n_columns = 2;
    range.n_values = 2;
    range.cursors = &cursors;
    range.rows_out = &rows_out;
    range.values_out = &values_out;
    try std.testing.expectEqual(@as(i32, 1), scx_columns_scatter(&rows, &range, 1, &failure));
    cursors = .{ 0, 1 };
    try std.testing.expectEqual(handle.ok, scx_columns_scatter(&rows, &range, 1, &failure));
    try std.testing.expectEqualSlices(f32, &.{ 1, 2 }, &values_out);
}
