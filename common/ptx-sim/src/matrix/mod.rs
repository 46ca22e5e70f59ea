//! The warp-level matrix instructions as pure functions over register lanes: `mma.sync`, `mma.sp`, `wmma.{load, mma, store}`,
//! `ldmatrix` and `stmatrix` (PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions"). No memory and no executor here:
//! [`WmmaAccess`] gives the location of an element in memory, [`Mma`] computes, [`distribute`] and [`collect`] are `ldmatrix`
//! and `stmatrix` without their addresses. [`Wgmma`] is a warp's part of a product of its warpgroup (see `wgmma`), and
//! [`tcgen05::Product`] one of a block or two.
//!
//! # Fragments
//! A warp holds a matrix together; one lane's part of it is its *fragment*. Nearly every fragment consists of blocks of
//! one kind, in which a lane's place is its group, g = lane / 4, and its number in the group, t = lane % 4:
//!
//! ```text
//!   A: 8 rows × 128 bits of k       B: 128 bits of k × 8 columns       C and D: 8 × 8
//!
//!          k = t →                         column = g →                     column / 2 = t →
//!   row  ┌────┬────┬────┬────┐        k  ┌────┬────┬─────┬────┐      row  ┌─────┬─────┬─────┬─────┐
//!    = g │  0 │  1 │  2 │  3 │       = t │  0 │  4 │ ··· │ 28 │       = g │ 0 0 │ 1 1 │ 2 2 │ 3 3 │
//!     ↓  │  4 │  5 │  6 │  7 │        ↓  │  1 │  5 │ ··· │ 29 │        ↓  │ 4 4 │ 5 5 │ 6 6 │ 7 7 │
//!        │  ⋮ │  ⋮ │  ⋮ │  ⋮ │           │  2 │  6 │ ··· │ 30 │           │  ⋮  │  ⋮  │  ⋮  │  ⋮  │
//!        │ 28 │ 29 │ 30 │ 31 │           │  3 │  7 │ ··· │ 31 │           │28 28│29 29│30 30│31 31│
//!        └────┴────┴────┴────┘           └────┴────┴─────┴────┘           └─────┴─────┴─────┴─────┘
//!   a cell: one register of the lane       a cell: one register         two elements of the lane
//! ```
//!
//! A register of A or B holds 32 b1, 8 s4, 4 s8, 2 f16 or 1 tf32, lowest k in the lowest bits (f64 has 64-bit registers
//! and 256 bits of k). Larger operands take several blocks, in this order: A down the rows first and then along k; B
//! along k first and then across the columns; C and D down the rows first and then across the columns. The four
//! registers of an f16 A of `m16n8k16`, for one, are (rows 0…7, k 0…7), (8…15, 0…7), (0…7, 8…15), (8…15, 8…15). This
//! one rule reproduces all tables under "Matrix Fragments for mma.…"; the tests have those tables written out. The
//! exception is `mma.m8n8k4` with f16: four products at once, by four groups of eight lanes (see `layout`).
//!
//! A sparse A (`mma.sp`) has half the elements of a row, in the fragment of a dense A of half that k; B has its full
//! length. The metadata gives the positions of the kept elements (see `sparse`), and A is expanded to a dense one before
//! the product.
//!
//! # wmma
//! PTX leaves wmma's fragments open. Programs rely on load, mma and store agreeing, on every element of a fragment
//! being one of the matrix, and on accumulators of one shape having the same element at the same index whatever their
//! type. The same blocks in the same order are used here. For `m16n16k16` that is what sm_80 does, including the two
//! copies of an f16 multiplicand: its 8 registers are 16 elements per lane, the second eight of which repeat the first.
//! For the other shapes it is this module's own choice. Products read the first copy.
//!
//! # Numbers
//! Products of f16, bf16, tf32 and fp8 are exact. NVIDIA does not document how hardware adds them; experiments on an H200
//! settle it (`product::add_aligned`), and results are equal to the bit on compute capability 9.0; older and newer tensor
//! cores keep other numbers of bits. 8-bit floats are added in one way by `mma` (`Plan::in_pairs`) and in another by `wgmma`
//! (`wgmma::Precision`). For `mma.m8n8k4` and for `mma.sp` with fp8 the sum is exact and rounded once, to nearest: compare
//! with hardware within a bound. tf32 operands lose the 13 bits below their significand. NaN results are canonical in f16 and
//! f32. f64 is a chain of fused multiply-adds in the order of k, rounded as the instruction says. Integer sums are exact, then
//! wrap, or clamp under `.satfinite`.

mod access;
mod layout;
mod modifiers;
mod number;
mod product;
mod sparse;
pub(crate) mod tcgen05;
#[cfg(test)]
mod tests;
mod tile;
mod wgmma;

pub(crate) use access::{WmmaAccess, collect, distribute, transposed};
pub(crate) use layout::Lanes;
pub(crate) use product::Mma;
pub(crate) use sparse::InvalidMetadata;
pub(crate) use tile::{Descriptor, Tile};
pub(crate) use wgmma::{Dense, Register, Wgmma};
