//! Exercises that check and grade themselves: a reader fills a gap in a kernel, and the simulator says whether it is right, clean and
//! cheap enough.
//!
//! An exercise is a folder `phaseN-*/exercises/NN-name` ([`exercise`]), which [`new`] begins; its task, described there or one of
//! [`tasks`], gives its kernel's inputs and expected outputs. A reader's kernel passes the [gate](common::compile::gate), then becomes
//! a [`job`] for a process of its own ([`child`], within the bounds of [`bounded`]): [`run`] checks it, `observe` describes values
//! that are wrong, [`show`] counts it by line and draws it, and on a GPU [`gpu`] measures its time. [`grade`] gives the points, and
//! [`submissions`] those of a class, whose files [`handins`] finds. [`store`] remembers a reader's progress. [`mutants`] of the
//! solutions test the exercises. A [`question`] of the book has its answer from the simulator, too.

mod arithmetic;
pub mod bounded;
pub mod child;
pub mod cli;
mod command;
pub mod exercise;
pub mod export;
pub mod gpu;
pub mod grade;
pub mod handins;
pub mod isolation;
pub mod job;
pub mod mutants;
pub mod new;
mod observe;
pub mod question;
pub mod run;
pub mod show;
pub mod similarity;
pub mod store;
pub mod submissions;
pub mod tasks;
