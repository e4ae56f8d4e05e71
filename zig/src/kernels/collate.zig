//! Collation: the rows of gathered cell sets become the inputs of a set model, as stacked arrays of fixed width.
//!
//! For each row an encoder part of `k_enc` tokens and a target part of `k_dec` values:
//!
//!   1. rank the positive genes of the row by raw count (top_k.zig) and crop at k_enc;
//!   2. of those drop the genes that the row's query marks; the others move left. Nothing from beyond the crop
//!      comes in for them, and the slots that are left are PAD;
//!   3. the target is the row's value at each gene of the query, 0 for one that the row does not hold.
//!
//! A row whose encoder part has no gene gets a single GENE_MASK token in slot 0. It counts as masked where a gene
//! was withheld (all were dropped, or the readout is hidden), not where the row had none.

const std = @import("std");
const errors = @import("../errors.zig");
const parallel = @import("../codec/parallel.zig");
const top_k = @import("top_k.zig");
const value_modes = @import("value_modes.zig");
const CsrRows = @import("csr_rows.zig").CsrRows;
const isScale = @import("transform.zig").isScale;

const Allocator = std.mem.Allocator;
const assert = std.debug.assert;
const Failure = errors.Failure;
const Report = errors.Report;

/// GENE_MASK is n_genes_total and PAD one more: both have to fit an i32.
pub const genes_max = std.math.maxInt(i32) - 2;
/// Begins every message.
pub const who = "collate_gathered: ";

/// Fewer rows than this are not worth a thread of their own.
const rows_per_thread_min = 16;
/// Up to here a row's genes are found in a table by gene, above by bisection.
const table_genes_max = 1 << 22;

/// What is asked of each row. Genes outside of the vocabulary are in no row.
pub const Query = struct {
    genes: []const i32,
    /// Not 0 where the encoder may not see the gene: parallel to `genes`, or, where these are shared by the rows of a set,
    /// k_dec for each row. Null: nowhere.
    marks: ?[]const u8,
    /// Null: k_dec genes a set, shared by its rows. Else: where the genes of each row begin, one more than rows.
    offsets: ?[]const i64,
};

pub const Outputs = struct {
    encoder_gene_ids: []i32,
    encoder_counts: []f32,
    encoder_mask: []u8,
    encoder_pad_mask: []u8,
    target_counts: []f32,
    target_pad_mask: []u8,
    library_size: []f64,
};

