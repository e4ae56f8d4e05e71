//! What a new file may hold: nothing is written that a reader would refuse.

const std = @import("std");
const catalog_format = @import("catalog.zig");
const errors = @import("../errors.zig");
const layout = @import("layout.zig");
const modality_table = @import("modality_table.zig");
const quoted = @import("quoted.zig");
const section_index = @import("section_index.zig");
const SectionType = @import("section_types.zig").SectionType;
const Failure = errors.Failure;
const Modality = modality_table.Modality;
const Report = errors.Report;
const ShardStats = catalog_format.ShardStats;

pub const SectionEntry = struct {
    name: []const u8,
    section_type: SectionType,
    modality_id: u8 = 0,
    stats: ?ShardStats = null,
};

/// What the file was announced with, and what it holds so far.
pub const Contents = struct {
    n_obs: u64,
    n_vars: u64,
    modalities: []const Modality,
    index: *const section_index.SectionIndex,
};

pub fn checkModality(modality: *const Modality, contents: Contents, report: *Report) Failure!void {
    if (contents.modalities.len == modality_table.modalities_max) {
        return report.fail(error.Limit, "a file holds at most {d} modalities", .{modality_table.modalities_max});
    }
    const name = modality.name;
    if (name.len == 0 or name.len > modality_table.name_bytes_max or !std.unicode.utf8ValidateSlice(name)) {
        return report.fail(error.BadArgument, "modality name {f}: 1 to {d} bytes of UTF-8 are needed", .{
            quoted.name(name), modality_table.name_bytes_max,
        });
    }
    if (modality_table.find(contents.modalities, name) != null) {
        return report.fail(error.BadArgument, "modality {f} is declared twice", .{quoted.name(name)});
    }
    if (modality.n_vars > contents.n_vars) {
        return report.fail(error.BadArgument, "modality {f} has {d} variables, more than the file's largest ({d})", .{
            quoted.name(name), modality.n_vars, contents.n_vars,
        });
    }
}

pub fn checkSection(entry: *const SectionEntry, contents: Contents, report: *Report) Failure!void {
    const name = entry.name;
    if (name.len == 0 or name.len > layout.section_name_bytes_max or !std.unicode.utf8ValidateSlice(name)) {
        return report.fail(error.BadArgument, "section name {f}: 1 to {d} bytes of UTF-8 are needed", .{
            quoted.name(name), layout.section_name_bytes_max,
        });
    }
    if (!entry.section_type.isKnown() and !entry.section_type.isVendor()) {
        return report.fail(error.BadArgument, "section type {d} is not defined", .{
            @backingInt(entry.section_type),
        });
    }
    if (entry.modality_id > contents.modalities.len) {
        return report.fail(error.BadArgument, "section {f} names modality {d}, but {d} are declared", .{
            quoted.name(name), entry.modality_id, contents.modalities.len,
        });
    }
    if (entry.stats) |*stats| try checkStats(entry, stats, contents, report);
    if (contents.index.contains(.{ .section_type = entry.section_type, .modality_id = entry.modality_id, .name = name })) {
        return report.fail(error.BadArgument, "section {f} is written twice", .{quoted.name(name)});
    }
}

fn checkStats(entry: *const SectionEntry, stats: *const ShardStats, contents: Contents, report: *Report) Failure!void {
    if (!entry.section_type.isShard()) {
        return report.fail(error.BadArgument, "section {f} is no shard and has no statistics", .{
            quoted.name(entry.name),
        });
    }
    if (catalog_format.judge(stats, contents.n_obs) != .good) {
        return report.fail(error.BadArgument, "shard {f} cannot have {d} values in the rows {d} to {d} of {d} and the columns {d} to {d}", .{
            quoted.name(entry.name), stats.nnz,       stats.row_start, stats.row_end,
            contents.n_obs,          stats.col_start, stats.col_end,
        });
    }
    const spans_all = entry.section_type == .csr_shard or entry.section_type == .layer_csr_shard;
    if (!spans_all) return;
    const n_vars = if (contents.modalities.len == 0)
        contents.n_vars
    else if (entry.modality_id > 0)
        contents.modalities[entry.modality_id - 1].n_vars
    else
        return;
    if (stats.col_start != 0 or stats.col_end != n_vars) {
        return report.fail(error.BadArgument, "shard {f} has the columns {d} to {d} where there are {d} variables", .{
            quoted.name(entry.name), stats.col_start, stats.col_end, n_vars,
        });
    }
}

/// At the end: the file was announced with as many variables as its largest modality has.
pub fn checkVariables(contents: Contents, report: *Report) Failure!void {
    if (contents.modalities.len == 0) return;
    var largest: u64 = 0;
    for (contents.modalities) |modality| largest = @max(largest, modality.n_vars);
    if (largest != contents.n_vars) {
        return report.fail(error.BadArgument, "the file was announced with {d} variables, but its largest modality has {d}", .{
            contents.n_vars, largest,
        });
    }
}

