//! The full catalog: every section's name, place, hash and statistics. Read by catalog_parse.zig, written by
//! catalog_write.zig.
//!
//!   u16 catalog_version, u64 manifest_sequence, u64 prev_catalog_offset, u64 n_obs, u32 n_entries
//!   per entry: u16 name_length, name, u64 offset, u64 length, u8 section_type, 32-byte BLAKE3,
//!              [u8 modality_id, from version 2], u16 stats_length, stats
//!   [from version 4, when either is not 0: u64 data_generation, u64 csc_build_generation]
//!   32-byte BLAKE3 of everything before it
//!
//! Versions 1 to 4 are read. Written is version 2, which carries modality ids and the column range of shards, or
//! 3 when tables of obs, var or embeddings are cut into row shards. A single-modality file uses 2 as well: in
//! version 1 the statistics cannot say how many columns a shard has.

const std = @import("std");
const assert = std.debug.assert;
const Allocator = std.mem.Allocator;
const layout = @import("layout.zig");
const SectionType = @import("section_types.zig").SectionType;

pub const version_max = 4;
pub const hash_bytes = std.crypto.hash.Blake3.digest_length;

pub const ShardStats = struct {
    row_start: u64,
    row_end: u64,
    /// A CSR shard spans all columns of its matrix, a CSC shard all rows.
    col_start: u64,
    col_end: u64,
    nnz: u64,
    /// Mean something for integer encodings alone.
    value_min: u32 = 0,
    value_max: u32 = 0,
    value_sum: u64 = 0,
    /// Statistics of indexed obs columns, packed as in the file; checked, not interpreted.
    n_indexed_columns: u8 = 0,
    indexed_columns: []const u8 = &.{},
};

pub const Section = struct {
    name: []const u8,
    offset: u64,
    length: u64,
    section_type: SectionType,
    modality_id: u8,
    blake3: [hash_bytes]u8,
    stats: ?ShardStats,
    /// The packed entry that was parsed; empty for a section that is being written.
    entry: []const u8 = &.{},

    pub fn range(section: *const Section) layout.Range {
        return .{ .offset = section.offset, .length = section.length };
    }
};

pub const Catalog = struct {
    version: u16,
    manifest_sequence: u64,
    prev_catalog_offset: u64,
    n_obs: u64,
    /// Names and indexed columns point into the bytes that were parsed.
    sections: []Section,
    data_generation: u64 = 0,
    csc_build_generation: u64 = 0,

    pub fn deinit(catalog: *Catalog, allocator: Allocator) void {
        allocator.free(catalog.sections);
        catalog.* = undefined;
    }
};

const fixed_bytes = 2 + 8 + 8 + 8 + 4;
/// The smallest entry: version 1, no name, no statistics.
pub const entry_bytes_min = 2 + 8 + 8 + 1 + hash_bytes + 2;
pub const catalog_bytes_min = fixed_bytes + hash_bytes;
const stats_bytes_v1 = 41;
pub const stats_bytes_v2 = 57;

comptime {
    assert(stats_bytes_v1 == 8 + 8 + 8 + 4 + 4 + 8 + 1);
    assert(stats_bytes_v2 == stats_bytes_v1 + 16);
}

const Judgement = enum { good, bad_range, too_many_values };

/// Whether the figures of a shard can be true.
pub fn judge(stats: *const ShardStats, n_obs: u64) Judgement {
    if (stats.row_start > stats.row_end or stats.row_end > n_obs or stats.col_start > stats.col_end) return .bad_range;
    const places = @as(u128, stats.row_end - stats.row_start) * (stats.col_end - stats.col_start);
    return if (stats.nnz > places) .too_many_values else .good;
}
