//! The executor's program: one [`Op`] per instruction, names resolved to rows.
//!
//! # Registers are rows
//! A warp's register is a *row* of 32 lanes, 4 bytes per lane; a 64-bit register takes two consecutive rows, as 32
//! 8-byte lanes. An operand is always a row ([`R`]), counted from the base of the function's frame: immediates and
//! addresses of module variables are rows too, filled once when the frame is set up ([`Constant`]), so that no arm asks
//! what kind its operand is. 8- and 16-bit values stand zero-extended in a 4-byte lane. Predicates are one 32-bit mask
//! per warp ([`P`]).
//!
//! # Control
//! Code is one vector for the whole module and a target is an index into it. [`Op::Join`] stands where lanes that
//! diverged at a branch reconverge: at the branch's immediate post-dominator.
//!
//! # Hot and cold
//! Instructions in which kernels spend their time have an arm of their own, written as a loop over 32 lanes for the
//! compiler to vectorise. The rest of the arithmetic is [`Op::Map`]: a function of [`crate::scalar`] called lane by lane.

mod access;
mod arithmetic;
mod bulk;
mod control;
mod facts;
mod mbarrier;
mod op;
mod program;
mod space;
mod tcgen05;
mod texture;
mod together;
mod work;

pub(crate) use access::*;
pub(crate) use arithmetic::*;
pub(crate) use bulk::*;
pub(crate) use control::*;
pub(crate) use facts::Facts;
pub(crate) use mbarrier::*;
pub(crate) use op::*;
pub(crate) use program::*;
pub use program::{KernelInfo, ParamInfo};
pub(crate) use space::*;
pub(crate) use tcgen05::*;
pub(crate) use texture::*;
pub(crate) use together::*;
pub use work::Class;
pub(crate) use work::Work;
