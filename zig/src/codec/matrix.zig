//! A matrix of an open file: its shards in row order, and rows out of them in any order.
//!
//! Who reads rows does not know which codec a shard has. Opening looks at every shard's header and compares it with
//! the catalog, whose bytes were hashed when the file was opened; rows are checked when they are decoded.

const std = @import("std");
const dense = @import("../kernels/dense.zig");
const dense_plan = @import("dense_plan.zig");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const matrix_sections = @import("matrix_sections.zig");
const rowpack_decode = @import("rowpack_decode.zig");
const row_reads = @import("row_reads.zig");
const shard = @import("shard.zig");
const shard_view = @import("shard_view.zig");
const File = @import("../container/file.zig").File;
const SectionType = @import("../container/section_types.zig").SectionType;
const Table = @import("../levels/table.zig").Table;
const Target = @import("../levels/table.zig").Target;
const scaled_beyond = @import("../kernels/transform.zig").scaled_beyond;
const ValueType = @import("value_type.zig").ValueType;
const level_table = @import("../levels/dispatch.zig").table;

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const Failure = errors.Failure;
const Report = errors.Report;
const ShardView = shard_view.ShardView;

/// What the functions of a matrix take.
pub const DenseOptions = dense_plan.DenseOptions;
pub const DensePlan = dense_plan.DensePlan;
pub const Scratch = @import("scratch.zig").Scratch;

pub const Selector = struct {
    section_type: SectionType,
    modality_id: u8,
    name: []const u8,
};