pub const Collation = struct {
    allocator: Allocator,
    rows: CsrRows,
    /// One more than sets, from 0 to the number of rows.
    set_offsets: []const i64,
    k_enc: usize,
    k_dec: usize,
    n_genes_total: u64,
    parameters: value_modes.Parameters,
    /// The library size is that of the query's genes; depths stay those of the whole cell.
    lib_size_redef: bool,
    query: Query,
    /// One for each row; null: none.
    hide_readout: ?[]const u8,
    /// For pflog_raw: one for each set, or for each row where the query is ragged.
    n_measured: ?[]const i64,
    outputs: Outputs,
    parts: usize = 1,

    pub fn check(self: *const Collation, threads: u32, report: *Report) Failure!void {
        const bad = error.BadArgument;
        if (self.k_enc < 1) return report.fail(bad, who ++ "k_enc must be at least 1", .{});
        if (self.k_dec < 1) return report.fail(bad, who ++ "k_dec must be at least 1", .{});
        if (self.n_genes_total < 1) return report.fail(bad, who ++ "n_genes_total must be >= 1", .{});
        if (self.n_genes_total > genes_max) return report.fail(bad, who ++ "n_genes_total = {d} is above {d}", .{
            self.n_genes_total, @as(u64, genes_max),
        });
        try self.checkParameters(report);
        try checkSpan("set_offsets", self.set_offsets, self.rows.count(), "rows", report);
        try self.checkQuery(report);
        try self.rows.checkIds(who, self.n_genes_total, threads, report);
    }

    fn checkParameters(self: *const Collation, report: *Report) Failure!void {
        const parameters = self.parameters;
        if (parameters.mode == .normalize_log1p and !isScale(parameters.target_sum)) return report.fail(error.BadArgument, who ++
            "target_sum must be finite and strictly positive, as a float32", .{});
        if (parameters.mode != .pflog_raw) return;
        if (!isScale(parameters.pflog_alpha)) return report.fail(error.BadArgument, who ++
            "mode pflog_raw needs a pflog_alpha that is finite and strictly positive, as a float32", .{});
        const measured = self.n_measured orelse return report.fail(error.BadArgument, who ++ "mode pflog_raw needs n_measured", .{});
        for (measured, 0..) |n, place| {
            if (n < 1) return report.fail(error.BadArgument, who ++ "n_measured[{d}] = {d}, but mode pflog_raw needs at least 1", .{ place, n });
        }
    }

    fn checkQuery(self: *const Collation, report: *Report) Failure!void {
        const n_genes = self.query.genes.len;
        const offsets = self.query.offsets orelse {
            const n_sets = self.set_offsets.len - 1;
            if (n_genes != n_sets *| self.k_dec) return report.fail(error.BadArgument, who ++
                "query_gene_ids has {d} entries, but {d} sets of k_dec = {d} genes have {d}", .{ n_genes, n_sets, self.k_dec, n_sets *| self.k_dec });
            const n_slots = self.rows.count() *| self.k_dec;
            if (self.query.marks) |marks| if (marks.len != n_genes and marks.len != n_slots) return report.fail(
                error.BadArgument,
                who ++ "enc_mask_positions has {d} entries, but {d} are needed (as query_gene_ids has), or {d} (k_dec for each row)",
                .{ marks.len, n_genes, n_slots },
            );
            return;
        };
        if (self.query.marks) |marks| if (marks.len != n_genes) return report.fail(
            error.BadArgument,
            who ++ "enc_mask_positions has {d} entries, but {d} are needed (as query_gene_ids has)",
            .{ marks.len, n_genes },
        );
        try checkSpan("query_offsets", offsets, n_genes, "query_gene_ids", report);
        var widest: usize = 0;
        for (offsets[0 .. offsets.len - 1], offsets[1..]) |start, end| widest = @max(widest, @as(usize, @intCast(end - start)));
        if (widest > self.k_dec) return report.fail(error.BadArgument, who ++
            "k_dec = {d} is narrower than the widest per-row query, which has {d} genes", .{ self.k_dec, widest });
    }

    /// Fills the outputs; `check` has passed.
    pub fn run(self: *Collation, threads: u32, report: *Report) Failure!void {
        self.parts = parallel.threadCount(threads, self.rows.count() / rows_per_thread_min);
        try parallel.run(self.parts, @as(*const Collation, self), runPart, report);
    }

    fn runPart(self: *const Collation, part: usize, report: *Report) Failure!void {
        _ = report;
        const range = parallel.rangeOf(self.rows.count(), self.parts, part);
        if (range.start == range.stop) return;
        var scratch: Scratch = try .init(self.allocator, self);
        defer scratch.deinit();
        var set: usize = 0;
        for (range.start..range.stop) |row| {
            while (self.set_offsets[set + 1] <= row) set += 1;
            self.collateRow(row, set, &scratch);
        }
    }

    fn collateRow(self: *const Collation, row: usize, set: usize, scratch: *Scratch) void {
        const given = self.rows.rowValues(row);
        const out = scratch.transformed[0..given.len];
        const total = value_modes.librarySize(given);
        const group = if (self.query.offsets == null) set else row;
        const n_measured: u64 = if (self.parameters.mode == .pflog_raw) @intCast(self.n_measured.?[group]) else 1;
        value_modes.transformRow(self.parameters, given, total, n_measured, out);

        scratch.finder.enter(self.rows.ids(row));
        defer scratch.finder.leave();
        const found = self.target(row, set, scratch);
        self.outputs.library_size[row] = if (self.lib_size_redef) found.query_total else total;
        self.encoder(row, found.any_dropped, scratch);
    }

    const Found = struct { query_total: f64, any_dropped: bool };

    /// The targets of a row; marks the places of the genes that the encoder may not see.
    fn target(self: *const Collation, row: usize, set: usize, scratch: *Scratch) Found {
        const raw = self.rows.rowValues(row);
        const first: usize, const length: usize = if (self.query.offsets) |offsets|
            .{ @intCast(offsets[row]), @intCast(offsets[row + 1] - offsets[row]) }
        else
            .{ set * self.k_dec, self.k_dec };
        const marks: ?[]const u8 = if (self.query.marks) |marks|
            marks[if (marks.len == self.query.genes.len) first else row * self.k_dec..][0..length]
        else
            null;
        const counts = self.outputs.target_counts[row * self.k_dec ..][0..self.k_dec];
        const is_normalized = self.parameters.mode == .normalize_log1p;
        const dropped = scratch.dropped[0..raw.len];
        if (marks != null) @memset(dropped, false);
        var found: Found = .{ .query_total = 0, .any_dropped = false };
        for (self.query.genes[first..][0..length], counts[0..length], 0..) |gene, *count, at| {
            count.* = 0;
            const place = scratch.finder.find(gene) orelse continue;
            const clipped = if (raw[place] > 0) raw[place] else 0;
            found.query_total += clipped;
            count.* = if (is_normalized) scratch.transformed[place] else clipped;
            if (marks) |marked| {
                if (marked[at] == 0) continue;
                dropped[place] = true;
                found.any_dropped = true;
            }
        }
        const pads = self.outputs.target_pad_mask[row * self.k_dec ..][0..self.k_dec];
        @memset(pads[0..length], 0);
        @memset(pads[length..], 1);
        @memset(counts[length..], 0);
        return found;
    }

    fn encoder(self: *const Collation, row: usize, any_dropped: bool, scratch: *Scratch) void {
        const start = row * self.k_enc;
        const gene_ids = self.outputs.encoder_gene_ids[start..][0..self.k_enc];
        const counts = self.outputs.encoder_counts[start..][0..self.k_enc];
        const masks = self.outputs.encoder_mask[start..][0..self.k_enc];
        const pads = self.outputs.encoder_pad_mask[start..][0..self.k_enc];
        const is_hidden = if (self.hide_readout) |hidden| hidden[row] != 0 else false;
        var n_tokens: usize = 0;
        var is_withheld = is_hidden;
        if (!is_hidden) {
            const ranked = top_k.topK(self.rows.rowValues(row), self.k_enc, &scratch.ranking);
            const ids = self.rows.ids(row);
            for (ranked) |place| {
                if (any_dropped and scratch.dropped[place]) continue;
                gene_ids[n_tokens] = ids[place];
                counts[n_tokens] = scratch.transformed[place];
                n_tokens += 1;
            }
            is_withheld = ranked.len > 0;
        }
        @memset(masks, 0);
        if (n_tokens == 0) {
            gene_ids[0] = @intCast(self.n_genes_total);
            counts[0] = 0;
            masks[0] = @intFromBool(is_withheld);
            n_tokens = 1;
        }
        @memset(gene_ids[n_tokens..], @intCast(self.n_genes_total + 1));
        @memset(counts[n_tokens..], 0);
        @memset(pads[0..n_tokens], 0);
        @memset(pads[n_tokens..], 1);
    }
};

