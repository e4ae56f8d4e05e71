//! Rows of matrices, one or those of several files, as rows of one: the members end to end, with common columns.

const std = @import("std");
const columns_module = @import("../codec/columns.zig");
const dense = @import("../kernels/dense.zig");
const downsample = @import("../kernels/downsample.zig");
const emit = @import("../kernels/emit.zig");
const errors = @import("../errors.zig");
const matrices = @import("../codec/matrix.zig");
const places_module = @import("../codec/places.zig");
const sort_row = @import("../codec/sort_row.zig");
const transform_kernel = @import("../kernels/transform.zig");

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
    /// What stands for its file where counts are drawn.
    file_identity: u64 = 0,
};

/// What happens to the values of a CSR row before they are transformed. A row that is drawn has what became of its
/// values after those that share an output column are added; its depth is the total that was drawn.
pub const RowChanges = struct {
    /// Negative values and NaN become 0.
    clips: bool = false,
    draw: ?downsample.Draw = null,
};

pub const Concatenation = struct {
    allocator: Allocator,
    members: []Member,
    places: Places,
    n_output: u32,
    changes: RowChanges,
    /// Whether a CSR row may end with fewer values than it stores.
    drops_values: bool,

    /// Matrices and columns must outlive it.
    pub fn init(allocator: Allocator, members: []const Member, changes: RowChanges, report: *Report) Failure!Concatenation {
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
        var drops_values = changes.draw != null;
        for (members, row_counts) |member, *count| {
            count.* = member.matrix.n_rows;
            drops_values = drops_values or member.columns.isMapped();
        }
        var places: Places = try .init(allocator, row_counts, report);
        errdefer places.deinit();
        return .{
            .allocator = allocator,
            .members = try allocator.dupe(Member, members),
            .places = places,
            .n_output = n_output,
            .changes = changes,
            .drops_values = drops_values,
        };
    }

    pub fn deinit(self: *Concatenation) void {
        self.allocator.free(self.members);
        self.places.deinit();
    }

    pub fn rowCount(self: *const Concatenation) u64 {
        return self.places.rowCount();
    }

    pub fn checkRows(self: *const Concatenation, rows: []const i64, report: *Report) Failure!void {
        if (self.members.len == 1) return self.members[0].matrix.checkRows(rows, report);
        try self.places.checkRows(rows, report);
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
        denseMemberRow(&self.members[place.member], place.row, scratch, way, out, report) catch |failure|
            return self.inMember(place.member, failure, report);
    }

    /// One row in CSR, of at most as many values as `indices` and `values` have, which is as many as it stores. Answers
    /// how many it has.
    pub fn csrRow(
        self: *const Concatenation,
        place: Place,
        scratch: *Scratch,
        way: emit.Way,
        indices: []i32,
        values: []f32,
        report: *Report,
    ) Failure!usize {
        const member = &self.members[place.member];
        return self.csrMemberRow(member, place.row, scratch, way, indices, values, report) catch |failure|
            self.inMember(place.member, failure, report);
    }

    fn inMember(self: *const Concatenation, member: usize, failure: Failure, report: *Report) Failure {
        return if (self.members.len == 1) failure else places_module.inMember(member, failure, report);
    }

    fn csrMemberRow(
        self: *const Concatenation,
        member: *const Member,
        row: u64,
        scratch: *Scratch,
        way: emit.Way,
        indices: []i32,
        values: []f32,
        report: *Report,
    ) Failure!usize {
        const columns = member.columns;
        assert(!columns.plan.row_plan.transform.isCentred());
        const found = try member.matrix.openRow(@intCast(row), scratch, report);
        if (found.row.n_values != indices.len) {
            return report.fail(error.Corrupt, "row {d} has another number of values than the table of its shard says", .{row});
        }
        if (self.changes.draw != null or (self.changes.clips and mayBeNegative(member.matrix, &found))) {
            return changedRow(member, row, &found, self.changes.draw, scratch, indices, values, report);
        }
        if (columns.order == .shared) {
            const shared = try sharedRow(member, row, &found, scratch, report);
            return unpack(shared.entries, indices, values);
        }
        const count = try plainRow(member, &found, scratch, way, indices, values, report);
        if (columns.order == .mixed) sortRow(scratch, indices[0..count], values[0..count], columns.plan.n_output);
        return count;
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
    const found = try member.matrix.openRow(@intCast(row), scratch, report);
    const shared = try sharedRow(member, row, &found, scratch, report);
    // the entries lie in neither of these
    const indices: [*]i32 = @ptrCast(scratch.arrays.row.columns);
    const values: [*]f32 = @ptrCast(scratch.arrays.values);
    const count = unpack(shared.entries, indices[0..shared.entries.len], values[0..shared.entries.len]);
    return .{ .columns = @ptrCast(indices), .values = values, .count = @intCast(count), .background = shared.background };
}

/// A row whose output columns are distinct, in the order of its columns.
inline fn plainRow(
    member: *const Member,
    found: *const matrices.FoundRow,
    scratch: *Scratch,
    way: emit.Way,
    indices: []i32,
    values: []f32,
    report: *Report,
) Failure!usize {
    const level = member.matrix.level;
    const plan = &member.columns.plan;
    if (!member.columns.isMapped() and plan.row_plan.transform.isIdentity()) {
        const decoded: [*]const u32 = @ptrCast(scratch.arrays.values);
        try member.matrix.rowValues(found, .f32, scratch, @ptrCast(scratch.arrays.values), report);
        level.copyWords(way, scratch.arrays.row.columns, indices.len, @ptrCast(indices.ptr));
        level.copyWords(way, decoded, values.len, @ptrCast(values.ptr));
        return values.len;
    }
    const selected = try member.matrix.selectRow(plan, found, scratch, report);
    assert(selected.count <= indices.len and selected.count <= values.len);
    level.copyWords(way, selected.columns, selected.count, @ptrCast(indices.ptr));
    level.copyWords(way, @ptrCast(selected.values), selected.count, @ptrCast(values.ptr));
    return selected.count;
}

/// Packed rows note whether they have such values.
fn mayBeNegative(matrix: *const Matrix, found: *const matrices.FoundRow) bool {
    if (!matrix.value_type.isSigned() or found.row.n_values == 0) return false;
    return switch (found.view.codec) {
        .rowpack => found.open.header.irregular,
        .none => true,
    };
}

/// A row whose values are clipped, and drawn if asked for.
fn changedRow(
    member: *const Member,
    row: u64,
    found: *const matrices.FoundRow,
    draw: ?downsample.Draw,
    scratch: *Scratch,
    indices: []i32,
    values: []f32,
    report: *Report,
) Failure!usize {
    const stored = scratch.arrays.values[0..indices.len];
    try member.matrix.rowValues(found, .f64, scratch, @ptrCast(stored.ptr), report);
    for (stored) |*value| value.* = if (value.* > 0) value.* else 0;
    const transform = member.columns.plan.row_plan.transform;
    var depth = if (transform.normalize) transform_kernel.depthOf(stored, true) else 0;
    var kept = addedRow(member.columns, scratch, indices);
    if (draw) |one| {
        for (stored[0..kept], values[0..kept]) |value, *count| count.* = @floatCast(value);
        one.drawRow(member.file_identity, row, values[0..kept]) catch
            return report.fail(error.BadArgument, "row {d} holds " ++ downsample.too_large, .{row});
        kept = downsample.dropZeros(indices[0..kept], values[0..kept]);
        for (values[0..kept], stored[0..kept]) |count, *value| value.* = count;
        depth = transform_kernel.depthOf(stored[0..kept], true);
    }
    const scale = transform.factor(depth);
    for (stored[0..kept], values[0..kept]) |value, *result| {
        result.* = if (transform.isIdentity()) @floatCast(value) else transform.applyOne(value, scale);
    }
    if (transform.isScaledBeyond(scale, stored[0..kept], values[0..kept])) {
        return report.fail(error.BadArgument, transform_kernel.scaled_beyond, .{row});
    }
    return kept;
}

/// Output columns of the row in the scratch into `indices`, ascending, and to the front of its values the sums of those
/// that share one. Answers how many there are.
fn addedRow(columns: *const Columns, scratch: *Scratch, indices: []i32) usize {
    const stored = scratch.arrays.values[0..indices.len];
    const entries = scratch.entries(indices.len);
    var count: usize = 0;
    for (scratch.arrays.row.columns[0..indices.len], 0..) |column, place| {
        if (columns.isMapped() and !columns.plan.keeps(column)) continue;
        const output = if (columns.isMapped()) columns.plan.slots[column] else column;
        entries[count] = sort_row.entry(output, @intCast(place));
        count += 1;
    }
    const spare = scratch.spareEntries(indices.len);
    const sorted = if (columns.order == .ascending)
        entries[0..count]
    else
        sort_row.sort(entries[0..count], spare[0..count], columns.plan.n_output);
    // The values are read in any order, so that sums go where the sorted entries are not.
    const sums: []align(4) f64 = @ptrCast(if (sorted.ptr == entries.ptr) spare else entries);
    var length: usize = 0;
    for (sorted) |entry| {
        const column: i32 = @intCast(sort_row.columnOf(entry));
        const value = stored[sort_row.payloadOf(entry)];
        if (length > 0 and indices[length - 1] == column) {
            sums[length - 1] += value;
            continue;
        }
        indices[length] = column;
        sums[length] = value;
        length += 1;
    }
    @memcpy(stored[0..length], sums[0..length]);
    return length;
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
};

/// A row some of whose columns share an output column. Their raw values are added in float64, in the order of the
/// columns; depth and PFlog's centre are those of the values as stored.
fn sharedRow(
    member: *const Member,
    row: u64,
    found: *const matrices.FoundRow,
    scratch: *Scratch,
    report: *Report,
) Failure!Shared {
    const n_stored: usize = found.row.n_values;
    const stored = scratch.arrays.values[0..n_stored];
    try member.matrix.rowValues(found, .f64, scratch, @ptrCast(stored.ptr), report);
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
