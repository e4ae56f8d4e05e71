//! What the header repeats of the catalog. The writer fills the header from it, the reader compares: a header byte
//! that was changed either contradicts the catalog, which has a checksum, or changes nothing that is read.

const std = @import("std");
const errors = @import("../errors.zig");
const quoted = @import("quoted.zig");
const layout = @import("layout.zig");
const catalog_format = @import("catalog.zig");
const modality_table = @import("modality_table.zig");
const SectionType = @import("section_types.zig").SectionType;
const Section = catalog_format.Section;
const Modality = modality_table.Modality;
const Failure = errors.Failure;
const Report = errors.Report;

/// Counts of X alone (types csr_shard and csc_shard), over all modalities.
pub const Facts = struct {
    nnz: u64 = 0,
    n_csr_shards: u32 = 0,
    n_csc_shards: u32 = 0,

    pub fn of(sections: []const Section, modality_id: ?u8) Facts {
        var facts: Facts = .{};
        for (sections) |*section| {
            if (modality_id) |wanted| if (section.modality_id != wanted) continue;
            switch (section.section_type) {
                .csr_shard => {
                    facts.n_csr_shards += 1;
                    if (section.stats) |stats| facts.nnz +|= stats.nnz;
                },
                .csc_shard => facts.n_csc_shards += 1,
                else => {},
            }
        }
        return facts;
    }
};

/// Flags that a section of the type sets, and flags that it allows where published files may differ.
fn flagsOf(section_type: SectionType) struct { required: layout.Flags, allowed: layout.Flags } {
    const required: layout.Flags, const allowed: layout.Flags = switch (section_type) {
        .csc_shard => .{ .{ .csc = true }, .{ .csc = true } },
        .layer_csc_shard => .{ .{}, .{ .csc = true } },
        .bitmap => .{ .{ .bitmap = true }, .{ .bitmap = true } },
        .obsm => .{ .{ .obsm = true }, .{ .obsm = true } },
        .obsm_row_shard => .{ .{}, .{ .obsm = true } },
        .obsp, .obsp_csr_shard => .{ .{ .obsp = true }, .{ .obsp = true } },
        .obsp_row_shard => .{ .{}, .{ .obsp = true } },
        .deletion_vectors => .{ .{ .deletion_vectors = true }, .{ .deletion_vectors = true } },
        .modality_table => .{ .{ .modalities = true }, .{ .modalities = true } },
        .raw_csr_shard, .raw_var => .{ .{ .raw = true }, .{ .raw = true } },
        else => .{ .{}, .{} },
    };
    return .{ .required = required, .allowed = allowed };
}

/// The flags that a new file gets: all that its sections allow.
pub fn flagsFor(sections: []const Section) layout.Flags {
    var bits: u32 = 0;
    for (sections) |*section| bits |= @bitCast(flagsOf(section.section_type).allowed);
    return @bitCast(bits);
}

/// The flags of the next generation: of those that stood already all that these sections allow, and what they need.
pub fn flagsAfter(old: u32, sections: []const Section) u32 {
    var required: u32 = 0;
    var allowed: u32 = 0;
    for (sections) |*section| {
        const flags = flagsOf(section.section_type);
        required |= @bitCast(flags.required);
        allowed |= @bitCast(flags.allowed);
    }
    return (old & allowed) | required;
}

/// Fills the padded root catalog and gives the bytes that are in use.
pub fn rootCatalog(sections: []const Section, target: *[layout.root_catalog_bytes_max]u8) u64 {
    var groups: layout.RootGroups = .{};
    for (sections) |*section| {
        groups.add(@backingInt(section.section_type), section.range(), if (section.stats) |stats| stats.nnz else 0);
    }
    return groups.write(target);
}

pub fn check(
    header: *const layout.Header,
    catalog: *const catalog_format.Catalog,
    modalities: []const Modality,
    report: *Report,
) Failure!void {
    try checkNumbers(header, catalog, report);
    try checkFlags(header, catalog.sections, report);
    try checkModalities(header, catalog.sections, modalities, report);
}