fn checkSpan(comptime name: []const u8, offsets: []const i64, length: usize, comptime what: []const u8, report: *Report) Failure!void {
    const last = offsets[offsets.len - 1];
    if (offsets[0] != 0 or last != length) return report.fail(error.BadArgument, who ++ name ++
        " must span the {d} " ++ what ++ ", but it goes from {d} to {d}", .{ length, offsets[0], last });
    for (offsets[0 .. offsets.len - 1], offsets[1..], 1..) |start, end, at| {
        if (end < start) return report.fail(error.BadArgument, who ++ name ++
            " must not descend, but entry {d} is {d} after {d}", .{ at, end, start });
    }
}

/// Where in the present row a gene stands.
const Finder = struct {
    /// By gene: its place plus 1, or 0; all 0 between rows. Empty where the vocabulary is too large for a table.
    table: []u32,
    ids: []const i32 = &.{},

    fn enter(finder: *Finder, ids: []const i32) void {
        finder.ids = ids;
        if (finder.table.len == 0) return;
        for (ids, 1..) |id, place| finder.table[@intCast(id)] = @intCast(place);
    }

    fn leave(finder: *Finder) void {
        if (finder.table.len == 0) return;
        for (finder.ids) |id| finder.table[@intCast(id)] = 0;
    }

    inline fn find(finder: *const Finder, gene: i32) ?usize {
        if (gene < 0) return null;
        if (finder.table.len == 0) return bisect(finder.ids, gene);
        if (gene >= finder.table.len) return null;
        const place = finder.table[@intCast(gene)];
        return if (place == 0) null else place - 1;
    }

    fn bisect(ids: []const i32, gene: i32) ?usize {
        var low: usize = 0;
        var high = ids.len;
        while (low < high) {
            const middle = low + (high - low) / 2;
            if (ids[middle] < gene) low = middle + 1 else high = middle;
        }
        return if (low < ids.len and ids[low] == gene) low else null;
    }
};