// ---- tests ----

const testing = std.testing;
const testing_files = @import("testing_files.zig");
const File = @import("file.zig").File;
const Writer = @import("writer.zig").Writer;

test "sections and modalities that cannot be are refused" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const writer: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 1, .n_vars = 2 }, &report);
    defer writer.close();
    const modality: Modality = .{ .name = "rna", .modality_type = 0, .codec_id = 0, .value_encoding = 0, .n_vars = 2 };
    try testing.expectEqual(@as(u8, 1), try writer.addModality(modality, &report));
    try testing.expectError(error.BadArgument, writer.addModality(modality, &report)); // again
    const long: [layout.section_name_bytes_max + 1]u8 = @splat('n');
    for ([_][]const u8{ "", "\xff", long[0 .. modality_table.name_bytes_max + 1] }) |name| {
        var wrong = modality;
        wrong.name = name;
        try testing.expectError(error.BadArgument, writer.addModality(wrong, &report));
    }
    var wide = modality;
    wide.name = "wide";
    wide.n_vars = 3;
    try testing.expectError(error.BadArgument, writer.addModality(wide, &report));

    try writer.addSection(.{ .name = "a", .section_type = .uns }, "", &report);
    for ([_]SectionEntry{
        .{ .name = "a", .section_type = .uns }, // again
        .{ .name = "", .section_type = .uns },
        .{ .name = "\xff", .section_type = .uns },
        .{ .name = &long, .section_type = .uns },
        .{ .name = "b", .section_type = @fromBackingInt(26) },
        .{ .name = "b", .section_type = .modality_table },
        .{ .name = "b", .section_type = .uns, .modality_id = 2 },
    }) |entry| try testing.expectError(error.BadArgument, writer.addSection(entry, "", &report));
    try writer.addSection(.{ .name = long[1..], .section_type = .uns }, "", &report);
    try writer.finish(&report);
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    defer file.close();
    try testing.expectEqual(@as(usize, 3), file.sections.len);
}

test "figures that no reader would believe are refused" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const right: ShardStats = .{ .row_start = 2, .row_end = 5, .col_start = 0, .col_end = 4, .nnz = 12 };
    const writer: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 5, .n_vars = 4 }, &report);
    defer writer.close();
    var wrong: [5]ShardStats = @splat(right);
    wrong[0].row_end = 6;
    wrong[1].row_start = 6;
    wrong[2].nnz = 13;
    wrong[3].col_start = 1;
    wrong[4].col_end = 5;
    for (wrong) |stats| {
        const entry: SectionEntry = .{ .name = "X_shard_0", .section_type = .csr_shard, .stats = stats };
        try testing.expectError(error.BadArgument, writer.addSection(entry, "x", &report));
    }
    try testing.expectError(error.BadArgument, writer.addSection(.{ .name = "obs", .section_type = .obs, .stats = right }, "x", &report));
    try writer.addSection(.{ .name = "X_shard_0", .section_type = .csr_shard, .stats = right }, "x", &report);
    // A raw matrix has variables of its own.
    try writer.addSection(.{ .name = "raw/X_shard_0", .section_type = .raw_csr_shard, .stats = wrong[4] }, "x", &report);
    try writer.finish(&report);
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    file.close();
}

test "modalities and the file's size must agree" {
    var folder: testing_files.Folder = .create();
    defer folder.remove();
    var report: Report = .{};
    const writer: *Writer = try .create(testing.allocator, folder.path("a.scx"), .{ .n_obs = 5, .n_vars = 4 }, &report);
    defer writer.close();
    var modality: Modality = .{ .name = "rna", .modality_type = 0, .codec_id = 0, .value_encoding = 0, .n_vars = 3 };
    _ = try writer.addModality(modality, &report);
    try testing.expectError(error.BadArgument, writer.finish(&report));
    modality.name = "atac";
    modality.n_vars = 4;
    _ = try writer.addModality(modality, &report);
    const stats: ShardStats = .{ .row_start = 0, .row_end = 5, .col_start = 0, .col_end = 4, .nnz = 1 };
    try testing.expectError(error.BadArgument, writer.addSection(.{ .name = "X", .section_type = .csr_shard, .modality_id = 1, .stats = stats }, "x", &report));
    try writer.addSection(.{ .name = "X", .section_type = .csr_shard, .modality_id = 2, .stats = stats }, "x", &report);
    try writer.finish(&report);
    const file: *File = try .open(testing.allocator, folder.path("a.scx"), .{}, &report);
    file.close();
}
