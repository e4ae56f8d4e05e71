//! What one CPU level offers to the library.

/// The functions of one level, as the library calls them.
pub const Table = extern struct {
    name: *const fn () callconv(.c) [*:0]const u8,
};