/// Room for the longest row; one for each thread.
const Scratch = struct {
    allocator: Allocator,
    ranking: top_k.Scratch,
    transformed: []f32,
    dropped: []bool,
    finder: Finder,

    fn init(allocator: Allocator, job: *const Collation) Allocator.Error!Scratch {
        const longest = job.rows.longest();
        var ranking: top_k.Scratch = try .init(allocator, longest);
        errdefer ranking.deinit();

        const transformed = try allocator.alloc(f32, longest);
        errdefer allocator.free(transformed);

        const dropped = try allocator.alloc(bool, longest);
        errdefer allocator.free(dropped);

        const is_small = job.n_genes_total <= table_genes_max;
        const table = try allocator.alloc(u32, if (is_small) @intCast(job.n_genes_total) else 0);
        @memset(table, 0);
        return .{
            .allocator = allocator,
            .ranking = ranking,
            .transformed = transformed,
            .dropped = dropped,
            .finder = .{ .table = table },
        };
    }

    fn deinit(scratch: *Scratch) void {
        scratch.allocator.free(scratch.finder.table);
        scratch.allocator.free(scratch.dropped);
        scratch.allocator.free(scratch.transformed);
        scratch.ranking.deinit();
        scratch.* = undefined;
    }
};

const testing = std.testing;

test "a worked set: crop, drop, targets and sentinels" {
    // genes 0..9; three rows of one set, all asked for genes 4, 1, 9, of which 1 is withheld from the encoder
    var ids: [6]i32 = undefined;
    var counts: [6]f32 = undefined;
    var masks: [6]u8 = undefined;
    var pads: [6]u8 = undefined;
    var targets: [9]f32 = undefined;
    var target_pads: [9]u8 = undefined;
    var sizes: [3]f64 = undefined;
    for ([_]u64{ 10, table_genes_max + 1 }) |n_genes_total| {
        var job: Collation = .{
            .allocator = testing.allocator,
            .rows = .{ .indptr = &.{ 0, 3, 4, 4 }, .indices = &.{ 1, 4, 6, 1 }, .values = &.{ 5, 2, 7, 3 } },
            .set_offsets = &.{ 0, 3 },
            .k_enc = 2,
            .k_dec = 3,
            .n_genes_total = n_genes_total,
            .parameters = .{ .mode = .pass_through, .target_sum = 0, .pflog_alpha = 0 },
            .lib_size_redef = true,
            .query = .{ .genes = &.{ 4, 1, 9 }, .marks = &.{ 0, 1, 0 }, .offsets = null },
            .hide_readout = null,
            .n_measured = null,
            .outputs = .{
                .encoder_gene_ids = &ids,
                .encoder_counts = &counts,
                .encoder_mask = &masks,
                .encoder_pad_mask = &pads,
                .target_counts = &targets,
                .target_pad_mask = &target_pads,
                .library_size = &sizes,
            },
        };
        var report: Report = .{};
        try job.check(1, &report);
        try job.run(1, &report);
        const mask: i32 = @intCast(n_genes_total);
        // row 0: genes 6 and 1 are the crop; 1 is dropped and 4 does not come in
        try testing.expectEqualSlices(i32, &.{ 6, mask + 1, mask, mask + 1, mask, mask + 1 }, &ids);
        try testing.expectEqualSlices(f32, &.{ 7, 0, 0, 0, 0, 0 }, &counts);
        try testing.expectEqualSlices(u8, &.{ 0, 0, 1, 0, 0, 0 }, &masks);
        try testing.expectEqualSlices(u8, &.{ 0, 1, 0, 1, 0, 1 }, &pads);
        try testing.expectEqualSlices(f32, &.{ 2, 5, 0, 0, 3, 0, 0, 0, 0 }, &targets);
        try testing.expectEqualSlices(f64, &.{ 7, 3, 0 }, &sizes);
    }
}
