//! Exercises that check and grade themselves: a reader fills a gap in a kernel, and the simulator says whether it is right, clean and
//! cheap enough.
//!
//! An exercise is a folder `phaseN-*/exercises/NN-name` ([`exercise`]); what its kernel is given and must give back is a task of
//! [`tasks`]. A reader's kernel is looked over by [`scan`], then a [`job`] for a process of its own ([`child`]): [`run`] checks it,
//! [`show`] counts it by line and draws it, and on a GPU [`gpu`] measures its time. [`grade`] gives the points. [`store`] remembers what
//! a reader has done. A [`question`] of the book has its answer from the simulator, too.

pub mod child;
pub mod exercise;
pub mod export;
pub mod gpu;
pub mod grade;
pub mod job;
pub mod question;
pub mod run;
pub mod scan;
pub mod show;
pub mod store;
pub mod submissions;
pub mod tasks;
