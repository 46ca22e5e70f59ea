//! The execution of instructions: blocks over cores and warps in turn, the executor's loop, and its arms.

pub(crate) mod arithmetic;
pub(crate) mod async_copy;
pub(crate) mod atomic;
pub(crate) mod builtin;
pub(crate) mod bulk;
pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod context;
pub(crate) mod control;
pub(crate) mod elements;
pub(crate) mod interpret;
pub(crate) mod load_store;
pub(crate) mod malloc;
pub(crate) mod matrix;
pub(crate) mod mbarrier;
pub(crate) mod printf;
pub(crate) mod schedule;
pub(crate) mod stack;
pub(crate) mod stuck;
pub(crate) mod tcgen05;
mod tensor;
pub(crate) mod texture;
pub(crate) mod together;
pub(crate) mod transfers;
pub(crate) mod turn;
pub(crate) mod vector;
pub(crate) mod wgmma;