pub const Matrix = struct {
    allocator: Allocator,
    file: *File,
    shards: []ShardView,
    value_type: ValueType,
    n_rows: u64,
    n_cols: u32,
    nnz: u64,
    /// Rows of every shard but the last, for a first guess where a row lies.
    shard_rows: u64,
    level: *const Table,
    /// Of rows that are gathered from anywhere.
    watch: *row_reads.Watch,

    /// The file must outlive the matrix.
    pub fn open(allocator: Allocator, file: *File, selector: Selector, report: *Report) Failure!*Matrix {
        const indices = try matrix_sections.find(allocator, file, selector, report);
        defer allocator.free(indices);
        const shards = try allocator.alloc(ShardView, indices.len);
        errdefer allocator.free(shards);
        startReadingHeaders(file, indices);
        var nnz: u64 = 0;
        var next_row: u64 = 0;
        for (shards, indices, 0..) |*view, section_index, number| {
            report.at(file.sections[section_index].name, number, errors.no_index);
            view.* = ShardView.open(file, section_index, report) catch |failure| {
                // a codec that does not exist is either a later version's or damage: the section's hash tells
                if (failure == error.Unsupported) try file.verifyOnce(section_index, report);
                return failure;
            };
            if (view.row_start != next_row) {
                return report.fail(error.Corrupt, "shard '{f}' starts at row {d}, but the shards before it end at row {d}", .{
                    errors.escaped(file.sections[section_index].name), view.row_start, next_row,
                });
            }
            if (view.n_cols != shards[0].n_cols or view.value_type != shards[0].value_type) {
                return report.fail(error.Corrupt, "shard '{f}' has {d} columns of type {t}, the first shard {d} of {t}", .{
                    errors.escaped(file.sections[section_index].name), view.n_cols, view.value_type, shards[0].n_cols, shards[0].value_type,
                });
            }
            next_row += view.n_rows;
            nnz = std.math.add(u64, nnz, view.nnz) catch {
                return report.fail(error.Corrupt, "the shards of '{f}' say that they store more values than there can be", .{
                    errors.escaped(selector.name),
                });
            };
        }
        report.at("", errors.no_index, errors.no_index);
        for (indices) |index| file.forgetHead(index, shard.header_bytes);
        if (next_row != file.header.n_obs) {
            return report.fail(error.Corrupt, "the shards of '{f}' hold {d} rows, but the file has {d} cells", .{
                errors.escaped(selector.name), next_row, file.header.n_obs,
            });
        }
        const watch = try allocator.create(row_reads.Watch);
        errdefer allocator.destroy(watch);
        watch.* = .{};
        const matrix = try allocator.create(Matrix);
        matrix.* = .{
            .allocator = allocator,
            .file = file,
            .shards = shards,
            .value_type = shards[0].value_type,
            .n_rows = next_row,
            .n_cols = shards[0].n_cols,
            .nnz = nnz,
            .shard_rows = @max(1, shards[0].n_rows),
            .level = level_table(),
            .watch = watch,
        };
        return matrix;
    }

    /// All at once: a disk that is asked for one after the other lets each wait.
    fn startReadingHeaders(file: *const File, indices: []const u32) void {
        for (indices) |index| {
            const bytes = file.sectionBytes(index);
            file.startReading(bytes[0..@min(bytes.len, shard.header_bytes)]);
        }
    }

    pub fn close(self: *Matrix) void {
        self.allocator.free(self.shards);
        self.allocator.destroy(self.watch);
        self.allocator.destroy(self);
    }

    pub fn checkRows(self: *const Matrix, rows: []const i64, report: *Report) Failure!void {
        for (rows, 0..) |row, position| {
            if (row >= 0 and row < self.n_rows) continue;
            return report.fail(error.OutOfRange, "row {d} (position {d}) is out of range: the matrix has {d} rows", .{
                row, position, self.n_rows,
            });
        }
    }

    /// The shard that holds a row; `row` is below n_rows.
    pub inline fn shardOf(self: *const Matrix, row: u64) *const ShardView {
        const guess = row / self.shard_rows;
        if (guess < self.shards.len) {
            const view = &self.shards[@intCast(guess)];
            if (row >= view.row_start and row - view.row_start < view.n_rows) return view;
        }
        return self.searchShard(row);
    }

    fn searchShard(self: *const Matrix, row: u64) *const ShardView {
        assert(row < self.n_rows);
        var low: usize = 0;
        var high: usize = self.shards.len;
        while (high - low > 1) {
            const middle = low + (high - low) / 2;
            if (self.shards[middle].row_start <= row) low = middle else high = middle;
        }
        // shards without rows share their start with the next one
        while (row - self.shards[low].row_start >= self.shards[low].n_rows) low -= 1;
        return &self.shards[low];
    }

    pub fn shardNumber(self: *const Matrix, view: *const ShardView) usize {
        return (@intFromPtr(view) - @intFromPtr(self.shards.ptr)) / @sizeOf(ShardView);
    }

    /// How many values a row stores by its shard's table, which is not verified; only what cannot be is refused.
    pub fn rowCount(self: *const Matrix, row: u64, report: *Report) Failure!u64 {
        const view = self.shardOf(row);
        const local_row = row - view.row_start;
        return view.rowCount(local_row) orelse {
            report.at(self.file.sections[view.section_index].name, self.shardNumber(view), row);
            return shard_view.failFault(self.file, view, local_row, .length, report);
        };
    }

    /// The same for a place to decode the row into: 0 where the table says what cannot be, as the row then fails when it
    /// is decoded.
    pub fn roomOf(self: *const Matrix, row: u64) u64 {
        var report: Report = .{};
        return self.rowCount(row, &report) catch 0;
    }

    /// Has the bytes of rows [row_start, row_stop) read that are needed soon: those of all their shards.
    pub fn willNeed(self: *const Matrix, row_start: u64, row_stop: u64) void {
        for (self.shards) |*view| {
            if (view.meets(row_start, row_stop)) self.file.readAhead(self.file.sections[view.section_index].range());
        }
    }

    /// Whether what rows [row_start, row_stop) are decoded from is in memory, as far as a few pages tell.
    pub fn seemsResident(self: *const Matrix, row_start: u64, row_stop: u64) bool {
        for (self.shards) |*view| {
            if (!view.meets(row_start, row_stop)) continue;
            if (!self.file.seemsResident(self.file.sections[view.section_index].range())) return false;
        }
        return true;
    }

    /// A hint that these rows are decoded next. Few that follow one another are read at once: where each of their
    /// pages is touched first, the system reads megabytes around it.
    pub fn startReadingRows(self: *const Matrix, rows: []const i64) void {
        if (rows.len < 2 or rows.len > rows_read_at_once_max) return;
        const first: u64 = @intCast(rows[0]);
        for (rows, first..) |row, expected| if (row != expected) return;
        const view = self.shardOf(first);
        const local_row = first - view.row_start;
        if (local_row + rows.len > view.n_rows) return;
        self.file.startReading(view.tableOf(local_row, rows.len));
        if (view.payloadOf(local_row, rows.len)) |payload| self.file.startReading(payload);
    }

    pub const rows_read_at_once_max = 256;

    /// A hint that the counts of these rows are looked at next. Of rows from anywhere the table is asked for at once.
    pub fn startReadingCounts(self: *const Matrix, rows: []const i64) void {
        self.startReadingRows(rows);
        row_reads.askForCounts(self.allocator, RowList{ .matrix = self, .rows = rows }, rows, self.watch);
    }

    /// Where a row lies.
    pub inline fn placeOf(self: *const Matrix, row: u64) row_reads.Place {
        const view = self.shardOf(row);
        return .{ .view = view, .local_row = row - view.row_start };
    }

    /// Whether from now on only single rows of it are touched in the map of the file, by whoever has it. What is asked
    /// for by `willNeed` comes as before.
    pub fn expectScattered(self: *const Matrix, scattered: bool) void {
        for (self.shards) |*view| {
            // others are hashed from front to back when one of their rows is first touched
            if (view.codec == .rowpack) self.file.expectScattered(self.file.sections[view.section_index].range(), scattered);
        }
    }

    /// Starts fetching what `rows[index]` and the next ones are decoded from. Random rows come from main memory, which
    /// takes longer than decoding a row; a few rows ahead their table entries are there, so their payloads can be asked
    /// for. The caller has checked the rows.
    pub inline fn prefetch(self: *const Matrix, rows: []const i64, index: usize) void {
        if (index + entry_rows_ahead < rows.len) self.prefetchEntry(@intCast(rows[index + entry_rows_ahead]));
        if (index + payload_rows_ahead < rows.len) self.prefetchPayload(@intCast(rows[index + payload_rows_ahead]));
    }

    pub inline fn prefetchEntry(self: *const Matrix, row: u64) void {
        const view = self.shardOf(row);
        view.prefetchEntry(row - view.row_start);
    }

    pub inline fn prefetchPayload(self: *const Matrix, row: u64) void {
        const view = self.shardOf(row);
        view.prefetchPayload(row - view.row_start);
    }

    pub const entry_rows_ahead = 12;
    pub const payload_rows_ahead = 4;

    /// Finds and checks a row and decodes its columns into `scratch.arrays.columns`.
    pub inline fn openRow(self: *const Matrix, row: i64, scratch: *Scratch, report: *Report) Failure!FoundRow {
        const view = self.shardOf(@intCast(row));
        return view.openRow(self, @as(u64, @intCast(row)) - view.row_start, scratch, report) catch |failure| {
            report.at(self.file.sections[view.section_index].name, self.shardNumber(view), @intCast(row));
            return failure;
        };
    }

    /// The values of a row that `openRow` found, as the target type, into `values` (n_values of them).
    pub fn rowValues(
        self: *const Matrix,
        found: *const FoundRow,
        target: Target,
        scratch: *Scratch,
        values: [*]u8,
        report: *Report,
    ) Failure!void {
        if (found.row.n_values == 0) return;
        switch (found.view.codec) {
            .rowpack => {
                const fault = self.level.decodeValues(
                    @backingInt(self.value_type),
                    target,
                    &found.row,
                    &found.open,
                    &scratch.arrays.row,
                    values,
                );
                if (fault != .none) return self.failRow(found, fault, report);
            },
            .none => shard_view.copyValues(self.value_type, target, found.row.payload, found.row.n_values, values),
        }
    }

    fn failRow(self: *const Matrix, found: *const FoundRow, fault: rowpack_decode.RowFault, report: *Report) Failure {
        const row = found.view.row_start + found.local_row;
        report.at(self.file.sections[found.view.section_index].name, self.shardNumber(found.view), row);
        return shard_view.failFault(self.file, found.view, found.local_row, fault, report);
    }

    /// What a batch takes of a row that `openRow` found; it stays in the scratch, until the next row.
    pub fn selectRow(
        self: *const Matrix,
        plan: *const DensePlan,
        found: *const FoundRow,
        scratch: *Scratch,
        report: *Report,
    ) Failure!dense.Selected {
        var selected: dense.Selected = .nothing;
        if (found.row.n_values == 0) return selected;
        switch (found.view.codec) {
            .rowpack => {
                const fault = self.level.selectRow(
                    @backingInt(self.value_type),
                    &plan.row_plan,
                    &found.row,
                    &found.open,
                    found.total,
                    &scratch.arrays,
                    &selected,
                );
                if (fault != .none) return self.failRow(found, fault, report);
            },
            .none => {
                const values: [*]u8 = @ptrCast(scratch.arrays.values);
                shard_view.copyValues(self.value_type, .f64, found.row.payload, found.row.n_values, values);
                self.level.selectValues(&plan.row_plan, found.row.n_values, &scratch.arrays, &selected);
            },
        }
        if (selected.is_beyond) return report.fail(error.BadArgument, scaled_beyond, .{
            found.view.row_start + found.local_row,
        });
        return selected;
    }

    /// One dense row of plan.rowBytes() bytes; every element is written.
    pub fn denseRow(
        self: *const Matrix,
        plan: *const DensePlan,
        row: i64,
        scratch: *Scratch,
        way: emit.Way,
        out: [*]u8,
        report: *Report,
    ) Failure!void {
        const found = try self.openRow(row, scratch, report);
        const selected = try self.selectRow(plan, &found, scratch, report);
        self.level.emitSelected(&plan.row_plan, &selected, &scratch.arrays, way, out);
    }
};

/// A row that was found and checked.
pub const FoundRow = struct {
    view: *const ShardView,
    local_row: u64,
    row: rowpack_decode.Row,
    open: rowpack_decode.OpenRow,
    /// Clipped total; of rowpack rows alone.
    total: f64,
};

/// Checked rows of a matrix, for row_reads.zig.
pub const RowList = struct {
    matrix: *const Matrix,
    rows: []const i64,

    pub fn at(list: RowList, index: usize) ?row_reads.Place {
        return list.matrix.placeOf(@intCast(list.rows[index]));
    }
};

/// Row-major rows.len x plan.n_output elements; every one is written.
pub fn decodeDense(
    matrix: *const Matrix,
    plan: *const DensePlan,
    rows: []const i64,
    out: []u8,
    way: emit.Way,
    scratch: *Scratch,
    report: *Report,
) Failure!void {
    assert(out.len == rows.len * plan.rowBytes());
    try matrix.checkRows(rows, report);
    defer if (way == .past_caches) emit.finishStreaming();
    for (rows, 0..) |row, index| {
        matrix.prefetch(rows, index);
        try matrix.denseRow(plan, row, scratch, way, out.ptr + index * plan.rowBytes(), report);
    }
}
