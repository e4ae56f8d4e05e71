//! Rows of several matrices, mostly of several files, as rows of one: the members end to end, with common columns.

const std = @import("std");
const columns_module = @import("../codec/columns.zig");
const dense = @import("../kernels/dense.zig");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const matrices = @import("../codec/matrix.zig");
const places_module = @import("../codec/places.zig");
const sort_row = @import("../codec/sort_row.zig");
const transform_kernel = @import("../kernels/transform.zig");
const CsrSource = @import("csr_source.zig").CsrSource;

const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const Columns = columns_module.Columns;
const Entry = sort_row.Entry;
const Failure = errors.Failure;
const Matrix = matrices.Matrix;
const Place = places_module.Place;
const Places = places_module.Places;
const Report = errors.Report;
const Scratch = matrices.Scratch;

pub const Member = struct {
    matrix: *const Matrix,
    columns: *const Columns,
};

pub const Concatenation = struct {
    allocator: Allocator,
    members: []Member,
    places: Places,
    n_output: u32,

    /// Matrices and columns must outlive it.
    pub fn init(allocator: Allocator, members: []const Member, report: *Report) Failure!Concatenation {
        assert(members.len > 0);
        const n_output = members[0].columns.plan.n_output;
        for (members, 0..) |member, number| {
            if (member.matrix.n_cols != member.columns.n_cols) return report.fail(
                error.BadArgument,
                "file {d}: its matrix has {d} columns, its map {d}",
                .{ number, member.matrix.n_cols, member.columns.n_cols },
            );
            if (member.columns.plan.n_output != n_output) return report.fail(
                error.BadArgument,
                "file {d}: its map has {d} output columns, that of the first file {d}",
                .{ number, member.columns.plan.n_output, n_output },
            );
        }
        const row_counts = try allocator.alloc(u64, members.len);
        defer allocator.free(row_counts);
        for (members, row_counts) |member, *count| count.* = member.matrix.n_rows;
        var places: Places = try .init(allocator, row_counts, report);
        errdefer places.deinit();
        return .{
            .allocator = allocator,
            .members = try allocator.dupe(Member, members),
            .places = places,
            .n_output = n_output,
        };
    }

    pub fn deinit(self: *Concatenation) void {
        self.allocator.free(self.members);
        self.places.deinit();
    }

    pub fn rowCount(self: *const Concatenation) u64 {
        return self.places.rowCount();
    }

    pub fn initScratch(self: *const Concatenation, allocator: Allocator) Failure!Scratch {
        var widest: u32 = 0;
        for (self.members) |member| widest = @max(widest, member.matrix.n_cols);
        return Scratch.init(allocator, widest);
    }

    /// As Matrix.prefetch.
    pub fn prefetch(self: *const Concatenation, rows: []const i64, index: usize) void {
        if (index + Matrix.entry_rows_ahead < rows.len) self.prefetchEntry(rows[index + Matrix.entry_rows_ahead]);
        if (index + Matrix.payload_rows_ahead < rows.len) self.prefetchPayload(rows[index + Matrix.payload_rows_ahead]);
    }

    pub fn prefetchEntry(self: *const Concatenation, row: i64) void {
        const place = self.places.placeOf(@intCast(row));
        self.members[place.member].matrix.prefetchEntry(place.row);
    }

    pub fn prefetchPayload(self: *const Concatenation, row: i64) void {
        const place = self.places.placeOf(@intCast(row));
        self.members[place.member].matrix.prefetchPayload(place.row);
    }

    /// As Matrix.roomOf.
    pub fn roomOf(self: *const Concatenation, row: i64) u64 {
        const place = self.places.placeOf(@intCast(row));
        return self.members[place.member].matrix.roomOf(place.row);
    }

    /// Bytes of a dense row.
    pub fn rowBytes(self: *const Concatenation) usize {
        return self.members[0].columns.plan.rowBytes();
    }

    /// One dense row of n_output elements; every element is written.
    pub fn denseRow(
        self: *const Concatenation,
        place: Place,
        scratch: *Scratch,
        way: emit.Way,
        out: [*]u8,
        report: *Report,
    ) Failure!void {
        const member = &self.members[place.member];
        denseMemberRow(member, place.row, scratch, way, out, report) catch |failure|
            return places_module.inMember(place.member, failure, report);
    }

    /// One row in CSR, of at most as many values as `indices` and `values` have, which is as many as it stores. Answers
    /// how many it has.
    pub fn csrRow(
        self: *const Concatenation,
        place: Place,
        scratch: *Scratch,
        indices: []i32,
        values: []f32,
        report: *Report,
    ) Failure!usize {
        const member = &self.members[place.member];
        return csrMemberRow(member, place.row, scratch, indices, values, report) catch |failure|
            places_module.inMember(place.member, failure, report);
    }
};

fn denseMemberRow(
    member: *const Member,
    row: u64,
    scratch: *Scratch,
    way: emit.Way,
    out: [*]u8,
    report: *Report,
) Failure!void {
    const selected = try selectMemberRow(member, row, scratch, report);
    member.matrix.level.emitSelected(&member.columns.plan.row_plan, &selected, &scratch.arrays, way, out);
}

