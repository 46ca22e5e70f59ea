//! Integration tests, in one binary: a second one would be linked and built by everyone.

mod command;
mod report;
