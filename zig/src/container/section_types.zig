//! The kinds of sections, what each is named in messages, and which of them carry shard statistics.

const std = @import("std");

/// The byte in the catalog. Types that are not named here are kept in the list of sections and skipped by readers.
pub const SectionType = enum(u8) {
    obs = 0,
    obs_index = 1,
    @"var" = 2,
    var_index = 3,
    csr_shard = 4,
    csc_shard = 5,
    bitmap = 6,
    layer_csr_shard = 7,
    obsm = 8,
    obsp_csr_shard = 9,
    uns = 10,
    provenance = 11,
    deletion_vectors = 12,
    obs_predicate_index = 13,
    var_predicate_index = 14,
    modality_table = 15,
    layer_csc_shard = 16,
    varm = 17,
    obsp = 18,
    varp = 19,
    obsm_row_shard = 20,
    varm_row_shard = 21,
    obsp_row_shard = 22,
    varp_row_shard = 23,
    obs_row_shard = 24,
    var_row_shard = 25,
    raw_csr_shard = 27,
    raw_var = 28,
    /// From here on ours: what MuData needs beyond the published types, and raw.varm.
    modality_obs = 240,
    modality_rows = 241,
    modality_columns = 242,
    shared_var = 243,
    raw_varm = 244,
    /// The header of the generation before; see generation.zig.
    generation = 245,
    _,

    pub fn isKnown(section_type: SectionType) bool {
        return std.enums.tagName(SectionType, section_type) != null;
    }

    /// 240 to 254 are left to vendors; everything else that is unnamed belongs to later versions.
    pub fn isVendor(section_type: SectionType) bool {
        const number = @backingInt(section_type);
        return number >= vendor_first and number <= vendor_last;
    }

    pub fn label(section_type: SectionType) []const u8 {
        return std.enums.tagName(SectionType, section_type) orelse "unknown";
    }

    /// Shards of a matrix: their catalog entries carry statistics.
    pub fn isShard(section_type: SectionType) bool {
        return isRowShard(section_type) or isColumnShard(section_type);
    }

    /// A shard of rows (CSR).
    pub fn isRowShard(section_type: SectionType) bool {
        return switch (section_type) {
            .csr_shard, .layer_csr_shard, .obsp_csr_shard, .raw_csr_shard => true,
            else => false,
        };
    }

    /// A shard of columns (CSC).
    pub fn isColumnShard(section_type: SectionType) bool {
        return switch (section_type) {
            .csc_shard, .layer_csc_shard => true,
            else => false,
        };
    }

    /// Tables of obs, var and the embeddings that are cut into rows; they need catalog version 3.
    pub fn isShardedMetadata(section_type: SectionType) bool {
        return switch (section_type) {
            .obsm_row_shard, .varm_row_shard, .obsp_row_shard, .varp_row_shard => true,
            .obs_row_shard, .var_row_shard => true,
            else => false,
        };
    }
};

pub const vendor_first = 240;
pub const vendor_last = 254;

test "kinds of sections" {
    const unnamed: SectionType = @fromBackingInt(26);
    try std.testing.expect(!unnamed.isKnown());
    try std.testing.expect(!unnamed.isVendor());
    try std.testing.expectEqualStrings("unknown", unnamed.label());
    const vendor: SectionType = @fromBackingInt(254);
    try std.testing.expect(vendor.isVendor() and !vendor.isKnown());
    try std.testing.expect(SectionType.raw_csr_shard.isShard());
    try std.testing.expect(SectionType.layer_csc_shard.isColumnShard());
    try std.testing.expect(!SectionType.obs.isShard());
    try std.testing.expectEqualStrings("var", SectionType.@"var".label());
}
