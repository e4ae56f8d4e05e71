//! The k largest values of a row, by the best code for this CPU: `ranked_places.zig` says in which order.

const dispatch = @import("../levels/dispatch.zig");
const ranked_places = @import("ranked_places.zig");

pub const Scratch = ranked_places.Scratch;

/// Where in the row the at most k first of the ranking stand. They lie in the scratch, until its next use.
pub fn topK(values: []const f32, k: usize, scratch: *Scratch) []const u32 {
    const count = dispatch.table().rankedPlaces(values.ptr, values.len, k, &scratch.space);
    return scratch.space.places[0..count];
}
