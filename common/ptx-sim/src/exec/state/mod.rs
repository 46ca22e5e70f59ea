//! The state of a launch: its blocks and warps, their registers and memory, what is under way, and what a sanitiser keeps of them.

pub(crate) mod address;
pub(crate) mod asynchrony;
pub(crate) mod barrier;
pub(crate) mod block;
pub(crate) mod clock;
pub(crate) mod cluster;
pub(crate) mod copies;
pub(crate) mod handover;
pub(crate) mod launch;
pub(crate) mod lines;
pub(crate) mod local;
pub(crate) mod mbarrier;
pub(crate) mod place;
pub(crate) mod poll;
pub(crate) mod problem;
pub(crate) mod products;
pub(crate) mod registers;
pub(crate) mod rows;
pub(crate) mod scene;
pub(crate) mod shadow;
pub(crate) mod shuffle;
pub(crate) mod tensor_memory;
pub(crate) mod texels;
pub(crate) mod transfers;
pub(crate) mod warp;
