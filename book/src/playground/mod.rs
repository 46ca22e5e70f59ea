//! Kernels and exercises that a reader edits in the served book: run on the simulator by the course's own checks and its grader, each in its
//! own process.
//!
//! - [`job`]: what passes between the server and such a process
//! - [`check`]: which code of the course checks a kernel
//! - [`child`]: the process's side: it runs the check and tells what came of it
//! - [`answer`]: the grader's verdict on an exercise
//! - [`pool`]: the server's side: runs wait for their turn, have limits, and can be cancelled
//! - [`api`]: what the page may ask of it, and who may ask
//! - [`kernels`]: the files that may be edited

pub mod answer;
pub mod api;
pub mod check;
pub mod child;
pub mod job;
pub mod kernels;
pub mod pool;