fn checkNumbers(header: *const layout.Header, catalog: *const catalog_format.Catalog, report: *Report) Failure!void {
    const counted: Facts = .of(catalog.sections, null);
    // early multimodal files count nothing but cells in the header
    const counts_nothing = header.n_modalities > 0 and header.n_vars == 0 and header.nnz == 0 and header.n_csr_shards == 0;
    const facts: Facts = if (counts_nothing) .{ .n_csc_shards = counted.n_csc_shards } else counted;
    const pairs = [_]struct { []const u8, u64, u64 }{
        .{ "n_obs", header.n_obs, catalog.n_obs },
        .{ "nnz", header.nnz, facts.nnz },
        .{ "n_csr_shards", header.n_csr_shards, facts.n_csr_shards },
        .{ "n_csc_shards", header.n_csc_shards, facts.n_csc_shards },
        .{ "manifest_sequence", header.manifest_sequence, catalog.manifest_sequence },
        .{ "prev_catalog_offset", header.prev_catalog_offset, catalog.prev_catalog_offset },
    };
    for (pairs) |pair| {
        const name, const in_header, const in_catalog = pair;
        if (in_header != in_catalog) {
            return report.fail(error.Corrupt, "the header is damaged: {s} is {d}, but {d} in the catalog", .{
                name, in_header, in_catalog,
            });
        }
    }
}

fn checkFlags(header: *const layout.Header, sections: []const Section, report: *Report) Failure!void {
    var required: u32 = 0;
    var allowed: u32 = @bitCast(layout.Flags{ .front_catalog = true });
    for (sections) |*section| {
        const flags = flagsOf(section.section_type);
        required |= @bitCast(flags.required);
        allowed |= @bitCast(flags.allowed);
    }
    if (required & ~header.flags != 0 or header.flags & ~allowed != 0) {
        return report.fail(error.Corrupt, "the header is damaged: its flags 0x{x} do not fit the sections of the file", .{header.flags});
    }
}

fn checkModalities(
    header: *const layout.Header,
    sections: []const Section,
    modalities: []const Modality,
    report: *Report,
) Failure!void {
    if (header.n_modalities != modalities.len) {
        return report.fail(error.Corrupt, "the header is damaged: it counts {d} modalities, the table {d}", .{
            header.n_modalities, modalities.len,
        });
    }
    for (sections) |*section| {
        if (section.modality_id > modalities.len) {
            return report.fail(error.Corrupt, "section {f} belongs to modality {d} of {d}", .{
                quoted.name(section.name), section.modality_id, modalities.len,
            });
        }
    }
    if (modalities.len == 0) return checkColumns(header, sections, report);

    var n_vars_max: u64 = 0;
    for (modalities, 1..) |modality, id| {
        n_vars_max = @max(n_vars_max, modality.n_vars);
        const facts: Facts = .of(sections, @intCast(id));
        if (facts.nnz != modality.nnz or facts.n_csr_shards != modality.n_csr_shards or facts.n_csc_shards != modality.n_csc_shards) {
            return report.fail(error.Corrupt, "the modality table and the catalog disagree about modality {f}", .{
                quoted.name(modality.name),
            });
        }
    }
    if (header.n_vars != n_vars_max) {
        return report.fail(error.Corrupt, "the header is damaged: n_vars is {d}, but the largest modality has {d}", .{
            header.n_vars, n_vars_max,
        });
    }
}

/// Without modalities X and the layers span all columns.
fn checkColumns(header: *const layout.Header, sections: []const Section, report: *Report) Failure!void {
    for (sections) |*section| {
        if (section.section_type != .csr_shard and section.section_type != .layer_csr_shard) continue;
        const stats = section.stats orelse continue;
        if (stats.col_start != 0 or stats.col_end != header.n_vars) {
            return report.fail(error.Corrupt, "n_vars is {d} in the header, but shard {f} has the columns {d} to {d}", .{
                header.n_vars, quoted.name(section.name), stats.col_start, stats.col_end,
            });
        }
    }
}

// ---- tests ----

const testing = std.testing;