/// What a dense batch takes of a row; it stays in the scratch, until the next row.
fn selectMemberRow(
    member: *const Member,
    row: u64,
    scratch: *Scratch,
    report: *Report,
) Failure!dense.Selected {
    const columns = member.columns;
    if (columns.order != .shared) {
        const found = try member.matrix.openRow(@intCast(row), scratch, report);
        return member.matrix.selectRow(&columns.plan, &found, scratch, report);
    }
    const shared = try sharedRow(member, row, scratch, report);
    // the entries lie in neither of these
    const indices: [*]i32 = @ptrCast(scratch.arrays.row.columns);
    const values: [*]f32 = @ptrCast(scratch.arrays.values);
    const count = unpack(shared.entries, indices[0..shared.entries.len], values[0..shared.entries.len]);
    return .{ .columns = @ptrCast(indices), .values = values, .count = @intCast(count), .background = shared.background };
}

pub fn csrMemberRow(
    member: *const Member,
    row: u64,
    scratch: *Scratch,
    indices: []i32,
    values: []f32,
    report: *Report,
) Failure!usize {
    const columns = member.columns;
    assert(!columns.plan.row_plan.transform.isCentred());
    if (columns.order == .shared) {
        const shared = try sharedRow(member, row, scratch, report);
        if (shared.n_stored != indices.len) return otherCount(row, report);
        return unpack(shared.entries, indices, values);
    }
    const found = try member.matrix.openRow(@intCast(row), scratch, report);
    if (found.row.n_values != indices.len) return otherCount(row, report);
    const source: CsrSource = .{ .matrix = member.matrix, .plan = columns.plan, .has_panel = columns.isMapped() };
    const count = try source.decodeRow(&found, scratch, .through_caches, indices, values, report);
    if (columns.order == .mixed) sortRow(scratch, indices[0..count], values[0..count], columns.plan.n_output);
    return count;
}

fn otherCount(row: u64, report: *Report) Failure {
    return report.fail(error.Corrupt, "row {d} has another number of values than the table of its shard says", .{row});
}

fn sortRow(scratch: *Scratch, indices: []i32, values: []f32, n_output: u32) void {
    const entries = scratch.entries(indices.len);
    for (entries, indices, values) |*value, index, number| value.* = sort_row.entry(@intCast(index), @bitCast(number));
    const sorted = sort_row.sort(entries, scratch.spareEntries(indices.len), n_output);
    _ = unpack(sorted, indices, values);
}

fn unpack(entries: []align(4) const Entry, indices: []i32, values: []f32) usize {
    for (entries, indices[0..entries.len], values[0..entries.len]) |value, *index, *number| {
        index.* = @intCast(sort_row.columnOf(value));
        number.* = @bitCast(sort_row.payloadOf(value));
    }
    return entries.len;
}

const Shared = struct {
    /// Ascending distinct output columns, each with the bits of its float32 result.
    entries: []align(4) Entry,
    /// What the other elements of a dense row are.
    background: f32,
    n_stored: usize,
};

/// A row some of whose columns share an output column. Their raw values are added in float64, in the order of the
/// columns; depth and PFlog's centre are those of the values as stored.
fn sharedRow(member: *const Member, row: u64, scratch: *Scratch, report: *Report) Failure!Shared {
    const found = try member.matrix.openRow(@intCast(row), scratch, report);
    const n_stored: usize = found.row.n_values;
    const stored = scratch.arrays.values[0..n_stored];
    try member.matrix.rowValues(&found, .f64, scratch, @ptrCast(stored.ptr), report);
    const plan = &member.columns.plan;
    const transform = plan.row_plan.transform;
    const scale = transform.factor(if (transform.normalize) transform_kernel.depthOf(stored, transform.log1p) else 0);
    const centre = if (transform.isCentred()) centreOf(stored, transform, scale, plan.row_plan.n_cols) else 0;

    const entries = scratch.entries(n_stored);
    var count: usize = 0;
    for (scratch.arrays.row.columns[0..n_stored], 0..) |column, index| {
        if (!plan.keeps(column)) continue;
        entries[count] = sort_row.entry(plan.slots[column], @intCast(index));
        count += 1;
    }
    const sorted = sort_row.sort(entries[0..count], scratch.spareEntries(count), plan.n_output);
    const added = addEqual(sorted, stored, transform, scale, centre);
    for (added) |value| {
        const result: f32 = @bitCast(sort_row.payloadOf(value));
        if (transform.isScaledBeyond(scale, stored, &.{result})) {
            return report.fail(error.BadArgument, transform_kernel.scaled_beyond, .{row});
        }
    }
    return .{
        .entries = added,
        .background = @floatCast(-centre),
        .n_stored = n_stored,
    };
}

fn centreOf(stored: []const f64, transform: transform_kernel.Transform, scale: f64, n_cols: u32) f64 {
    var sum: f64 = 0;
    for (stored) |value| sum += transform.applyOne(value, scale);
    return sum / @as(f64, @floatFromInt(n_cols));
}

/// In place: entries of one column become one with the result of their sum.
fn addEqual(
    sorted: []align(4) Entry,
    stored: []const f64,
    transform: transform_kernel.Transform,
    scale: f64,
    centre: f64,
) []align(4) Entry {
    var count: usize = 0;
    var next: usize = 0;
    while (next < sorted.len) : (count += 1) {
        const column = sort_row.columnOf(sorted[next]);
        var sum: f64 = 0;
        while (next < sorted.len and sort_row.columnOf(sorted[next]) == column) : (next += 1) {
            sum += stored[sort_row.payloadOf(sorted[next])];
        }
        const result: f32 = if (transform.isIdentity()) @floatCast(sum) else transform.applyOne(sum, scale);
        const centred: f32 = if (centre == 0) result else @floatCast(result - centre);
        sorted[count] = sort_row.entry(column, @bitCast(centred));
    }
    return sorted[0..count];
}
