//! `scx_abi_version` and its like: about the library itself.

const std = @import("std");
const build_options = @import("build_options");
const dispatch = @import("../levels/dispatch.zig");

/// `SCX_ABI_VERSION` of scx.h.
const abi_version = 1;

export fn scx_abi_version() u32 {
    return abi_version;
}

export fn scx_library_version() [*:0]const u8 {
    return build_options.version ++ "";
}

export fn scx_simd_level() [*:0]const u8 {
    return dispatch.table().name();
}