fn shard(section_type: SectionType, modality_id: u8, n_cols: u64, nnz: u64) Section {
    return .{
        .name = "shard",
        .offset = 4352,
        .length = 8,
        .section_type = section_type,
        .modality_id = modality_id,
        .blake3 = @splat(0),
        .stats = .{ .row_start = 0, .row_end = 5, .col_start = 0, .col_end = n_cols, .nnz = nnz },
    };
}

const test_sections = [_]Section{
    shard(.csr_shard, 1, 4, 7), shard(.csr_shard, 2, 2, 3),       shard(.csr_shard, 1, 4, 2),
    shard(.csc_shard, 1, 4, 9), shard(.layer_csr_shard, 1, 4, 8), shard(.raw_csr_shard, 0, 6, 30),
};
const test_modalities = [_]Modality{
    .{ .name = "a", .modality_type = 0, .codec_id = 0, .value_encoding = 0, .n_vars = 4, .nnz = 9, .n_csr_shards = 2, .n_csc_shards = 1 },
    .{ .name = "b", .modality_type = 0, .codec_id = 0, .value_encoding = 0, .n_vars = 2, .nnz = 3, .n_csr_shards = 1 },
};

test "X alone is counted, in all modalities or in one" {
    try testing.expectEqual(Facts{ .nnz = 12, .n_csr_shards = 3, .n_csc_shards = 1 }, Facts.of(&test_sections, null));
    try testing.expectEqual(Facts{ .nnz = 3, .n_csr_shards = 1 }, Facts.of(&test_sections, 2));
    try testing.expectEqual(Facts{}, Facts.of(&test_sections, 0));
    const huge = [_]Section{ shard(.csr_shard, 0, 1, std.math.maxInt(u64)), shard(.csr_shard, 0, 1, 5) };
    try testing.expectEqual(std.math.maxInt(u64), Facts.of(&huge, null).nnz);
    try testing.expectEqual(layout.Flags{ .csc = true, .raw = true }, flagsFor(&test_sections));
}

fn checkChanged(comptime field: []const u8, value: anytype) Failure!void {
    var sections = test_sections;
    const catalog: catalog_format.Catalog = .{
        .version = 2,
        .manifest_sequence = 6,
        .prev_catalog_offset = 4400,
        .n_obs = 5,
        .sections = &sections,
    };
    var header: layout.Header = .{
        .n_obs = 5,
        .n_vars = 4,
        .nnz = 12,
        .n_csr_shards = 3,
        .n_csc_shards = 1,
        .manifest_sequence = 6,
        .prev_catalog_offset = 4400,
        .n_modalities = 2,
        .flags = @bitCast(layout.Flags{ .csc = true, .raw = true }),
    };
    if (field.len > 0) @field(header, field) = value;
    var report: Report = .{};
    errdefer testing.expect(report.message_length > 0) catch @panic("no message");
    try check(&header, &catalog, &test_modalities, &report);
}

test "whatever of the header contradicts the catalog is noticed" {
    try checkChanged("", 0);
    try testing.expectError(error.Corrupt, checkChanged("n_obs", 6));
    try testing.expectError(error.Corrupt, checkChanged("n_vars", 3));
    try testing.expectError(error.Corrupt, checkChanged("nnz", 13));
    try testing.expectError(error.Corrupt, checkChanged("n_csr_shards", 2));
    try testing.expectError(error.Corrupt, checkChanged("n_csc_shards", 0));
    try testing.expectError(error.Corrupt, checkChanged("manifest_sequence", 7));
    try testing.expectError(error.Corrupt, checkChanged("prev_catalog_offset", 0));
    try testing.expectError(error.Corrupt, checkChanged("n_modalities", 1));
    // CSC shards without their flag, and the flag of what is not there
    try testing.expectError(error.Corrupt, checkChanged("flags", @as(u32, @bitCast(layout.Flags{ .raw = true }))));
    try testing.expectError(error.Corrupt, checkChanged("flags", @as(u32, @bitCast(layout.Flags{ .csc = true, .raw = true, .obsm = true }))));
}
