//! Lists the files of the container, so that the tests in them are found.

test {
    _ = @import("catalog_parse.zig");
    _ = @import("catalog_write.zig");
    _ = @import("deletion_vectors.zig");
    _ = @import("facts.zig");
    _ = @import("file_test.zig");
    _ = @import("generation.zig");
    _ = @import("generation_test.zig");
    _ = @import("hashing.zig");
    _ = @import("layout.zig");
    _ = @import("map_guard.zig");
    _ = @import("modality_table.zig");
    _ = @import("platform.zig");
    _ = @import("quoted.zig");
    _ = @import("roaring.zig");
    _ = @import("section_index.zig");
    _ = @import("section_types.zig");
    _ = @import("shard_peek.zig");
    _ = @import("temporary.zig");
    _ = @import("writer_rules.zig");
    _ = @import("writer_test.zig");
}
